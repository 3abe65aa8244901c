"""A metric of the operator's own PromQL, end to end: Prometheus, annotation, filter and score of the real scheduler.

Page cache is the example: `MemAvailable` counts it as free, so no built-in metric sees a node that is busy with files.
"""

import collections.abc

import pytest

from lab import cluster
from tests.e2e import policies, stack, waiting

pytestmark = pytest.mark.cluster
NAME = "memory_not_free_5m"
EXTRA = {
    "name": NAME,
    "resource": "memory",
    "statistic": "notfree",  # any word goes with a query
    "window": "5s",
    "query": "1 - avg_over_time(node_memory_MemFree_bytes[5s]) / avg_over_time(node_memory_MemTotal_bytes[5s])",
}
CACHED, IDLE, OTHER = "node-0", "node-1", "node-2"
# Played at 50 % and 15 % of memory: 70 % and 49 % are not free. What is annotated may differ from that by less than
# minChange, 0.02, for ever; the scores are those of the whole band.
BANDS = {CACHED: (0.67, 0.73), IDLE: (0.46, 0.52), OTHER: (0.46, 0.52)}


@pytest.fixture(scope="module")
def running(fleet: cluster.Cluster) -> collections.abc.Iterator[stack.Stack]:
    """Three nodes under a policy that filters and scores by the extra metric; one of them is full of page cache."""
    policy = dict[str, object](
        metrics=[*policies.METRICS, EXTRA],
        filter__thresholds={"memory_avg_5m": 0.65, NAME: 0.6},
        score__weights={NAME: 1},
        score__spread="none",
    )
    with stack.in_charge(fleet, **policy) as started:
        for name in (IDLE, OTHER):
            started.set_load(name, cpu_ratio=0.1, memory_ratio=0.15)
        started.set_load(CACHED, cpu_ratio=0.1, memory_ratio=0.5)
        for name, band in BANDS.items():  # patches of one sync land one after another
            started.await_reading(name, NAME, *band)
        yield started


def test_the_annotation_carries_the_metric_beside_the_six(running: stack.Stack) -> None:
    metrics = {NAME, *(str(metric["name"]) for metric in policies.METRICS)}

    def complete() -> bool:
        """A maximum needs more scrapes than an average."""
        return {name: set(values) for name, values in running.readings().items()} == dict.fromkeys(BANDS, metrics)

    waiting.until(complete, f"{len(metrics)} metrics on each node", running.readings)
    assert running.readings()[CACHED]["memory_avg_5m"] < 0.65


def test_filter_and_score_go_by_it_and_the_scheduler_keeps_new_pods_off_the_node(running: stack.Stack) -> None:
    waiting.until(
        lambda: running.view_of(IDLE)["usable"] and running.view_of(CACHED)["rejected"] == f"{NAME} over 0.6",
        "the extender to reject the cached node",
    )
    cached, idle = running.view_of(CACHED), running.view_of(IDLE)
    assert (cached["score"], idle["score"]) == (3, 5)
    assert idle["rejected"] is None
    running.create_pods("extra-", 12)
    landed = running.per_node("extra-", 12)
    assert landed[CACHED] == 0
    assert landed.total() == 12
