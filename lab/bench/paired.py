"""Figures of runs beside those of a reference: sums, and seed by seed the mean difference with its standard error."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from simulator.results.outcome import Outcome

SURE_ERRORS: Final = 2.0  # a difference of fewer standard errors is no reason to change a default
Results = Mapping[str, tuple[Outcome, ...]]


class Column(NamedTuple):
    """A figure of the table."""

    heading: str
    read: Callable[[Outcome], float]


class Difference(NamedTuple):
    """The mean of paired differences and its standard error (NaN of one pair)."""

    mean: float
    error: float

    @property
    def sure(self) -> bool:
        """Whether the difference is more than `SURE_ERRORS` standard errors from 0."""
        return abs(self.mean) > SURE_ERRORS * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.1f} ± {self.error:.1f}{' *' if self.sure else ''}"


def difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Returns how much more `after` is than `before`, pair by pair."""
    apart = [own - other for own, other in zip(after, before, strict=True)]
    error = statistics.stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.nan
    return Difference(statistics.fmean(apart), error)


def table(results: Results, columns: Sequence[Column], reference: str) -> str:
    """A line a contestant: the mean of a run, and the mean difference of a run to the reference with its error."""
    headings = ["", *(cell for column in columns for cell in (column.heading, f"to {reference}"))]
    return markdown(headings, ([name, *_cells(name, results, columns, reference)] for name in results))


def _cells(name: str, results: Results, columns: Sequence[Column], reference: str) -> list[str]:
    cells = []
    for column in columns:
        own, other = ([column.read(run) for run in results[each]] for each in (name, reference))
        cells += [f"{statistics.fmean(own):.1f}", "" if name == reference else str(difference(other, own))]
    return cells


def markdown(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table whose columns are numbers but for the first."""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [headings, rule, *lines])
