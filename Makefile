# Evenload. `make demo` shows the main job, `make test` proves it; the rest is for those who work on it.
# Everything lives in .venv and in a user cache (~/.cache/evenload); no root, nothing by hand.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# The pins are complete, without what nothing imports. Most of the rest is imported rarely, and Python compiles it then.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps
RUNTIME := .venv/runtime-$(shell cksum < requirements.txt | cut -d' ' -f1)
STAMP := .venv/installed-$(shell cat requirements.txt requirements-dev.txt | cksum | cut -d' ' -f1)
SOURCES := annotator cli cluster console descheduler extender kube kube_scheduler policy promql runtime simulator
PYTEST := $(BIN)/python -m pytest
# Folders of tests/unit, each run by a process of its own: of three workers each would collect all tests, and pass on each
# result, which took a seventh of the time.
UNIT := simulator cli descheduler extender policy deploy
UNIT_PARTS := unit-others $(UNIT:%=unit-%)
# Three at a time: with two, tests that wait leave a quarter of two cores idle.
BOTH_CORES := $(MAKE) --no-print-directory --jobs 3 --output-sync=target
# Each file has a control plane, which takes 9 to 12 of the 128 inotify instances of a user.
REAL := $(PYTEST) -n 9 --dist loadfile
COMPAT := $(addprefix tests/,$(addprefix contract/test_,kube_door.py kube_reflector.py extender_rbac.py extender_scheduler.py \
	scheduler_config.py descheduler_evicting.py descheduler_markers.py guard.py) e2e/test_relief.py e2e/test_rights.py)
# Go modules whose programs the suites of `make test` run: compiled within a test, Helm takes most of the test's time.
PROGRAMS := $(addprefix tests/,goclient grafana contract/helm contract/helm3 contract/krew)
.DEFAULT_GOAL := help
# The suites start the services hundreds of times. Containers often forbid Python to keep what it compiled, and then
# each start compiles everything again, which takes twice as long as starting.
unexport PYTHONDONTWRITEBYTECODE
# mypy goes by what the files contain, so clones share what it knows of them: 28 s of processor time in a new one.
export MYPY_CACHE_DIR ?= $(or $(EVENLOAD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/evenload)/mypy

.PHONY: help
help: ## print this list
	@awk -F':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: demo run cluster cluster-down
# Recipes here are not printed: stdout is data, as in `make demo DEMO="-o json" > demo.json`.
demo: $(BIN)/evenload ## the main job on a simulated cluster, in a minute, with Python alone (DEMO="--seed 2")
	@mkdir -p build
	@$(BIN)/evenload demo --html build/demo.html $(DEMO)
run: $(STAMP) ## the main job on a real control plane, before and after, in the terminal (RUN="--seed 2 --keep")
	@$(BIN)/python -m cluster.demo $(RUN)
cluster: $(STAMP) ## build what is missing and start a control plane with 20 fake nodes (CLUSTER="--nodes 100")
	@$(BIN)/python -m cluster up $(CLUSTER)
cluster-down: $(STAMP) ## stop what `make cluster` started
	@$(BIN)/python -m cluster down

##@ Prove
.PHONY: test quick lint types layers unit browser fuzz properties real shuffled contract e2e
test: quick browser real ## everything, the quick suites first (what CI runs)
quick: $(STAMP) ## without a control plane, on both cores
	$(BOTH_CORES) lint types layers $(UNIT_PARTS)
lint: $(STAMP) ## style, formatting, security rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
types: $(STAMP) ## mypy strict, tests included
	$(BIN)/mypy $(SOURCES) bench deploy tests
layers: $(STAMP) ## imports point down only
	$(BIN)/lint-imports
unit: $(STAMP) ## unit tests, on both cores
	$(BOTH_CORES) $(UNIT_PARTS)
.PHONY: $(UNIT_PARTS)
unit-others: $(STAMP)
	$(PYTEST) -q tests/unit tests/reports tests/test_architecture.py --ignore=tests/reports/real $(UNIT:%=--ignore=tests/unit/%)
$(UNIT:%=unit-%): unit-%: $(STAMP)
	$(PYTEST) -q tests/unit/$*
browser: $(STAMP) ## the console in Chromium, which is installed first where that is allowed
	$(BIN)/python -m tests.browser.chromium && $(PYTEST) tests/browser -q -n 2
# Hypothesis remembers and compares all examples of a run: 20,000 of whole documents took over 24 GiB, so it is rounds.
fuzz: $(STAMP) ## the parsers of what others write, with other inputs each time (FUZZ=20000 a test; `unit` takes 100)
	for round in $$(seq 1 100 $(or $(FUZZ),20000)); do FUZZ_EXAMPLES=100 $(PYTEST) tests/unit/fuzz -q -n 2 --timeout 0 || exit 1; done
properties: $(STAMP) ## all property tests with other examples each time (FUZZ=1500 a test; `unit` takes the same 100 or so)
	FUZZ_EXAMPLES=$(or $(FUZZ),1500) $(PYTEST) tests/unit -m hypothesis -q -n 2 --timeout 0
real: programs ## contract and end-to-end suites on the real control plane, nine files at a time, the longest first
	$(REAL) tests/contract tests/e2e tests/reports/real --no-loadscope-reorder -p no:randomly
shuffled: programs ## the same in another order each time, which `real` does not do: a gate must say the same twice
	$(REAL) tests/contract tests/e2e tests/reports/real
contract: programs ## the doors against the real apiserver and Prometheus
	$(REAL) tests/contract
e2e: programs ## the whole loop on the real control plane
	$(REAL) tests/e2e

##@ Work
.PHONY: venv binaries programs format lock clean bench sbom krew pictures release compat image audit licences compose metrics-server hour chaos upgrade soak guided mutants
image: $(STAMP) ## build the image as root on Debian, without Docker, into dist/, and print its size, contents and start times
	$(BIN)/python -m deploy.image $(IMAGE)
# Not part of `test`: the first run compiles an engine, for some minutes.
compose: binaries ## docker-compose.yml in a real engine, as root on Debian
	$(BIN)/python -m tests.composed
# Not part of `test`: the first run compiles metrics-server, for four minutes and more. `test` has a stand-in of it.
metrics-server: binaries ## annotator and descheduler over the real metrics-server
	EVENLOAD_METRICS_SERVER=real $(REAL) tests/contract/test_metrics_server.py tests/e2e/test_without_prometheus.py
# Not part of `test`: it plays a whole hour.
hour: binaries ## pools, classes of pods, packing, a disk and shadow mode for an hour (HOUR="--minutes 10")
	$(BIN)/python -m tests.hour $(HOUR)
# `test` injects 60 faults of one seed; this is for other seeds and more of them.
chaos: binaries ## kills, freezes and damage in a control plane with all services, judged from outside (CHAOS="--seed 2")
	$(BIN)/python -m tests.chaos $(CHAOS)
# Not part of `test`: it needs the history of the repository, which an archive of it does not have.
upgrade: binaries ## from the version before to this tree and back, replica by replica, under load (UPGRADE="--rounds 2")
	$(BIN)/python -m tests.upgrade $(UPGRADE)
# Not part of `test`: an hour a target. atheris is a wheel for Linux on x86-64.
guided: $(STAMP) ## fuzz a reader of others' texts, guided by coverage (GUIDED="watch --seconds 600 --texts build/fuzz/watch")
	$(PIP) -r requirements-fuzz.txt
	$(BIN)/python -m tests.guided $(GUIDED)
# Not part of `test`: some minutes a target.
mutants: $(STAMP) ## change the code of one target a place at a time, run its unit tests, print what survived (MUTANTS="filter --properties": property tests, too)
	$(PIP) -r requirements-mutants.txt
	$(BIN)/python -m tests.mutants $(or $(MUTANTS),filter)
# Not part of `test`: minutes, or an hour and more.
soak: binaries ## growth per day in a simulated month, or of services for 100 minutes (SOAK="real")
	$(BIN)/python -m tests.soak $(or $(SOAK),simulated)
audit: $(STAMP) ## known vulnerabilities of what is pinned, where a network answers
	$(BIN)/python -m deploy.audit
licences: $(STAMP) ## write docs/reference/licences.md from what is installed
	$(BIN)/python -m deploy.licences docs/reference/licences.md
sbom: $(STAMP) ## build/sbom.cdx.json: everything that is pinned, as CycloneDX
	$(BIN)/python -m deploy.sbom build/sbom.cdx.json
krew: $(STAMP) ## dist/: the plugin `kubectl evenload`, archive and manifest, as krew installs it
	$(BIN)/python -m deploy.krew dist
pictures: binaries ## make the pictures of the pages anew, from the demos: two in Chromium, the dashboard's panels drawn
	$(BIN)/python -m tests.browser.chromium && $(BIN)/python -m tests.browser.pictures
	$(BIN)/python -m deploy.monitoring.picture
release: $(STAMP) ## dist/: every file of a release, nothing is published (RELEASE="--dry-run")
	$(BIN)/python -m deploy.release build $(RELEASE)
# Not part of `test`: the first run of a minor compiles its servers, for five minutes and more.
compat: binaries ## the doors, the scheduler, the guard and the whole loop on another minor of Kubernetes (MINOR=1.30)
	EVENLOAD_KUBERNETES=$(or $(MINOR),1.30) $(REAL) $(COMPAT)
bench: binaries ## measure the extender beside a Go extender in the same run (BENCH="answers --rounds 5")
	$(BIN)/python -m bench $(BENCH)
venv: $(STAMP) ## make the virtual environment, with the command .venv/bin/evenload
# What runs, first and alone: `make demo` has a minute.
$(RUNTIME): requirements.txt
	$(PYTHON) -m venv .venv
	$(PIP) -r requirements.txt
	@rm -f .venv/runtime-* && touch $@
# The command over this tree, from any directory.
$(BIN)/evenload: $(RUNTIME)
	@printf '#!%s\nimport sys\n\nsys.path.insert(0, "%s")\nimport cli\n\ncli.main()\n' $(CURDIR)/.venv/bin/python $(CURDIR) > $@
	@chmod +x $@
$(STAMP): $(RUNTIME) requirements-dev.txt | $(BIN)/evenload
	$(PIP) -r requirements.txt -r requirements-dev.txt
	@rm -f .venv/installed-* && touch $@
binaries: $(STAMP) ## build etcd, apiserver, scheduler, Prometheus ... into the user cache
	$(BIN)/python -m cluster build
programs: $(STAMP) ## build the same, and Helm and others that the suites run
	$(BIN)/python -m cluster build $(PROGRAMS)
format: $(STAMP) ## let ruff format and sort
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .
lock: $(STAMP) ## pin what pyproject.toml and requirements*.in name, with hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --excludes requirements-unused.in pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-dev.in -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-build.in -o requirements-build.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-mutants.in -o requirements-mutants.txt
clean: ## forget the virtual environment and caches of tools (the built control plane stays)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
