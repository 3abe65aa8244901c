"""`evenload policy`: what each subcommand prints where, and its exit codes."""

import functools
import json
import os
import pathlib
from typing import NamedTuple

import pytest
import yaml

from cli import policy_presets
from policy.loading import loader
from policy.schema import json_schema, load_policy
from tests import commands, scripted_http
from tests.unit.cli import clustered

PRESETS = pathlib.Path(__file__).parents[3] / "deploy" / "policies"
HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
run = functools.partial(commands.run, "policy")
WRONG = HEAD + "sync:\n  period: 30\nfilter:\n  threshold: {}\n"


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where a test puts its policy."""
    return tmp_path / "policy.yaml"


@pytest.mark.parametrize("preset", policy_presets.PRESETS)
def test_init_prints_a_commented_preset_with_the_schema_line_that_validates(preset: str) -> None:
    result = run("init", "--preset", preset, code=0)
    first, *rest = result.stdout.splitlines()
    assert first == f"# yaml-language-server: $schema={json_schema.ID}"
    assert any(line.startswith("# ") for line in rest)
    assert not any("yaml-language-server" in line for line in rest)
    assert loader.load(result.stdout, "stdout") == loader.load((PRESETS / f"{preset}.yaml").read_text(), preset)


def test_init_starts_from_the_defaults_and_takes_another_place_of_the_schema() -> None:
    result = run("init", "--schema", "./loadpolicy.schema.json")
    assert result.stdout.startswith("# yaml-language-server: $schema=./loadpolicy.schema.json\n")
    assert loader.load(result.stdout, "stdout").as_file() == load_policy.defaults().as_file()


def test_validate_says_that_a_file_is_valid_and_its_hash(file: pathlib.Path) -> None:
    file.write_text(HEAD)
    result = run("validate", file)
    assert (result.exit_code, result.stderr) == (0, "")
    first, *in_force = result.stdout.splitlines()
    assert first.startswith(f"{file} is valid (hash ")
    assert in_force == [
        "filter.whenAllRejected: coolest",
        "score.weights: cpu_avg_5m 0.6, cpu_max_1h 0.3, cpu_max_1d 0.1, "
        "memory_avg_5m 0.6, memory_max_1h 0.3, memory_max_1d 0.1",
        "score.combine: worst",
        "score.incomingPod: true",
        "score.spread: stretch",
        "descheduler.mode: Observe",
    ]


@pytest.mark.parametrize("preset", ["default", "field", "memory-bound", "pressure", "crane"])
def test_what_we_ship_is_not_doubted(preset: str) -> None:
    result = run("validate", "-", stdin=run("init", "--preset", preset).stdout)
    assert (result.exit_code, result.stderr) == (0, "")


def test_validate_warns_of_what_is_hardly_meant_and_accepts_it(file: pathlib.Path) -> None:
    file.write_text(HEAD + "sync: {period: 1s}\n")
    result = run("validate", file, code=0)
    assert result.stderr.startswith(f"warning: {file}:3:16: sync.period: is short: most clusters scrape every 15s")
    answer = json.loads(run("validate", file, "-o", "json").stdout)
    assert [(one["line"], one["column"], one["path"]) for one in answer["warnings"]] == [(3, 16, "sync.period")]
    assert (answer["valid"], answer["problems"], answer["inForce"]["score.combine"]) == (True, [], "worst")


def test_a_period_of_a_millisecond_is_refused_at_its_place(file: pathlib.Path) -> None:
    file.write_text(HEAD + "sync: {period: 1ms}\n")
    result = run("validate", file)
    commands.assert_refused(result, 2)
    assert result.stderr.startswith(f"{file}:3:16: sync.period: must be at least 1s: ")


def test_validate_says_everything_wrong_on_stderr(file: pathlib.Path) -> None:
    file.write_text(WRONG)
    result = run("validate", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines() == [
        f"{file}:4:11: sync.period: 30 has no unit: write a Go duration such as 30s or 30m",
        f'{file}:6:3: filter.threshold: unknown key "threshold"; did you mean "thresholds"',
        f"error: 2 problems in {file}",
    ]


def test_validate_as_json_puts_the_problems_on_stdout(file: pathlib.Path) -> None:
    file.write_text(WRONG)
    result = run("validate", file, "-o", "json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, result.stderr) == (2, "")
    assert (answer["valid"], answer["hash"]) == (False, None)
    assert [(one["line"], one["column"], one["path"]) for one in answer["problems"]] == [
        (4, 11, "sync.period"),
        (6, 3, "filter.threshold"),
    ]


def test_validate_as_json_of_a_valid_file_has_no_problems(file: pathlib.Path) -> None:
    file.write_text(HEAD)
    result = run("validate", file, "-o", "json")
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["valid"], answer["problems"]) == (0, True, [])
    assert len(answer["hash"]) == 12


def test_a_dash_reads_stdin() -> None:
    assert run("validate", "-", stdin=HEAD).stdout.startswith("stdin is valid")
    assert "stdin:4:11: sync.period" in run("validate", "-", stdin=WRONG).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param("init --preset memory", "memory-bound", id="an unknown preset"),
        *(
            pytest.param(f"{command} FILE", "FILE", id=f"no file to {command}")
            for command in ("validate", "show", "import")
        ),
        pytest.param("validate .", "is a directory", id="a directory"),
        pytest.param("diff - -", "only one of the two can be stdin", id="stdin and itself"),
    ],
)
def test_it_is_bad_input(words: str, message: str, file: pathlib.Path) -> None:
    arguments = words.replace("FILE", str(file)).split()
    commands.assert_refused(run(*arguments, stdin=HEAD), 2, message.replace("FILE", str(file)))


HOSTILE: dict[str, tuple[bytes, str]] = {
    "an alias bomb": (
        b"a: &a [x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: [*b,*b,*b,*b,*b,*b,*b,*b]\n",
        "anchors (&name) are not read",
    ),
    "10 MB": (b"a: " + b"x" * 10_000_000, "larger than 256 KiB"),
    "10 MB cut inside a character": (b"a: x" + "ü".encode() * 5_000_000, "larger than 256 KiB"),
    "deep nesting": (b"a: " + b"[" * 100_000, "nested deeper than 32 levels"),
    "deep flow mappings": (b"{a: " * 10_000, "nested deeper than 32 levels"),
    "NaN": (HEAD.encode() + b"sync: {minChange: .nan}\n", ".nan is not a finite number"),
    "a YAML 1.1 boolean": (HEAD.encode() + b"recentPods: {enabled: yes}\n", "yes is a text here: write true or false"),
    "tabs": (HEAD.encode() + b"sync:\n\tperiod: 30s\n", "a tab cannot stand here"),
    "a tag that would run code": (b"a: !!python/object/apply:os.system [id]\n", "tags (!name) are not read"),
    "a second document": (HEAD.encode() + b"---\n" + HEAD.encode(), "a second document begins"),
    "bytes that are no UTF-8": (HEAD.encode() + b"# \xff\n", "byte 0xff is not valid UTF-8"),
    "a NUL": (HEAD.encode() + b"a: \x00\n", "the character #x0000 is not allowed"),
    "nothing": (b"", "the file is empty"),
    "a list": (b"- a\n", "a mapping with apiVersion and kind expected"),
    "an octal number": (HEAD.encode() + b"descheduler: {coolNodes: 010}\n", "read differently by YAML versions"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_validate_refuses(name: str, file: pathlib.Path) -> None:
    content, message = HOSTILE[name]
    file.write_bytes(content)
    result = run("validate", file)
    commands.assert_refused(result, 2, message)
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("name", HOSTILE)
def test_validate_as_json_stays_json_for(name: str) -> None:
    content, message = HOSTILE[name]
    result = run("validate", "-", "-o", "json", stdin=content)
    assert message in json.loads(result.stdout)["problems"][0]["message"]
    assert result.exit_code == 2


def test_show_reads_every_section_back(file: pathlib.Path) -> None:
    file.write_text(HEAD + "filter: {thresholds: {memory_avg_5m: 0.65}}\n")
    result = run("show", file, code=0)
    assert "  - a node is skipped for new pods while its 5-minute memory average is over 65 %\n" in result.stdout
    sections = [line for line in result.stdout.splitlines() if not line.startswith(" ")]
    assert sections == [
        "sync:",
        "metrics:",
        "filter:",
        "score:",
        "hotSpots:",
        "recentPods:",
        "extender:",
        "descheduler:",
        "pools:",
        "podClasses:",
    ]
    assert result.stderr.startswith(f"{file}, hash ")


@pytest.mark.parametrize("preset", ["default", "field", "memory-bound", "pressure", "crane", "demo"])
def test_show_as_yaml_is_the_same_policy_in_full(preset: str) -> None:
    source = PRESETS / f"{preset}.yaml"
    result = run("show", source, "-o", "yaml")
    assert loader.load(result.stdout, "stdout").as_file() == loader.load(source.read_text(), preset).as_file()
    assert list(yaml.safe_load(result.stdout)) == list(load_policy.defaults().as_file())


def test_show_as_yaml_survives_every_kind_of_value(file: pathlib.Path) -> None:
    file.write_text(
        HEAD + "metrics: [{name: cpu_x, resource: cpu, statistic: psi, window: 1m, query: 'a: \"b\" # c'}]\n"
        "score: {weights: {cpu_x: 0.000001}}\nhotSpots: [{window: 90s, pods: 1, penalty: 0.5}]\n"
        'descheduler: {windows: [{from: "22:00", to: "06:00"}], limits: {perWorkload: 2},\n'
        "  flow: [{match: {namespaces: ['no', '010']}, allow: {perMinute: 3}}, {allow: Never}]}\n"
    )
    result = run("show", file, "-o", "yaml")
    assert loader.load(result.stdout, "stdout").as_file() == loader.load(file.read_text(), "file").as_file()


def test_diff_of_policies_that_do_the_same_is_silent_with_code_0(tmp_path: pathlib.Path) -> None:
    short, long = tmp_path / "short.yaml", tmp_path / "long.yaml"
    short.write_text(HEAD)
    long.write_text("# full\n" + yaml.safe_dump(load_policy.defaults().as_file(), sort_keys=False))
    result = run("diff", short, long)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_diff_prints_each_path_with_both_values_and_ends_with_1(file: pathlib.Path) -> None:
    file.write_text(HEAD + "sync: {period: 1m}\nrecentPods: {enabled: false}\n")
    result = run("diff", PRESETS / "default.yaml", file, code=1)
    assert result.stdout.splitlines() == [
        f"--- {PRESETS / 'default.yaml'}",
        f"+++ {file}",
        "sync.period: 30s -> 1m",
        "recentPods.enabled: true -> false",
    ]


def test_diff_as_json_lists_the_differences(file: pathlib.Path) -> None:
    file.write_text(HEAD + "sync: {period: 1m}\n")
    result = run("diff", PRESETS / "default.yaml", "-", "-o", "json", stdin=file.read_text())
    assert json.loads(result.stdout) == [{"path": "sync.period", "before": "30s", "after": "1m"}]
    assert run("diff", file, file, "-o", "json").stdout == "[]\n"


def test_diff_of_a_refused_file_is_bad_input(file: pathlib.Path) -> None:
    file.write_text(WRONG)
    commands.assert_refused(run("diff", PRESETS / "default.yaml", file), 2, f"error: 2 problems in {file}")


WAITING_COMMANDS = {
    "policy": ("policy", "validate"),
    "policy of a comparison": ("policy", "diff", "FILE"),
    "policy of a configuration": ("scheduler-config", "--url", "http://localhost:8900", "--policy"),
    "affinity of placeholders": ("placeholder", "render", "--requests", "cpu=1,memory=1Gi", "--affinity"),
    "history": ("whatif", "--history"),
    "history of a simulation": ("simulate", "--history"),
    "trace": ("simulate", "--trace"),
    "token": ("console", "--demo", "--token-file"),
    "kubeconfig": ("nodes", "--kubeconfig"),
    "token for Prometheus": ("effectiveness", "--prometheus", "http://localhost:9090", "--prometheus-token-file"),
    "policy of recording rules": ("recording-rules", "--policy"),
}


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a large file"])
@pytest.mark.parametrize("command", WAITING_COMMANDS)
def test_a_command_ends_whatever_it_is_given_as_a_file(command: str, kind: str, tmp_path: pathlib.Path) -> None:
    path = pathlib.Path("/dev/zero") if kind == "a device" else tmp_path / "input"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a large file":
        path.touch()
        os.truncate(path, 10 << 30)
    words = [str(path) if word == "FILE" else word for word in WAITING_COMMANDS[command]]
    commands.assert_refused(commands.run(*words, path), 2, str(path))


class Replica(NamedTuple):
    """A service that obeys a policy, or refuses its file."""

    hash: str
    error: str | None = None

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """GET /configz."""
        state = {"hash": self.hash, "loadedAt": "2026-11-21T04:00:00Z", "error": self.error}
        exchange.answer({"policy": {}, "policyState": state})


def test_status_shows_the_policy_of_each_replica_and_why_a_newer_file_is_refused(tmp_path: pathlib.Path) -> None:
    replicas = {
        "a": Replica("e28e1c626b99"),
        "b": Replica("e28e1c626b99", "policy.yaml:3:1: sync: x"),
        "c": Replica(""),
    }
    with clustered.serving(tmp_path, replicas) as (apiserver, kubeconfig):
        apiserver.down = {"c"}
        result = run("status", "--kubeconfig", kubeconfig, code=1)
        document = json.loads(run("status", "--kubeconfig", kubeconfig, "-o", "json", code=1).stdout)
        apiserver.replicas = dict.fromkeys(replicas, replicas["a"])
        apiserver.down.clear()
        run("status", "--kubeconfig", kubeconfig, code=0)
        apiserver.replicas = {**apiserver.replicas, "b": Replica("67ae72d81d12")}
        assert "different policies" in run("status", "--kubeconfig", kubeconfig, code=1).stderr
    assert [(one["service"], one["replica"]) for one in document[::3]] == [
        ("annotator", "a"),
        ("extender", "a"),
        ("descheduler", "a"),
    ]
    good, refusing, silent = (line.split(maxsplit=4) for line in result.stdout.splitlines()[1:4])
    assert (good[:3], good[4]) == (["annotator", "a", "e28e1c626b99"], "-")
    assert (refusing[2], refusing[4]) == ("e28e1c626b99", "policy.yaml:3:1: sync: x")
    assert silent[:4] == ["annotator", "c", "-", "-"]
    assert silent[4].startswith("c/configz answers 503")
