"""A gang on a hot node of a real control plane: all of it leaves, or nothing while a budget allows two of three."""

import pytest

from kube import kinds
from lab import cluster
from tests.e2e import bodies, hot_nodes, stack, waiting

pytestmark = pytest.mark.cluster
HOT = "node-0"
LABELS = {"scheduling.x-k8s.io/pod-group": "train"}
SHAPE: bodies.PodOptions = {"memory_bytes": 5 * 2**30, "memory_request": "256Mi", "labels": LABELS}
POLICY = {
    "descheduler__mode": "Enforce",
    "descheduler__limits": {"perRun": 4, "perNode": 3, "perWorkload": 3, "maxSnapshotAge": "5m"},
    "descheduler__protect": {"minPodAge": "1s", "groups": False},
}


def test_a_gang_stays_whole_under_a_budget_for_two_and_leaves_whole_without_it(six_nodes: cluster.Cluster) -> None:
    with stack.in_charge(six_nodes, **POLICY) as evenload:
        evenload.door.create(kinds.BUDGETS, bodies.budget("train", 1), namespace=stack.NAMESPACE)
        before = hot_nodes.filled(evenload, "train", HOT, SHAPE, replicas=3)
        evenload.set_load(HOT, memory_ratio=0.4)
        evenload.await_reading(HOT, "memory_avg_5m", 0.8, 1.0)
        evenload.descheduler.start()
        hot_nodes.await_events(evenload, "EvictionBlockedByPDB", bool)
        (node,) = hot_nodes.plan(evenload)["nodes"]
        judged = {(one["verdict"], one["detail"].partition(" (train-")[0]) for one in node["candidates"]}
        assert judged == {("budget", "train allows 2 (3 healthy, 1 needed, 2 in this plan)")}
        assert {pod.uid for pod in evenload.pods("train-")} == set(before)

        evenload.door.delete(kinds.BUDGETS, "train", namespace=stack.NAMESPACE)
        waiting.until(lambda: not {pod.uid for pod in evenload.pods("train-")} & set(before), "all three to leave")
        rows = evenload.descheduler.rows("/evictions")
        assert {(row["pod_uid"], row["run"]) for row in rows} == {(uid, rows[0]["run"]) for uid in before}
        assert HOT not in {pod.node_name for pod in evenload.placed("train-", 3)}
