"""Kubelets that do not answer, evict by themselves, or make room for a burst, and Evenload beside them.

The policy has short windows (`burners.SHORT`), and nodes are hot by memory.
"""

import contextlib
import os
import pathlib
import signal
from collections.abc import Iterator

import pytest
import yaml

from lab.tests.real_nodes import burners
from lab.tests.real_nodes.installation import MARKS, Installation, installed
from lab.tests.real_nodes.nodes import Document
from runtime import clock

WORLD = "rn-kubelets"
pytestmark = MARKS
OBSERVE = burners.SHORT | {"descheduler": burners.SHORT["descheduler"] | {"mode": "Observe"}}
METRIC = "memory_avg_1m"
HOME = "rn1"  # of the deschedulers
EVICTION_MEBIBYTES = 220  # kubelet evicts when less is left: over Evenload's line, and under what the kernel allows


@pytest.fixture(scope="module")
def world() -> Iterator[Installation]:
    """Three nodes with Evenload under a policy of short windows, which observes at first."""
    with installed(WORLD) as made:
        burners.set_policy(made, OBSERVE)
        made.run("evenload policy validate mine/policy.yaml")
        yield made


@pytest.fixture(autouse=True)
def empty(world: Installation) -> Iterator[None]:
    """Leaves no pods of a test on the nodes."""
    yield
    world.nodes.kubectl("uncordon", "rn1", "rn2", "rn3")
    world.nodes.kubectl("delete", "deployments,pods,pdb", "--all", "--grace-period=0", "--force", "--timeout=120s")


def test_a_dead_kubelet_keeps_its_pods_and_takes_no_others_and_its_replacement_is_judged(world: Installation) -> None:
    nodes = world.nodes
    web = burners.deployment("web", burners.container(560))
    burners.placed(nodes, {"rn2"}, web, burners.deployment("heavy", burners.container(170)))
    nodes.kubectl("cordon", "rn1")  # so that only rn3 is left for a replacement
    with stopped(world, "rn2"):
        burners.eventually(lambda: burners.status(world)["rn2"] == "NotReady", "rn2 to be NotReady", 120)
        burners.eventually(lambda: burners.reading(world, "rn2", METRIC) > 0.8, "its reading to be over the line", 90)
        burners.set_policy(world, burners.SHORT)
        burners.eventually(lambda: left_alone(world) == "it is not ready", "the plan to leave the dead node alone", 120)
        runs = run_count(world)
        burners.eventually(lambda: run_count(world) >= runs + 3, "three more runs", 90)
        assert left_alone(world) == "it is not ready"
        assert not enforced(world)
        assert not burners.requests(nodes)
        burners.set_policy(world, OBSERVE)
    burners.eventually(lambda: bool(burners.plan(world)["evictions"]), "the plan to relieve rn2, alive again", 120)
    with stopped(world, "rn3"):  # Ready for 40 s more as far as anybody knows
        burners.set_policy(world, burners.SHORT)
        burners.eventually(lambda: bool(enforced(world, landed_node="rn3")), "an eviction to rn3", 60)
        burners.eventually(lambda: burners.status(world)["rn3"] == "NotReady", "rn3 to be NotReady", 120)
        runs = run_count(world)
        burners.eventually(lambda: run_count(world) >= runs + 3, "three more runs", 90)
        (row,) = enforced(world)
        assert row["ready_at"] is None
        # The workload waits for it, so nothing else of it leaves; and where there is no destination, nothing does.
        waits = {"in_flight", "few_ready", "no_destination", "not_needed"}
        judged = [each for each in burners.candidates(world) if each["pod"].startswith("web-")]
        assert {each["verdict"] for each in judged} <= waits
        lost = next(pod for pod in nodes.items("pods", "-l", "app=web") if pod["spec"]["nodeName"] == "rn3")
        nodes.kubectl("cordon", "rn2")
        nodes.kubectl("uncordon", "rn1")
        nodes.kubectl("delete", "pod", lost["metadata"]["name"], "--wait=false")  # as a controller does in minutes
        burners.eventually(lambda: enforced(world)[0]["ready_at"] is not None, "the next to be Ready", 120)
        pods = {pod["spec"]["nodeName"]: pod for pod in nodes.items("pods", "-l", "app=web")}
        (row,) = enforced(world)
        assert row["landed_node"] == "rn1"
        assert row["ready_at"] == condition(pods["rn1"], "Ready")["lastTransitionTime"]
        assert "deletionTimestamp" in pods["rn3"]["metadata"]  # it hangs there
    ready_seconds = clock.from_rfc3339(row["ready_at"]) - clock.from_rfc3339(row["intended_at"])
    print(f"\nREADY after {ready_seconds:.0f} s, by way of a dead node")
    burners.eventually(lambda: len(nodes.items("pods", "-l", "app=web")) == 2, "the lost pod to end", 120)
    assert set(burners.status(world).values()) == {"Ready", "SchedulingDisabled"}


def test_a_kubelet_that_evicts_is_no_destination_and_shares_its_node_with_evenload(
    world: Installation, tmp_path: pathlib.Path
) -> None:
    nodes = world.nodes
    known = len(enforced(world))
    burners.set_policy(world, OBSERVE)
    evict_earlier(world, HOME)
    with burners.witnessed(nodes, tmp_path / "pods") as witness:
        burners.placed(nodes, {HOME}, burners.deployment("shop", burners.container(670)))
        burners.eventually(lambda: burners.reading(world, HOME, METRIC) > 0.8, "an overload by Evenload's line", 150)
        more = burners.deployment("more", burners.container(120), replicas=1)
        more["spec"]["template"]["spec"]["nodeName"] = HOME
        nodes.apply(more)
        burners.set_policy(world, burners.SHORT)  # now both act
        burners.eventually(lambda: bool(failed(witness)), "kubelet to evict", 120)
        assert "MemoryPressure" in burners.status(world)[HOME]
        assert HOME not in {each["node"] for each in burners.plan(world)["headroom"]["destinations"]}
        burners.eventually(lambda: burners.reading(world, HOME, METRIC) < 0.6, "the readings to show what is left", 150)
        runs = run_count(world)
        burners.eventually(lambda: run_count(world) >= runs + 3, "three more runs", 90)
        theirs = failed(witness)
    ours = enforced(world)[known:]
    print(f"\nkubelet evicted {sorted(theirs)}, Evenload {[row['pod'] for row in ours]}")
    assert not theirs & {row["pod"] for row in ours}
    assert len(ours) <= 1  # limits.perNode and cooldown.node: the reading is under the stop before these end
    assert len(burners.requests(nodes)) == known + len(ours)
    assert not theirs & {each["pod"] for each in burners.candidates(world)}


def enforced(world: Installation, **columns: object) -> list[Document]:
    """The rows of evictions that were not only planned."""
    return burners.evictions(world, mode="Enforce", **columns)


def left_alone(world: Installation) -> str:
    """Why the plan leaves its only hot node alone; "" where it has none or does not."""
    return "".join(hot["left_alone"] or "" for hot in burners.plan(world)["nodes"])


def run_count(world: Installation) -> float:
    """How many runs the leading descheduler has ended."""
    name, counts = "evenload_descheduler_run_duration_seconds_count", []
    for pod in world.pods("descheduler"):
        path = f"/api/v1/namespaces/evenload-system/pods/{pod['metadata']['name']}:8902/proxy/metrics"
        lines = world.nodes.kubectl("get", "--raw", path).splitlines()
        counts += [float(line.split()[1]) for line in lines if line.startswith(f"{name} ")]
    return max(counts)


@contextlib.contextmanager
def stopped(world: Installation, node: str) -> Iterator[None]:
    """A node whose kubelet does nothing; its pods run on. Afterwards the node is Ready."""
    pid = world.nodes.program(node, "kubelet")
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
    burners.eventually(lambda: world.nodes.ready_since(node) != "", f"{node} to be Ready", 60)


def evict_earlier(world: Installation, node: str) -> None:
    """Restarts a node's kubelet with a hard eviction line of EVICTION_MEBIBYTES."""
    path = world.nodes.starter.directory / "nodes" / node / "kubelet.yaml"
    document = yaml.safe_load(path.read_text("utf-8"))
    document["evictionHard"]["memory.available"] = f"{EVICTION_MEBIBYTES}Mi"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    old = world.nodes.program(node, "kubelet")
    os.kill(old, signal.SIGKILL)
    burners.eventually(lambda: world.nodes.program(node, "kubelet") not in (0, old), "another kubelet", 30)
    world.nodes.until_renewed(node)


def failed(witness: burners.Witness) -> set[str]:
    """The names of pods that a kubelet evicted."""
    return {pod["metadata"]["name"] for pod in witness.changes() if pod["status"].get("reason") == "Evicted"}


def test_a_burst_starts_in_the_room_of_placeholders_which_come_back(world: Installation) -> None:
    nodes = world.nodes
    options = "--replicas 12 --requests cpu=50m,memory=400Mi --burst-class"
    world.run(f"evenload placeholder render {options} | kubectl apply -f -")
    burners.eventually(lambda: 6 <= len(placed_holders(world)) == 12 - unschedulable(world), "full nodes", 120)
    first = placed_holders(world)
    burst = burners.container(10, request="390Mi")
    nodes.apply(burners.deployment("burst", burst, replicas=3, priorityClassName="high-priority"))
    try:
        nodes.kubectl("rollout", "status", "deployment/burst", "--timeout=60s")
    except AssertionError as error:
        raise AssertionError(f"{error}\n{nodes.kubectl('describe', 'pods', '-l', 'app=burst')}") from error
    pods = nodes.items("pods", "--selector=app=burst")
    ready = max(condition(pod, "Ready")["lastTransitionTime"] for pod in pods)
    created = min(pod["metadata"]["creationTimestamp"] for pod in pods)
    print(f"\nburst: the last of 3 Ready {burners.seconds(ready) - burners.seconds(created):.0f} s after creation")
    events = nodes.items("events", "--namespace=evenload-system", "--field-selector=reason=Preempted")
    assert len(first - placed_holders(world)) == len(events) == 3
    assert {event["involvedObject"]["name"] for event in events} <= first
    nodes.kubectl("delete", "deployment", "burst", "--wait=false")
    burners.eventually(lambda: len(placed_holders(world)) == len(first), "the placeholders to be back", 90)


def placed_holders(world: Installation) -> set[str]:
    """The names of the placeholders that hold room: all others wait."""
    return {pod["metadata"]["name"] for pod in world.pods("placeholder") if burners.is_ready(pod)}


def unschedulable(world: Installation) -> int:
    """How many placeholders find no room, as kube-scheduler says."""
    return sum(condition(pod, "PodScheduled").get("reason") == "Unschedulable" for pod in world.pods("placeholder"))


def condition(pod: Document, kind: str) -> Document:
    """A condition of a pod, empty where it has none of that kind."""
    return next((each for each in pod["status"].get("conditions", ()) if each["type"] == kind), {})
