"""A resource of the operator's own on a real control plane: it closes nodes and has them relieved, by its queries."""

import collections.abc

import pytest

from lab import cluster
from tests.e2e import bodies, hot_nodes, policies, stack, waiting

pytestmark = pytest.mark.cluster
BUSY = "node-0"
NODE_BYTES = 32 * 2**30
DEVICE = {
    "name": "device_avg_5m",
    "resource": "device",
    "statistic": "avg",
    "window": "5s",
    "query": "1 - avg_over_time(node_memory_MemAvailable_bytes[5s]) / avg_over_time(node_memory_MemTotal_bytes[5s])",
    "podQuery": (
        "sum by (namespace, pod) "
        '(avg_over_time(container_memory_working_set_bytes{container!="",container!="POD"}[5s])) '
        f"/ {NODE_BYTES}"
    ),
}
HEAVY: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 5 * 2**30, "memory_request": "256Mi"}
RELIEF_SECONDS = 300.0  # as of test_relief


@pytest.fixture
def evenload(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """All three services on six idle nodes, the descheduler not started yet."""
    policy = dict[str, object](
        metrics=[*policies.METRICS, DEVICE],
        filter={"thresholds": {"device_avg_5m": 0.65}},
        score={"weights": {"device_avg_5m": 1}},
        sync__staleAfter="60s",
        descheduler__mode="Enforce",
        descheduler__thresholds={"device_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}},
    )
    with stack.in_charge(six_nodes, **policy) as started:
        yield started


def test_a_node_is_closed_and_relieved_by_a_metric_of_the_operators_own(evenload: stack.Stack) -> None:
    pods = hot_nodes.filled(evenload, "web", BUSY, HEAVY)
    evenload.set_load(BUSY, memory_ratio=0.25)
    evenload.await_reading(BUSY, "device_avg_5m", 0.8, 1.0)
    waiting.until(
        lambda: evenload.view_of(BUSY)["rejected"] == "device_avg_5m over 0.65", "the extender to close the node"
    )

    evenload.descheduler.start()
    evenload.await_reading(BUSY, "device_avg_5m", 0.0, 0.6, timeout_seconds=RELIEF_SECONDS)
    rows = [row for row in evenload.descheduler.rows("/evictions") if row["result"] == "evicted"]
    assert rows
    assert {(row["node"], row["metric"]) for row in rows} == {(BUSY, "device_avg_5m")}
    assert {row["pod_uid"] for row in rows} <= set(pods)
    assert all(row["before_ratio"] - row["projected_ratio"] == pytest.approx(5 / 32, abs=0.02) for row in rows), rows
    hot_nodes.await_events(
        evenload, "NodeOverloaded", lambda notes: any(note.startswith("device_avg_5m 0.") for note in notes)
    )
