"""Runs without headroom decide, record, export and tell what runs with it do; only what is needed is asked for."""

import contextlib
import copy
import pathlib
import tempfile
from typing import Any

import hypothesis
from hypothesis import strategies as st

from descheduler.ledger.rows import Query
from descheduler.run_journal import Report
from kube import kinds
from promql import errors
from promql.queries import pod_queries
from runtime import clock
from tests import builders
from tests.unit.descheduler import ledger_files, scenes
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.test_plan_invariants import COOL_RATIOS, HOT_RATIOS, RATIOS, clusters
from tests.unit.descheduler.worlds import World

INTERVAL_SECONDS = 120.0
STEPS = st.fixed_dictionaries(
    {
        "loads": st.lists(st.one_of(COOL_RATIOS, RATIOS, HOT_RATIOS, st.none()), min_size=2, max_size=12),
        "warning": st.sampled_from(["", "", "", "a store did not answer"]),
        "age": st.sampled_from([10.0, 10.0, 10.0, 400.0]),
        "replaced": st.booleans(),
    }
)


def run_of(here: World, *, headroom: bool) -> Report | None:
    """A run; None where Prometheus answered it in part."""
    with contextlib.suppress(errors.Partial):
        return here.service.run(headroom=headroom)
    return None


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
            made = {"creationTimestamp": clock.to_rfc3339(NOW + INTERVAL_SECONDS)}
            after.pod(name, cool, gib=1.0, owner=("ReplicaSet", key.split("/")[1].split("-")[0]), metadata=made)
    return after


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
def test_headroom_is_shown_and_changes_nothing(
    scene: Scene, steps: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        sparing, thorough = World(scene, pathlib.Path(one), **options), World(scene, pathlib.Path(other), **options)
        for number, step in enumerate(steps):
            for here in (sparing, thorough):
                here.clock.advance(INTERVAL_SECONDS)
                here.prometheus.age_seconds = step["age"] - (number + 1) * INTERVAL_SECONDS
                here.prometheus.warnings = (step["warning"],) if step["warning"] else ()
                here.show(scene)
                here.prometheus.show(scene)
            by_one, by_other = run_of(sparing, headroom=False), run_of(thorough, headroom=True)
            assert (by_one is None) == (by_other is None) == bool(step["warning"])
            if by_one is not None and by_other is not None:
                assert (by_one.summary, by_one.why) == (by_other.summary, by_other.why)
                assert by_one.plan.nodes == by_other.plan.nodes
                assert by_one.hour_left == by_other.hour_left
            assert left_behind(sparing) == left_behind(thorough)
            scene = changed(scene, step, {name for name, _, _ in sparing.door.evictions})
        sparing.ledger.close()
        thorough.ledger.close()


def test_few_pods_are_asked_for_by_name_and_many_all_together(tmp_path: pathlib.Path) -> None:
    scene = scenes.Scene().node("hot", memory=0.9).node("cool", memory=0.1)
    scene.workload("web", on=["hot", "cool", "cool", "cool", "cool"])
    World(scene, tmp_path).service.run()
    few, many = World(scene, tmp_path), World(scenes.hot_and_cool(), tmp_path)
    for here in (few, many):
        assert here.service.run() is not None
    names = [pod_queries.named(text).names for text, _ in few.prometheus.asked if "container_" in text]
    assert names == [frozenset({"web-0"})] * 4
    names = [pod_queries.named(text).names for text, _ in many.prometheus.asked if "container_" in text]
    assert names == [None] * 4


def test_a_replacement_that_comes_late_is_seen_all_the_same(tmp_path: pathlib.Path) -> None:
    here = World(scenes.hot_and_cool(), tmp_path, alone=True, mode="Enforce")
    here.service.cycle()
    scene = scenes.Scene().node("hot", memory=0.5).node("cool").workload("web", on=["cool"], replicas=1)
    here.prometheus.show(scene)
    here.show(scene)
    for number in range(720):
        here.clock.advance(INTERVAL_SECONDS)
        here.prometheus.age_seconds = 10.0 - (number + 1) * INTERVAL_SECONDS
        if number == 300:
            made_at = clock.to_rfc3339(here.clock.now())
            late = builders.pod("web-9", node="hot", metadata={"creationTimestamp": made_at})
            here.door.objects[kinds.PODS.plural] = (*scene.pods, late)
        here.service.cycle()
    (row,) = here.ledger.rows(Query())
    assert (row.landed_pod, row.returned) == ("uid-web-9", 1)
