"""Evenload's score beside others': the contestants, their load, and the runs of all of them.

`bench.scoring` calls `held` and prints the outcomes. A contestant is plain kube-scheduler, a peer's formula beside it
(`peers`), or Evenload's extender with a policy. All contestants of a seed get the same arrivals. Policies and weights
are chosen on one part of a trace and judged on the other: other jobs and other days.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from lab.peers import catalogue
from policy.schema.load_policy import LoadPolicy
from simulator import load_curves, runs, world
from simulator.load_curves import Trace
from simulator.results.outcome import Outcome
from simulator.results.study import Variant
from simulator.scenario import Scenario
from simulator.workloads import trace_files
from simulator.world import setup

OURS: Final = "evenload"
ORACLE: Final = catalogue.ORACLE
PARTS: Final = ("tuned", "judged")
Sections = Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class Contestant:
    """A way to place pods: a peer by its name, or sections of a policy (None: none is used), and the weight of the
    extender or of the peer's plugin; with `relieves` the descheduler runs, too.
    """

    name: str
    peer: str = ""
    sections: Sections | None = None
    weight: int = setup.EXTENDER_WEIGHT
    relieves: bool = False

    @property
    def variant(self) -> Variant:
        """As `runs` takes it."""
        return Variant(self.name, None if self.sections is None else LoadPolicy.of(self.sections))

    def conditions(self, seed: int) -> world.Setup:
        """As `world` takes it."""
        return world.Setup(
            policy=self.variant.policy,
            seed=seed,
            variant=self.name,
            descheduler=self.relieves,
            extender_weight=self.weight,
            explained=0,
            peer=catalogue.peer(self.peer, self.weight) if self.peer else None,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class TraceSource:
    """A `runs.Source`: a trace under a rule. `part` 0 has every other job and the first half of the days, 1 the rest;
    None has all jobs, from `recipe.first_step` on. With a `cpu_share` under 1 memory is what fills nodes; with
    `period_steps` every day plays its first so many steps again and again.
    """

    path: pathlib.Path
    rule: str
    recipe: trace_files.Recipe
    part: int | None = None
    cpu_share: float = 1.0
    period_steps: int = 0

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        trace, recipe = trace_files.load(self.path), self.recipe
        if self.cpu_share != 1.0:
            trace = dataclasses.replace(trace, cpu_ratio=trace.cpu_ratio * np.float32(self.cpu_share))
        if self.period_steps:
            trace = repeated(trace, self.period_steps)
        if self.part is None:
            return trace_files.scenario(trace, self.rule, seed, recipe)
        first_step = recipe.first_step + self.part * (trace.cpu_ratio.shape[1] // 2)
        own = taken(trace, list(range(self.part, len(trace.cpu_ratio), 2)))
        return trace_files.scenario(own, self.rule, seed, dataclasses.replace(recipe, first_step=first_step))


def repeated(trace: Trace, steps: int) -> Trace:
    """Returns the jobs, which play the first so many steps of each day again and again until the next."""
    day = round(load_curves.DAY_STEPS * load_curves.STEP_SECONDS / trace.step_seconds)
    index = np.arange(trace.cpu_ratio.shape[1])
    return taken(trace, np.s_[:, index - index % day + index % day % steps])


def taken(trace: Trace, which: Any) -> Trace:
    """Some of the jobs or steps, as numpy indexes [jobs, steps]."""
    return dataclasses.replace(trace, cpu_ratio=trace.cpu_ratio[which], memory_ratio=trace.memory_ratio[which])


@dataclasses.dataclass(frozen=True, slots=True)
class Contest:
    """A `runs.Simulate` that knows the contestants by the variant's name."""

    contestants: tuple[Contestant, ...]

    def __call__(self, scenario: Scenario, variant: Variant, seed: int, report: runs.Report) -> Outcome:
        """One run."""
        contestant = next(each for each in self.contestants if each.name == variant.name)
        return world.run(scenario, contestant.conditions(seed), report)


def held(
    source: runs.Source, contestants: Sequence[Contestant], seeds: Sequence[int], *, workers: int, watch: runs.Watch
) -> Mapping[str, tuple[Outcome, ...]]:
    """The outcomes of all contestants by name, in the order of the seeds."""
    variants = [each.variant for each in contestants]
    return runs.run(source, variants, seeds, workers=workers, watch=watch, simulate=Contest(tuple(contestants)))
