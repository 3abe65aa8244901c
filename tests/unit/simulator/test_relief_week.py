"""A week of relief in a cluster that is too full at its peaks: no pod and no workload moves in circles.

Four nodes, 80 pods with a daily shape, steps of 15 minutes. What is counted is `bench.relief`'s: returns to a node that
a workload was evicted from within the day before, and evictions from the node that a replacement came to.
"""

import dataclasses
from collections.abc import Mapping
from typing import Final

from bench import relief
from policy.schema.load_policy import LoadPolicy
from simulator import scenario, world
from simulator.results.outcome import Outcome
from simulator.workloads import generator

SEED: Final = 3
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


def week(played: scenario.Scenario, section: Mapping[str, object]) -> Outcome:
    """The week under the default policy with a section of the descheduler."""
    conditions = world.Setup(LoadPolicy.of({"descheduler": section}), SEED, explained=0)
    return world.run(played, conditions)


def test_nothing_moves_in_circles_under_the_default_and_does_without_band_and_rest() -> None:
    played = generator.generate(SEED, SHAPE)
    ours, hasty = week(played, {}), week(played, HASTY)
    assert len(ours.moved) >= 5, "a week without relief shows nothing"
    assert (relief.returns(ours.moved), relief.passed_on(ours.moved)) == (0, 0)
    assert ours.violations == ours.unplaced == ()
    assert relief.returns(hasty.moved) > 0
    assert relief.passed_on(hasty.moved) > 0
