"""Placements from public reports: what kube-scheduler counts on a node, Evenload counts too."""

import collections
import json
import pathlib
from typing import Any

import pytest

from descheduler.snapshot import interned_pods
from extender.state import cluster_view, usage_estimates
from extender.verbs import verbs
from kube import objects
from kube.pods import compact
from kube_scheduler import pod_requests
from policy.contract import load_annotation
from tests import builders, commands
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.cli.placeholder.test_commands import Apiserver
from tests.unit.descheduler import scenes
from tests.unit.extender import worlds

FORMS: tuple[type[Any], ...] = (objects.Pod, compact.Pod, interned_pods.Pod)


def container(name: str, cpu: str, **more: object) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}, **more}


def held(name: str, *, allocated: str, actual: str) -> dict[str, Any]:
    """The status of a container whose kubelet has allocated so much CPU, of which so much is in force."""
    amounts = [{"cpu": cpu, "memory": "1Gi"} for cpu in (allocated, actual)]
    return {"name": name, "allocatedResources": amounts[0], "resources": {"requests": amounts[1]}}


def pending(reason: str) -> list[dict[str, str]]:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.SCHEDULED}
    return [scheduled, {"type": "PodResizePending", "status": "True", "reason": reason}]


def resized(spec: dict[str, Any], status: dict[str, Any]) -> builders.Mutator:
    def write(body: builders.Body) -> None:
        body["spec"].update(spec)
        body["status"].update(status)

    return write


SHRINKING = resized(
    {"containers": [container("main", "1")]}, {"containerStatuses": [held("main", allocated="1", actual="6")]}
)
RESIZED = {
    "shrinks: the larger is still in force": (SHRINKING, 6000),
    "grows: the kubelet has not granted it yet": (
        resized(
            {"containers": [container("main", "5")]},
            {"containerStatuses": [held("main", allocated="2", actual="2")], "conditions": pending("Deferred")},
        ),
        5000,
    ),
    "grows by more than the node can ever have": (
        resized(
            {"containers": [container("main", "500")]},
            {"containerStatuses": [held("main", allocated="2", actual="1500m")], "conditions": pending("Infeasible")},
        ),
        2000,
    ),
    "a sidecar shrinks, an init container that ended does not count": (
        resized(
            {
                "containers": [container("main", "1")],
                "initContainers": [container("side", "1", restartPolicy="Always"), container("once", "500m")],
            },
            {
                "containerStatuses": [held("main", allocated="1", actual="1")],
                "initContainerStatuses": [
                    held("side", allocated="3", actual="2"),
                    held("once", allocated="9", actual="9"),
                ],
            },
        ),
        4000,
    ),
    "the pod as a whole shrinks": (
        resized(
            {"containers": [{"name": "main"}], "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}},
            {
                "allocatedResources": {"cpu": "1", "memory": "1Gi"},
                "resources": {"requests": {"cpu": "3", "memory": "1Gi"}},
            },
        ),
        3000,
    ),
}


@reported("placements", "kubernetes/kubernetes#117765", "kubernetes-sigs/karpenter#3037", before=Before.WRONG)
@situation("a pod is resized in place: its spec, the amount granted and the one in force differ")
@behaviour("the largest counts, as with kube-scheduler; without the spec if that is infeasible")
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__module__)
@pytest.mark.parametrize(("mutate", "millicores"), RESIZED.values(), ids=RESIZED)
def test_a_pod_that_is_resized_counts_by_the_largest(
    form: type[Any], mutate: builders.Mutator, millicores: float
) -> None:
    pod = builders.decoded(builders.pod_body(node="n", mutate=mutate), form)
    assert pod.requests.cpu_millicores == millicores
    assert usage_estimates.estimate_key(pod).request.cpu_millicores == millicores
    if isinstance(pod, objects.Pod):
        assert dict(pod_requests.of_pod(pod).amounts)["cpu"] == millicores


@reported("placements", "kubernetes/kubernetes#129532", before=Before.WRONG)
@situation("a cool node is full of a pod that shrinks, its larger amount still in force")
@behaviour("no destination: kube-scheduler would say Insufficient cpu")
def test_the_room_that_a_shrinking_pod_still_has_is_no_destination() -> None:
    scene = scenes.hot_and_cool(cpu="3").workload("large", on=["cool"], mutate=SHRINKING)
    obeyed = scenes.policy(protect={"minReadyRatio": 0})
    assert set(scenes.causes(scene.plan(obeyed)).values()) == {"no_destination"}
    small = scenes.hot_and_cool(cpu="1").workload("large", on=["cool"], mutate=SHRINKING)
    assert scenes.evicted(small.plan(obeyed))


def tainted(effect: str) -> builders.Mutator:
    return lambda body: body["spec"].update(taints=[{"key": "node.kubernetes.io/unreachable", "effect": effect}])


@reported(
    "placements",
    "kubernetes-sigs/cluster-proportional-autoscaler#38",
    "kubernetes-sigs/cluster-proportional-autoscaler#115",
    before=Before.WRONG,
)
@situation("placeholders follow the number of nodes, most not tolerated or selected by their template")
@behaviour("only nodes that can take one count: 1 of 4")
def test_nodes_that_placeholders_cannot_use_do_not_raise_their_number(tmp_path: pathlib.Path) -> None:
    nodes = [
        builders.node_body("web", labels={"pool": "web"}),
        builders.node_body("other", labels={"pool": "db"}),
        builders.node_body("gone", labels={"pool": "web"}, mutate=tainted("NoSchedule")),
        builders.node_body("ending", labels={"pool": "web"}, mutate=tainted("NoExecute")),
    ]
    template = {"nodeSelector": {"pool": "web"}}
    apiserver = Apiserver(tmp_path, {"/api/v1/nodes": nodes}, template=template)
    result = apiserver.run("size", "--deployment", "placeholder", "--nodes-per-replica", "1", "--max-replicas", "9")
    assert "the number is 1 (1 nodes, 8 cores)" in result.stdout, result.stderr


@reported("placements", "kubernetes-sigs/karpenter#666", "aws/karpenter-provider-aws#4666", before=Before.WRONG)
@situation("an autoscaler takes a soft spread over hosts for a hard one: ten small placeholders order ten nodes")
@behaviour("a buffer spreads over nothing; pods with both spreads `off` order one node")
@pytest.mark.parametrize("options", [("--as", "buffers"), ("--spread-nodes", "off", "--spread-zones", "off")])
def test_room_without_a_spread_orders_no_node_for_each_placeholder(options: tuple[str, ...]) -> None:
    text = commands.output("placeholder", "render", *options)
    assert "priorityClassName: evenload-placeholder" in text
    assert "topologySpreadConstraints" not in text


def own(text: str) -> dict[str, Any]:
    """The fields of a pod that says what it will use."""
    return {"annotations": {"evenload.io/expected-usage": text}}


@reported("placements", "koordinator-sh/koordinator#2531", before=Before.WRONG)
@situation("a pod will use far more than it requests")
@behaviour("its annotation says so, and counts until the windows show it")
def test_a_pod_that_says_that_it_will_use_more_closes_its_node() -> None:
    for text, refused in (("cpu=5", {"n": "cpu_avg_5m over 0.65"}), ("", {})):
        world = worlds.view_of({"n": worlds.IDLE, "m": worlds.IDLE})
        worlds.bind(world, "n", "first", cpu="100m", **own(text))
        answer = json.loads(verbs.answer("filter", world, worlds.args(["n", "m"], **own(text)), worlds.NOW).body)
        assert answer["FailedAndUnresolvableNodes"] == refused


@reported("placements", "koordinator-sh/koordinator#1310", "koordinator-sh/koordinator#2234", before=Before.RIGHT)
@situation("a pod is estimated by nothing: it has no limit, or says 0 itself")
@behaviour("half of its request is the least, or the default")
@pytest.mark.parametrize(
    ("cpu", "text", "millicores"),
    [("2", "", 1400.0), ("2", "cpu=0", 1400.0), ("2", "cpu=1m", 1000.0), ("0", "cpu=0,memory=1Gi", 250.0)],
)
def test_no_pod_makes_its_node_look_idle(cpu: str, text: str, millicores: float) -> None:
    world = worlds.view_of({"n": worlds.IDLE})
    worlds.bind(world, "n", "p", cpu=cpu, **own(text))
    assert world.candidates(("n",), worlds.NOW).expected[0, 0] == pytest.approx(millicores / 8000)


@reported("placements", "kubernetes/autoscaler#5106", "neondatabase/autoscaling#64", before=Before.RIGHT)
@situation("all nodes are over a threshold and have room by requests: an autoscaler asks no extender, and adds none")
@behaviour("the pod does not wait for a node that never comes: one of the coolest takes it")
def test_a_pod_that_no_autoscaler_helps_takes_the_coolest_node() -> None:
    hot = {"a": 0.9, "b": 0.7, "c": 0.8}
    view = worlds.view_of({name: {**worlds.IDLE, "cpu_avg_5m": ratio} for name, ratio in hot.items()})
    assert json.loads(verbs.answer("filter", view, worlds.args([*hot]), worlds.NOW).body)["NodeNames"] == ["b"]


@reported("placements", "kubernetes/autoscaler#6690", before=Before.WRONG)
@situation("nodes are full by use and not by requests, and an autoscaler adds none")
@behaviour("placeholders by use, at most one a node, are more than there are nodes: it adds the missing ones")
def test_use_alone_orders_nodes(tmp_path: pathlib.Path) -> None:
    full = {load_annotation.KEY: worlds.load_text({"cpu_avg_5m": 1.0})}
    apiserver = Apiserver(tmp_path, {"/api/v1/nodes": [builders.node_body(name, annotations=full) for name in "ab"]})
    by_use = ("--use-per-replica", "cpu_avg_5m=60%", "--max-replicas", "9")
    assert "the number is 4 (2 nodes" in apiserver.run("size", "--deployment", "placeholder", *by_use).stdout


def burst(world: cluster_view.ClusterView, names: list[str], pods: int) -> collections.Counter[str]:
    """Places pods of one CPU in a moment, each on the first of the best nodes."""
    for at in range(pods):
        answer = verbs.answer("prioritize", world, worlds.args(names, f"p{at}", cpu="1"), worlds.NOW)
        best = max(json.loads(answer.body), key=lambda node: int(node["Score"]))["Host"]
        worlds.bind(world, best, f"p{at}", cpu="1")
    return collections.Counter(placed.binding.node for placed in world.placements.current(worlds.NOW))


@reported("placements", "dbschenker/thundering-herd-scheduler#31", before=Before.RIGHT)
@situation("no number of starting pods a node fits nodes of all sizes")
@behaviour(
    "a new pod counts as a share of its node: one of 128 CPUs gets most of a burst, without `hotSpots` nearly all"
)
@pytest.mark.parametrize(("sections", "least"), [({}, 21), ({"hotSpots": []}, 32)], ids=["default", "no hot spots"])
def test_a_burst_goes_to_the_large_node_although_hot_spots_count_pods(sections: dict[str, Any], least: int) -> None:
    small = ["a", "b", "c", "d"]
    world = worlds.view_of(dict.fromkeys(small, worlds.IDLE), worlds.policy(**sections))
    world.nodes.node_changed(None, worlds.node("large", worlds.IDLE, cpu="128", memory="512Gi"))
    placed = burst(world, ["large", *small], 40)
    assert placed["large"] >= least
    assert max(placed[name] for name in small) <= 5
