"""A Prometheus that is away for some spans of time: what `Setup.prometheus_away` asks for.

It stands between the simulated Prometheus and the services, whose own circuit breaker is in front of it.
"""

import dataclasses

from promql import door, errors
from runtime.clock import Clock

Spans = tuple[tuple[float, float], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Prometheus:
    """A PrometheusDoor that asks `inner`, and is out of reach within the spans [from, to) of Unix seconds."""

    inner: door.PrometheusDoor
    clock: Clock
    away: Spans

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """See PrometheusDoor."""
        self._reach()
        return self.inner.query(expression, at_seconds=at_seconds)

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        """See PrometheusDoor."""
        self._reach()
        return self.inner.query_range(
            expression, start_seconds=start_seconds, end_seconds=end_seconds, step_seconds=step_seconds
        )

    def _reach(self) -> None:
        now_seconds = self.clock.now()
        if any(begin <= now_seconds < end for begin, end in self.away):
            raise errors.Unreachable("the simulated Prometheus is away, as the setup has it at this time")
