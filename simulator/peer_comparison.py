"""Evenload's score beside others': the contestants, their load, and the runs of all of them.

`bench.scoring` calls `held` and prints what came of it. A contestant is plain kube-scheduler, a peer's formula beside
it (`peers`), or Evenload's extender with a policy; the descheduler does not run, so that placements alone are compared.
`bench.relief` brings contestants of its own, with the descheduler.
All contestants of a seed get the same arrivals. Variants of Evenload's policy are chosen on one part of a trace and
judged on the other: other jobs and other days.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from policy.metrics import RESOURCES
from policy.schema.load_policy import LoadPolicy
from simulator import runs, world
from simulator.peers import catalogue
from simulator.results.outcome import Outcome
from simulator.results.study import PLAIN_NAME, Variant
from simulator.scenario import Scenario
from simulator.workloads import generator, trace_files
from simulator.world import setup

OURS: Final = "evenload"
PARTS: Final = ("tuned", "judged")
Sections = Mapping[str, object]
WORST: Final = {"combine": "worst", "incomingPod": True}
MEAN: Final = {"combine": "mean", "incomingPod": True}
LIKE_PEERS: Final = {"combine": "mean", "incomingPod": False}
STRETCH: Final = {"spread": "stretch"}


@dataclasses.dataclass(frozen=True, slots=True)
class Contestant:
    """One way to place pods: a peer by its name, or sections of a policy (None: none is used), and the weight; with
    `relieves` the descheduler runs, too.
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
            peer=catalogue.PEERS[self.peer] if self.peer else None,
        )


def _ours(name: str, sections: Sections, weight: int = setup.EXTENDER_WEIGHT) -> Contestant:
    return Contestant(f"{OURS}, {name}" if name else OURS, sections=sections, weight=weight)


def _weights(avg_5m: float, max_1h: float, max_1d: float) -> Sections:
    """Weights by window, the same for both resources."""
    by_window = {"avg_5m": avg_5m, "max_1h": max_1h, "max_1d": max_1d}
    return {"weights": {f"{of}_{at}": weight for of in RESOURCES for at, weight in by_window.items()}}


FIELD: Final = {**LIKE_PEERS, **_weights(0.2, 0.3, 0.5)}
RECENT: Final = _weights(0.35, 0.35, 0.30)
OTHERS: Final = (Contestant(PLAIN_NAME), *(Contestant(name, peer=name) for name in catalogue.PEERS))
VARIANTS: Final = (
    _ours("", {}),
    _ours("field", {"score": FIELD}),
    _ours("field, worst, incoming", {"score": {**FIELD, **WORST}}),
    _ours("weights", {"score": {**LIKE_PEERS, **RECENT}}),
    _ours("worst, weights", {"score": {**LIKE_PEERS, "combine": "worst", **RECENT}}),
    _ours("weights .35 .35 .3", {"score": {**WORST, **RECENT}}),
    _ours("weights .5 .5 0", {"score": {**WORST, **_weights(0.5, 0.5, 0.0)}}),
    _ours("weights 1 0 0", {"score": {**WORST, **_weights(1.0, 0.0, 0.0)}}),
    _ours("weights 0 1 0", {"score": {**WORST, **_weights(0.0, 1.0, 0.0)}}),
    _ours("mean, incoming, weights .35 .35 .3", {"score": {**MEAN, **RECENT}}),
    _ours("mean, incoming, weights .6 .3 .1", {"score": {**MEAN, **_weights(0.6, 0.3, 0.1)}}),
    _ours("mean, incoming, weights 1 0 0", {"score": {**MEAN, **_weights(1.0, 0.0, 0.0)}}),
    _ours("stretch, weight 1", {"score": STRETCH}, weight=1),
    _ours("weight 6", {}, weight=6),
    _ours("no penalty", {"hotSpots": []}),
    _ours("no owners' history", {"recentPods": {"ownerUsage": False}}),
    _ours("no expected load", {"recentPods": {"enabled": False}}),
    _ours("no filter", {"filter": {"thresholds": {}}}),
)
ALL: Final = (*OTHERS, *VARIANTS)


@dataclasses.dataclass(frozen=True, slots=True)
class TraceSource:
    """A `runs.Source`: a trace under a rule. `part` 0 has every other job and the first half of the days, 1 the rest;
    None has all jobs, from `recipe.first_step` on. With a `cpu_share` under 1 memory is what fills nodes.
    """

    path: pathlib.Path
    rule: str
    recipe: trace_files.Recipe
    part: int | None = None
    cpu_share: float = 1.0

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        trace, recipe = _loaded(self.path), self.recipe
        if self.cpu_share != 1.0:
            trace = dataclasses.replace(trace, cpu_ratio=trace.cpu_ratio * np.float32(self.cpu_share))
        if self.part is None:
            return trace_files.scenario(trace, self.rule, seed, recipe)
        jobs, steps = trace.cpu_ratio.shape
        first_step = recipe.first_step + self.part * (steps // 2)
        own = trace.only(range(self.part, jobs, 2))
        return trace_files.scenario(own, self.rule, seed, dataclasses.replace(recipe, first_step=first_step))


@dataclasses.dataclass(frozen=True, slots=True)
class GeneratedSource:
    """A `runs.Source`: generated load."""

    shape: generator.Shape

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed."""
        return generator.generate(seed, self.shape)


@functools.lru_cache(maxsize=2)
def _loaded(path: pathlib.Path) -> trace_files.Trace:
    return trace_files.load(path)


@dataclasses.dataclass(frozen=True, slots=True)
class Contest:
    """A `runs.Simulate` that knows the contestants by the variant's name."""

    contestants: tuple[Contestant, ...]

    def __call__(self, scenario: Scenario, variant: Variant, seed: int, report: runs.Report) -> Outcome:
        """One run."""
        found = next(each for each in self.contestants if each.name == variant.name)
        return world.run(scenario, found.conditions(seed), report)


def held(
    source: runs.Source, contestants: Sequence[Contestant], seeds: Sequence[int], *, workers: int, watch: runs.Watch
) -> Mapping[str, tuple[Outcome, ...]]:
    """The outcomes of all contestants by name, in the order of the seeds."""
    variants = [each.variant for each in contestants]
    return runs.run(source, variants, seeds, workers=workers, watch=watch, simulate=Contest(tuple(contestants)))
