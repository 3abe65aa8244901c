"""The tables say what the runs came to: medians, ranges, and how near each contestant comes to the oracle."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from click import testing

from bench import __main__ as bench
from bench import scoring
from bench.table import Row
from simulator import peer_comparison
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import Outcome, Timeline


def outcome(warm_minutes: float, unplaced: tuple[str, ...] = ()) -> Outcome:
    """A run with so many node-minutes over 65 % of CPU, and a tenth of that of memory."""
    cpu, memory = (Load(0.4, 0.7, minutes, 0.0, minutes / 2000) for minutes in (warm_minutes, warm_minutes / 10))
    figures = Figures(Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75), cpu, memory, 0, 0, 100, 0)
    none = np.zeros((1, 1), np.float32)
    return Outcome("x", 1, figures, Timeline(0.0, 300.0, ("a",), none, none), unplaced=unplaced)


FOUND = {
    "plain": (outcome(100), outcome(200), outcome(400)),
    "crane": (outcome(90), outcome(210), outcome(300)),
    "oracle": (outcome(50), outcome(100), outcome(200)),
    "evenload": (outcome(50), outcome(150), outcome(150, ("shop/web-1",))),
}


def test_a_line_has_median_and_range_and_its_share_of_the_oracles_gain() -> None:
    lines = {line.split(" | ")[0].strip("| "): line.split(" | ") for line in scoring.table(FOUND).splitlines()}
    assert lines["evenload"][1] == "150 (50-150)"
    assert lines["evenload"][5] == "15 (5-15)", "memory"
    assert lines["evenload"][7] == "0.750"
    assert lines["evenload"][8:10] == ["100", "0 (0-1)"]
    assert lines["evenload"][10].strip() == "100 %", "700 - 350 of 700 - 350"
    assert lines["evenload"][11].strip("| ") == "3 of 3"
    assert lines["evenload"][12:] == ["100 %", "3 of 3 |"], "spread"
    assert lines["crane"][10].strip() == "29 %"
    assert lines["crane"][11].strip("| ") == "2 of 3"


def test_where_the_oracle_gains_nothing_nobody_has_a_share_of_it() -> None:
    same = {name: (outcome(100),) for name in FOUND}
    assert math.isnan(scoring.gain("crane", same))
    assert "nan" not in scoring.table(same)


def test_contestants_have_names_of_their_own_and_policies_that_can_be() -> None:
    names = [each.name for each in peer_comparison.ALL]
    assert len(set(names)) == len(names)
    assert names[0] == "plain"
    assert {"crane", "target-load-packing", "risk-balancing", "koordinator", "oracle"} <= set(names)
    policies = [each.variant.policy for each in peer_comparison.VARIANTS]
    assert all(policy is not None for policy in policies)
    assert len({str((each.sections, each.weight)) for each in peer_comparison.VARIANTS}) == len(policies)


@pytest.mark.parametrize("each", peer_comparison.ALL, ids=lambda each: each.name)
def test_placements_alone_are_compared(each: peer_comparison.Contestant) -> None:
    conditions = each.conditions(3)
    assert not conditions.descheduler
    assert (conditions.seed, conditions.name) == (3, each.name)
    assert (conditions.peer is not None) == bool(each.peer)
    assert (conditions.policy is not None) == each.name.startswith("evenload")


def test_a_run_is_as_long_as_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    asked: list[scoring.Settings] = []

    def measure(settings: scoring.Settings) -> list[Row]:
        asked.append(settings)
        return []

    monkeypatch.setattr(scoring, "measure", measure)
    trace = tmp_path / "trace.npz"
    trace.touch()
    for options in ([], ["--days", "3", "--seeds", "2"]):
        result = testing.CliRunner().invoke(bench.main, ["scoring", "--trace", str(trace), *options])
        assert result.exit_code == 0, result.output
    assert [(each.trace, each.seeds, each.recipe.days) for each in asked] == [(trace, 8, 1.0), (trace, 2, 3.0)]
    assert dataclasses.replace(asked[1].recipe, days=1.0) == scoring.RECIPE, "nothing else of a run changes"
