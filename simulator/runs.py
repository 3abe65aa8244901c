"""Every variant on every seed, as many at a time as there are processors: from a source of scenarios to outcomes.

`evenload simulate`, `demo` and `whatif` call `run`; `tune`, which runs one policy after another, hires a `crew`.
Processes are started anew (spawn), not forked off one with threads; a run in progress tells where it stands, and ends
at its next step when the others have to: after Ctrl-C nothing is left behind.
"""

import concurrent.futures
import contextlib
import dataclasses
import functools
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
_ONLY = "only"  # what `run` calls its one source


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


_Job: TypeAlias = tuple[Variant, int]
_Jobs: TypeAlias = Sequence[_Job]


@dataclasses.dataclass(frozen=True, slots=True)
class Crew:
    """Whoever does the runs: `carry_out` takes a source's name, runs and who watches them, and gives their outcomes."""

    carry_out: Callable[[str, _Jobs, Watch], Sequence[Outcome]]

    def run(
        self, source: str, variants: Sequence[Variant], seeds: Sequence[int], watch: Watch
    ) -> Mapping[str, tuple[Outcome, ...]]:
        """As the function `run`, on the source of that name. After an exception the crew is of no more use."""
        jobs = [(variant, seed) for seed in seeds for variant in variants]
        done = self.carry_out(source, jobs, watch)
        return {
            variant.name: tuple(
                outcome for (one, _), outcome in zip(jobs, done, strict=True) if one.name == variant.name
            )
            for variant in variants
        }


@contextlib.contextmanager
def crew(sources: Mapping[str, Source], *, workers: int, simulate: Simulate = Simulation()) -> Iterator[Crew]:
    """Processes that live as long as the block, for who runs one thing after another: `evenload tune`. Each is started
    when there is something for it to do, and given the sources, which may be large, once.

    With one worker everything happens in this process. Whatever ends the block ends the runs still in progress.
    """
    if workers == 1:
        yield Crew(functools.partial(_one_by_one, sources, simulate))
        return
    context = multiprocessing.get_context("spawn")
    worker = _Worker(sources, simulate, context.Queue(), context.Event())
    with concurrent.futures.ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(worker,)
    ) as pool:
        try:
            yield Crew(_SideBySide(pool, worker.reports))
        finally:
            worker.stop.set()
            pool.shutdown(cancel_futures=True)
            worker.reports.close()


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
    with crew({_ONLY: source}, workers=workers, simulate=simulate) as hired:
        return hired.run(_ONLY, variants, seeds, watch)


def _one_by_one(
    sources: Mapping[str, Source], simulate: Simulate, source: str, jobs: _Jobs, watch: Watch
) -> list[Outcome]:
    given = sources[source]
    return [simulate(given.scenario(seed), variant, seed, _thinned(variant, seed, watch)) for variant, seed in jobs]


def _thinned(variant: Variant, seed: int, watch: Watch) -> Report:
    """Hands on every so many-th step, and the last."""

    def report(progress: Progress) -> None:
        if progress.steps_done % max(1, progress.steps // REPORTS) == 0 or progress.steps_done == progress.steps:
            watch(variant.name, seed, progress)

    return report


_Reports: TypeAlias = "Queue[tuple[int, str, int, Progress]]"  # which time the crew was asked, then as for Watch


@dataclasses.dataclass(frozen=True, slots=True)
class _Worker:
    """What a process is given once, when it starts."""

    sources: Mapping[str, Source]
    simulate: Simulate
    reports: _Reports
    stop: Event

    def one(self, asked: int, source: str, variant: Variant, seed: int) -> Outcome:
        """A run that tells where it stands and ends when it has to."""
        hand_on = _thinned(variant, seed, lambda *told: self.reports.put((asked, *told)))

        def go_on() -> None:
            if self.stop.is_set():
                raise Stopped(f"{variant.name}, seed {seed}: nobody waits for it any more")

        def report(progress: Progress) -> None:
            go_on()
            hand_on(progress)

        go_on()
        scenario = self.sources[source].scenario(seed)
        go_on()
        return self.simulate(scenario, variant, seed, report)


_here: list[_Worker] = []  # of this process, if it is a worker


def _begin(worker: _Worker) -> None:
    """In a new process: when it ends, nobody waits for reports that nobody reads."""
    worker.reports.cancel_join_thread()
    _here.append(worker)


def _one(asked: int, source: str, variant: Variant, seed: int) -> Outcome:
    return _here[0].one(asked, source, variant, seed)


class _SideBySide:
    """Hands runs to a pool, and what they tell to whoever watches."""

    def __init__(self, pool: concurrent.futures.ProcessPoolExecutor, reports: _Reports) -> None:
        self._pool, self._reports, self._asked = pool, reports, 0

    def __call__(self, source: str, jobs: _Jobs, watch: Watch) -> list[Outcome]:
        self._asked += 1
        with _deaf():  # Ctrl-C may come at its end: without the stop in `crew` the pool would wait for every run
            futures = [self._pool.submit(_one, self._asked, source, variant, seed) for variant, seed in jobs]
        self._wait(futures, watch)
        return [future.result() for future in futures]

    def _wait(self, futures: Sequence[concurrent.futures.Future[Outcome]], watch: Watch) -> None:
        """Until all are done or one has failed."""
        pending = set(futures)
        while pending:
            done, pending = concurrent.futures.wait(
                pending, timeout=_POLL_SECONDS, return_when=concurrent.futures.FIRST_COMPLETED
            )
            self._hand_on(watch)
            for future in done:
                future.result()

    def _hand_on(self, watch: Watch) -> None:
        """Reports of the runs asked for last: one of those before may still have been on its way."""
        try:
            while True:
                asked, variant, seed, progress = self._reports.get_nowait()
                if asked == self._asked:
                    watch(variant, seed, progress)
        except queue.Empty:
            return


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
