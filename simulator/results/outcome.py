"""The outcome of a simulated run: the figures, every node's load over time, the evictions, and the reasons of
placements.

`world` makes one per policy and seed; `cli` prints them side by side and draws them.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from simulator.results.figures import Figures

Floats = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """Load of every node [steps, nodes] as ratios of its capacity; NaN before it joined and after it left."""

    start_seconds: float
    step_seconds: float
    nodes: tuple[str, ...]
    cpu_ratio: Floats
    memory_ratio: Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands when a step is over, for its watcher: a bar, or the demo's live table.

    Loads are those of the step just over, per node [nodes] as in `Timeline`; `pods_bound` counts bindings, those of
    replacements included, as `Figures.pods_bound` does.
    """

    steps_done: int
    steps: int
    at_seconds: float
    cpu_ratio: Floats
    memory_ratio: Floats
    pods_bound: int
    pods_pending: int
    evictions: int


@dataclasses.dataclass(frozen=True, slots=True)
class EvictedPod:
    """An eviction: from where and why, and where the replacement landed ("" while it waits)."""

    at_seconds: float
    pod: str
    workload: str
    node: str
    metric: str
    value: float
    threshold: float
    target: float
    projected: float
    landed_on: str


@dataclasses.dataclass(frozen=True, slots=True)
class ScheduledPod:
    """Why a pod went where it went, as the extender explained it at that moment (`body` is its JSON)."""

    at_seconds: float
    pod: str
    node: str
    body: dict[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """One run. `variant` names the policy ("plain" without Evenload); `unplaced` are pods that never found a node,
    `preempted_pods` those that ended for a pod of a higher priority, `violations` sentences about broken disruption
    budgets, `assumptions` the remarks that a reader needs.
    """

    variant: str
    seed: int
    figures: Figures
    timeline: Timeline
    moved: tuple[EvictedPod, ...] = ()
    explained: tuple[ScheduledPod, ...] = ()
    unplaced: tuple[str, ...] = ()
    preempted_pods: int = 0
    violations: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()
