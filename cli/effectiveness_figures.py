"""The five effectiveness figures over a span of time, out of Prometheus: which queries, and what comes of the answers.

`cli.effectiveness` asks them and prints. The annotators count since each one's start and the leader alone counts, so a
span is the sum of the increases of all replicas; `increase` sees restarts. The names are those of docs/contract.md,
effectiveness.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from promql.queries import node_queries

# What is summed over a span, by the series of the annotator (annotator.metrics).
SERIES: Final = {
    "total": "evenload_total_schedule_count",
    "effective": "evenload_effective_dynamic_schedule_count",
    "cpu": "evenload_schedule_cpu_ratio_sum_total",
    "memory": "evenload_schedule_memory_ratio_sum_total",
    "left_out": "evenload_schedule_results_left_out",
    "looked_back": "evenload_schedule_looked_back_total",
    "stayed": "evenload_schedule_stayed_under_median_total",
}
COVERAGE_POINTS: Final = 200
PART: Final = "part"  # the label of each sum in an answer
Sums = Mapping[str, float]


class Figures(NamedTuple):
    """A span's figures; means and ratio are None where nothing was scheduled. Counts are whole but for `effective`.

    `left_out` are results on nodes without fresh data: they are in no other figure. `stayed_under_median_ratio` is the
    look-back of docs/contract.md, effectiveness, over the placements whose following hour ended within the span.
    """

    cpu_utilization_total_avg: float | None
    memory_utilization_total_avg: float | None
    effective_dynamic_schedule_count: float
    total_schedule_count: int
    effective_schedule_ratio: float | None
    left_out: int
    stayed_under_median_ratio: float | None = None

    @property
    def left_out_ratio(self) -> float | None:
        """The share of all results that could not be judged."""
        every = self.total_schedule_count + self.left_out
        return self.left_out / every if every else None


class Moment(NamedTuple):
    """The figures of the step that ends at `at_seconds` (Unix)."""

    at_seconds: float
    figures: Figures


def increases(span_seconds: float, selector: str = "") -> str:
    """The PromQL for the sums over a span, of all replicas, a series for each with its `part`; `selector` is further
    matchers.

    It is one query, which sees one state of the data: between two a scrape may come in, and the increases of a young
    counter are extrapolated differently by it.
    """
    span = node_queries.duration(span_seconds)
    sums = {part: f"sum(increase({series}{{{selector}}}[{span}]))" for part, series in SERIES.items()}
    return " or ".join(f'label_replace({each}, "{PART}", "{part}", "", "")' for part, each in sums.items())


def first(expression: str, span_seconds: float) -> str:
    """The PromQL for when an expression first has a value within the span, to about a two-hundredth of it (Unix
    seconds).
    """
    step = node_queries.duration(max(1.0, span_seconds / COVERAGE_POINTS))
    span = node_queries.duration(span_seconds)
    now = f"timestamp({expression})"
    return f"min(min_over_time({now}[{span}:{step}])) or min({now})"  # the latter for one younger than a step


def of(sums: Sums) -> Figures:
    """The figures of a span from its sums; an absent sum counts 0.

    cpu_utilization_total_avg = sum of the chosen nodes' ratios / total, memory likewise, and
    effective_schedule_ratio = effective / total. Prometheus extrapolates increases, so counts are rounded here and
    ratios are taken before.
    """
    total = sums.get("total", 0.0)

    def mean(part: str) -> float | None:
        return sums.get(part, 0.0) / total if total > 0 else None

    return Figures(
        mean("cpu"),
        mean("memory"),
        round(2 * sums.get("effective", 0.0)) / 2,
        round(total),
        mean("effective"),
        round(sums.get("left_out", 0.0)),
        sums.get("stayed", 0.0) / sums["looked_back"] if sums.get("looked_back", 0.0) > 0 else None,
    )


def moments(parts: Mapping[str, Sequence[tuple[float, float]]]) -> tuple[Moment, ...]:
    """The figures of every step that any part has a point of, oldest first."""
    by_time: dict[float, dict[str, float]] = {}
    for part, points in parts.items():
        for at_seconds, value in points:
            by_time.setdefault(at_seconds, {})[part] = value
    return tuple(Moment(at_seconds, of(sums)) for at_seconds, sums in sorted(by_time.items()))
