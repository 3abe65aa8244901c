"""The bench of answers: which pods it stores, what its rows say of several legs, and what the table shows of it."""

import random

import msgspec
import pytest

from kube import objects
from kube.pods import compact
from lab.bench import answers, contestants, fleet, table


def leg(ours_ms: float, reference_ms: float) -> answers.Leg:
    """A leg in which every verb of a contestant took one time."""
    figures = {contestants.US: ours_ms, contestants.REFERENCE: reference_ms}
    return {
        name: {verb: {f"{part}_microseconds": 1000 * took_ms for part in ("p50", "p99")} for verb in answers.VERBS}
        for name, took_ms in figures.items()
    }


def test_a_row_is_the_medians_of_the_legs_and_says_how_far_they_lie_apart() -> None:
    rows = answers.rows(500, [leg(1.0, 2.0), leg(30.0, 5.0), leg(2.0, 3.0)], answers.LIMITS[500])
    assert [row.what for row in rows[:2]] == ["filter, 500 names, p50", "filter, 500 names, p99"]
    p99 = rows[1]
    assert (p99.ours, p99.yardstick, p99.legs) == (2.0, 3.0, (0.5, 6.0))
    assert (p99.limit, p99.within) == (1.2, True)


def test_every_verb_and_quantile_has_a_row_and_a_leg_that_is_worse_on_the_whole_is_over() -> None:
    rows = answers.rows(5000, [leg(3.0, 2.0), leg(3.0, 2.0), leg(1.0, 2.0)], answers.LIMITS[5000])
    assert len(rows) == 2 * len(answers.VERBS) - 1  # a p50 alone of what follows a pause
    paused = [row for row in rows if row.what.startswith(answers.PAUSED)]
    assert [row.limit for row in paused] == [None]
    assert not any(row.within for row in rows if row not in paused)
    assert {row.limit for row in rows if row.what.startswith("filter again")} == {0.75 * 1.1, 0.85 * 1.1}


def test_the_table_shows_the_spread_where_there_are_legs() -> None:
    with_legs, without = answers.rows(500, [leg(1.0, 2.0)], {})[0], table.Row("memory", 205.0, "MiB", None, 300)
    heading, first, second = table.rendered([with_legs, without]).splitlines()
    assert "of legs" in heading
    assert "0.50-0.50x" in first
    assert second.split() == ["memory", "205", "MiB", "-", "<=", "300", "MiB", "ok"]


def test_every_pod_of_a_leg_waits_in_the_cluster_as_the_client_asks_about_it() -> None:
    settings = answers.Settings(names=(5, 7), legs=2, rounds=2, calls=3, seed=4)
    names = list(answers.pod_names(settings))
    assert len(names) == len(set(names)) == 2 * 2 * 2 * 3 * 2
    assert names[:3] == ["bench-4000-5-0-0", "bench-4000-5-0-0-cold", "bench-4000-5-0-1"]
    assert names[-1] == "bench-4001-7-1-2-cold"
    body = fleet.pod("asked-about", "x", random.Random(1), 1_700_000_000.0)
    key, stored = fleet.waiting(body, names[0])
    assert key == "/registry/pods/default/bench-4000-5-0-0"
    on_watch = msgspec.json.decode(msgspec.json.encode(stored), type=compact.Pod)
    asked_about = msgspec.json.decode(msgspec.json.encode(body), type=objects.Pod)
    assert (on_watch.uid, on_watch.key, on_watch.node_name) == (names[0], "default/bench-4000-5-0-0", "")
    assert on_watch.requests == asked_about.requests


def test_a_leg_about_pods_that_no_watch_has_is_refused() -> None:
    answers.check_awaited("# TYPE evenload_extender_awaited_pods gauge\nevenload_extender_awaited_pods 0.0\n")
    with pytest.raises(answers.UnknownPods, match="evenload_extender_awaited_pods is 3, expected 0"):
        answers.check_awaited("# TYPE evenload_extender_awaited_pods gauge\nevenload_extender_awaited_pods 3.0\n")
