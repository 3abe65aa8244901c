"""The figures of one run: pure, from series and counters to the numbers of the final table.

`cluster.demo.measuring` hands in what a real Prometheus and the services said, `world` what a simulated run came to;
`comparison` puts the figures of several runs beside each other. Nothing here knows which run it is looking at.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

WARM_RATIO, HOT_RATIO = 0.65, 0.80


class Effectiveness(NamedTuple):
    """The annotator's five figures (docs/contract.md, effectiveness)."""

    cpu_utilization_total_avg: float
    memory_utilization_total_avg: float
    effective_dynamic_schedule_count: float
    total_schedule_count: float
    effective_schedule_ratio: float


class Load(NamedTuple):
    """One resource over all nodes and the whole time: ratios, node-minutes, and how far nodes lie apart."""

    mean_ratio: float
    p99_ratio: float
    warm_node_minutes: float
    hot_node_minutes: float
    spread_ratio: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything the table shows of one phase."""

    effectiveness: Effectiveness
    cpu: Load
    memory: Load
    evictions: int
    pdb_violations: int
    pods_bound: int
    pods_pending: int


def load_over(ratios: npt.NDArray[np.floating], step_seconds: float) -> Load:
    """Load figures from ratios [steps, nodes], NaN where a node was not there. ValueError without any value.

    p99 and mean are over nodes x time; a node-minute is step/60 for each value over the line (strictly); the spread is
    the standard deviation between nodes, averaged over time.
    """
    there = np.isfinite(ratios)
    if not there.any():
        raise ValueError(f"no node has a single value in {ratios.shape[0]} steps; expected at least one node at a time")
    steps = ratios[there.any(axis=1)].astype(np.float64)
    values, minutes = steps[np.isfinite(steps)], step_seconds / 60
    return Load(
        mean_ratio=float(values.mean()),
        p99_ratio=float(np.percentile(values, 99)),
        warm_node_minutes=float((values > WARM_RATIO).sum() * minutes),
        hot_node_minutes=float((values > HOT_RATIO).sum() * minutes),
        spread_ratio=float(np.mean(np.nanstd(steps, axis=1))),
    )


def written(value: float, unit: str) -> str:
    """A figure as people read it; a dash where there is none."""
    if math.isnan(value):
        return "-"
    return {
        "percent": f"{100 * value:.1f} %",
        "ratio": f"{value:.3f}",
        "minutes": f"{value:.2f}" if value < 10 else f"{value:.0f}",
        "half": f"{value:.1f}",
        "count": f"{value:.0f}",
    }[unit]
