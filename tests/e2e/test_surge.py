"""Another pod first: a Deployment of one replica leaves a hot node without loss, on a real control plane."""

import collections.abc
import re
import typing

import pytest

from kube import kinds, objects
from lab import cluster
from tests.contract import test_guard_scales
from tests.e2e import bodies, hot_nodes, policies, stack, waiting
from tests.e2e.test_relief import RELIEF_SECONDS, BudgetWatcher, candidates

pytestmark = pytest.mark.cluster
HOT = "node-0"
LARGE: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 12 * 2**30, "memory_request": "256Mi"}
ENFORCE: typing.Final = {
    "descheduler__mode": "Enforce",
    "descheduler__interval": "1s",
    "descheduler__overloadedFor": "2s",
    "descheduler__cooldown": {"workload": "10m", "node": "1s"},
    "descheduler__surge": {"enabled": True, "readyWithin": "60s"},
}


@pytest.fixture(scope="module")
def running(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """All three services on six nodes, the descheduler told to Enforce and to surge, and not started yet."""
    rules = test_guard_scales.RIGHTS[0]["rules"]
    with test_guard_scales.granted(six_nodes, rules), stack.in_charge(six_nodes, **ENFORCE) as started:
        yield started


@pytest.fixture
def evenload(running: stack.Stack) -> collections.abc.Iterator[stack.Stack]:
    """Idle nodes, a fresh ledger, the descheduler not running."""
    running.reset()
    for leftover in running.directory.glob("ledger.db*"):
        leftover.unlink()
    yield running
    running.descheduler.kill()
    policies.write(running.policy, **ENFORCE)


def single(evenload: stack.Stack, **options: typing.Unpack[bodies.PodOptions]) -> objects.Pod:
    """The pod of a Deployment of one replica that makes HOT hot, opts in, and has a budget that allows nothing."""
    evenload.door.create(kinds.BUDGETS, bodies.budget("web", 1), namespace=stack.NAMESPACE)
    (pod,) = hot_nodes.filled(evenload, "web", HOT, {**LARGE, **options}, replicas=1).values()
    label = {"metadata": {"labels": {"evenload.io/surge": "true"}}}
    evenload.door.merge_patch(kinds.DEPLOYMENTS, "web", label, namespace=stack.NAMESPACE)
    evenload.set_load(HOT, memory_ratio=0.45)
    evenload.await_reading(HOT, "memory_avg_5m", 0.8, 1.0)
    return pod


def replicas(evenload: stack.Stack) -> int:
    return evenload.door.get(kinds.DEPLOYMENTS, "web", namespace=stack.NAMESPACE).spec_replicas


def reasons(evenload: stack.Stack) -> list[str]:
    """The reasons of our Events about surges, oldest first, as the ledger has them."""
    named = [str(one["reason"]) for one in evenload.descheduler.rows("/events")]
    return [one for one in reversed(named) if one.startswith("Surge")]


def test_the_only_pod_of_a_deployment_moves_without_loss(evenload: stack.Stack) -> None:
    first = single(evenload)
    with BudgetWatcher(evenload.door, "web", least_ready=1) as watcher:
        evenload.descheduler.start()
        waiting.eventually(
            lambda: "SurgeFinished" in reasons(evenload), RELIEF_SECONDS, "the surge to end", evenload.descheduler.log
        )
        moved = waiting.until(
            lambda: pods if len(pods := evenload.pods("web-")) == 1 else [], "one pod", lambda: evenload.pods("web-")
        )
    assert watcher.held(), f"{watcher.lowest_ready} ready of 1, in {watcher.looks} looks"
    assert (moved[0].ready, moved[0].uid != first.uid, moved[0].node_name != HOT) == (True, True, True)
    assert (replicas(evenload), reasons(evenload)) == (1, ["SurgeStarted", "SurgeFinished"])
    (row,) = waiting.until(
        lambda: [row for row in evenload.descheduler.rows("/evictions") if row["landed_pod"] == moved[0].uid],
        "the ledger to know which pod took its place",
    )
    assert (row["pod_uid"], row["result"], row["destination"]) == (first.uid, "evicted", moved[0].node_name)


def notes(evenload: stack.Stack) -> str:
    """The words of our Events about surges."""
    return "; ".join(str(one["note"]) for one in evenload.descheduler.rows("/events"))


SLOW: typing.Final = {"cluster.evenload.io/ready-delay": "15s"}


def why(evenload: stack.Stack) -> str:
    """What `evenload plan` says of the pod on HOT, "" while it says nothing."""
    return "; ".join(f"{one['verdict']}: {one['detail']}" for one in candidates(evenload))


def test_a_surge_whose_pod_is_not_ready_in_time_is_undone_without_loss(evenload: stack.Stack) -> None:
    policies.write(evenload.policy, **ENFORCE | {"descheduler__surge": {"enabled": True, "readyWithin": "2s"}})
    first = single(evenload, annotations=SLOW)
    with BudgetWatcher(evenload.door, "web", least_ready=1) as watcher:
        evenload.descheduler.start()
        waiting.until(lambda: "SurgeUndone" in reasons(evenload), "the surge to be undone", evenload.descheduler.log)
        waiting.until(lambda: len(evenload.pods("web-")) == 1, "one pod", lambda: evenload.pods("web-"))
        waiting.until(lambda: "the last was undone" in why(evenload), "the workload to rest", lambda: why(evenload))
    assert watcher.held(), f"{watcher.lowest_ready} ready of 1, in {watcher.looks} looks"
    assert ([pod.uid for pod in evenload.pods("web-")], replicas(evenload)) == ([first.uid], 1)
    assert "surge undone: the pod could not leave within 2 s (surge.readyWithin)" in notes(evenload)
    assert not evenload.descheduler.rows("/evictions")


def test_replicas_that_another_manager_sets_back_are_left_to_it(evenload: stack.Stack) -> None:
    first = single(evenload, annotations=SLOW)
    evenload.descheduler.start()
    waiting.until(lambda: replicas(evenload) == 2, "another pod to be asked for", evenload.descheduler.log)
    evenload.cluster.api.patch("apis/apps/v1/namespaces/default/deployments/web", {"spec": {"replicas": 1}})
    waiting.until(lambda: "SurgeAbandoned" in reasons(evenload), "the surge to end", evenload.descheduler.log)
    waiting.until(lambda: "the last was abandoned" in why(evenload), "no other surge", lambda: why(evenload))
    assert re.search(r"surge abandoned: (?!somebody)\S+ set 1 replicas", notes(evenload)), notes(evenload)
    waiting.until(lambda: [pod.uid for pod in evenload.pods("web-")] == [first.uid], "the old pod alone")
    assert replicas(evenload) == 1
    assert not evenload.descheduler.rows("/evictions")
