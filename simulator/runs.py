"""Every variant on every seed, as many at a time as there are processors: from a source of scenarios to outcomes.

`evenload simulate`, `demo`, `whatif` and `tune` call `run`. Processes are started anew (spawn), not forked off one with
threads; a run in progress tells where it stands, and ends at its next step when the others have to: after Ctrl-C
nothing is left behind.
"""

import concurrent.futures
import contextlib
import dataclasses
import multiprocessing
import os
import queue
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from typing import Protocol, TypeAlias

from simulator import world
from simulator.outcome import Outcome, Progress
from simulator.scenario import Scenario
from simulator.study import Variant

REPORTS = 200  # of one run: enough for a bar and for a table that changes several times a second
_POLL_SECONDS = 0.1


class Source(Protocol):
    """Where scenarios come from: drawn anew for each seed, or always the same one. Travels to other processes."""

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed; the same for the same seed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """One scenario for all seeds, as of a trace or a recorded past: seeds then differ in how ties are broken."""

    given: Scenario

    def scenario(self, _seed: int) -> Scenario:
        """The scenario."""
        return self.given


Report = Callable[[Progress], None]
Simulate = Callable[[Scenario, Variant, int, Report], Outcome]
Watch = Callable[[str, int, Progress], None]  # variant's name, seed, where that run stands


class Stopped(Exception):
    """A run was ended before its end because nobody waits for it any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Simulation:
    """How `world` is asked: with `enforce` the descheduler evicts even where the policy's mode is Observe or DryRun;
    without `extender` or `descheduler` that service does not run.
    """

    enforce: bool = True
    extender: bool = True
    descheduler: bool = True

    def __call__(self, scenario: Scenario, variant: Variant, seed: int, report: Report) -> Outcome:
        """One run; the outcome bears the variant's name."""
        setup = world.Setup(
            policy=variant.policy,
            seed=seed,
            variant=variant.name,
            policy_hash=variant.content_hash,
            enforce=self.enforce,
            extender=self.extender,
            descheduler=self.descheduler,
        )
        return world.run(scenario, setup, report)


def processors() -> int:
    """How many runs this process may do at a time."""
    return len(os.sched_getaffinity(0))


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
    concurrent.futures.BrokenExecutor when the system has killed a process (memory).
    """
    jobs = [(variant, seed) for seed in seeds for variant in variants]
    if workers == 1:
        done = [
            simulate(source.scenario(seed), variant, seed, _thinned(variant, seed, watch)) for variant, seed in jobs
        ]
    else:
        done = _side_by_side(source, jobs, min(workers, len(jobs)), watch, simulate)
    return {
        variant.name: tuple(outcome for (one, _), outcome in zip(jobs, done, strict=True) if one.name == variant.name)
        for variant in variants
    }


def _thinned(variant: Variant, seed: int, watch: Watch) -> Report:
    """Hands on every so many-th step, and the last."""

    def report(progress: Progress) -> None:
        if progress.steps_done % max(1, progress.steps // REPORTS) == 0 or progress.steps_done == progress.steps:
            watch(variant.name, seed, progress)

    return report


_Reports: TypeAlias = "Queue[tuple[str, int, Progress]]"


@dataclasses.dataclass(frozen=True, slots=True)
class _Worker:
    """What a process is given once, when it starts."""

    source: Source
    simulate: Simulate
    reports: _Reports
    stop: Event

    def one(self, variant: Variant, seed: int) -> Outcome:
        """A run that tells where it stands and ends when it has to."""
        hand_on = _thinned(variant, seed, lambda *told: self.reports.put(told))

        def go_on() -> None:
            if self.stop.is_set():
                raise Stopped(f"{variant.name}, seed {seed}: nobody waits for it any more")

        def report(progress: Progress) -> None:
            go_on()
            hand_on(progress)

        go_on()
        scenario = self.source.scenario(seed)
        go_on()
        return self.simulate(scenario, variant, seed, report)


_here: list[_Worker] = []  # of this process, if it is a worker


def _begin(worker: _Worker) -> None:
    """In a new process: when it ends, nobody waits for reports that nobody reads."""
    worker.reports.cancel_join_thread()
    _here.append(worker)


def _one(variant: Variant, seed: int) -> Outcome:
    return _here[0].one(variant, seed)


def _side_by_side(
    source: Source, jobs: Sequence[tuple[Variant, int]], workers: int, watch: Watch, simulate: Simulate
) -> list[Outcome]:
    context = multiprocessing.get_context("spawn")
    worker = _Worker(source, simulate, context.Queue(), context.Event())
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(worker,)
    ) as pool:
        try:
            with _deaf():  # Ctrl-C may come at its end: without the stop below the pool would wait for every run
                futures = [pool.submit(_one, variant, seed) for variant, seed in jobs]
            _wait(futures, worker.reports, watch)
            return [future.result() for future in futures]
        finally:
            worker.stop.set()
            pool.shutdown(cancel_futures=True)
            worker.reports.close()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal, but is the parent's to notice: what is started here never hears it.

    The parent hears one that comes meanwhile when this is over.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(futures: Sequence[concurrent.futures.Future[Outcome]], reports: _Reports, watch: Watch) -> None:
    """Until all are done or one has failed."""
    pending = set(futures)
    while pending:
        done, pending = concurrent.futures.wait(
            pending, timeout=_POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
        )
        _hand_on(reports, watch)
        for future in done:
            future.result()


def _hand_on(reports: _Reports, watch: Watch) -> None:
    try:
        while True:
            watch(*reports.get_nowait())
    except queue.Empty:
        return
