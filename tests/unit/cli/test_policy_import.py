"""`evenload policy import`: YAML our loader takes on stdout, what has no equal on stderr, hostile files refused."""

import pathlib

import click.testing
import pytest

from policy.loading import loader
from tests import commands

CRANE = """
apiVersion: scheduler.policy.crane.io/v1alpha1
kind: DynamicSchedulerPolicy
spec:
  syncPolicy:
    - name: cpu_usage_avg_5m
      period: 3m
  predicate:
    - name: cpu_usage_avg_5m
      maxLimitPecent: 0.6
    - name: load5_usage_max_1h
      maxLimitPecent: 0.5
  priority:
    - name: cpu_usage_avg_5m
      weight: 1
  hotValue:
    - timeRange: 5m
      count: 5
"""
HOSTILE: dict[str, tuple[bytes, str]] = {
    "an alias bomb": (b"a: &a [x,x]\nb: &b [*a,*a]\n", "stdin:1:4: a: anchors (&name) are not read"),
    "10 MB": (b"a: " + b"x" * 10_000_000, "larger than 256 KiB"),
    "deep nesting": (b"a: " + b"[" * 100_000, "nested deeper than 32 levels"),
    "tabs": (b"spec:\n\ta: 1\n", "stdin:2:1: a tab cannot stand here"),
    "a tag that would run code": (b"a: !!python/object/apply:os.system [id]\n", "tags (!name) are not read"),
    "bytes that are no UTF-8": (b"a: 1\n\xff\xfe", "stdin:2:1: byte 0xff is not valid UTF-8"),
    "a second document": (b"a: 1\n---\nb: 2\n", "stdin:2:1: a second document begins"),
    "a key given twice": (b"a: 1\na: 2\n", "stdin:2:1: a: the key is given twice (first on line 1)"),
    "a number that YAML versions read differently": (b"a: 010\n", "010 is read differently by YAML versions"),
    "nothing": (b"", "DynamicSchedulerPolicy or DeschedulerPolicy expected"),
    "our own policy": (
        b"apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n",
        "DynamicSchedulerPolicy or DeschedulerPolicy expected",
    ),
    "a mapping as a key": (b"{? {a: b} : c}\n", "a key that is a text expected"),
}


def run(stdin: str | bytes, code: int | None = None) -> click.testing.Result:
    """`evenload policy import -`."""
    return commands.run("policy", "import", "-", stdin=stdin, code=code)


def test_stdout_is_a_policy_that_loads() -> None:
    result = run(CRANE)
    policy = loader.load(result.stdout, "stdout")
    assert result.exit_code == 0
    assert policy.filter.thresholds == {"cpu_avg_5m": 0.6}
    assert policy.score.weights == {"cpu_avg_5m": 1}
    assert [(spot.window, spot.pods, spot.penalty) for spot in policy.hot_spots] == [("5m", 5, 1)]
    assert (policy.sync.period_seconds, policy.sync.stale_after_seconds) == (180, 480)
    assert result.stdout.startswith("# yaml-language-server: $schema=")


def test_stderr_names_what_has_no_equal_and_what_crane_does_not_know() -> None:
    errors = run(CRANE).stderr.splitlines()
    assert errors[0].startswith('stdin: spec.predicate[1]: the metric "load5_usage_max_1h" has no equal')
    assert errors[-1].startswith("note: recentPods")


LOW_NODE_UTILIZATION = """\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
maxNoOfPodsToEvictTotal: 5
profiles:
  - name: p
    pluginConfig:
      - name: LowNodeUtilization
        args: {thresholds: {memory: 60}, targetThresholds: {memory: 80}}
    plugins: {balance: {enabled: [LowNodeUtilization]}}
"""


def test_a_descheduler_policy_is_known_by_its_kind() -> None:
    result = run(LOW_NODE_UTILIZATION, code=0)
    assert "# Made of descheduler's LowNodeUtilization (stdin)." in result.stdout
    assert "memory_avg_5m: {evictAbove: 0.8, evictUntil: 0.7}" in result.stdout
    assert "compares requests" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("note: it only observes, and the filter of new pods is off")


def test_the_origin_is_named_in_the_file(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "crane.yaml"
    file.write_text(CRANE)
    assert f"# Made of crane's DynamicSchedulerPolicy ({file})." in commands.run("policy", "import", file).stdout


@pytest.mark.parametrize("name", HOSTILE)
def test_import_refuses(name: str) -> None:
    content, message = HOSTILE[name]
    commands.assert_refused(run(content), 2, message)


def test_what_cannot_be_a_policy_of_ours_is_refused_with_our_loaders_words() -> None:
    commands.assert_refused(run(CRANE.replace("cpu_usage_avg_5m", "cpu_usage_avg_9999d")), 2, "is longer than 10 years")
