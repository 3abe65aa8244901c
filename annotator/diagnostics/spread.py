"""How load is spread over the nodes, in a few numbers per metric, and which lines of the policy it is measured against.

Pure. `annotator.metrics` exports the `Spread` of what the last sync held, made when it is scraped: a dashboard shows
how far the median, the ninth decile and the hottest node are from the lines, and it costs the same with ten nodes and
with ten thousand.
"""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from annotator.collect.last_good_values import LastGoodValues
from policy.schema.load_policy import LoadPolicy

QUANTILES: Final = (0.5, 0.9, 1.0)
FILTER, EVICT_ABOVE, EVICT_UNTIL = "filter", "evict_above", "evict_until"

Ratios = Mapping[tuple[str, str], float]


class Spread(NamedTuple):
    """`loads`: by metric and quantile ("0.5", "0.9", "1") the ratio of the nodes that have the metric; `lines`: by
    metric and line (filter, evict_above, evict_until) the policy's ratio, for every line that is drawn.
    """

    loads: Ratios
    lines: Ratios


def of(book: LastGoodValues, policy: LoadPolicy) -> Spread:
    """The quantiles of what is held, and the lines of the policy. A metric that no node has is in no load."""
    return Spread(_loads(book, [metric.name for metric in policy.metrics_in_force]), _lines(policy))


def _loads(book: LastGoodValues, names: list[str]) -> Ratios:
    loads: dict[tuple[str, str], float] = {}
    for name in names:
        held = sorted(book.column(name).values())
        if held:
            ratios = _quantiles(held)
            loads |= {(name, f"{quantile:g}"): ratio for quantile, ratio in zip(QUANTILES, ratios, strict=True)}
    return loads


def _quantiles(ordered: list[float]) -> list[float]:
    """Linear between the two ranks around q * (n - 1), as numpy's, which takes longer to begin than most fleets."""
    last = len(ordered) - 1
    quantiles = []
    for quantile in QUANTILES:
        lower = math.floor(quantile * last)
        upper = min(lower + 1, last)
        quantiles.append(ordered[lower] + (ordered[upper] - ordered[lower]) * (quantile * last - lower))
    return quantiles


def _lines(policy: LoadPolicy) -> Ratios:
    """0 in the filter means that the rule is off: no line."""
    drawn = {(name, FILTER): ratio for name, ratio in policy.filter.thresholds.items() if ratio > 0}
    for name, band in policy.descheduler.thresholds.items():
        drawn |= {(name, EVICT_ABOVE): band.evict_above_ratio, (name, EVICT_UNTIL): band.evict_until_ratio}
    return drawn
