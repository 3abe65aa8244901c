"""Weeks of relief in a cluster that is too full at its peaks: hardly a pod or a workload moves in circles.

Four nodes, 80 pods with a daily shape, steps of 15 minutes. What is counted is `bench.relief`'s: returns to a node that
a workload was evicted from within the day before, and evictions from the node that a replacement came to.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from lab.bench import relief
from policy.schema.load_policy import LoadPolicy
from simulator import world
from simulator.results.outcome import Outcome
from simulator.workloads import generator

SEEDS: Final = (3, 7)
SHAPE: Final = dataclasses.replace(
    generator.WEEK,
    nodes=4,
    pods=80,
    step_seconds=900.0,
    service_pods_per_node=8.0,
    cpu_fill_ratio=0.64,
    memory_fill_ratio=0.40,
    request_fill_ratio=0.95,
    agents=False,
)
AT_ONCE: Final = {"initial": "1s", "max": "1s"}
HASTY: Final = {  # relieves and fills up to just under the line that triggers, by one reading, and never rests
    "thresholds": {name: {"evictAbove": 0.80, "evictUntil": 0.79} for name in ("memory_avg_5m", "cpu_avg_5m")},
    "overloadedFor": "0s",
    "cooldown": {"workload": "0s", "node": "0s", "returned": AT_ONCE, "ineffective": AT_ONCE},
}


def weeks(section: Mapping[str, object]) -> list[Outcome]:
    """A week of each seed under the default policy with a section of the descheduler."""
    policy = LoadPolicy.of({"descheduler": section})
    return [world.run(generator.generate(seed, SHAPE), world.Setup(policy, seed, explained=0)) for seed in SEEDS]


def circles(outcome: Outcome) -> int:
    """Replacements that came back, and evictions from nodes that replacements came to."""
    return relief.returns(outcome.moved) + relief.passed_on(outcome.moved)


def test_hardly_anything_moves_in_circles_under_the_default_and_much_does_without_band_and_rest() -> None:
    ours, hasty = weeks({}), weeks(HASTY)
    assert all(len(outcome.moved) >= 5 for outcome in ours), "a week without relief shows nothing"
    assert not any(outcome.violations for outcome in ours)
    assert [len(outcome.unplaced) for outcome in ours] == [0, 1], "one pod fits on no node, with plain scheduling too"
    assert 3 * sum(map(circles, ours)) < sum(map(circles, hasty))
