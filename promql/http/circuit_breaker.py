"""A circuit breaker in front of Prometheus: a server in trouble gets one trial query at a time, not every query.

annotator and descheduler wrap the real client in a `CircuitBreaker` door in their wiring; a `DoorCollector` exports its
state. The state machine is pybreaker's; its timer is not used, because it reads the wall clock and knows one fixed
pause. This one runs on the service's monotonic clock:

* closed: everything passes; `FAILURES` failures in a row, by whatever queries, open it;
* open: nothing is sent, `errors.Paused` comes at once; the pause after the n-th opening in a row is a random half to
  whole of min(2^(n-1) s, longest pause). The longest pause is the caller's own period, so that recovery takes two
  periods at most;
* half-open: one query passes as the trial; its success closes the circuit, its failure opens it again.

A bad query is no failure of the server, and a partial answer none of the server that gives it. Queries of several
threads pass one after the other (pybreaker holds a lock).
"""

import random
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import pybreaker
from prometheus_client import core, registry

from promql import door, errors
from runtime import clock as clocks
from runtime import logs

if TYPE_CHECKING:
    from promql.http.client import Traffic

log = logs.get(__name__)

FAILURES: Final = 3
FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 30.0
_NEVER_SECONDS = timedelta(days=36500).total_seconds()  # pybreaker's own timer must not half-open the circuit


class CircuitBreaker(pybreaker.CircuitBreakerListener):
    """A QueryDoor that asks `inner` while the circuit allows it.

    `longest_pause_seconds` is read at each opening, because policies reload; services give their period. Once `stop` is
    set nothing is asked any more: of a slow server the rest of a cycle would outlast the grace period of a pod.
    """

    def __init__(
        self,
        inner: door.QueryDoor,
        *,
        clock: clocks.Clock,
        rng: random.Random,
        longest_pause_seconds: Callable[[], float] = lambda: LONGEST_PAUSE_SECONDS,
        stop: threading.Event | None = None,
    ) -> None:
        self._inner = inner
        self._stop = stop or threading.Event()
        self._clock = clock
        self._rng = rng
        self._longest_pause_seconds = longest_pause_seconds
        self._checking = threading.Lock()
        self._openings = 0  # in a row, without a success between
        self._trial_at_seconds = 0.0  # monotonic
        self._last: errors.PromqlError = errors.Unreachable("nothing was asked yet")
        self._breaker = pybreaker.CircuitBreaker(
            fail_max=FAILURES,
            reset_timeout=_NEVER_SECONDS,
            exclude=[errors.BadQuery, errors.Partial],
            listeners=[self],
            throw_new_error_on_trip=False,
        )

    @property
    def open(self) -> bool:
        """Whether queries are held back at this moment, except for a trial."""
        return bool(self._breaker.current_state != pybreaker.STATE_CLOSED)

    @property
    def line(self) -> str:
        """The state in a few words, for /readyz?verbose."""
        if not self.open:
            return "closed"
        seconds = max(0.0, self._trial_at_seconds - self._clock.monotonic())
        return f"open, next trial in {seconds:.0f} s; the last failure: {self._last}"

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """Instant query; see the door. Paused while the circuit is open."""
        if self._stop.is_set():
            raise errors.Stopping("Prometheus not asked: this process is stopping")
        with self._checking:
            if self._breaker.current_state == pybreaker.STATE_OPEN:
                if self._clock.monotonic() < self._trial_at_seconds:
                    raise errors.Paused(self._last)
                self._breaker.half_open()
        try:
            answer: door.Answer = self._breaker.call(self._inner.query, expression, at_seconds=at_seconds)
        except pybreaker.CircuitBreakerError as refusal:  # another thread's trial failed during the wait for the lock
            raise errors.Paused(self._last) from refusal
        return answer

    def failure(self, cb: pybreaker.CircuitBreaker, exc: BaseException) -> None:
        """Notes the failure; pybreaker calls it before the state changes."""
        if isinstance(exc, errors.PromqlError):
            self._last = exc

    def state_change(
        self,
        cb: pybreaker.CircuitBreaker,
        old_state: pybreaker.CircuitBreakerState | None,
        new_state: pybreaker.CircuitBreakerState,
    ) -> None:
        """Logs the change, and says when the next trial is."""
        if new_state.name == pybreaker.STATE_CLOSED:
            self._openings = 0
            log.info("Prometheus answers again, circuit closed")
        elif new_state.name == pybreaker.STATE_OPEN:
            self._trial_at_seconds = self._clock.monotonic() + self._pause_seconds()
            if self._openings == 0:
                log.warning("circuit to Prometheus opened", failures=FAILURES, last=str(self._last))
            self._openings += 1

    def _pause_seconds(self) -> float:
        longest_seconds = max(FIRST_PAUSE_SECONDS, self._longest_pause_seconds())
        return min(FIRST_PAUSE_SECONDS * 2.0 ** min(self._openings, 16), longest_seconds) * self._rng.uniform(0.5, 1.0)


class DoorCollector(registry.Collector):
    """The state of one guarded door and the traffic of the client behind it, in every service by the same names."""

    def __init__(self, guarded: CircuitBreaker, traffic: "Traffic") -> None:
        self._guarded = guarded
        self._traffic = traffic

    def collect(self) -> Iterator[core.Metric]:
        """Circuit open or not, queries sent, answers that were partial, bytes received."""
        text = "1 while Prometheus failed several times in a row and only trial queries are sent."
        yield core.GaugeMetricFamily("evenload_prometheus_circuit_open", text, value=float(self._guarded.open))
        text = "Queries sent to Prometheus; does not depend on the number of nodes."
        yield core.CounterMetricFamily("evenload_prometheus_queries", text, value=self._traffic.queries)
        text = "Answers that Prometheus itself calls partial: not used; a rise means stores behind it do not answer."
        yield core.CounterMetricFamily("evenload_prometheus_partial_answers", text, value=self._traffic.partial_answers)
        text = "Bytes of answers from Prometheus, decompressed; grows with nodes and metrics."
        yield core.CounterMetricFamily("evenload_prometheus_received_bytes", text, value=self._traffic.received_bytes)
