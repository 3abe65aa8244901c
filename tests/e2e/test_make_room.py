"""Room for a large pod on a real control plane: two small pods leave a node, stay away, and the large one comes."""

import collections.abc
import functools
from typing import Any

import pytest

import cluster
from kube import kinds, objects
from tests.e2e import bodies, hot_nodes, policies, stack, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
HOT, NEAR, MID, FAR = "node-0", "node-1", "node-2", "node-3"  # of 32 GiB each
GIB = 2**30
# what uses memory on the nodes beside the pods below: 83 %, 45 %, 50 % and 52 % with them
BASE_RATIOS = {HOT: 0.58, NEAR: 0.3375, MID: 0.1875, FAR: 0.47}
LIMIT_SECONDS = 120.0


@pytest.fixture
def evenload(four_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Annotator, extender and scheduler on four idle nodes, the descheduler not started yet."""
    write = functools.partial(policies.write, descheduler__mode="Enforce", descheduler__makeRoom={})
    with lent(four_nodes), stack.started_on(four_nodes, write) as started:
        started.start(started.annotator, started.extender)
        started.use_extender()
        yield started
        started.descheduler.kill()


def deployed(evenload: stack.Stack, name: str, nodes: collections.abc.Sequence[str], memory_bytes: int) -> None:
    """Has a Deployment's pods stand on these nodes, one after the other, free to go to any later."""
    label = f"e2e.evenload.io/{name}"
    shape: bodies.PodOptions = {"memory_bytes": memory_bytes, "node_selector": {label: "yes"}}
    evenload.door.create(kinds.DEPLOYMENTS, bodies.deployment(name, 0, **shape), namespace=stack.NAMESPACE)
    for count, node in enumerate(nodes, 1):
        hot_nodes.labelled(evenload, node, {label: "yes"})
        body = {"spec": {"replicas": count}}
        evenload.door.merge_patch(kinds.DEPLOYMENTS, name, body, namespace=stack.NAMESPACE)
        waiting.eventually(lambda: len(ready(evenload, name)) == count, LIMIT_SECONDS, f"{count} Ready pods of {name}")  # noqa: B023
        hot_nodes.labelled(evenload, node, {label: None})
    for node in evenload.nodes():
        hot_nodes.labelled(evenload, node, {label: "yes"})


def ready(evenload: stack.Stack, name: str) -> list[objects.Pod]:
    """The Ready pods of a Deployment."""
    return [pod for pod in evenload.pods(f"{name}-") if pod.ready]


def rows(evenload: stack.Stack) -> list[dict[str, Any]]:
    """The evictions of the ledger, oldest first."""
    answer = evenload.descheduler.json("/evictions")
    assert isinstance(answer, dict)
    return sorted((row for row in answer["evictions"] if row["result"] == "evicted"), key=lambda row: int(row["id"]))


def await_rows(evenload: stack.Stack, count: int, what: str) -> None:
    """Waits until so many evictions took place."""
    waiting.eventually(lambda: len(rows(evenload)) >= count, LIMIT_SECONDS, what, lambda: hot_nodes.plan(evenload))


def test_two_small_pods_make_room_for_one_that_no_node_takes(evenload: stack.Stack) -> None:
    deployed(evenload, "big", [HOT, MID], 8 * GIB)
    deployed(evenload, "small", [NEAR, MID], 2 * GIB)
    deployed(evenload, "tiny", [NEAR, FAR], int(1.6 * GIB))
    for node, ratio in BASE_RATIOS.items():
        evenload.set_load(node, memory_ratio=ratio)
    evenload.await_reading(HOT, "memory_avg_5m", 0.82, 0.84)
    (large,) = [pod for pod in evenload.pods("big-") if pod.node_name == HOT]
    evenload.descheduler.start()

    await_rows(evenload, 2, "two evictions that make room")
    first, second = rows(evenload)[:2]
    assert {first["workload"], second["workload"]} == {"Deployment/small", "Deployment/tiny"}
    assert [row["node"] for row in (first, second)] == [NEAR, NEAR]
    assert all(row["message"].startswith(f"room for {large.namespace}/{large.name}: ") for row in (first, second))
    assert all(row["before_ratio"] <= row["target_ratio"] for row in (first, second))

    await_rows(evenload, 3, "the large pod to leave")
    third = rows(evenload)[2]
    assert (third["pod"], third["node"], third["destination"]) == (large.name, HOT, NEAR)
    waiting.eventually(lambda: not hot_nodes.plan(evenload)["nodes"], LIMIT_SECONDS, "the node to be relieved")
    placed = {
        name: sorted(pod.node_name for pod in evenload.placed(f"{name}-", 2)) for name in ("big", "small", "tiny")
    }
    assert placed["big"] == [NEAR, MID]
    assert NEAR not in placed["small"] + placed["tiny"]
    assert HOT not in placed["small"] + placed["tiny"]
    assert len(rows(evenload)) == 3
    hot_nodes.await_events(evenload, "NodeMakesRoom", lambda found: len(found) == 6)
