"""crane-scheduler's Dynamic plugin: thresholds on loads, a weighted mean of headroom, and a hot value.

    score = 100 * sum(w_m * (1 - u_m)) / sum(w_m) - 10 * hot value, cut off at 0 and 100, whole points
    hot value = sum over (range, count) of floor(pods bound within the range / count)

A metric without a value adds its weight and no points, and does not filter. Loads are as old as their sync period
(3 min, 15 min, 3 h), the hot value as old as the shortest of them. Policy: the one it ships.
Sources: gocrane/crane-scheduler pkg/plugins/dynamic/{plugins,stats}.go, pkg/controller/annotator/{node,binding}.go,
deploy/manifests/dynamic/policy.yaml.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from lab.peers.formula import MAX_POINTS, FormulaInput, Mask
from lab.peers.observations import Floats

MINUTE_SECONDS, HOUR_SECONDS = 60.0, 3600.0
POINTS_PER_HOT = 10.0
HOT_RANGES = ((5 * MINUTE_SECONDS, 5), (MINUTE_SECONDS, 2))
HOT_SYNC_SECONDS = 3 * MINUTE_SECONDS


class Metric(NamedTuple):
    """One load of both resources: its window, how often it is read, its weight, and the highest allowed (0 is any)."""

    name: str
    window_seconds: float
    sync_seconds: float
    weight: float
    limit_ratio: float


METRICS = (
    Metric("usage_avg_5m", 5 * MINUTE_SECONDS, 3 * MINUTE_SECONDS, 0.2, 0.65),
    Metric("usage_max_avg_1h", HOUR_SECONDS, 15 * MINUTE_SECONDS, 0.3, 0.75),
    Metric("usage_max_avg_1d", 24 * HOUR_SECONDS, 3 * HOUR_SECONDS, 0.5, 0.0),
)


class Crane:
    """A `formula.Formula`."""

    def rejected(self, inputs: FormulaInput) -> Mapping[str, Mask]:
        """Nodes with a load strictly over a limit."""
        over = {}
        for metric in METRICS:
            if metric.limit_ratio:
                for column, resource in enumerate(("cpu", "mem")):
                    loads = _loads(inputs, metric)[:, column]
                    over[f"Load[{resource}_{metric.name}] of node is too high"] = loads > metric.limit_ratio
        return over

    def points(self, inputs: FormulaInput) -> Floats:
        """Mean headroom less the hot value, whole points."""
        headroom = sum(metric.weight * np.nansum(1.0 - _loads(inputs, metric), axis=1) for metric in METRICS)
        points = np.trunc(MAX_POINTS * headroom / (2 * sum(metric.weight for metric in METRICS)))
        return np.asarray(np.clip(points - POINTS_PER_HOT * hot_value(inputs), 0.0, MAX_POINTS))


def hot_value(inputs: FormulaInput) -> Floats:
    """Of the nodes asked about [nodes], as the annotator counted at its last sync."""
    synced_seconds = inputs.observations.now_seconds // HOT_SYNC_SECONDS * HOT_SYNC_SECONDS
    known = inputs.bound.until(synced_seconds)
    counts = (
        np.floor(inputs.counted(known.since(synced_seconds - range_seconds)) / pods)
        for range_seconds, pods in HOT_RANGES
    )
    return np.asarray(sum(counts))


def _loads(inputs: FormulaInput, metric: Metric) -> Floats:
    return np.asarray(inputs.observations.maximum(metric.window_seconds, metric.sync_seconds)[inputs.rows])
