"""Relief before a peak on a real control plane: a node that is cool now loses a pod for what is expected of it.

No annotator runs: the test writes the load annotations as it would, with forecasts that need no week of history.
"""

import collections.abc
import functools
import time
from typing import Any

import pytest

import cluster
from kube import kinds
from policy.contract import load_annotation
from policy.contract.load_annotation import Peak, Reading
from tests.e2e import bodies, hot_nodes, policies, stack, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
DAY = "node-0"
AHEAD = "memory_next_8h"
METRICS = [*policies.METRICS, {"name": AHEAD, "resource": "memory", "statistic": "forecast", "window": "8h"}]
LINES = {AHEAD: {"evictAbove": 0.85, "evictUntil": 0.75}}
SHAPE: bodies.PodOptions = {"cpu_millicores": 100, "memory_bytes": 2**30, "memory_request": "256Mi"}
RELIEF_SECONDS = 120.0


@pytest.fixture
def evenload(four_nodes: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Extender and scheduler on four idle nodes, the descheduler not started yet."""
    write = functools.partial(
        policies.write,
        metrics=METRICS,
        sync__staleAfter="60s",
        descheduler__mode="Enforce",
        descheduler__interval="1s",
        descheduler__beforePeak={"thresholds": LINES},
    )
    with lent(four_nodes), stack.started_on(four_nodes, write) as started:
        started.start(started.extender)
        started.use_extender()
        yield started
        started.descheduler.kill()


def annotate(evenload: stack.Stack, day_ratio: float, *, error_ratio: float = 0.03) -> None:
    """Writes what the annotator would: the day node is expected to reach so much, the others stay cool."""
    now_seconds = time.time()
    hour_seconds = now_seconds // 3600 * 3600 + 3 * 3600
    for name in evenload.nodes():
        present_ratio, ahead_ratio = (0.3, day_ratio) if name == DAY else (0.1, 0.12)
        values = {"cpu_avg_5m": 0.1, "memory_avg_5m": present_ratio, AHEAD: ahead_ratio}
        text = load_annotation.encode(Reading(now_seconds, values, peaks={AHEAD: Peak(hour_seconds, error_ratio)}))
        evenload.door.merge_patch(kinds.NODES, name, {"metadata": {"annotations": {load_annotation.KEY: text}}})


def rows(evenload: stack.Stack) -> list[dict[str, Any]]:
    """The evictions of the ledger."""
    answer = evenload.descheduler.json("/evictions")
    assert isinstance(answer, dict)
    return [row for row in answer["evictions"] if row["result"] == "evicted"]


def runs(evenload: stack.Stack) -> float:
    """How many runs have planned."""
    lines = evenload.descheduler.text("/metrics").splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("evenload_descheduler_runs_total{"))


def await_runs(evenload: stack.Stack, count: int) -> None:
    """Waits until so many more runs have planned."""
    before = runs(evenload)
    waiting.eventually(lambda: runs(evenload) >= before + count, RELIEF_SECONDS, f"{count} more runs")


def test_a_pod_leaves_a_cool_node_before_its_peak_and_stays_away(evenload: stack.Stack) -> None:
    first = hot_nodes.filled(evenload, "web", DAY, SHAPE)
    annotate(evenload, 0.95, error_ratio=0.2)
    evenload.descheduler.start()
    await_runs(evenload, 5)
    assert rows(evenload) == [], "a forecast that is not sure moves nothing"

    annotate(evenload, 0.93)
    waiting.eventually(
        lambda: rows(evenload), RELIEF_SECONDS, "an eviction before the peak", lambda: hot_nodes.plan(evenload)
    )
    (row,) = rows(evenload)
    assert (row["node"], row["metric"], row["value_ratio"], row["threshold_ratio"]) == (DAY, AHEAD, 0.93, 0.85)
    assert f"{AHEAD} expected to reach 0.93 +- 0.03 at " in row["message"]
    notes = hot_nodes.await_events(evenload, "NodePeakExpected", lambda found: len(found) == 3)
    assert all(row["message"] in note for note in notes)

    await_runs(evenload, 5)
    assert len(rows(evenload)) == 1, "the forecast is from before the eviction"
    annotate(evenload, 0.70)
    waiting.eventually(lambda: not hot_nodes.plan(evenload)["nodes"], RELIEF_SECONDS, "the node to be relieved")
    placed = {pod.uid: pod.node_name for pod in evenload.placed("web-", hot_nodes.PODS)}
    assert sorted(placed.values()).count(DAY) == hot_nodes.PODS - 1
    assert len(placed.keys() & first.keys()) == hot_nodes.PODS - 1
    await_runs(evenload, 5)
    assert len(rows(evenload)) == 1
