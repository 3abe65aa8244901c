"""Nominated nodes and slow bindings under a real kube-scheduler, with nodes that are annotated by hand."""

import collections
from collections.abc import Iterator
from typing import Any

import pytest

from kube import kinds, objects
from tests.e2e import bodies, waiting
from tests.e2e.extender_world import NODES, PENDING, POLICY, World
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
PODS = "api/v1/namespaces/default/pods"
HELD = "evenload.example/held"
STAYS: dict[str, Any] = {  # a pod that takes ten minutes to end
    "metadata": {"annotations": {"cluster.evenload.io/delete-delay": "600s"}},
    "terminationGracePeriodSeconds": 600,
}
REPLICAS = 6


@pytest.fixture
def world(extender_plane: World) -> Iterator[World]:
    """The control plane as every test finds it."""
    extender_plane.reset()
    yield extender_plane
    extender_plane.obey(POLICY)


def create(world: World, name: str, **fields: Any) -> None:
    """A pod with fields of its own."""
    metadata = {"name": name, **fields.pop("metadata", {})}
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": fields.pop("cpu", "10m")}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **fields}
    world.door.create(kinds.PODS, {"metadata": metadata, "spec": spec}, namespace="default")


def pod(world: World, name: str) -> objects.Pod:
    return world.door.get(kinds.PODS, name, namespace="default")


def filters(world: World, name: str) -> list[tuple[int, int]]:
    """Of each filter request about a pod how many nodes it named and how many passed, the first request first."""
    answer = world.extender.json(f"/decisions?pod={name}")
    assert isinstance(answer, dict)
    found = [(one["candidates"], one["passed"]) for one in answer["decisions"] if one["verb"] == "filter"]
    return found[::-1]


@reported("placements", "kubernetes/kubernetes#94418", before=Before.WRONG)
@situation("a pod waits for its victim; its nominated node gets hot meanwhile (real kube-scheduler)")
@behaviour("refused: the pod goes to the coolest node in the same cycle")
def test_a_pod_that_preempted_does_not_go_to_its_node_when_that_is_hot(world: World, prefix: str) -> None:
    for name, value in {"low": 10, "high": 1000}.items():
        world.door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": f"{prefix}-{name}"}, "value": value})
        bodies.await_class(world.door, f"{prefix}-{name}")
    victim, urgent = f"{prefix}-victim", f"{prefix}-urgent"
    world.obey(PENDING)
    world.load(node_0=0.1, node_1=0.9, node_2=0.9)
    create(world, victim, cpu="6", priorityClassName=f"{prefix}-low", **STAYS)
    try:
        assert world.placed(victim, 1) == {"node-0": 1}
        create(world, urgent, cpu="6", priorityClassName=f"{prefix}-high")
        waiting.eventually(lambda: pod(world, urgent).nominated_node == "node-0", 90, "node-0 to be nominated")
        world.load(node_0=0.95, node_1=0.7, node_2=0.9)
        world.obey(POLICY)
    finally:
        world.cluster.api.delete(f"{PODS}/{victim}", {"gracePeriodSeconds": 0})
    assert world.placed(urgent, 1) == {"node-1": 1}
    assert filters(world, urgent)[-2:] == [(1, 0), (3, 1)]


@reported("placements", "kubernetes/kubernetes#93179", before=Before.BY_CHOICE)
@situation("a pod's only possible node, the nominated one, is hot (real kube-scheduler)")
@behaviour("refused once, bound in the same cycle")
def test_a_pinned_pod_gets_its_hot_nominated_node_in_the_same_cycle(world: World, prefix: str) -> None:
    world.load(node_0=0.9, node_1=0.1, node_2=0.1)
    create(world, prefix, nodeSelector={"kubernetes.io/hostname": "node-0"}, schedulingGates=[{"name": HELD}])
    world.cluster.api.patch(f"{PODS}/{prefix}/status", {"status": {"nominatedNodeName": "node-0"}})
    world.cluster.api.patch(f"{PODS}/{prefix}", {"spec": {"schedulingGates": []}})
    assert world.placed(prefix, 1) == {"node-0": 1}
    assert filters(world, prefix) == [(1, 0), (1, 1)]


def claim(world: World, name: str) -> None:
    """A volume that its provisioner never makes: the binding of its pod waits."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "evenload-never",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    world.cluster.api.create(
        "api/v1/namespaces/default/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec}
    )


@pytest.fixture
def never(world: World) -> Iterator[None]:
    """A storage class whose volumes never come, and its claims gone afterwards."""
    classes = "apis/storage.k8s.io/v1/storageclasses"
    body = {"provisioner": "evenload.example/never", "volumeBindingMode": "WaitForFirstConsumer"}
    world.cluster.api.create(classes, {"metadata": {"name": "evenload-never"}, **body})
    yield
    world.cluster.api.delete(PODS)
    world.cluster.api.delete("api/v1/namespaces/default/persistentvolumeclaims")
    world.cluster.api.delete(f"{classes}/evenload-never")


@pytest.mark.usefixtures("never")
@reported("placements", "kubernetes/kubernetes#136334", before=Before.WRONG)
@situation("pods whose bindings wait for volumes that do not come (real kube-scheduler), the extender restarted")
@behaviour("they count on their nominated nodes, and nowhere once they are deleted")
def test_pods_whose_bindings_wait_count_on_their_nominated_nodes(world: World, prefix: str) -> None:
    for at in range(REPLICAS):
        name = f"{prefix}-{at}"
        claim(world, name)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
        create(world, name, cpu="1", volumes=[volume])

    def nominated() -> collections.Counter[str]:
        return collections.Counter(one.nominated_node for one in world.pods(prefix) if one.nominated_node)

    waiting.eventually(lambda: sum(nominated().values()) == REPLICAS, 90, "nodes to be nominated", nominated)
    assert set(nominated()) <= set(NODES)
    assert not any(one.node_name for one in world.pods(prefix)), "no volume came"
    world.extender.stop()
    world.extender.start()
    waiting.eventually(lambda: world.counted("30m") == nominated(), 90, "the waiting pods to count", world.nodes)
    world.cluster.api.delete(PODS)
    waiting.eventually(lambda: not world.counted("30m"), 90, "the deleted pods to count no more", world.nodes)
