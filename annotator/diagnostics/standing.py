"""How the nodes stand in what is held of them: which metric is stale or missing for how many, and how load is spread
over them, in a few numbers per metric, beside the lines of the policy that it is measured against.

Pure. `annotator.node_sync` makes a `Standing` after each sync, whose figures `annotator.metrics` exports when it is
scraped, and one whenever /readyz?verbose is asked (`line`), so that it goes on counting while Prometheus is down and no
sync changes anything. A dashboard shows how far the median, the ninth decile and the hottest node are from the lines,
and it costs the same with ten nodes and with ten thousand.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from annotator.collect.last_good_values import LastGoodValues
from policy import metrics as load_metrics
from policy.schema.load_policy import LoadPolicy

QUANTILES: Final = (0.5, 0.9, 1.0)
FILTER, EVICT_ABOVE, EVICT_UNTIL = "filter", "evict_above", "evict_until"

Ratios = Mapping[tuple[str, str], float]


class Unusable(NamedTuple):
    """Of one metric: how many nodes have no value, and how many one that is too old to be used."""

    missing: int
    stale: int


class Spread(NamedTuple):
    """`loads`: by metric and quantile ("0.5", "0.9", "1") the ratio of the nodes that have the metric; `lines`: by
    metric and line (filter, evict_above, evict_until) the policy's ratio, for every line that is drawn.
    """

    loads: Ratios
    lines: Ratios


class Standing(NamedTuple):
    """The nodes by what is held of them at a moment (Unix seconds), counted on demand."""

    book: LastGoodValues
    policy: LoadPolicy
    now_seconds: float

    @property
    def _stale_until_seconds(self) -> float:
        return self.now_seconds - self.policy.sync.stale_after_seconds

    def unusable(self) -> Mapping[str, Unusable]:
        """How every metric stands over the nodes; a value is stale from staleAfter on, as in the extender."""
        names = load_metrics.names(self.policy.metrics_in_force)
        confirmed_seconds = self.book.aligned(self.book.nodes, names).confirmed_seconds
        missing = np.isnan(confirmed_seconds).sum(axis=0).tolist()
        stale = (confirmed_seconds <= self._stale_until_seconds).sum(axis=0).tolist()
        return {metric: Unusable(*counts) for metric, *counts in zip(names, missing, stale, strict=True)}

    def spread(self) -> Spread:
        """The quantiles of what is fresh, and the lines of the policy. A metric that no node has is in no load."""
        names = load_metrics.names(self.policy.metrics_in_force)
        return Spread(_loads(self.book.since(self._stale_until_seconds), names), _lines(self.policy))


def line(unusable: Mapping[str, Unusable], nodes: int) -> str:
    """ "cpu_max_1d stale for 2 of 5 nodes; memory_avg_5m missing for 1 of 5 nodes", or that all are fresh."""
    parts = [
        f"{metric} {word} for {count} of {nodes} nodes"
        for metric, numbers in unusable.items()
        for word, count in (("missing", numbers.missing), ("stale", numbers.stale))
        if count
    ]
    return "; ".join(parts) or f"all {len(unusable)} metrics fresh for all {nodes} nodes"


def _loads(book: LastGoodValues, names: Sequence[str]) -> Ratios:
    loads: dict[tuple[str, str], float] = {}
    for name in names:
        held = [*book.column(name).values()]
        if held:
            ratios = np.quantile(held, QUANTILES).tolist()
            loads |= {(name, f"{quantile:g}"): ratio for quantile, ratio in zip(QUANTILES, ratios, strict=True)}
    return loads


def _lines(policy: LoadPolicy) -> Ratios:
    """0 in the filter means that the rule is off: no line."""
    drawn = {(name, FILTER): ratio for name, ratio in policy.filter.thresholds.items() if ratio > 0}
    for name, band in policy.descheduler.thresholds.items():
        drawn |= {(name, EVICT_ABOVE): band.evict_above_ratio, (name, EVICT_UNTIL): band.evict_until_ratio}
    return drawn
