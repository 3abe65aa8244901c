"""Every variant on every seed, as many at a time as there are processors: from a source of scenarios to outcomes.

`evenload simulate`, `demo` and `whatif` call `run`; `tune`, which runs one policy after another, hires a `crew`.
Processes (`workers`) are new Pythons, not forked off one with threads; a run in progress reports where it stands, and
ends when this process does.
"""

import contextlib
import dataclasses
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from simulator import world
from simulator.results.outcome import Outcome, Progress
from simulator.results.study import Variant
from simulator.scenario import Scenario
from simulator.workers import Job, Workers

REPORTS = 200  # of one run: enough for a bar and for a table that changes several times a second
_ONLY = "only"  # what `run` calls its one source


class Source(Protocol):
    """Where scenarios come from: drawn again for each seed, or always the same one. Travels to other processes."""

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed; the same for the same seed."""


@dataclasses.dataclass(frozen=True, slots=True)
class FixedSource:
    """One scenario for all seeds, as of a trace or a recorded past: seeds then differ in how ties are broken."""

    recorded: Scenario

    def scenario(self, _seed: int) -> Scenario:
        """The scenario."""
        return self.recorded


Report = Callable[[Progress], None]
Simulate = Callable[[Scenario, Variant, int, Report], Outcome]
Watch = Callable[[str, int, Progress], None]  # variant's name, seed, where that run stands


@dataclasses.dataclass(frozen=True, slots=True)
class Simulation:
    """How `world` is asked: under these conditions, each time with a variant's policy and a seed."""

    conditions: world.Setup = world.Setup(None)  # noqa: RUF009 - immutable

    def __call__(self, scenario: Scenario, variant: Variant, seed: int, report: Report) -> Outcome:
        """One run; the outcome bears the variant's name."""
        setup = dataclasses.replace(
            self.conditions,
            policy=variant.policy,
            seed=seed,
            variant=variant.name,
            policy_hash=variant.content_hash,
        )
        return world.run(scenario, setup, report)


def processors() -> int:
    """How many runs this process may do at a time."""
    return len(os.sched_getaffinity(0))


class Crew:
    """Carries out runs in `processes`; None is this one. After an exception it is of no more use."""

    def __init__(self, work: "_Runs", processes: Workers | None) -> None:
        self._work, self._processes = work, processes

    def run(
        self, source: str, variants: Sequence[Variant], seeds: Sequence[int], watch: Watch
    ) -> Mapping[str, tuple[Outcome, ...]]:
        """As the function `run`, on the source of that name."""
        jobs: list[Job] = [(source, variant, seed) for seed in seeds for variant in variants]

        def hand_on(job: Job, progress: Progress) -> None:
            _, variant, seed = job
            watch(variant.name, seed, progress)

        if self._processes is None:
            done = [self._work(job, functools.partial(hand_on, job)) for job in jobs]
        else:
            done = self._processes.run(jobs, hand_on)
        return {variant.name: tuple(done[number :: len(variants)]) for number, variant in enumerate(variants)}


@contextlib.contextmanager
def crew(sources: Mapping[str, Source], *, workers: int, simulate: Simulate = Simulation()) -> Iterator[Crew]:
    """Processes that live as long as the block, for who runs one thing after another: `evenload tune`. Each is started
    when there is something for it to do, and given the sources, which may be large, once.

    With one worker everything happens in this process. Whatever ends the block ends the runs still in progress.
    """
    work = _Runs(sources, simulate)
    with contextlib.closing(Workers(workers, work)) if workers > 1 else contextlib.nullcontext() as processes:
        yield Crew(work, processes)


def run(
    source: Source,
    variants: Sequence[Variant],
    seeds: Sequence[int],
    *,
    workers: int,
    watch: Watch,
    simulate: Simulate = Simulation(),
) -> Mapping[str, tuple[Outcome, ...]]:
    """The outcomes by the variant's name, in the order of the seeds; `watch` is called here as the runs go on.

    With one worker everything happens in this process. What a run raises is raised here;
    `workers.WorkerLost` when the system has killed a process (memory).
    """
    with crew({_ONLY: source}, workers=workers, simulate=simulate) as hired:
        return hired.run(_ONLY, variants, seeds, watch)


@dataclasses.dataclass(frozen=True, slots=True)
class _Runs:
    """The work of a worker: runs of scenarios that it is given once."""

    sources: Mapping[str, Source]
    simulate: Simulate

    def __call__(self, job: Job, report: Callable[[object], None]) -> Outcome:
        """One run."""
        source, variant, seed = job
        return self.simulate(self.sources[source].scenario(seed), variant, seed, _thinned(report))


def _thinned(report: Callable[[object], None]) -> Report:
    """Hands on every so many-th step, and the last."""

    def thinned(progress: Progress) -> None:
        if progress.steps_done % max(1, progress.steps // REPORTS) == 0 or progress.steps_done == progress.steps:
            report(progress)

    return thinned
