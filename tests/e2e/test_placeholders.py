"""Placeholders hold room: the real kube-scheduler preempts them for a burst and for an evicted pod, we never do."""

import collections
import collections.abc
import functools
import json
import typing

import pytest
import yaml

from kube import kinds, objects
from lab import cluster
from lab.cluster.demo import permissions
from tests import commands
from tests.e2e import bodies, hot_nodes, policies, stack, waiting

pytestmark = pytest.mark.cluster
NAMESPACE = stack.SYSTEM_NAMESPACE
PLACEHOLDER = "evenload.io/placeholder=true"
BY_USE = "evenload.io/placeholder-set=by-use"
BURST: bodies.PodOptions = {"cpu_request": "600m", "memory_request": "512Mi", "priority_class": "high-priority"}
FITTING = 26  # of 300 millicores each, on a node of 8 cores: 200 are left
NODES = 3
NUMBER = NODES * FITTING + 6
# As docs/how-to/hold-room.md says to: with it a burst may be left waiting (kubernetes/kubernetes#141694).
GATES = {"SchedulerAsyncPreemption": False}
HOT, NEW = "node-0", "ordered"
VIEWER = "viewer"
FEWEST_VICTIMS = 14  # eight pods of 600 millicores want 4,800, of which 600 are free
PATHS = {
    "PriorityClass": "apis/scheduling.k8s.io/v1/priorityclasses",
    "Deployment": f"apis/apps/v1/namespaces/{NAMESPACE}/deployments",
}


@pytest.fixture(scope="module")
def running() -> collections.abc.Iterator[stack.Stack]:
    """Three nodes, Evenload's extender in charge, placeholders for more than there is room, a viewer of them."""
    with stack.started(NODES, lambda path: policies.write(path, descheduler__mode="Enforce"), GATES) as started:
        started.take_charge()
        for document in rendered("--replicas", str(NUMBER), "--burst-class"):
            started.cluster.api.create(PATHS[document["kind"]], document)
        bodies.await_class(started.door, BURST["priority_class"])
        allow_viewer(started)
        yield started


@pytest.fixture
def full(running: stack.Stack) -> collections.abc.Iterator[stack.Stack]:
    """Idle nodes whose free room is all held by placeholders, and nothing else on them."""
    running.reset()
    everywhere = NODES * FITTING
    waiting.until(lambda: len(placeholders(running, pending=False)) == everywhere, "the nodes to be full")
    yield running
    running.descheduler.kill()


def rendered(*options: str) -> list[dict[str, typing.Any]]:
    """What render prints, but for the namespace, which the stack has made."""
    text = commands.output("placeholder", "render", *options)
    return [one for one in yaml.safe_load_all(text) if one["kind"] != "Namespace"]


def allow_viewer(running: stack.Stack) -> None:
    """Binds the shipped Role to a user without any other right."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "evenload-placeholder"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER}
    body = {"metadata": {"name": VIEWER}, "roleRef": role, "subjects": [subject]}
    running.cluster.api.create(permissions.PATHS["RoleBinding"].format(namespace=NAMESPACE), body)
    events = permissions.Right(VIEWER, "list", "events.k8s.io", "events", namespace=NAMESPACE)
    permissions.await_right(running.cluster, events)


@functools.cache
def viewer(running: stack.Stack) -> str:
    """The viewer's kubeconfig."""
    return str(running.cluster.kubeconfig_for(VIEWER))


def status(running: stack.Stack) -> tuple[int, dict[str, typing.Any]]:
    """The exit code of `evenload placeholder status`, and what it says."""
    result = commands.run("placeholder", "status", "--kubeconfig", viewer(running), "-o", "json")
    assert result.stdout, result.stderr
    return result.exit_code, json.loads(result.stdout)


def victims(running: stack.Stack, prefix: str) -> int:
    """How many placeholders made way for the living pods of that prefix, by status."""
    preemptors = {pod.uid for pod in running.pods(prefix)}
    return sum(one["by_uid"] in preemptors for one in status(running)[1]["preemptions"])


def all_there(running: stack.Stack) -> dict[str, typing.Any]:
    """What status says if as many placeholders as there should be hold room or wait, and some wait; else nothing."""
    code, told = status(running)
    return told if told["held"] + told["waiting"] == NUMBER and code == 1 else {}


def placeholders(running: stack.Stack, *, pending: bool) -> list[objects.Pod]:
    """The living placeholder pods, either those that wait or those that hold room."""
    pods = running.door.list(kinds.PODS, namespace=NAMESPACE, label_selector=PLACEHOLDER).items
    return [pod for pod in pods if not pod.deleting and bool(pod.node_name) is not pending]


def held_on(running: stack.Stack, node: str) -> set[str]:
    """The placeholders that hold room on a node, by uid."""
    return {pod.uid for pod in placeholders(running, pending=False) if pod.node_name == node}


def counted(running: stack.Stack) -> int:
    """The placements of the last ten minutes that the extender counts, on all nodes."""
    return sum(row["hot"]["10m"] for row in running.view())


def test_a_high_priority_burst_takes_the_placeholders_room_and_starts_at_once(full: stack.Stack) -> None:
    assert counted(full) == 0  # 78 placeholders were bound
    full.create_pods("burst-", 8, **BURST)
    full.placed("burst-", 8)
    waiting.until(lambda: all(pod.ready for pod in full.pods("burst-")), "the burst to run")
    waiting.until(lambda: len(placeholders(full, pending=True)) >= 8, "the displaced placeholders to wait")
    waiting.until(lambda: counted(full) == 8, "the burst alone to be counted", lambda: full.view())
    waiting.until(lambda: victims(full, "burst-") >= FEWEST_VICTIMS, "status to tell of them", lambda: status(full))
    told = waiting.until(lambda: all_there(full), "all victims to be there anew", lambda: status(full))
    assert told["held"] == sum(row["held"] for row in told["nodes"]) <= NODES * FITTING - FEWEST_VICTIMS
    assert told["cpu_millicores"] == 300 * told["held"]
    assert told["preempted_last_hour"] >= FEWEST_VICTIMS
    assert sum(row["preempted_last_hour"] for row in told["nodes"]) == told["preempted_last_hour"]


def test_a_burst_does_not_kill_placeholders_on_a_node_that_stays_hot(full: stack.Stack) -> None:
    full.heat(HOT, cpu_ratio=0.9)
    held = held_on(full, HOT)
    assert held
    full.create_pods("surge-", 6, **BURST)
    landed = full.placed("surge-", 6)
    assert not [pod.name for pod in landed if pod.node_name == HOT]
    assert held == held_on(full, HOT)


def test_an_evicted_pod_takes_a_placeholders_place_on_a_cool_node_and_no_placeholder_is_evicted(
    full: stack.Stack,
) -> None:
    overload(full)
    held = held_on(full, HOT)
    assert held  # their priority is the lowest on the node: they would be the first to go
    full.start(full.descheduler)

    def moved() -> list[objects.Pod]:
        return [pod for pod in full.pods("web-") if pod.ready and pod.node_name != HOT]

    landed = waiting.eventually(moved, 300, "an evicted pod to run elsewhere", lambda: full.descheduler.log()[-3000:])
    name = landed[0].name
    waiting.until(lambda: victims(full, name) > 0, f"{name} to have preempted", lambda: status(full))
    rows = full.descheduler.rows("/evictions")
    assert rows
    assert not [row["pod"] for row in rows if not row["pod"].startswith("web-")]
    assert held <= held_on(full, HOT)


def overload(full: stack.Stack) -> None:
    """Brings HOT over 80 % of memory by two pods in placeholders' room; one eviction brings it under 60 %."""
    shape: bodies.PodOptions = {"cpu_request": "500m", "cpu_millicores": 100, "memory_bytes": 10 * 2**30}
    hot_nodes.filled(full, "web", HOT, shape, replicas=2)
    full.set_load(HOT, memory_ratio=0.25)
    full.await_reading(HOT, "memory_avg_5m", 0.82, 1.0)


def load_places(running: stack.Stack) -> collections.Counter[str]:
    """How many placeholders of the set by use each node holds, "" those that wait."""
    found = running.door.list(kinds.PODS, namespace=NAMESPACE, label_selector=BY_USE).items
    return collections.Counter(pod.node_name for pod in found if not pod.deleting)


def unschedulable(running: stack.Stack) -> list[str]:
    """What kube-scheduler says of those that wait, which is what autoscalers act on."""
    pods = running.cluster.api.items(f"api/v1/namespaces/{NAMESPACE}/pods", labelSelector=BY_USE)
    conditions = (one for pod in pods for one in pod["status"].get("conditions", ()))
    return [one["message"] for one in conditions if one.get("reason") == "Unschedulable"]


@pytest.fixture
def by_use(full: stack.Stack) -> collections.abc.Iterator[tuple[str, ...]]:
    """The options of a set by use, whose Deployment is there; afterwards it is gone, and the node that it ordered."""
    options = ("--use-per-replica", "cpu_avg_5m=60%", "--max-replicas", "9")
    made = rendered("--name", "by-use", *options, "--requests", "cpu=50m,memory=64Mi")
    full.cluster.api.create(PATHS["Deployment"], next(one for one in made if one["kind"] == "Deployment"))
    yield options
    api = full.cluster.api
    api.delete(f"{PATHS['Deployment']}/by-use")
    api.patch(f"api/v1/nodes/{NEW}", {"spec": {"unschedulable": True}})
    paths = [f"api/v1/namespaces/{name}/pods?fieldSelector=spec.nodeName={NEW}" for name in (NAMESPACE, "default")]

    def empty() -> bool:
        return not any(api.delete(path).get("items") for path in paths) and not load_places(full)

    waiting.until(empty, "the ordered node to be empty", lambda: load_places(full))
    api.delete(f"api/v1/nodes/{NEW}")


def test_use_orders_a_node_while_pods_still_find_a_place(full: stack.Stack, by_use: tuple[str, ...]) -> None:
    for node in full.nodes():
        full.heat(node, cpu_ratio=0.75)
    kubeconfig = ("--kubeconfig", str(full.cluster.kubeconfig))
    commands.run("placeholder", "size", "--deployment", "by-use", *by_use, *kubeconfig, code=0)
    apart = f"{NODES} node(s) didn't match pod anti-affinity rules"  # no word of ours: autoscalers know the rule
    waiting.until(lambda: any(apart in one for one in unschedulable(full)), apart, lambda: unschedulable(full))
    full.create_pods("asks-", 1)
    full.placed("asks-", 1)  # all nodes are hot, and none is full: it takes one of the coolest
    full.cluster.add_nodes([cluster.NodeShape(NEW)])
    waiting.until(lambda: load_places(full)[NEW] == 1, "the new node to have one", lambda: load_places(full))
    full.create_pods("next-", 1)
    assert full.per_node("next-", 1) == {NEW: 1}
