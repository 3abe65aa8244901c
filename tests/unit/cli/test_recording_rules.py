"""`evenload recording-rules` and `policy init --recording-rules`: the shipped files, and how both fit."""

import pathlib

import pytest
import yaml

from cli import policy_presets
from policy import metrics
from policy.loading import loader
from tests import commands

MONITORING = pathlib.Path(__file__).parents[3] / "deploy" / "monitoring"
HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


def recorded(text: str) -> set[str]:
    """The names of the series that a rule file records."""
    groups = yaml.safe_load(text)["groups"]
    return {rule["record"] for group in groups for rule in group["rules"]}


@pytest.mark.parametrize(
    ("file", "words"), [("evenload-rules.yaml", []), ("prometheusrule.yaml", ["--kind", "PrometheusRule"])]
)
def test_the_shipped_file_is_what_the_command_prints(file: str, words: list[str]) -> None:
    result = commands.run("recording-rules", *words)
    assert (result.exit_code, result.stdout) == (0, (MONITORING / file).read_text(encoding="utf-8"))


def test_the_manifest_holds_the_same_groups() -> None:
    manifest = yaml.safe_load(commands.run("recording-rules", "--kind", "PrometheusRule").stdout)
    assert manifest["spec"] == yaml.safe_load(commands.run("recording-rules").stdout)


def test_a_selector_reaches_every_series_of_node_exporter() -> None:
    result = commands.run("recording-rules", "--node-selector", 'job="ne"')
    assert "--node-selector 'job=\"ne\"'" in result.stdout.splitlines()[1]
    rules = [rule["expr"] for group in yaml.safe_load(result.stdout)["groups"] for rule in group["rules"]]
    raw = [text for text in rules if "node_cpu" in text or "node_memory" in text]
    assert len(raw) == 2
    assert sorted(text.count('job="ne"') for text in raw) == [3, 7]


def test_the_windows_of_a_policy_are_recorded_and_its_own_queries_left_out(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "policy.yaml"
    entries = [
        "{name: cpu_avg_5m, resource: cpu, statistic: avg, window: 10s}",
        "{name: cpu_p95_1h, resource: cpu, statistic: p95, window: 1h}",
        "{name: memory_max_1d, resource: memory, statistic: max, window: 24h, query: 'mine'}",
    ]
    file.write_text(HEAD + "metrics:\n" + "".join(f"  - {entry}\n" for entry in entries))
    names = recorded(commands.run("recording-rules", "--policy", file).stdout)
    assert "evenload:cpu_p95_1h" in names
    assert "evenload:memory_max_1d" not in names
    assert "[10s]" in commands.run("recording-rules", "--policy", file).stdout


@pytest.mark.parametrize("preset", policy_presets.PRESETS)
def test_the_policy_for_the_rules_differs_by_its_queries_alone(preset: str) -> None:
    plain = loader.load(commands.run("policy", "init", "--preset", preset).stdout, "plain")
    result = commands.run("policy", "init", "--preset", preset, "--recording-rules")
    with_rules = loader.load(result.stdout, "with rules")
    built_in = with_rules.metrics_in_force[: len(metrics.BUILT_IN)]
    assert {metric.query for metric in built_in} == recorded(
        (MONITORING / "evenload-rules.yaml").read_text(encoding="utf-8")
    )
    assert [metric.name for metric in built_in] == list(metrics.names(metrics.BUILT_IN))
    assert with_rules.metrics_in_force[len(built_in) :] == plain.metrics_in_force[len(built_in) :], "the preset's own"
    without = {key: value for key, value in with_rules.as_file().items() if key != "metrics"}
    assert without == {key: value for key, value in plain.as_file().items() if key != "metrics"}
