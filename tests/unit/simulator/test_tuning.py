"""A policy is fitted within its limit, judged on what was held back, and written so that every change shows."""

import sys

import numpy as np
import pytest
import yaml

from policy.loading import loader
from policy.schema import load_policy
from policy.schema.load_policy import LoadPolicy
from simulator.results import figures, outcome
from simulator.tuning import fitting, goal, policy_file, searching, space
from simulator.tuning.goal import Aim, Goal, Score
from simulator.tuning.searching import Settings
from simulator.tuning.space import Part

EVERY = tuple(Part)
GOAL = Goal(Aim.HOT, evictions_per_day=10.0)


def limit(policy: LoadPolicy) -> float:
    """The one threshold that the made-up worlds of these tests look at."""
    return policy.filter.thresholds["cpu_avg_5m"]


def best_at(wanted: float, evictions: float = 0.0) -> fitting.Try:
    """A world in which the figure grows with the distance of that threshold from a value."""

    def tried(policy: LoadPolicy) -> Score:
        value = 100.0 * abs(limit(policy) - wanted) + 10.0
        return Score(value, evictions, 0, (value, value))

    return tried


def test_everything_that_may_be_moved_reads_and_writes_the_file() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, EVERY)
    names = [one.name for one in dimensions]
    assert len(set(names)) == len(names)
    assert {"filter.thresholds.cpu_max_1h", "score.combine", "descheduler.overloadedFor"} < set(names)
    same = space.chosen(policy, dimensions, space.present(policy, dimensions))
    assert same is not None
    assert same.as_file() == policy.as_file()


def test_a_choice_becomes_the_policy_that_a_file_would_give() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, EVERY)
    choice = space.present(policy, dimensions) | {
        "filter.thresholds.cpu_avg_5m": 0.55,
        "score.combine": "mean",
        "descheduler.thresholds.memory_avg_5m.evictAbove": 0.9,
        "descheduler.thresholds.memory_avg_5m.evictAbove - evictUntil": 0.3,
    }
    made = space.chosen(policy, dimensions, choice)
    assert made is not None
    assert (limit(made), made.score.combine) == (0.55, "mean")
    band = made.descheduler.thresholds["memory_avg_5m"]
    assert (band.evict_above_ratio, band.evict_until_ratio) == (0.9, 0.6)


def test_a_rule_that_is_off_stays_off() -> None:
    policy = LoadPolicy.of({"filter": {"thresholds": {"cpu_avg_5m": 0.0, "memory_avg_5m": 0.7}}})
    assert [one.name for one in space.dimensions(policy, [Part.FILTER])] == ["filter.thresholds.memory_avg_5m"]


def test_a_combination_that_is_no_policy_is_none() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, [Part.SCORE])
    nothing_weighs = dict.fromkeys((one.name for one in dimensions if "weights" in one.name), 0.0)
    assert space.chosen(policy, dimensions, space.present(policy, dimensions) | nothing_weighs) is None


def run(hot: float, evictions: int, unplaced: int = 0) -> outcome.Outcome:
    """Half a day of one node with these figures."""
    load = figures.Load(0.5, 0.8, 30.0, hot, 0.1)
    effectiveness = figures.Effectiveness(0.5, 0.5, 1.0, 2.0, 0.5)
    found = figures.Figures(effectiveness, load, load, evictions, 0, 10, unplaced)
    steps = np.zeros((144, 1), np.float32)
    timeline = outcome.Timeline(0.0, 300.0, ("a",), steps, steps)
    return outcome.Outcome("x", 1, found, timeline, unplaced=tuple(map(str, range(unplaced))))


def test_a_score_is_the_mean_of_runs_and_counts_evictions_by_the_day() -> None:
    found = goal.score([run(5.0, 3), run(7.0, 5, unplaced=2)], GOAL)
    assert found == Score(12.0, 8.0, 2, (10.0, 14.0))
    assert found.excess(GOAL) == -2.0
    aims = {aim: goal.score([run(5.0, 3)], Goal(aim)).value for aim in Aim}
    assert aims == {Aim.HOT: 10.0, Aim.WARM: 60.0, Aim.P99: 0.8, Aim.SPREAD: 0.1}


def test_the_search_finds_the_bottom_and_repeats_itself() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, [Part.FILTER])
    fits = [
        fitting.fit(policy, dimensions, best_at(0.45), best_at(0.45), goal=GOAL, settings=Settings(40, seed=3))
        for _ in range(2)
    ]
    assert limit(fits[0].policy) == pytest.approx(0.45)
    assert fits[0].policy.as_file() == fits[1].policy.as_file()
    assert fits[0].warnings == ()
    assert fits[0].trials[0].choice == space.present(policy, dimensions)


def test_a_policy_over_the_limit_loses_to_one_that_keeps_it() -> None:
    def tried(policy: LoadPolicy) -> Score:
        value = 100.0 * limit(policy)
        return Score(value, 20.0 if limit(policy) < 0.58 else 1.0, 0, (value,))

    policy = load_policy.defaults()
    found = fitting.fit(
        policy, space.dimensions(policy, [Part.FILTER]), tried, tried, goal=GOAL, settings=Settings(30, seed=1)
    )
    assert limit(found.policy) == pytest.approx(0.6)
    assert found.found_learned.excess(GOAL) <= 0


def test_a_cooler_cluster_that_leaves_pods_out_does_not_win() -> None:
    def tried(policy: LoadPolicy) -> Score:
        out = int(limit(policy) < 0.6)
        return Score(0.0 if out else 10.0, 0.0, out, (0.0,))

    policy = load_policy.defaults()
    found = fitting.fit(
        policy, space.dimensions(policy, [Part.FILTER]), tried, tried, goal=GOAL, settings=Settings(20, seed=1)
    )
    assert found.found_learned.unplaced == 0


def test_a_gain_that_does_not_carry_over_is_called_over_fitting() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, [Part.FILTER])
    found = fitting.fit(policy, dimensions, best_at(0.45), best_at(0.65), goal=GOAL, settings=Settings(30, seed=3))
    assert (found.learned_gain > 0, found.held_gain < 0) == (True, True)
    assert any(one.startswith("over-fitted: 67% less hot-node-minutes") for one in found.warnings)
    assert "worse than the given policy in 2 of 2 runs held back" in found.warnings


def test_the_limit_is_checked_where_nothing_was_searched() -> None:
    policy = load_policy.defaults()
    dimensions = space.dimensions(policy, [Part.FILTER])
    found = fitting.fit(
        policy, dimensions, best_at(0.45), best_at(0.45, evictions=12.0), goal=GOAL, settings=Settings(10, seed=3)
    )
    assert any("12.0 evictions a day on what was held back, over the limit of 10" in one for one in found.warnings)


def test_a_search_that_finds_nothing_better_gives_the_policy_back() -> None:
    policy = LoadPolicy.of({"filter": {"thresholds": {"cpu_avg_5m": 0.62}}})
    dimensions = space.dimensions(policy, [Part.FILTER])
    found = fitting.fit(policy, dimensions, best_at(0.62), best_at(0.62), goal=GOAL, settings=Settings(8, seed=3))
    assert found.policy is policy
    assert (found.learned_gain, found.held_gain, found.warnings) == (0.0, 0.0, ())


def test_nothing_to_move_is_an_error() -> None:
    policy = LoadPolicy.of({"filter": {"thresholds": {}}})
    dimensions = space.dimensions(policy, [Part.FILTER])
    with pytest.raises(ValueError, match="nothing of this policy may be moved"):
        fitting.fit(policy, dimensions, best_at(0.5), best_at(0.5), goal=GOAL, settings=Settings(1, seed=1))


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(searching.NotInstalled, match=r"evenload\[tune\]"):
        searching.search((), {}, lambda _choice: None, GOAL, settings=Settings(1, seed=1))


def test_the_written_policy_loads_and_every_changed_line_says_what_it_was() -> None:
    before = load_policy.defaults()
    made = space.chosen(
        before,
        space.dimensions(before, EVERY),
        space.present(before, space.dimensions(before, EVERY))
        | {"filter.thresholds.cpu_avg_5m": 0.55, "score.combine": "mean", "descheduler.overloadedFor": "5m"},
    )
    assert made is not None
    text = policy_file.commented(before, made, ("found by a search", "of 40 trials"))
    assert loader.load(text, "written").as_file() == made.as_file()
    changed = [line.strip() for line in text.splitlines() if "# was" in line]
    assert changed == [
        "cpu_avg_5m: 0.55   # was 0.65",
        "combine: mean   # was worst",
        'overloadedFor: "5m"   # was "3m"',
    ]
    assert text.startswith("# found by a search\n# of 40 trials\napiVersion: evenload.io/v1alpha1\n")


@pytest.mark.parametrize("word", ["on", "NO", "1e3", "", "a: b", "#x", "12h"])
def test_words_that_yaml_would_read_as_something_else_are_quoted(word: str) -> None:
    line = next(iter(policy_file._mapping({"key": word, "list": [word]}, {}, 0)))
    assert yaml.safe_load(line.partition("   #")[0]) == {"key": word}


def test_a_goal_says_itself() -> None:
    assert str(GOAL) == "least hot-node-minutes with at most 10 evictions a day"
