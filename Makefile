# Evenload. `make demo` shows the main job, `make test` proves it; the rest is for those who work on it.
# Everything lives in .venv and in a user cache (~/.cache/evenload); no root, nothing by hand. Benches, campaigns, releases
# and the rest of the makers' tools have a Makefile of their own: `make -C lab`.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
# The pins are complete, without what nothing imports. Most of the rest is imported rarely, and Python compiles it then.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --no-deps
RUNTIME := .venv/runtime-$(shell cksum < requirements.txt | cut -d' ' -f1)
STAMP := .venv/installed-$(shell cat requirements.txt requirements-dev.txt | cksum | cut -d' ' -f1)
SOURCES := annotator cli console descheduler extender kube kube_scheduler policy promql runtime simulator
PYTEST := $(BIN)/python -m pytest
# Folders of tests/unit, each run by a process of its own: of three workers each would collect all tests, and pass on each
# result, which took a seventh of the time.
UNIT := simulator cli descheduler extender policy deploy
UNIT_PARTS := unit-others $(UNIT:%=unit-%)
# Three at a time: with two, tests that wait leave a quarter of two cores idle.
BOTH_CORES := $(MAKE) --no-print-directory --jobs 3 --output-sync=target
# Each file has a control plane, which takes 9 to 12 of the 128 inotify instances of a user.
REAL := $(PYTEST) -n 9 --dist loadfile
# Go modules whose programs the suites of `make test` run: compiled within a test, Helm takes most of the test's time.
PROGRAMS := $(addprefix tests/,goclient grafana contract/amtool contract/helm contract/helm3 contract/krew)
.DEFAULT_GOAL := help
# The suites start the services hundreds of times. Containers often forbid Python to keep what it compiled, and then
# each start compiles everything again, which takes twice as long as starting.
unexport PYTHONDONTWRITEBYTECODE
# mypy goes by what the files contain, so clones share what it knows of them: 28 s of processor time in a new one.
export MYPY_CACHE_DIR ?= $(or $(EVENLOAD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/evenload)/mypy

.PHONY: help
help:
	@awk -F':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Use
.PHONY: demo run cluster cluster-down
# Recipes here are not printed: stdout is data, as in `make demo DEMO="-o json" > demo.json`.
demo: $(BIN)/evenload ## the main job on a simulated cluster, in a minute, with Python alone (DEMO="--seed 2")
	@mkdir -p build
	@$(BIN)/evenload demo --html build/demo.html $(DEMO)
run: $(STAMP) ## the main job on a real control plane, before and after, in the terminal (RUN="--seed 2 --keep")
	@$(BIN)/python -m lab.cluster.demo $(RUN)
cluster: $(STAMP) ## build what is missing and start a control plane with 20 fake nodes (CLUSTER="--nodes 100")
	@$(BIN)/python -m lab.cluster up $(CLUSTER)
cluster-down: $(STAMP) ## stop what `make cluster` started
	@$(BIN)/python -m lab.cluster down

##@ Prove
.PHONY: test quick lint types layers unit browser real lab
test: quick browser real ## everything, the quick suites first (what CI runs)
quick: $(STAMP) ## without a control plane, on both cores
	$(BOTH_CORES) lint types layers $(UNIT_PARTS)
lint: $(STAMP) ## style, formatting, security rules (`types` and `layers` are the other two)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
types: $(STAMP)
	$(BIN)/mypy $(SOURCES) deploy lab tests
layers: $(STAMP)
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
real: programs ## contract and end-to-end suites on the real control plane, nine files at a time, the longest first
	$(REAL) tests/contract tests/e2e tests/reports/real --no-loadscope-reorder -p no:randomly
lab: ## what the makers' tools are proved by, which `test` leaves out (`make -C lab help` lists the tools)
	@$(MAKE) --no-print-directory -C lab test

##@ Work
.PHONY: venv binaries programs format lock clean
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
# etcd, apiserver, scheduler, Prometheus ..., into the user cache.
binaries: $(STAMP)
	$(BIN)/python -m lab.cluster build
programs: $(STAMP)
	$(BIN)/python -m lab.cluster build $(PROGRAMS)
format: $(STAMP) ## let ruff format and sort
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .
lock: $(STAMP) ## pin what pyproject.toml and requirements*.in name, with hashes
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --excludes requirements-unused.in pyproject.toml -o requirements.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-dev.in -o requirements-dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes requirements-build.in -o requirements-build.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes lab/requirements-mutants.in -o lab/requirements-mutants.txt
clean: ## forget the virtual environment and caches of tools (the built control plane stays)
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
