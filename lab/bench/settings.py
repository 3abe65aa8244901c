"""The settings in which placements are compared: real load under two rules of requests, and what makes placing hard.

`bench.scoring` and `bench.relief` play each on both parts of a trace. A setting is a name and a `runs.Source`.
"""

import dataclasses
import pathlib
from collections.abc import Callable, Mapping
from typing import Final

from lab.peers import comparison as peer_comparison
from lab.peers.comparison import TraceSource
from simulator import contention, runs, scenario
from simulator.workloads import arrivals, generator, trace_files

# A day in steps of 100 s, so that what is read is at most that old (in production 30 s); the base comes over six hours.
CROWD: Final = arrivals.OwnerArrivals(
    pods=500, service_pods=120, base_seconds=6 * arrivals.HOUR_SECONDS, rollouts_per_day=0.5
)
BURSTS: Final = dataclasses.replace(CROWD, service_pods=60, largest_batch=150)
RECIPE: Final = trace_files.Recipe(days=1.0, step_seconds=100.0, crowd=CROWD)
DAILY: Final = generator.Shape(nodes=20, days=2.0, pods=500, service_pods_per_node=6.0, daily_ratio=0.7)
MEMORY_BOUND_CPU_SHARE: Final = 0.4
PERIOD_STEPS: Final = 36  # of five minutes: three hours
SMALL, LARGE = 0.5, 1.5  # the size of every other node
TUNED_SEEDS_FROM: Final = 100  # generated load has no parts: seeds of the tuned part are others


@dataclasses.dataclass(frozen=True, slots=True)
class ChangedSource:
    """A `runs.Source` whose scenarios are changed by a function."""

    source: runs.Source
    change: Callable[[scenario.Scenario], scenario.Scenario]

    def scenario(self, seed: int) -> scenario.Scenario:
        """The scenario of a seed."""
        return self.change(self.source.scenario(seed))


@dataclasses.dataclass(frozen=True, slots=True)
class ShiftedSource:
    """A `runs.Source` of other seeds."""

    source: runs.Source
    by: int

    def scenario(self, seed: int) -> scenario.Scenario:
        """The scenario of a seed."""
        return self.source.scenario(seed + self.by)


def mixed_sizes(before: scenario.Scenario) -> scenario.Scenario:
    """Every other node has half of the size, the others have half as much again."""

    def sized(machine: scenario.Machine, factor: float) -> scenario.Machine:
        capacity = contention.Load(machine.capacity.cpu_millicores * factor, machine.capacity.memory_bytes * factor)
        return dataclasses.replace(machine, capacity=capacity)

    machines = [sized(each, LARGE if at % 2 else SMALL) for at, each in enumerate(before.machines)]
    return dataclasses.replace(before, machines=tuple(machines))


def spread_topology(before: scenario.Scenario) -> scenario.Scenario:
    """Replicas of a service spread over zones by a constraint, and over nodes as far as they can."""

    def spread(owner: scenario.Owner) -> scenario.Owner:
        selector = {"matchLabels": dict(owner.labels)}
        constraints = [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector}
            for key, action in (
                ("topology.kubernetes.io/zone", "DoNotSchedule"),
                ("kubernetes.io/hostname", "ScheduleAnyway"),
            )
        ]
        return dataclasses.replace(owner, pod_spec={**owner.pod_spec, "topologySpreadConstraints": constraints})

    owners = tuple(each if each.kind == "Job" else spread(each) for each in before.owners)
    return dataclasses.replace(before, owners=owners)


def sources(trace: pathlib.Path, part: str, recipe: trace_files.Recipe = RECIPE) -> Mapping[str, runs.Source]:
    """Every setting of a part of the trace by its name."""
    number = peer_comparison.PARTS.index(part)

    def traced(rule: str = "guessing", **changes: object) -> TraceSource:
        return TraceSource(trace, rule, dataclasses.replace(recipe, **changes), number)  # type: ignore[arg-type]

    plain = traced()
    shift = TUNED_SEEDS_FROM * (part == "tuned")
    return {
        "guessing owners": plain,
        "careful owners": traced("careful"),
        "memory-bound": dataclasses.replace(plain, cpu_share=MEMORY_BOUND_CPU_SHARE),
        "low pressure": traced(fill_ratio=0.6),
        "high pressure": traced(fill_ratio=0.95),
        "full": traced(fill_ratio=1.1),
        "mixed sizes": ChangedSource(plain, mixed_sizes),
        "bursts": traced(crowd=BURSTS),
        "topology spread": ChangedSource(plain, spread_topology),
        "periodic": dataclasses.replace(plain, period_steps=PERIOD_STEPS),
        "daily": ShiftedSource(generator.GeneratedScenarios(DAILY), shift),
    }
