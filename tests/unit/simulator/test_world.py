"""A small cluster lives under kube-scheduler alone and under Evenload: what the services' own code makes of it."""

import collections.abc
import dataclasses
import gc
import logging
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from policy.schema import load_policy
from simulator import scenario, world
from simulator.apiserver import storage
from simulator.contention import Load
from simulator.results import outcome
from simulator.world import setup
from simulator.world import world as run_world
from tests.unit.simulator import worlds

POLICY = load_policy.defaults()


@pytest.fixture(autouse=True)
def no_errors(caplog: pytest.LogCaptureFixture) -> collections.abc.Iterator[None]:
    """Services outlive what goes wrong in them: here it is told by their logs."""
    yield
    is_named = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert is_named == []


def lived(played: scenario.Scenario, **changes: Any) -> outcome.Outcome:
    """What came of a scenario under the default policy."""
    return world.run(played, dataclasses.replace(world.Setup(POLICY, seed=1), **changes))


@pytest.fixture(scope="module")
def crowded() -> outcome.Outcome:
    """All greedy pods come before anybody has measured anything."""
    return lived(worlds.misleading(min_available=3))


def test_pods_whose_requests_mislead_are_spread_by_what_nodes_use() -> None:
    one_by_one = worlds.misleading(spacing_seconds=450.0)
    plain, ours = lived(one_by_one, policy=None), lived(one_by_one, descheduler=False)
    assert (plain.variant, ours.variant) == ("plain", "evenload")
    assert plain.figures.cpu.hot_node_minutes > 2 * ours.figures.cpu.hot_node_minutes
    assert plain.figures.cpu.spread_ratio > ours.figures.cpu.spread_ratio
    assert ours.figures.evictions == plain.figures.evictions == 0


def test_what_is_hot_all_the_same_is_relieved(crowded: outcome.Outcome) -> None:
    plain = lived(worlds.misleading(), policy=None)
    assert plain.figures.cpu.hot_node_minutes > 2 * crowded.figures.cpu.hot_node_minutes
    assert crowded.figures.evictions == len(crowded.moved) > 0
    assert all(one.metric == "cpu_avg_5m" and one.value > one.threshold == 0.8 for one in crowded.moved)
    assert crowded.timeline.cpu_ratio[-1].max() < 0.65


@pytest.mark.parametrize("all_doors", [False, True])
def test_a_run_that_is_over_leaves_no_pods_behind_without_the_garbage_collector(all_doors: bool) -> None:
    def bodies() -> int:
        return sum(1 for one in gc.get_objects() if type(one) is storage.Version)

    gc.collect()
    gc.disable()
    try:
        before = bodies()
        lived(worlds.misleading(), all_doors=all_doors)
        assert bodies() == before
    finally:
        gc.enable()


def test_services_that_are_simulated_log_errors_only() -> None:
    log = logging.getLogger("test.quiet")
    with run_world.calm():
        assert (log.isEnabledFor(logging.WARNING), log.isEnabledFor(logging.ERROR)) == (False, True)
    assert log.isEnabledFor(logging.WARNING)


def test_a_replacement_goes_elsewhere(crowded: outcome.Outcome) -> None:
    assert all(one.landed_on and one.landed_on != one.node for one in crowded.moved)


def test_no_budget_is_broken(crowded: outcome.Outcome) -> None:
    assert (crowded.violations, crowded.figures.pdb_violations) == ((), 0)


def test_every_placement_is_counted_once(crowded: outcome.Outcome) -> None:
    assert crowded.figures.pods_bound == 15 + crowded.figures.evictions
    assert crowded.figures.pods_pending == 0
    assert crowded.unplaced == ()
    # the first fifteen found nothing measured: they are left out, not judged
    assert crowded.figures.effectiveness.total_schedule_count == crowded.figures.evictions


def test_the_replacements_of_evicted_pods_are_explained(crowded: outcome.Outcome) -> None:
    landed = {one.landed_on for one in crowded.moved}
    told = [one for one in crowded.explained if one.at_seconds > worlds.START + 2 * worlds.STEP]
    assert told
    for one in told:
        named = {each["name"]: each for each in one.body["nodes"]}  # type: ignore[attr-defined]
        assert one.node in landed
        assert named[one.node]["allowed"]


@pytest.mark.parametrize("all_doors", [False, True])
def test_nodes_are_relieved_and_filtered_by_their_pools_in_a_simulation_too(
    crowded: outcome.Outcome, all_doors: bool
) -> None:
    relieved = {one.node for one in crowded.moved}
    hot = sorted(relieved)[0]
    played = worlds.misleading(min_available=3)
    machines = tuple(
        dataclasses.replace(one, labels={"kind": "own" if one.name == hot else "other"}) for one in played.machines
    )
    pool = {
        "name": "own",
        "nodeSelector": {"matchLabels": {"kind": "own"}},
        "filter": {"thresholds": {"cpu_avg_5m": 0.01}},
        "descheduler": {"thresholds": {"cpu_avg_5m": {"evictAbove": 1, "evictUntil": 0.6}}},
    }
    found = lived(
        dataclasses.replace(played, machines=machines),
        policy=load_policy.LoadPolicy.of({"pools": [pool]}),
        all_doors=all_doors,
    )
    assert hot not in {one.node for one in found.moved}, "its pool has another line"
    assert {one.node for one in found.moved} == relieved - {hot}
    assert hot not in {one.landed_on for one in found.moved}, "its pool's filter is closed"


def test_nobody_is_evicted_unless_it_is_enforced() -> None:
    observing = lived(worlds.misleading(), enforce=False)
    assert (observing.figures.evictions, observing.moved) == (0, ())
    assert observing.figures.cpu.hot_node_minutes > 100
    assert not any("Enforce" in one for one in observing.assumptions)


def test_without_prometheus_answers_are_neutral() -> None:
    """Readings age, decisions say so, pods are placed all the same, and nothing is evicted on what cannot be seen."""
    one_by_one = worlds.misleading(spacing_seconds=450.0)
    away = (worlds.START + 2000.0, worlds.START + 2000.0 + 3600.0)
    with run_world.calm(), run_world.opened(one_by_one, world.Setup(POLICY, 1, explained=100, all_doors=True)) as here:
        here.prometheus.away.append(away)
        here.kernel.run(one_by_one.end_seconds)
        found = here.outcome()
    during = [one for one in found.explained if away[0] + 3 * worlds.STEP < one.at_seconds < away[1]]
    assert during
    for one in during:
        assert one.body["degraded"] == ["stale_reading"]
        nodes: list[dict[str, object]] = one.body["nodes"]  # type: ignore[assignment]
        assert len({each["score"] for each in nodes}) == 1
    assert found.figures.pods_pending == 0
    assert not [one for one in found.moved if away[0] < one.at_seconds < away[1]]


def test_who_leaves_together_with_the_node_is_none_that_found_no_node() -> None:
    """As in a recorded past, where pods were last seen when their node was: nobody wants their successors."""
    played = worlds.misleading()
    ends = worlds.START + 10 * worlds.STEP
    leaving = tuple(dataclasses.replace(one, leaves_seconds=ends) for one in played.machines[:3])
    replicas = tuple(dataclasses.replace(one, leaves_seconds=ends) for one in played.replicas)
    found = lived(
        dataclasses.replace(played, machines=(*leaving, *played.machines[3:]), replicas=replicas), policy=None
    )
    assert (found.figures.pods_bound, found.unplaced) == (15, ())


def test_who_waits_in_vain_until_it_leaves_found_no_node() -> None:
    played = worlds.misleading()
    large = dataclasses.replace(played.owners[0], requests=Load(9000.0, 1.0))
    replicas = tuple(dataclasses.replace(one, leaves_seconds=worlds.START + 3600.0) for one in played.replicas)
    found = lived(dataclasses.replace(played, owners=(large, *played.owners[1:]), replicas=replicas), policy=None)
    assert len(found.unplaced) == 3


@pytest.mark.parametrize(
    ("resource", "statistic", "is_named"), [("cpu", "mine", True), ("disk", "avg", True), ("cpu", "avg", False)]
)
def test_a_metric_that_the_simulation_cannot_know_is_named(resource: str, statistic: str, is_named: bool) -> None:
    own = {"name": "load1", "resource": resource, "statistic": statistic, "window": "5m", "query": "node_load1"}
    policy = load_policy.LoadPolicy.of({"metrics": [own], "score": {"weights": {"load1": 1.0}}})
    found = lived(worlds.misleading(hours=0.5), policy=policy)
    assert any("What the queries of load1 would give is not known" in one for one in found.assumptions) is is_named


def test_lines_of_a_resource_that_is_not_played_leave_relief_as_it_is(crowded: outcome.Outcome) -> None:
    """Such a resource has no readings; no run may fail for it, and no node may be judged by its memory instead."""
    queries = {"query": "disk:node", "podQuery": "disk:pod"}
    own = {"name": "disk_5m", "resource": "disk", "statistic": "avg", "window": "5m", **queries}
    low = {"disk_5m": {"evictAbove": 0.01, "evictUntil": 0.005}}
    lines = {**POLICY.as_file()["descheduler"]["thresholds"], **low}  # type: ignore[index]
    closed = {"thresholds": {**POLICY.filter.thresholds, "disk_5m": 0.005}}
    policy = load_policy.LoadPolicy.of({"metrics": [own], "filter": closed, "descheduler": {"thresholds": lines}})
    found = lived(worlds.misleading(min_available=3), policy=policy)
    assert [(one.node, one.metric) for one in found.moved] == [(one.node, one.metric) for one in crowded.moved]


def test_where_no_placement_was_judged_there_is_no_ratio() -> None:
    found = lived(worlds.misleading(hours=0.1), policy=None).figures.effectiveness
    assert (found.total_schedule_count, found.effective_dynamic_schedule_count) == (0, 0)
    assert np.isnan([found.effective_schedule_ratio, found.cpu_utilization_total_avg]).all()


def test_a_run_repeats_itself() -> None:
    first, again = (lived(worlds.misleading(hours=1.5, spacing_seconds=60.0)) for _ in range(2))
    np.testing.assert_array_equal(first.timeline.cpu_ratio, again.timeline.cpu_ratio)
    assert (first.figures, first.moved, first.explained) == (again.figures, again.moved, again.explained)


def test_a_run_repeats_itself_in_another_process() -> None:
    """Whose strings hash differently: nothing may depend on the order of a set."""
    program = (
        "from tests.unit.simulator import worlds, test_world\n"
        "found = test_world.lived(worlds.misleading(hours=1.5))\n"
        "print(found.figures, found.moved, found.explained)"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=300,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] != ""


def test_what_does_not_fit_waits_and_is_placed_when_room_is_made() -> None:
    """A small machine full of pods of low priority, one pod of a higher, and one that fits nowhere at all."""
    base = worlds.misleading(hours=1.0)
    low = scenario.Owner("default", "low", Load(3500.0, 2.0**30))
    high = scenario.Owner("default", "high", Load(3500.0, 2.0**30), priority=1000)
    huge = scenario.Owner("default", "huge", Load(9000.0, 2.0**30))
    begins = (0.0, 0.0, 450.0, 450.0)
    replicas = tuple(
        scenario.Replica(owner, ordinal, worlds.START + begin, scenario.NEVER, 0)
        for (owner, ordinal), begin in zip(((0, 0), (0, 1), (1, 0), (2, 0)), begins, strict=True)
    )
    played = dataclasses.replace(base, machines=base.machines[:1], owners=(low, high, huge), replicas=replicas)
    found = lived(played)
    assert found.figures.pods_bound == 3  # two of low priority, then the one that made room for itself
    assert found.figures.pods_pending == 2  # the successor of the one that gave way, and the huge one
    assert sorted(one.split("/")[1].split("-")[0] for one in found.unplaced) == ["huge", "low"]


def test_progress_is_told_after_each_step_and_may_end_the_run() -> None:
    class Enough(Exception):
        """Nobody waits any more."""

    told: list[outcome.Progress] = []

    def report(progress: outcome.Progress) -> None:
        told.append(progress)
        if progress.steps_done == 3:
            raise Enough

    with pytest.raises(Enough):
        world.run(worlds.misleading(), world.Setup(POLICY), report)
    assert [one.steps_done for one in told] == [1, 2, 3]
    assert (told[-1].pods_bound, told[-1].pods_pending, told[-1].steps) == (15, 0, 36)
    assert told[-1].cpu_ratio.shape == (6,)


def test_assumptions_say_what_a_run_in_steps_changes(crowded: outcome.Outcome) -> None:
    assert crowded.assumptions == (
        "It is made up.",
        "Time goes in steps of 5m: the annotator reads every 5m and a reading is stale after 12m30s.",
        "The descheduler runs every 5m.",
        "Thin data in cpu_max_1d: 3 hours of 1 day.",
        "Thin data in memory_max_1d: 3 hours of 1 day.",
        "The policy's descheduler.mode is Observe; the run is as if it were Enforce.",
    )


def test_a_policy_in_shadow_mode_runs_as_if_it_enforced_and_says_so() -> None:
    played = world.Setup(POLICY.model_copy(update={"extender": load_policy.Extender(mode="Shadow")}))
    assert setup.in_force(played, 300.0) == setup.in_force(world.Setup(POLICY), 300.0)
    assert setup.notes(played, 300.0)[-1] == "The policy's extender.mode is Shadow; the run is as if it were Enforce."


def test_modes_of_pools_are_as_if_they_were_enforce_and_a_run_says_so() -> None:
    pools = [
        {"name": name, "nodeSelector": {"matchLabels": {"kind": name}}, "descheduler": {"mode": mode} if mode else {}}
        for name, mode in (("a", "Observe"), ("b", "Enforce"), ("c", None))
    ]
    pooled = load_policy.LoadPolicy.of({"pools": pools, "descheduler": {"mode": "Enforce"}})
    played = world.Setup(pooled)
    found = setup.in_force(played, 300.0)
    assert [one.descheduler.mode for one in found.of_pools] == ["Enforce"] * 3
    assert found.of_pools[0].sync == found.sync
    assert setup.notes(played, 300.0)[-1] == (
        "The mode of the policy's pool a is Observe; the run is as if it were Enforce."
    )
    as_written = setup.in_force(dataclasses.replace(played, enforce=False), 300.0)
    assert [one.descheduler.mode for one in as_written.of_pools] == ["Observe", "Enforce", "Enforce"]


def test_who_was_there_when_a_recorded_past_began_starts_where_it_was_and_its_successor_anywhere() -> None:
    played = worlds.misleading()
    stood = tuple(dataclasses.replace(replica, node="node-4") for replica in played.replicas)
    past = dataclasses.replace(played, replicas=stood)
    found = lived(past, policy=None)
    node = found.timeline.nodes.index("node-4")
    assert found.timeline.cpu_ratio[2, node] == pytest.approx(1.0)
    assert np.delete(found.timeline.cpu_ratio[2], node).max() < 0.1
    relieved = lived(past)
    assert relieved.moved
    assert all(one.landed_on != "node-4" for one in relieved.moved)
