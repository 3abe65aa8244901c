"""Reports about placements: what counts between an answer and the windows that show the pod, and the nominated node."""

import collections
import json
from collections.abc import Sequence
from typing import Any

import pytest

from extender import protocol
from extender.state import cluster_view
from extender.verbs import verbs
from kube.pods import compact
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.extender import worlds

NOW = worlds.NOW
NODES = {"a": 0.3, "b": 0.34, "c": 0.38}
MINUTES_10 = 600.0


def world_of(cpu_by_node: dict[str, float], **room: str) -> cluster_view.ClusterView:
    """Nodes that use as much of both resources in every window."""
    world = worlds.view_of({})
    for name, ratio in cpu_by_node.items():
        world.nodes.node_changed(None, worlds.node(name, dict.fromkeys(worlds.IDLE, ratio), **room))
    return world


def renew(world: cluster_view.ClusterView, now: float, names: Sequence[str]) -> None:
    """The annotator writes the same readings again."""
    for name in names:
        reading = world.candidates((name,), NOW).values[0]
        load = dict(zip(world.in_force.metric_names, reading.tolist(), strict=True))
        world.nodes.node_changed(None, worlds.node(name, worlds.load_text(load, now)))


def args(names: Sequence[str], pod: builders.Body) -> protocol.Args:
    return protocol.decode_args(json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}).encode())


def filtered(world: cluster_view.ClusterView, names: Sequence[str], pod: builders.Body, now: float = NOW) -> list[str]:
    """The nodes that pass."""
    passed: list[str] = json.loads(verbs.answer("filter", world, args(names, pod), now).body)["NodeNames"]
    return passed


def scores(world: cluster_view.ClusterView, names: Sequence[str], pod: builders.Body, now: float) -> dict[str, int]:
    reply = json.loads(verbs.answer("prioritize", world, args(names, pod), now).body)
    return {row["Host"]: row["Score"] for row in reply}


def chosen(world: cluster_view.ClusterView, pod: builders.Body, now: float) -> str:
    """A cycle of kube-scheduler over all nodes: the node of the best score."""
    passed = filtered(world, sorted(world.nodes.loads().index), pod, now)
    points = scores(world, passed, pod, now) if len(passed) > 1 else dict.fromkeys(passed, 0)
    return max(sorted(points), key=points.__getitem__)


def replica(at: int, **fields: Any) -> builders.Body:
    return builders.pod_body(f"db-{at}", owner=("StatefulSet", "db"), cpu="1", memory="1Gi", **fields)


def appears(world: cluster_view.ClusterView, body: builders.Body, now: float, old: builders.Body | None = None) -> None:
    """The Pod watch brings a version of a pod."""
    known = None if old is None else builders.decoded(old, compact.Pod)
    world.pod_changed(known, builders.decoded(body, compact.Pod), now)


def nominated(body: builders.Body, node: str) -> builders.Body:
    return {**body, "status": {**body["status"], "nominatedNodeName": node}}


@reported("placements", "kubernetes-sigs/scheduler-plugins#797", "kubernetes/kubernetes#136334", before=Before.WRONG)
@situation("12 pods of a StatefulSet, a request every 0.7 s, each binding waits for its volume")
@behaviour("4, 4, 4 on three nodes, as when bound at once")
def test_pods_whose_binding_takes_long_are_spread_as_if_bound_at_once() -> None:
    world, spread = world_of(NODES), collections.Counter[str]()
    for at in range(12):
        now, body = NOW + 0.7 * at, replica(at)
        appears(world, body, now)
        spread[chosen(world, body, now)] += 1
    assert spread == {"a": 4, "b": 4, "c": 4}


@reported("placements", "kubernetes/kubernetes#136334", before=Before.WRONG)
@situation("a gang waits with Permit for 10 minutes, nominated to another than the best node")
@behaviour("it counts on its nominated node, in every replica, until it is bound")
@pytest.mark.parametrize("answered", [True, False], ids=["the replica that answered", "another replica"])
def test_a_gang_that_waits_counts_on_its_nominated_nodes(answered: bool) -> None:
    world = world_of({"a": 0.3, "b": 0.31})
    for at in range(4):
        body = replica(at)
        appears(world, body, NOW)
        if answered:
            chosen(world, body, NOW)
        appears(world, nominated(body, "a"), NOW + 1, old=body)
    later = NOW + MINUTES_10
    renew(world, later, ("a", "b"))
    points = scores(world, ("a", "b"), replica(4), later)
    assert points["a"] < points["b"]
    for at in range(4):
        appears(world, builders.pod_body(f"db-{at}", node="b"), later, old=nominated(replica(at), "a"))
    assert scores(world, ("a", "b"), replica(4), later)["a"] >= points["b"]


@reported("placements", "kubernetes-sigs/scheduler-plugins#797", before=Before.WRONG)
@situation("a pod is deleted, or its cycle fails, while its binding waits")
@behaviour("it counts no longer")
@pytest.mark.parametrize("end", ["deleted", "failed"])
def test_a_pod_that_goes_nowhere_while_its_binding_waits_counts_no_longer(end: str) -> None:
    world, body = world_of({"a": 0.3, "b": 0.4}), replica(0)
    appears(world, body, NOW)
    assert chosen(world, body, NOW) == "a"
    assert world.placements.assumed(NOW + 60) == 1
    if end == "deleted":
        world.pod_changed(builders.decoded(body, compact.Pod), None, NOW + 60)
    else:
        refused = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "timed out"}
        appears(world, {**body, "status": {**body["status"], "conditions": [refused]}}, NOW + 60, old=body)
    assert world.placements.assumed(NOW + 60) == 0


def waiting(name: str, state: str, *, bound_ago: float = 400, **status: object) -> builders.Body:
    """A pod of 1500m and 4Gi that was bound to `a` and has not started, as a kubelet reports it."""

    def mutate(body: builders.Body) -> None:
        moment = {"status": "True", "lastTransitionTime": builders.clock_text(NOW - bound_ago)}
        conditions = [{"type": "PodScheduled", **moment}]
        conditions += [{"type": one, "status": "False"} for one in ("Initialized", "Ready", "ContainersReady")]
        containers = [{"name": "main", "restartCount": 0, "state": {"waiting": {"reason": state}}}]
        body["status"] = {"phase": "Pending", "conditions": conditions, "containerStatuses": containers, **status}

    return builders.pod_body(name, node="a", cpu="1500m", memory="4Gi", mutate=mutate)


RUNS_INIT = [{"name": "init", "restartCount": 0, "state": {"running": {"startedAt": builders.clock_text(NOW - 390)}}}]
CRASHED_INIT = [{"name": "init", "restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
CRASHES: dict[str, Any] = {
    "phase": "Running",
    "containerStatuses": [
        {
            "name": "main",
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"startedAt": builders.clock_text(NOW - 60)}},
        }
    ],
}


def points_with(*pods: builders.Body) -> dict[str, int]:
    """The scores of two nodes, the cooler of which took the pods 400 s ago."""
    world = world_of({"a": 0.2, "b": 0.3}, cpu="16", memory="64Gi")
    for body in pods:
        appears(world, body, NOW)
    return scores(world, ("a", "b"), builders.pod_body("new"), NOW)


@reported("placements", "koordinator-sh/koordinator#2531", before=Before.WRONG)
@situation("ten pods have not started after 400 s: their image is not there, or an init container runs")
@behaviour("their expected load counts in full")
@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("ContainerCreating", {}),
        ("ErrImagePull", {}),
        ("ImagePullBackOff", {}),
        ("PodInitializing", {"initContainerStatuses": RUNS_INIT}),
    ],
    ids=["image pull", "pull failed", "pull back-off", "init container"],
)
def test_pods_that_have_not_started_count_in_full(state: str, status: dict[str, Any]) -> None:
    points = points_with(*(waiting(f"p-{at}", state, **status) for at in range(10)))
    assert points["a"] < points["b"]


@reported("placements", "koordinator-sh/koordinator#2531", before=Before.RIGHT)
@situation("ten pods of a node fail by themselves: no name of an image, configuration, crash loop")
@behaviour("they count no longer: nothing of them will run soon")
@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("InvalidImageName", {}),
        ("CreateContainerConfigError", {}),
        ("PodInitializing", {"initContainerStatuses": CRASHED_INIT}),
        ("", CRASHES),
    ],
    ids=["no image", "no ConfigMap", "init crash loop", "crash loop"],
)
def test_pods_that_wait_for_a_reason_of_failure_count_no_longer(state: str, status: dict[str, Any]) -> None:
    points = points_with(*(waiting(f"p-{at}", state, **status) for at in range(10)))
    assert points["a"] > points["b"]


@reported("placements", "kubernetes/kubernetes#70201", "kubernetes/kubernetes#13385", before=Before.WRONG)
@situation("the idlest node can pull no image any more, and 20 pods come one after the other")
@behaviour("it gets 12, as while it pulls; it got all 20, as each that failed was no load at once")
def test_a_node_that_starts_nothing_is_not_the_idlest_for_every_pod() -> None:
    world, spread = world_of({"a": 0.1, "b": 0.4}, cpu="16", memory="64Gi"), collections.Counter[str]()
    for at in range(20):
        now, body = NOW + at, builders.pod_body(f"p-{at}", cpu="1500m", memory="4Gi")
        appears(world, body, now)
        spread[node := chosen(world, body, now)] += 1
        placed = waiting(f"p-{at}", "ErrImagePull", bound_ago=-at)
        appears(world, {**placed, "spec": {**placed["spec"], "nodeName": node}}, now, old=body)
    assert spread == {"a": 12, "b": 8}


NOMINATED: dict[str, Any] = {"hot": 0.9, "cool": 0.1, "mid": 0.5}


@reported("placements", "kubernetes/kubernetes#94418", "kubernetes/kubernetes#93179", before=Before.WRONG)
@situation("kube-scheduler evaluates the nominated node first, by itself; it is hot, cooler nodes exist")
@behaviour("refused, so that kube-scheduler goes on to all nodes")
def test_a_hot_nominated_node_is_refused_while_cooler_ones_exist() -> None:
    world, nominee = world_of(NOMINATED), nominated(builders.pod_body("nominee"), "hot")
    assert filtered(world, ["hot"], nominee) == []
    assert filtered(world, ["hot", "cool", "mid"], nominee) == ["cool", "mid"]
    assert filtered(world, ["hot"], nominee) == [], "the next cycle"


@reported("placements", "kubernetes/kubernetes#93179", before=Before.BY_CHOICE)
@situation("a pod can run on its nominated node only, which is hot")
@behaviour("refused once per cycle at most: the identical request that follows passes")
def test_a_pod_that_can_run_on_its_hot_nominated_node_only_does_not_wait_for_ever() -> None:
    world, pinned = world_of(NOMINATED), nominated(builders.pod_body("pinned"), "hot")
    for _ in range(5):
        assert [filtered(world, ["hot"], pinned) for _ in range(2)] == [[], ["hot"]]
