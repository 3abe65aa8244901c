"""Lines that follow the mean on a real control plane: a node under every fixed line is relieved until near the mean."""

import collections.abc

import pytest

from lab import cluster
from tests.e2e import bodies, hot_nodes, stack

pytestmark = pytest.mark.cluster
BUSY = "node-0"
POINTS = {"evictAbove": 0.25, "evictUntil": 0.15, "floor": 0.3}
LINES = {"memory_avg_5m": {"evictAbove": 0.95, "evictUntil": 0.9, "overMean": POINTS}}
HEAVY: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 3 * 2**30, "memory_request": "256Mi"}
RELIEF_SECONDS = 300.0  # as of test_relief


@pytest.fixture
def evenload(six_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """All three services on six idle nodes, the descheduler not started yet."""
    policy = {"sync__staleAfter": "60s", "descheduler__mode": "Enforce", "descheduler__thresholds": LINES}
    with stack.in_charge(six_nodes, **policy) as started:
        yield started


def test_a_node_far_above_the_mean_is_relieved_and_comes_to_rest_near_it(evenload: stack.Stack) -> None:
    hot_nodes.filled(evenload, "web", BUSY, HEAVY)
    evenload.set_load(BUSY, memory_ratio=0.1)
    evenload.await_reading(BUSY, "memory_avg_5m", 0.4, 0.9)
    evenload.descheduler.start()
    evenload.await_reading(BUSY, "memory_avg_5m", 0.0, 0.33, timeout_seconds=RELIEF_SECONDS)

    rows = [row for row in evenload.descheduler.rows("/evictions") if row["result"] == "evicted"]
    assert {row["node"] for row in rows} == {BUSY}
    assert all(0.3 <= row["threshold_ratio"] <= 0.45 for row in rows), rows
    assert all(row["value_ratio"] < 0.9 for row in rows), "under both fixed lines"
    (line,) = hot_nodes.plan(evenload)["mean_lines"]
    assert (line["metric"], line["nodes"]) == ("memory_avg_5m", 6)
    assert line["target_ratio"] == pytest.approx(line["mean_ratio"] + 0.15, abs=1e-3)
