"""The counts of circles, the paired differences, and the table of the descheduler's lines."""

import pathlib
from collections.abc import Sequence

import numpy as np
import pytest
from click import testing

from lab.bench import __main__ as bench
from lab.bench import paired, relief, scoring
from lab.bench.table import Row
from lab.peers import comparison as peer_comparison
from policy.schema import load_policy
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import EvictedPod, Outcome, Timeline

HOUR = 3600.0


def move(
    at_hours: float, node: str, landed_on: str, workload: str = "Deployment/web", namespace: str = "a"
) -> EvictedPod:
    """An eviction and where the replacement went."""
    pod = f"{namespace}/pod-{at_hours:g}"
    return EvictedPod(at_hours * HOUR, pod, workload, node, "cpu_avg_5m", 0.9, 0.8, 0.6, 0.7, landed_on)


CIRCLES = {
    "there and away": ([move(0, "x", "y"), move(1, "z", "w")], (0, 1, 0)),
    "back at once": ([move(0, "x", "x")], (1, 0, 0)),
    "and back": ([move(0, "x", "y"), move(1, "y", "x")], (1, 1, 1)),
    "on and on": ([move(0, "x", "y"), move(1, "y", "z")], (0, 1, 1)),
    "back after two days": ([move(0, "x", "y"), move(48, "y", "x")], (0, 0, 0)),
    "another workload": ([move(0, "x", "y"), move(1, "y", "x", workload="Deployment/api")], (0, 0, 0)),
    "its name in another namespace": ([move(0, "x", "y"), move(1, "y", "x", namespace="b")], (0, 0, 0)),
    "two of it in one run": ([move(0, "x", "y"), move(0, "y", "x")], (0, 0, 0)),
    "waits for a node": ([move(0, "x", ""), move(1, "y", "")], (0, 1, 0)),
}


@pytest.mark.parametrize(("moved", "counts"), CIRCLES.values(), ids=CIRCLES)
def test_circles_are_counted(moved: Sequence[EvictedPod], counts: tuple[int, int, int]) -> None:
    assert (relief.returns(moved), relief.again(moved), relief.passed_on(moved)) == counts


def outcome(hot_minutes: float, evictions: int) -> Outcome:
    """A run with so many node-minutes over 80 % of CPU, and a tenth of that of memory."""
    cpu, memory = (Load(0.4, 0.7, 2 * minutes, minutes, 0.1) for minutes in (hot_minutes, hot_minutes / 10))
    figures = Figures(Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75), cpu, memory, evictions, 0, 100, 0)
    none = np.zeros((1, 1), np.float32)
    return Outcome("x", 1, figures, Timeline(0.0, 300.0, ("a",), none, none), moved=(move(0, "x", "x"),))


RESULTS = {relief.DEFAULT: (outcome(100, 4), outcome(200, 6)), "until 0.70": (outcome(80, 4), outcome(170, 5))}


def test_differences_are_to_the_default_run_by_run() -> None:
    lines = paired.table(RESULTS, relief.COLUMNS, relief.DEFAULT).splitlines()
    assert lines[2].startswith("| default | 165.0 |  | 330.0 |  | 5.0 |  | 1.0 |  | 0.0 |")
    assert lines[3].startswith("| until 0.70 | 137.5 | -27.5 ± 5.5 * | 275.0 | -55.0 ± 11.0 * | 4.5 | -0.5 ± 0.5 |")


def test_contestants_differ_in_the_descheduler_alone() -> None:
    names = [each.name for each in relief.CONTESTANTS]
    assert len(set(names)) == len(names)
    assert names[0] == relief.DEFAULT
    default = load_policy.defaults()
    for each in relief.CONTESTANTS:
        policy = each.variant.policy
        assert policy is not None
        assert policy.model_copy(update={"descheduler": default.descheduler}) == default
        assert each.conditions(3).descheduler == (each.name != "no descheduler")


def test_one_part_is_played_where_one_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    played: list[scoring.Settings] = []

    def measure(settings: scoring.Settings) -> list[Row]:
        played.append(settings)
        return []

    monkeypatch.setattr(relief, "measure", measure)
    trace = tmp_path / "trace.npz"
    trace.touch()
    for options in ([], ["--part", "judged", "--days", "7"]):
        result = testing.CliRunner().invoke(bench.main, ["relief", "--trace", str(trace), *options])
        assert result.exit_code == 0, result.output
    assert [(each.parts, each.recipe.days) for each in played] == [(peer_comparison.PARTS, 1.0), (("judged",), 7.0)]
    assert all(each.contestants == relief.CONTESTANTS for each in played)
    result = testing.CliRunner().invoke(bench.main, ["relief"])
    assert "relief plays a trace" in result.output
