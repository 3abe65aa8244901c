"""The door to Prometheus as a Protocol, and the values that pass through it.

`promql.http.client.Client` is the real implementation and the simulator has another; the annotator and the descheduler
know this module only. Values arrive raw: NaN, infinite and negative ones are kept here and judged where an answer
becomes readings (`promql.readings`), so that they can be counted by reason instead of being lost.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt


class Sample(NamedTuple):
    """One series at one instant; `at_seconds` is the evaluation time in Unix seconds, `value` is unjudged."""

    labels: Mapping[str, str]
    value: float
    at_seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """An instant query's answer, which is whole: a partial one is an error (`promql.errors.Partial`).

    Columns over its series: the labels of each, its unjudged value [series], and the evaluation time (Unix seconds; 0
    without any series). Thousands of series are read at every sync, so they come without an object around each.
    """

    labels: Sequence[Mapping[str, str]] = ()
    values: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    at_seconds: float = 0.0

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> "Answer":
        """From samples of one instant."""
        every = list(samples)
        values = np.array([sample.value for sample in every], np.float64)
        return cls([sample.labels for sample in every], values, every[0].at_seconds if every else 0.0)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The series one by one, for people and tests."""
        rows = zip(self.labels, self.values.tolist(), strict=True)
        return tuple(Sample(labels, value, self.at_seconds) for labels, value in rows)


class MeasuredAnswer(NamedTuple):
    """An instant query's answer and what it cost the server, where the server says (Prometheus does, others may not).

    `seconds` is the evaluation, `samples` all samples that were looked at, those of every subquery step included.
    """

    answer: Answer
    seconds: float | None
    samples: int | None


class Series(NamedTuple):
    """One series over time: (Unix seconds, value) pairs, oldest first."""

    labels: Mapping[str, str]
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class RangeAnswer:
    """A range query's answer; `warnings` are the server's words that it is not whole. Ranges are for people, who are
    shown both: no service acts on one.
    """

    series: tuple[Series, ...]
    warnings: tuple[str, ...] = ()


class QueryDoor(Protocol):
    """Prometheus as services ask it; every method raises `promql.errors.PromqlError`."""

    def query(self, expression: str, *, at_seconds: float | None = None) -> Answer:
        """Evaluate at one instant (None: the server's now); the expression must give an instant vector.

        A partial answer is raised as `promql.errors.Partial`.
        """
        ...


class PrometheusDoor(QueryDoor, Protocol):
    """A Prometheus door that answers ranges, too, for people."""

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> RangeAnswer:
        """Evaluate at every step from start to end, both included."""
        ...
