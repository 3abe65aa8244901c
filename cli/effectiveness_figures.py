"""The figures of effectiveness over a span of time, out of Prometheus: which queries, and what comes of the answers.

`cli.effectiveness` asks them and prints. The annotators count since each one's start and the leader alone counts, so a
span is the sum of the increases of all replicas; `increase` sees restarts. The names are those of docs/contract.md,
effectiveness. In shadow mode the extenders count each pod that kube-scheduler placed while they decided for the record
(`extender.metrics`, SHADOW_VERDICTS), at one replica.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from promql import door
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
MODE: Final = "evenload_extender_shadow_mode"
PLACEMENTS: Final = "evenload_extender_shadow_placements_total"
POINTS: Final = "evenload_extender_shadow_missed_points"
MOST_POINTS: Final = 10
_MISSED: Final = "missed"  # the part with the sum of points
_VERDICT: Final = "verdict"
_BUCKET: Final = "le"

Ask = Callable[[str], tuple[door.Sample, ...]]  # a query at the end of a span


class Figures(NamedTuple):
    """A span's figures; means and ratio are None where nothing was scheduled, and all are without data. Counts are
    whole but for `effective`.

    `left_out` are results on nodes without fresh data: they are in no other figure. `stayed_under_median_ratio` is the
    look-back of docs/contract.md, effectiveness, over the placements whose following hour ended within the span.
    """

    cpu_utilization_total_avg: float | None = None
    memory_utilization_total_avg: float | None = None
    effective_dynamic_schedule_count: float | None = None
    total_schedule_count: int | None = None
    effective_schedule_ratio: float | None = None
    left_out: int | None = None
    stayed_under_median_ratio: float | None = None

    @property
    def left_out_ratio(self) -> float | None:
        """The share of all results that could not be judged."""
        left_out = self.left_out or 0
        return _ratio(left_out, (self.total_schedule_count or 0) + left_out)


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


def measured(ask: Ask, span_seconds: float, until_seconds: float, selector: str) -> tuple[Figures, float]:
    """The figures of a span that ends then (Unix seconds), and how many of its seconds have data."""
    sums = {one.labels[PART]: one.value for one in ask(increases(span_seconds, selector))}
    began = ask(first(f"{SERIES['total']}{{{selector}}}", span_seconds))
    return of(sums), min(span_seconds, until_seconds - began[0].value) if began else 0.0


def of(sums: Mapping[str, float]) -> Figures:
    """The figures of a span from its sums; an absent sum counts 0, but for that of no annotator anything is known.

    cpu_utilization_total_avg = sum of the chosen nodes' ratios / total, memory likewise, and
    effective_schedule_ratio = effective / total. Prometheus extrapolates increases, so counts are rounded here and
    ratios are taken before.
    """
    if "total" not in sums:
        return Figures()
    every = dict.fromkeys(SERIES, 0.0) | dict(sums)
    return Figures(
        _ratio(every["cpu"], every["total"]),
        _ratio(every["memory"], every["total"]),
        round(2 * every["effective"]) / 2,
        round(every["total"]),
        _ratio(every["effective"], every["total"]),
        round(every["left_out"]),
        _ratio(every["stayed"], every["looked_back"]),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def moments(parts: Mapping[str, Sequence[tuple[float, float]]]) -> list[tuple[float, Figures]]:
    """The figures of every step that any part has a point of, oldest first, by the step's end (Unix seconds)."""
    by_time: dict[float, dict[str, float]] = {}
    for part, points in parts.items():
        for at_seconds, value in points:
            by_time.setdefault(at_seconds, {})[part] = value
    return [(at_seconds, of(sums)) for at_seconds, sums in sorted(by_time.items())]


def shadow_increases(span_seconds: float, selector: str = "") -> str:
    """The PromQL for placements by verdict, points by bucket, and their sum: one query, of one state of the data."""
    span = node_queries.duration(span_seconds)
    missed = f"sum(increase({POINTS}_sum{{{selector}}}[{span}]))"
    return " or ".join(
        (
            f"sum by ({_VERDICT}) (increase({PLACEMENTS}{{{selector}}}[{span}]))",
            f"sum by ({_BUCKET}) (increase({POINTS}_bucket{{{selector}}}[{span}]))",
            f'label_replace({missed}, "{PART}", "{_MISSED}", "", "")',
        )
    )


def shadow_known(span_seconds: float, selector: str = "") -> str:
    """The PromQL for whether any extender was scraped within the span."""
    return f"count(last_over_time({MODE}{{{selector}}}[{node_queries.duration(span_seconds)}]))"


def shadow_of(every: Collection[door.Sample], least_points: int) -> dict[str, float | None]:
    """The figures of the answer to `shadow_increases`, by the names of `shadow_meanings`: a share or mean is None where
    nothing was placed, and all are without an answer; counts are rounded, as Prometheus extrapolates.
    """
    counts = {one.labels[_VERDICT]: one.value for one in every if _VERDICT in one.labels}
    buckets = {float(one.labels[_BUCKET]): one.value for one in every if _BUCKET in one.labels}
    missed = next((one.value for one in every if one.labels.get(PART) == _MISSED), 0.0)
    best, lower, rejected = (counts.get(verdict, 0.0) for verdict in ("best", "lower", "rejected"))
    worse = max(0.0, buckets.get(math.inf, 0.0) - buckets.get(float(least_points - 1), 0.0))
    pods = best + lower + rejected
    figures: dict[str, float | None] = {
        "pods": round(pods),
        "rejected": round(rejected),
        "rejected_ratio": _ratio(rejected, pods),
        "worse": round(worse),
        "worse_ratio": _ratio(worse, pods),
        "lower_points_avg": _ratio(missed, lower),
        "best": round(best),
        "left_out": round(counts.get("not_asked", 0.0) + counts.get("unjudged", 0.0)),
    }
    return figures if every else dict.fromkeys(figures)


def shadow_meanings(least_points: int) -> dict[str, str]:
    """The meaning of each figure, for the table."""
    points = "a point" if least_points == 1 else f"{least_points} points"
    return {
        "pods": "placed by kube-scheduler alone, on nodes that the extender had judged",
        "rejected": "on a node that Evenload would have rejected",
        "rejected_ratio": "their share",
        "worse": f"on a node that scores {points} or more below the best",
        "worse_ratio": "their share",
        "lower_points_avg": "points below the best, of pods that did not get one of the best",
        "best": "on one of the best nodes",
        "left_out": "on nodes that were no candidates, or without any reading; in no figure above",
    }
