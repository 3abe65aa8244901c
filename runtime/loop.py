"""Periodic work that survives its own failures, and the signals that end it.

The annotator's sync, the descheduler's run and policy polling are each a Loop, run on a thread of their service. This
module holds the one broad `except` of the product: a cycle that raises is logged with its traceback, told to the
service's metric hook, and tried again after a jittered back-off. Everything stops through one threading.Event.
"""

import dataclasses
import random
import signal
import threading
from collections.abc import Callable
from types import FrameType

from runtime import health, logs
from runtime.clock import Clock

log = logs.get(__name__)

PERIOD_JITTER_RATIO = 0.1  # so that replicas started together do not ask Prometheus at one instant
LEAST_REST_RATIO = 1 / 3
RESTART_SECONDS = 1.0  # until a thread that died begins again
BACKOFF_CAP_SECONDS = 30.0  # or the period, where that is longer


def stop_on_signals(*numbers: signal.Signals) -> threading.Event:
    """An event that these signals set, SIGTERM and SIGINT by default; call it on the main thread, before other threads
    start.
    """
    stop = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in numbers or (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    return stop


def start_thread(name: str, run: Callable[[threading.Event], None], stop: threading.Event) -> threading.Thread:
    """Start `run(stop)` on a daemon thread with a name that shows in tracebacks.

    Every thread of a service begins here. One whose `run` raises is begun again until `stop` is set, so that none is
    missing without a word: its traceback is in the log, each time.
    """

    def live() -> None:
        while not attempt(name, lambda: run(stop)) and not stop.wait(RESTART_SECONDS):
            log.warning("thread begun again", name=name)

    thread = threading.Thread(target=live, name=name, daemon=True)
    thread.start()
    return thread


def attempt(name: str, work: Callable[[], None], on_failure: Callable[[BaseException], None] | None = None) -> bool:
    """Do the work; False, with the traceback logged and `on_failure` told, when it raised anything.

    For the top of threads that must outlive any single piece of work: loops and the reflectors' handlers.
    """
    try:
        work()
    except Exception as error:  # the one broad except: a service outlives any single cycle
        log.exception("work failed", name=name, error=str(error))
        if on_failure is not None:
            on_failure(error)
        return False
    return True


@dataclasses.dataclass(frozen=True, slots=True)
class Loop:
    """Calls `work` at once and then every period, plus or minus a tenth, until stopped.

    The period is from one beginning to the next, but a third of it is always left between two cycles: a neighbour that
    is slow to answer gets a rest.

    The heartbeat beats when a cycle ends, failed or not: it says that the thread lives, not that the world is well.
    """

    name: str
    work: Callable[[], None]
    _: dataclasses.KW_ONLY
    period_seconds: Callable[[], float]
    clock: Clock
    rng: random.Random
    heartbeat: health.Heartbeat = dataclasses.field(default_factory=health.Heartbeat)
    on_failure: Callable[[BaseException], None] | None = None

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; returns soon after, but never in the middle of a cycle."""
        failures = 0
        self.heartbeat.beat(self.clock.monotonic())
        while not stop.is_set():
            began_seconds = self.clock.monotonic()
            failures = 0 if attempt(self.name, self.work, self.on_failure) else failures + 1
            ended_seconds = self.clock.monotonic()
            self.heartbeat.beat(ended_seconds)
            if self.clock.wait(stop, self._pause_seconds(failures, ended_seconds - began_seconds)):
                return

    def _pause_seconds(self, failures: int, took_seconds: float) -> float:
        """Rest of the period, at least a third of it, +- 10 %; after f failures in a row a random half to whole of
        min(2^f s, max(period, 30 s)).
        """
        period_seconds = self.period_seconds()
        if failures == 0:
            rest_seconds = max(period_seconds - took_seconds, period_seconds * LEAST_REST_RATIO)
            return rest_seconds * self.rng.uniform(1 - PERIOD_JITTER_RATIO, 1 + PERIOD_JITTER_RATIO)
        cap_seconds = max(period_seconds, BACKOFF_CAP_SECONDS)
        return min(2.0 ** min(failures, 16), cap_seconds) * self.rng.uniform(0.5, 1.0)
