"""Runs that read no more than they need decide, record, export and tell exactly what runs do that read everything."""

import contextlib
import copy
import pathlib
import tempfile
from typing import Any

import hypothesis
from hypothesis import strategies as st

from descheduler.ledger.rows import Query
from descheduler.run_report import Report
from kube import kinds
from promql import errors
from runtime import clock
from tests import builders
from tests.unit.descheduler import ledger_files, scenes
from tests.unit.descheduler.scenes import GIB, NOW, Scene
from tests.unit.descheduler.test_plan_invariants import COOL_RATIOS, HOT_RATIOS, RATIOS, clusters
from tests.unit.descheduler.worlds import World

INTERVAL_SECONDS = 120.0
WHOLE = {"nodes", "pods", "namespaces", "poddisruptionbudgets", "replicasets", "deployments", "statefulsets"}
STEPS = st.fixed_dictionaries(
    {
        "loads": st.lists(st.one_of(COOL_RATIOS, RATIOS, HOT_RATIOS, st.none()), min_size=2, max_size=12),
        "warning": st.sampled_from(["", "", "", "a store did not answer"]),
        "age": st.sampled_from([10.0, 10.0, 10.0, 400.0]),
        "replaced": st.booleans(),
    }
)


def read_by(here: World, *, whole: bool) -> tuple[Report | None, set[str]]:
    """A run, and the kinds that it listed; None where Prometheus answered it in part."""
    here.door.listed.clear()
    report = None
    with contextlib.suppress(errors.Partial):
        report = here.service.run(headroom=whole)
    return report, set(here.door.listed)


def left_behind(here: World) -> list[object]:
    """Everything that anybody can see of a descheduler: its ledger, Events, calls and metrics."""
    exported = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in here.registry.collect()
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    told, called = here.ledger.events(), (here.door.created, here.door.evictions, here.door.patches)
    return [here.ledger.rows(Query()), ledger_files.last_summary(here.ledger_path), told, called, exported]


def move_on(here: World, scene: Scene, step: dict[str, Any], number: int) -> None:
    """The cluster an interval later: other loads, and pods that were evicted gone or replaced."""
    here.clock.advance(INTERVAL_SECONDS)
    here.prometheus.age_seconds = step["age"] - number * INTERVAL_SECONDS
    here.prometheus.warnings = (step["warning"],) if step["warning"] else ()
    here.show(scene)
    here.prometheus.show(scene)


def changed(scene: Scene, step: dict[str, Any], evicted: set[str]) -> Scene:
    """Another scene with the loads of the step; None is a node that says nothing."""
    after = copy.copy(scene)
    after.readings = {
        name: {} if ratio is None else {**scene.readings[name], "memory_avg_5m": ratio}
        for name, ratio in zip(scene.readings, step["loads"] * len(scene.readings), strict=False)
    }
    if step["replaced"]:
        after.pods = [pod for pod in scene.pods if pod.key not in evicted]
        cool = next(name for name in scene.nodes if name != "n0")
        for key in sorted(evicted):
            name = f"{key.split('/')[1]}-again"
            after.pod(name, cool, gib=1.0, owner=("ReplicaSet", key.split("/")[1].split("-")[0]), mutate=made_since)
    return after


def made_since(body: builders.Body) -> None:
    """As a pod that was made when others had been evicted."""
    body["metadata"]["creationTimestamp"] = clock.to_rfc3339(NOW + INTERVAL_SECONDS)


POLICIES = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["Enforce", "Enforce", "Observe"]),
        "coolNodes": st.sampled_from([1, 1, 3]),
        "overloadedFor": st.sampled_from(["0s", "2m"]),
        "cooldown": st.sampled_from([{}, {"workload": "1s", "node": "1s"}]),
    }
)


@hypothesis.given(clusters(), st.lists(STEPS, min_size=2, max_size=5), POLICIES)
@hypothesis.settings(max_examples=30, deadline=None)
def test_what_was_not_read_was_not_needed(scene: Scene, steps: list[dict[str, Any]], options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        sparing, thorough = World(scene, pathlib.Path(one), **options), World(scene, pathlib.Path(other), **options)
        for number, step in enumerate(steps):
            for here in (sparing, thorough):
                move_on(here, scene, step, number + 1)
            (by_one, _), (by_other, read) = read_by(sparing, whole=False), read_by(thorough, whole=True)
            assert (by_one is None) == (by_other is None) == bool(step["warning"])
            if by_one is not None and by_other is not None:
                assert read >= WHOLE
                assert (by_one.summary, by_one.why) == (by_other.summary, by_other.why)
                assert by_one.plan.nodes == by_other.plan.nodes
                assert by_one.hour_left == by_other.hour_left
            assert left_behind(sparing) == left_behind(thorough)
            scene = changed(scene, step, {name for name, _, _ in sparing.door.evictions})
        sparing.ledger.close()
        thorough.ledger.close()


def quiet(tmp_path: pathlib.Path) -> World:
    """A descheduler after its first run, over a cluster in which no node is overloaded."""
    here = World(scenes.Scene().node("warm", memory=0.7).node("cool").workload("web", on=["warm", "cool"]), tmp_path)
    here.service.cycle()
    return here


def test_the_first_run_reads_everything_so_that_a_missing_right_shows_at_the_start(tmp_path: pathlib.Path) -> None:
    assert quiet(tmp_path).door.listed.keys() >= WHOLE


def test_a_run_that_finds_no_overload_reads_nothing_but_nodes(tmp_path: pathlib.Path) -> None:
    here = quiet(tmp_path)
    assert read_by(here, whole=False)[1] == {"nodes"}
    assert here.service.preview().plan.headroom.destinations
    assert here.door.listed.keys() >= WHOLE


def test_pods_alone_are_read_while_an_eviction_has_an_end_to_be_seen(tmp_path: pathlib.Path) -> None:
    here = World(scenes.hot_and_cool(), tmp_path, mode="Enforce")
    here.service.cycle()
    cooled = scenes.Scene().node("hot", memory=0.5).node("cool").workload("web", on=["hot", "cool"], gib=4.0)
    here.show(cooled)
    here.prometheus.show(cooled)
    assert read_by(here, whole=False)[1] == {"nodes", "pods"}
    (row,) = here.ledger.rows(Query())
    assert row.gone_at_seconds is None, "web-0 stands"
    here.door.objects[kinds.PODS.plural] = ()
    here.ledger.fill(row.id, landed_pod="uid-other", ready_at_seconds=NOW + 1)
    assert read_by(here, whole=False)[1] == {"nodes", "pods"}
    (row,) = here.ledger.rows(Query())
    assert row.gone_at_seconds == NOW
    assert read_by(here, whole=False)[1] == {"nodes"}, "its load later is Prometheus' to tell"
    assert cooled.used["default/web-0"].memory_bytes == 4 * GIB


def test_a_paused_descheduler_reads_pods_alone_and_only_while_they_can_tell_something(tmp_path: pathlib.Path) -> None:
    World(scenes.hot_and_cool(), tmp_path, mode="Enforce").service.run()
    again = World(scenes.hot_and_cool(), tmp_path, mode="Enforce", paused=True)
    assert read_by(again, whole=False) == (None, {"pods"})
    (row,) = again.ledger.rows(Query())
    again.ledger.fill(row.id, gone_at_seconds=NOW, landed_pod="uid-other", ready_at_seconds=NOW + 1)
    assert read_by(again, whole=False) == (None, set())


def test_an_eviction_that_is_never_replaced_costs_few_lists_and_small_ones(tmp_path: pathlib.Path) -> None:
    here = World(scenes.hot_and_cool(), tmp_path, mode="Enforce")
    here.service.cycle()
    cooled = scenes.Scene().node("hot", memory=0.5).node("cool").workload("web", on=["cool"], replicas=1)
    here.show(cooled)
    here.prometheus.show(cooled)
    here.door.lists.clear()
    for number in range(720):
        here.clock.advance(INTERVAL_SECONDS)
        here.prometheus.age_seconds = 10.0 - (number + 1) * INTERVAL_SECONDS
        here.service.cycle()
    pods = [namespace for plural, namespace in here.door.lists if plural == kinds.PODS.plural]
    assert set(pods) == {"default"}, "of its namespace alone"
    assert len(pods) < 40


def created_at(at: str) -> builders.Mutator:
    """Created at that time."""
    return lambda body: body["metadata"].update(creationTimestamp=at)


def test_a_replacement_that_comes_late_is_seen_all_the_same(tmp_path: pathlib.Path) -> None:
    here = World(scenes.hot_and_cool(), tmp_path, mode="Enforce")
    here.service.cycle()
    scene = scenes.Scene().node("hot", memory=0.5).node("cool").workload("web", on=["cool"], replicas=1)
    here.prometheus.show(scene)
    here.show(scene)
    for number in range(720):
        here.clock.advance(INTERVAL_SECONDS)
        here.prometheus.age_seconds = 10.0 - (number + 1) * INTERVAL_SECONDS
        if number == 300:
            made_at = clock.to_rfc3339(here.clock.now())
            late = builders.pod("web-9", node="hot", mutate=created_at(made_at))
            here.door.objects[kinds.PODS.plural] = (*scene.pods, late)
        here.service.cycle()
    (row,) = here.ledger.rows(Query())
    assert (row.landed_pod, row.returned) == ("uid-web-9", 1)
