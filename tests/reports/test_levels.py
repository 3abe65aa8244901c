"""Reports about levels of load: what a node's average, a pod's estimate and an overload's minutes are made of."""

import dataclasses
from pathlib import Path

import pytest

from policy.contract import owner_usage
from promql import door
from promql.queries import pod_queries
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.reports.test_placements import appears, points_with, scores, waiting
from tests.reports.test_scores import HOT_SPOTS, view_of
from tests.unit.annotator import test_node_sync
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import Scene
from tests.unit.descheduler.worlds import World
from tests.unit.extender.worlds import NOW

BANDS = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}
RELAXED = {"protect": {"minReadyRatio": 0}, "coolNodes": 0, "thresholds": BANDS}

AHEAD = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.clock_text(NOW + 3600)}]


def runs(world: World, *scenes_then: Scene) -> list[list[str]]:
    """Plans a run a minute, one in each scene; returns the pods that each would evict."""
    plans = []
    for scene in scenes_then:
        world.clock.advance(60)
        world.prometheus.age_seconds -= 60
        world.show(scene)
        world.prometheus.show(scene)
        plans.append(scenes.evicted(world.report().plan))
    return plans


def heated(scene: Scene, **memory: float) -> Scene:
    """The scene with other readings of these nodes."""
    changed = {node: {**scene.readings[node], "memory_avg_5m": ratio} for node, ratio in memory.items()}
    return dataclasses.replace(scene, readings={**scene.readings, **changed})


@reported("evictions", "koordinator-sh/koordinator#990", before=Before.WRONG)
@situation("a Job ends before its node's overload is confirmed; the average still shows it")
@behaviour("its load counts as gone, as during an overload")
def test_what_ended_before_an_overload_was_confirmed_is_relief_already(tmp_path: Path) -> None:
    before = Scene().node("hot", memory=0.7).node("cool").workload("web", on=["hot", "cool"])
    during = heated(before.pod("job", "hot", gib=14.0, owner=("Job", "job")), hot=0.9)
    after = heated(dataclasses.replace(during, pods=during.pods[:2]), hot=0.85)
    world = World(before, tmp_path, overloadedFor="3m", interval="1m", **RELAXED)
    assert runs(world, before, during, during, after, after, after) == [[]] * 6
    assert runs(world, after) == [["web-0"]], "over half of it has left the average, which is as high as before"


@reported("placements", "kubernetes/kubernetes#141713", "kubernetes/kubernetes#96186", before=Before.WRONG)
@situation("ten pods are Pending as a sidecar lacks its image; their main container runs")
@behaviour("what runs counts from its start on")
@pytest.mark.parametrize(("ran_seconds", "expected"), [(50, True), (3600, False)])
def test_a_container_without_its_image_hides_no_load_of_another(ran_seconds: float, expected: bool) -> None:
    main = {"name": "main", "state": {"running": {"startedAt": builders.clock_text(NOW - ran_seconds)}}}
    side = {"name": "side", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pods = (waiting(f"p-{at}", "", bound_ago=ran_seconds, containerStatuses=[main, side]) for at in range(10))
    points = points_with(*pods)
    assert (points["a"] < points["b"]) is expected


@reported("placements", "kubernetes/kubernetes#82195", before=Before.WRONG)
@situation("a counter overflows: a replica uses 900 cores, or over 1.5 times its node")
@behaviour("it is not in its owner's mean, by which the next pods are estimated")
@pytest.mark.parametrize(("times", "expected"), [(112.0, 0.01), (1.6, 0.01), (1.49, 0.38)])
def test_a_replica_that_uses_more_than_its_node_has_is_in_no_mean(times: float, expected: float) -> None:
    bench = test_node_sync.Bench()
    bench.load(node_1=0.3, node_2=0.7)
    for query, size in ((pod_queries.cpu_cores(300), 8.0), (pod_queries.memory_bytes(300), 32.0 * 2**30)):
        used = zip("abcd", (0.01, 0.01, 0.01, times), strict=True)
        samples = (door.Sample({"namespace": "default", "pod": name}, ratio * size, 0.0) for name, ratio in used)
        bench.prometheus.answer_samples(query, *samples)
    bench.sync(*(builders.lean_pod(name, node="node-1") for name in "abcd"))
    (mean,) = owner_usage.decode(bench.kube.config_maps["ours/evenload-usage"]).means.values()
    assert mean.cpu_millicores == pytest.approx(expected * 8000)
    assert mean.memory_bytes == pytest.approx(expected * 32 * 2**30, rel=0.01)


@reported("evictions", "kubernetes/kubernetes#29229", before=Before.WRONG)
@situation("a pod's PodScheduled is an hour ahead, or absent; it has run for long")
@behaviour("its start says its age: its node is a destination")
@pytest.mark.parametrize(
    ("conditions", "started_ago", "evicted"),
    [(AHEAD, 7000, True), (AHEAD, 5, False), (AHEAD, None, False), ([], 5, False)],
)
def test_a_binding_in_the_future_makes_no_pod_young(
    conditions: list[object], started_ago: float | None, evicted: bool
) -> None:
    def mutate(body: builders.Body) -> None:
        since = {"running": {"startedAt": builders.clock_text(NOW - (started_ago or 0))}}
        body["status"] |= {"conditions": conditions, "containerStatuses": [{"name": "main", "state": since}]}
        body["status"] |= {"phase": "Pending", "containerStatuses": []} if started_ago is None else {}

    scene = scenes.hot_and_cool().workload("old", on=["cool"] * 3, cpu="500m", memory="8Gi", mutate=mutate)
    assert bool(scenes.evicted(scene.plan(scenes.policy(**RELAXED)))) is evicted


@reported("evictions", "koordinator-sh/koordinator#2142", before=Before.WRONG)
@situation("a replacement waits for its volume while the next run looks for destinations")
@behaviour("its room is taken until it is bound, for 15 minutes at most")
@pytest.mark.parametrize(("minutes", "bound"), [(1, True), (14, False)])
def test_the_room_of_a_replacement_that_waits_is_given_away_once(tmp_path: Path, minutes: int, bound: bool) -> None:
    first = Scene().node("hot", memory=0.9).node("warm", memory=0.5).node("cool", memory=0.35).node("full", memory=0.59)
    first.workload("db", on=["hot", "full", "full"], gib=6.0).workload("web", on=["warm", "full"], gib=6.0)
    world = World(first, tmp_path, mode="Enforce", overloadedFor="0s", **RELAXED)
    assert runs(world, first) == [["db-0"]]
    waits = heated(dataclasses.replace(first, pods=first.pods[1:]), hot=0.55, warm=0.9)
    waits.pod("db-3", "", owner=("ReplicaSet", "db"))
    assert runs(world, *[waits] * minutes) == [[]] * minutes
    elsewhere = dataclasses.replace(waits, pods=waits.pods[:-1]).pod("db-3", "full", owner=("ReplicaSet", "db"))
    assert runs(world, elsewhere if bound else waits) == [["web-0"]]


@reported("evictions", "koordinator-sh/koordinator#1854", before=Before.RIGHT)
@situation("two nodes are over their line, and a pod leaves the first that is confirmed")
@behaviour("the minutes of the other are not forgotten")
def test_an_eviction_forgets_no_minutes_of_another_node(tmp_path: Path) -> None:
    first = Scene().node("a", memory=0.9).node("b", memory=0.5).node("cool").node("free")
    first.workload("web", on=["a", "free"], gib=6.0).workload("db", on=["b", "free"], gib=6.0)
    second = heated(first, b=0.9)
    world = World(first, tmp_path, mode="Enforce", overloadedFor="3m", interval="1m", **RELAXED)
    world.prometheus.show(heated(first, a=0.5))
    assert runs(world, heated(first, a=0.5), first, second, second) == [[]] * 4
    assert runs(world, second, second) == [["web-0"], ["db-0"]]


@reported("scores", "kubernetes-sigs/scheduler-plugins#115", before=Before.RIGHT)
@situation("thirty pods of a node run one after the other, beside thirty at once on another")
@behaviour("of those only the last counts, as load and in hot spots")
def test_pods_in_succession_are_not_added_up() -> None:
    world = view_of({"succession": 0.3, "burst": 0.25}, cores=64, hotSpots=HOT_SPOTS)
    for at in range(30):
        for node, ended in (("succession", at < 29), ("burst", False)):
            body = builders.pod_body(f"{node}-{at}", node=node, cpu="1", mutate=scenes.bound_ago(300 - 10 * at))
            appears(world, body, NOW)
            if ended:
                appears(world, {**body, "status": {**body["status"], "phase": "Succeeded"}}, NOW, old=body)
    points = scores(world, ["succession", "burst"], builders.pod_body("next", cpu="1"), NOW)
    assert points["succession"] > points["burst"] + 3


@reported("evictions", "openshift/origin#19830", "kubernetes/kubernetes#83767", before=Before.WRONG)
@situation("the kernel kills a container of 14 GiB; its pod stays, and the average shows it")
@behaviour("what the pod lost at once counts as gone")
@pytest.mark.parametrize(
    ("gib", "ready_seconds", "evicted"),
    [
        pytest.param(1.0, NOW + 150, [], id="it was started again"),
        pytest.param(1.0, NOW - 3600, ["web-0"], id="it lives, and a peak has left its average"),
        pytest.param(None, NOW - 3600, [], id="it is in a crash loop"),
        pytest.param(12.0, NOW + 150, ["web-0"], id="it uses as much again"),
    ],
)
def test_what_a_killed_container_used_is_relief_already(
    tmp_path: Path, gib: float | None, ready_seconds: float, evicted: list[str]
) -> None:
    alone = Scene().node("hot", memory=0.9).node("cool", memory=0.4).workload("web", on=["hot", "cool"])

    def beside(used_gib: float | None, at_seconds: float = NOW - 3600) -> Scene:
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": builders.clock_text(at_seconds)}]
        state = {"waiting": {"reason": "CrashLoopBackOff"}} if used_gib is None else {"running": {}}
        scene = dataclasses.replace(alone, pods=list(alone.pods), used=dict(alone.used))
        status = {"containerStatuses": [{"name": "main", "state": state}], "conditions": ready}
        scene.pod("big", "hot", gib=used_gib or 0.0, status=status)
        return scene if used_gib else dataclasses.replace(scene, used=alone.used)

    world = World(alone, tmp_path, overloadedFor="1m", **RELAXED)
    assert runs(world, heated(beside(14.0), hot=0.7), beside(14.0), beside(gib, ready_seconds)) == [[], [], evicted]
