"""A simulated day that goes on while people look: its services answer between two steps, as a cluster's do.

`evenload console --demo` shows one. The day runs on a thread of its own, a step and then a pause; whoever asks a
service has the world to himself for that moment. Everything goes the whole way, through JSON, patches and watches.
"""

import collections.abc
import contextlib
import dataclasses
import threading
from typing import Final, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry
from werkzeug import test

from descheduler.http import app as descheduler_app
from runtime import loop
from simulator.results.outcome import Progress
from simulator.scenario import Scenario
from simulator.world import world
from simulator.world.services import Surroundings
from simulator.world.setup import Setup

JOIN_SECONDS: Final = 10.0
Sums = dict[str, float]
T = TypeVar("T")


class Moment(NamedTuple):
    """The annotator's sums since the day began, by the parts of `cli.effectiveness_figures.SERIES`."""

    at_seconds: float
    sums: Sums


class _Ended(Exception):
    """Nobody looks any more."""


class LiveDay:
    """A day in progress; made by `opened`. Any thread may ask."""

    def __init__(self, running: world.World, lock: threading.RLock) -> None:
        self._world, self._lock, self.clock = running, lock, running.around.clock
        self._applications = {"extender": running.extender_application, "descheduler": None}
        if running.descheduler is not None:
            policy, registry = running.around.policy, CollectorRegistry()
            self._applications["descheduler"] = descheduler_app.create_app(
                running.descheduler, running.ledger, policy, clock=self.clock, livez=(), registry=registry
            ).wsgi_app
        self.moments: list[Moment] = []

    def get(self, service: str, path: str, query: collections.abc.Mapping[str, str]) -> tuple[int, bytes]:
        """Status and body of GET at the extender or descheduler. KeyError for a service that does not run."""
        application = self._applications[service]
        if application is None:
            raise KeyError(service)
        with self._lock:
            self._world.catch_up()
            answer = test.Client(application).get(path, query_string=dict(query))
            return answer.status_code, answer.data

    def read(self, look: collections.abc.Callable[[Surroundings], T]) -> T:
        """The answer to a look at the doors of the services, while the day stands still; it may ask services, too."""
        with self._lock:
            return look(self._world.around)

    def remember(self, at_seconds: float) -> None:
        """Note what the annotator has counted; on the day's own thread."""
        tally, stayed = self._world.annotator.results.tally, self._world.annotator.results.stayed
        sums = {
            "total": float(tally.total_schedule_count),
            "effective": tally.effective_dynamic_schedule_count,
            "cpu": tally.cpu_ratio_sum,
            "memory": tally.memory_ratio_sum,
            "left_out": float(tally.schedule_results_left_out),
            "looked_back": float(stayed.looked_back),
            "stayed": float(stayed.stayed),
        }
        self.moments = [*self.moments, Moment(at_seconds, sums)]


@contextlib.contextmanager
def opened(
    scenario: Scenario, conditions: Setup, *, quick_until_seconds: float, pause_seconds: float
) -> collections.abc.Iterator[LiveDay]:
    """A day that has run as fast as it can until a moment (Unix seconds), and from there goes a step per pause."""
    reached = threading.Event()
    stop, lock, held = threading.Event(), threading.RLock(), dataclasses.replace(conditions, all_doors=True)
    days: list[LiveDay] = []

    def report(progress: Progress) -> None:
        days[0].remember(progress.at_seconds)
        if progress.at_seconds < quick_until_seconds and not stop.is_set():
            return
        lock.release()
        reached.set()
        try:
            if stop.wait(pause_seconds):
                raise _Ended
        finally:
            lock.acquire()

    with world.calm(), world.opened(scenario, held, report) as simulated:
        days.append(LiveDay(simulated, lock))
        thread = loop.start_thread("day", lambda _stop: _run(simulated, scenario, lock, reached), stop)
        try:
            reached.wait()
            yield days[0]
        finally:
            stop.set()
            thread.join(JOIN_SECONDS)


def _run(running: world.World, scenario: Scenario, lock: threading.RLock, reached: threading.Event) -> None:
    try:
        with lock, contextlib.suppress(_Ended):
            running.kernel.run(scenario.end_seconds)
    finally:
        reached.set()  # a day that is over sooner, or ended by a bug, is not waited for
