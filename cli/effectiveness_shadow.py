"""The figures of shadow mode over a span, out of Prometheus: what Evenload would have changed about placements.

`cli.effectiveness --shadow` asks the queries and prints. The extenders count each pod that kube-scheduler placed while
they decided for the record (`extender.metrics`, SHADOW_VERDICTS); a pod counts at one replica, so that a span is the
sum of the increases of all.
"""

import collections.abc
import math
from typing import Final, NamedTuple

from cli import effectiveness_figures as figures
from promql import door
from promql.queries import node_queries

MODE: Final = "evenload_extender_shadow_mode"
PLACEMENTS: Final = "evenload_extender_shadow_placements_total"
POINTS: Final = "evenload_extender_shadow_missed_points"
MOST_POINTS: Final = 10
_MISSED: Final = "missed"  # the part with the sum of points
_VERDICT: Final = "verdict"
_BUCKET: Final = "le"


class ShadowFigures(NamedTuple):
    """A span's figures: pods, shares of `pods`, and mean points; None where nothing was placed.

    `rejected` went to nodes that the filter would have rejected, `worse` to ones that score so many points below the
    best or more. `lower_points_avg` is the mean distance of the pods that did not get one of the best. `left_out` were
    placed on nodes that were no candidates, or without any reading.
    """

    pods: int
    rejected: int
    rejected_ratio: float | None
    worse: int
    worse_ratio: float | None
    lower_points_avg: float | None
    best: int
    left_out: int


def increases(span_seconds: float, selector: str = "") -> str:
    """The PromQL for placements by verdict, points by bucket, and their sum: one query, of one state of the data."""
    span = node_queries.duration(span_seconds)
    missed = f"sum(increase({POINTS}_sum{{{selector}}}[{span}]))"
    return " or ".join(
        (
            f"sum by ({_VERDICT}) (increase({PLACEMENTS}{{{selector}}}[{span}]))",
            f"sum by ({_BUCKET}) (increase({POINTS}_bucket{{{selector}}}[{span}]))",
            f'label_replace({missed}, "{figures.PART}", "{_MISSED}", "", "")',
        )
    )


def known(span_seconds: float, selector: str = "") -> str:
    """The PromQL for whether any extender was scraped within the span."""
    return f"count(last_over_time({MODE}{{{selector}}}[{node_queries.duration(span_seconds)}]))"


def of(samples: collections.abc.Iterable[door.Sample], least_points: int) -> ShadowFigures:
    """The figures of the answer to `increases`; counts are rounded, as Prometheus extrapolates."""
    every = tuple(samples)
    counts = {one.labels[_VERDICT]: one.value for one in every if _VERDICT in one.labels}
    buckets = {float(one.labels[_BUCKET]): one.value for one in every if _BUCKET in one.labels}
    missed = next((one.value for one in every if one.labels.get(figures.PART) == _MISSED), 0.0)
    best, lower, rejected = (counts.get(verdict, 0.0) for verdict in ("best", "lower", "rejected"))
    worse = max(0.0, buckets.get(math.inf, 0.0) - buckets.get(float(least_points - 1), 0.0))
    pods = best + lower + rejected
    return ShadowFigures(
        round(pods),
        round(rejected),
        rejected / pods if pods > 0 else None,
        round(worse),
        worse / pods if pods > 0 else None,
        missed / lower if lower > 0 else None,
        round(best),
        round(counts.get("not_asked", 0.0) + counts.get("unjudged", 0.0)),
    )


def meanings(least_points: int) -> dict[str, str]:
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
