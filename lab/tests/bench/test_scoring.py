"""The table has means, paired differences, pods without a node, and each contestant's share of the oracle's gain."""

import dataclasses
import math
import pathlib

import numpy as np
import pytest
from click import testing

from lab.bench import __main__ as bench
from lab.bench import paired, scoring, settings
from lab.bench.table import Row
from policy.schema import checks
from simulator.results.figures import Effectiveness, Figures, Load
from simulator.results.outcome import Outcome, Timeline


def outcome(seed: int, warm_minutes: float, unplaced: tuple[str, ...] = ()) -> Outcome:
    """A run with so many node-minutes over 65 % of CPU, and a tenth of that of memory."""
    cpu, memory = (Load(0.4, 0.7, minutes, 0.0, minutes / 2000) for minutes in (warm_minutes, warm_minutes / 10))
    figures = Figures(Effectiveness(0.3, 0.3, 7.5, 10.0, 0.75), cpu, memory, 0, 0, 100, 0)
    none = np.zeros((1, 1), np.float32)
    timeline = Timeline(0.0, 300.0, ("a",), none, none)
    return Outcome("x", seed, figures, timeline, unplaced=unplaced, preempted_pods=2 * len(unplaced))


RESULTS = {
    "plain": (outcome(1, 100), outcome(2, 200), outcome(3, 400)),
    "crane": (outcome(1, 90), outcome(2, 110), outcome(3, 340)),
    "oracle": (outcome(1, 50), outcome(2, 100), outcome(3, 200)),
    "evenload": (outcome(1, 50), outcome(2, 150), outcome(3, 150, ("shop/web-1",))),
}


def cells(table: str) -> dict[str, list[str]]:
    """The cells of each line by its name."""
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    return {line[0]: line[1:] for line in lines}


def test_a_line_has_means_and_differences_to_the_default() -> None:
    lines = cells(paired.table(RESULTS, scoring.COLUMNS, "evenload"))
    assert lines["evenload"] == ["0.0", "", "128.3", "", "6.4", "", "0.3", "", "0.7"]
    assert lines["plain"][2:4] == ["256.7", "+128.3 ± 73.3"]
    assert lines["plain"][6:] == ["0.0", "-0.3 ± 0.3", "0.0", "-0.7 ± 0.7"]


def test_a_difference_is_sure_beyond_two_errors() -> None:
    difference = paired.difference([10.0, 20.0, 30.0], [9.0, 18.0, 27.0])
    assert difference.mean == -2.0
    assert math.isclose(difference.error, 1 / math.sqrt(3))
    assert str(difference) == "-2.0 ± 0.6 *"
    assert str(paired.difference([10.0, 20.0, 30.0], [9.0, 18.0, 33.0])) == "+0.0 ± 1.5"
    assert not paired.difference([1.0], [2.0]).sure, "one pair has no error"


def test_shares_of_the_oracles_gain_name_the_seeds_on_which_the_default_loses() -> None:
    lines = cells(scoring.shares(RESULTS))
    assert lines["evenload"] == ["100 %", "", "100 %"], "700 - 350 of 700 - 350"
    assert lines["crane"] == ["46 %", "2", "46 %", "2"]
    assert lines["oracle"][1] == "2"


def test_where_the_oracle_gains_nothing_there_is_no_share_of_it() -> None:
    same = {name: (outcome(1, 100),) for name in RESULTS}
    assert math.isnan(scoring.gain("crane", same, scoring.over_65))
    assert "nan" not in scoring.shares(same)


def test_contestants_have_names_of_their_own_and_sound_policies() -> None:
    names = [each.name for each in scoring.CONTESTANTS]
    assert len(set(names)) == len(names)
    assert {"plain", "crane", "target-load-packing", "risk-balancing", "koordinator", "oracle", "evenload"} <= set(
        names
    )
    for each in scoring.CONTESTANTS:
        policy, conditions = each.variant.policy, each.conditions(3)
        assert policy is None or not checks.combinations(policy)
        assert not conditions.descheduler, "placements alone are compared"
        assert (conditions.seed, conditions.name) == (3, each.name)
        assert (conditions.peer is not None) == bool(each.peer)
        assert (policy is not None) == each.name.startswith("evenload")


def test_a_run_is_as_long_as_its_option(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    runs: list[scoring.Settings] = []

    def measure(chosen: scoring.Settings) -> list[Row]:
        runs.append(chosen)
        return []

    monkeypatch.setattr(scoring, "measure", measure)
    trace = tmp_path / "trace.npz"
    trace.touch()
    for options in ([], ["--days", "3", "--seeds", "2"]):
        result = testing.CliRunner().invoke(bench.main, ["scoring", "--trace", str(trace), *options])
        assert result.exit_code == 0, result.output
    assert [(each.trace, each.seeds, each.recipe.days) for each in runs] == [(trace, 8, 1.0), (trace, 2, 3.0)]
    assert dataclasses.replace(runs[1].recipe, days=1.0) == settings.RECIPE, "nothing else of a run changes"
