"""What nodes show of all windows at once, and whether a run of the descheduler would find one over a line."""

import pytest

from policy.schema import load_policy
from simulator import kernel
from simulator.prometheus import expressions
from simulator.prometheus.door import SimulatedPrometheus
from simulator.world import windows
from tests.unit.simulator import books

POLICY = load_policy.LoadPolicy.of(
    {"descheduler": {"thresholds": {"cpu_avg_5m": {"evictAbove": 0.6, "evictUntil": 0.4}}}}
)
OWN = {
    "metrics": [{"name": "own", "resource": "cpu", "window": "5m", "query": "author:knows", "statistic": "other"}],
    "descheduler": {"thresholds": {"own": {"evictAbove": 0.6, "evictUntil": 0.4}}},
}


def over(cpu_millicores: float, policy: load_policy.LoadPolicy = POLICY) -> bool:
    """What is said ten minutes after a pod of this use began to run on one of two nodes."""
    clock = kernel.VirtualClock(books.after(2))
    made = books.of([[(cpu_millicores, 1e9)] * 4])
    prometheus = SimulatedPrometheus(books.book(made, {"web": 0}), clock, own=expressions.own(policy))
    return windows.Windows(policy, prometheus, clock).any_node_over()


@pytest.mark.parametrize(("cpu_millicores", "is_over"), [(0.5 * 8000, False), (0.56 * 8000, False), (0.6 * 8000, True)])
def test_a_node_is_over_a_line_with_what_it_uses_itself(cpu_millicores: float, is_over: bool) -> None:
    assert over(cpu_millicores) is is_over


def test_what_only_its_author_can_compute_counts_as_over() -> None:
    assert over(0.0, load_policy.LoadPolicy.of(OWN))
