"""Reports of kubelets, cgroups and cAdvisor: figures that cannot be, pods that a kubelet ends, nodes under pressure."""

import dataclasses
import pathlib
from typing import Any

import pytest

from descheduler.planning import departed_load
from descheduler.snapshot import interned_pods
from runtime import clock
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.reports.test_levels import runs
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.worlds import World

TOLERANT = [{"operator": "Exists"}]
RELAXED = {"protect": {"minReadyRatio": 0}, "coolNodes": 0}


def large(body: builders.Body) -> None:
    """Makes a node of 64 cores and 512 GiB."""
    for amounts in ("capacity", "allocatable"):
        body["status"][amounts] = {"cpu": "64", "memory": "512Gi", "pods": "110"}


def pressed(*kinds: str) -> builders.Mutator:
    """A mutator that has the kubelet report these conditions."""
    return lambda body: body["status"]["conditions"].extend({"type": kind, "status": "True"} for kind in kinds)


@pytest.mark.parametrize("kind", ["MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"])
@reported("kubelets", "kubernetes/kubernetes#72846", before=Before.WRONG)
@situation("the only cool node is under pressure, and the pod tolerates every taint")
@behaviour("no destination: its kubelet refuses pods, or ends them again")
def test_a_node_under_pressure_is_no_destination_for_a_pod_that_tolerates_it(kind: str) -> None:
    def plan(*conditions: str) -> list[str]:
        scene = Scene().node("hot", memory=0.9).node("cool", mutate=pressed(*conditions))
        scene.workload("web", on=["hot", "cool"], mutate=lambda body: body["spec"].update(tolerations=TOLERANT))
        return scenes.evicted(scene.plan(scenes.policy(**RELAXED)))

    assert plan() == ["web-0"]
    assert plan(kind) == []


@pytest.mark.parametrize("leaving", [True, False])
@pytest.mark.parametrize(
    ("metric", "amounts", "words"),
    [
        ("cpu_avg_5m", {"cores": 5.8e6}, "it uses 725000 times the cpu of its node"),
        ("cpu_avg_5m", {"cores": 16.0}, "it uses 2 times the cpu of its node"),
        ("memory_avg_5m", {"gib": 64.0}, "it uses 2 times the memory of its node"),
    ],
)
@reported("kubelets", "google/cadvisor#3611", before=Before.WRONG)
@situation("a container's counter jumps: its pod uses millions of cores, or twice its node")
@behaviour("no usage: it does not leave, and ending it hides no load")
def test_a_pod_that_uses_more_than_its_node_has_is_not_measured(
    tmp_path: pathlib.Path, metric: str, amounts: dict[str, Any], words: str, leaving: bool
) -> None:
    def mutate(body: builders.Body) -> None:
        if leaving:
            body["metadata"] |= {"deletionTimestamp": clock.to_rfc3339(NOW), "deletionGracePeriodSeconds": 30}

    scene = Scene().node("hot").node("cool").node("large", mutate=large).reading("hot", **{metric: 0.9})
    scene.workload("web", on=["hot", "cool"], cores=2.0).workload("odd", on=["hot", "cool"], mutate=mutate, **amounts)
    world = World(scene, tmp_path, thresholds={metric: {"evictAbove": 0.8, "evictUntil": 0.6}}, **RELAXED)
    plan = world.report().plan
    assert scenes.evicted(plan) == ["web-0"]
    verdict = scenes.judged(plan)["odd-0"].verdict
    assert (verdict.cause, verdict.detail) == ("terminating", "") if leaving else ("usage_unknown", words)


@pytest.mark.parametrize("ending", [False, True], ids=["ended by its kubelet", "deleted, with a grace period"])
@reported("kubelets", "kubernetes-sigs/descheduler#326", "kubernetes/kubernetes#43166", before=Before.WRONG)
@situation("a kubelet or a person ends a pod of an overloaded node; averages still show it")
@behaviour("its load counts as gone, less and less")
def test_what_others_ended_is_relief_already(tmp_path: pathlib.Path, ending: bool) -> None:
    def mutate(body: builders.Body) -> None:
        if ending:
            body["metadata"] |= {"deletionTimestamp": clock.to_rfc3339(NOW), "deletionGracePeriodSeconds": 30}

    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "cool"])
    bands = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}
    scene.pod("large", "hot", gib=11.0, owner=("ReplicaSet", "large"), mutate=mutate)
    world = World(scene, tmp_path, thresholds=bands, **RELAXED)
    alone, without = (dataclasses.replace(scene, pods=pods) for pods in (scene.pods[2:], scene.pods[:2]))
    assert runs(world, alone) == [[]], "it has no owner that would replace it"
    plans = runs(world, without, without)
    assert plans == [[], ["web-0"]], "a fifth of it has left the average, which is as high as before"
    known = departed_load.Departures().after(scene.snapshot(), scenes.policy())
    for seconds, gone in ((300, 3), (301, 0)):  # after a gap the time is not known
        later = dataclasses.replace(scene.snapshot(), at_seconds=NOW + seconds, pods=())
        assert len(known.after(later, scenes.policy()).gone) == gone


@pytest.mark.parametrize(("app", "restarts", "evicted"), [(60, 0, ["web-1"]), (400, 0, ["web-0"]), (60, 2, ["web-0"])])
@reported("kubelets", "kubernetes/kubernetes#67252", "kubernetes/kubernetes#28692", before=Before.WRONG)
@situation("an init container works for an hour, the pod's own run for a minute; or these restart")
@behaviour("work before their first start is no use of the pod")
def test_the_work_of_init_containers_is_no_use_of_the_pod(app: int, restarts: int, evicted: list[str]) -> None:
    def mutate(body: builders.Body) -> None:
        if body["metadata"]["name"] == "web-0":
            running = {"running": {"startedAt": clock.to_rfc3339(NOW - app)}}
            body["status"] |= {
                "startTime": clock.to_rfc3339(NOW - 3600),
                "containerStatuses": [{"name": "main", "restartCount": restarts, "state": running}],
                "initContainerStatuses": [{"name": "load", "state": {"terminated": {"exitCode": 0}}}],
            }

    scene = Scene(struct=interned_pods.Pod).node("hot", memory=0.9).node("cool")
    plan = scene.workload("web", on=["hot", "hot", "cool"], mutate=mutate).plan(scenes.policy(**RELAXED))
    assert scenes.evicted(plan) == evicted
