"""The figures of one phase and their comparison: pure, from series and counters to the rows of the final table.

`measuring` hands in what Prometheus and the services said, `table` prints the rows. Nothing here knows which phase it
is looking at, and a figure that got worse says so like one that got better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Points = Sequence[tuple[float, float]]
WARM_RATIO, HOT_RATIO = 0.65, 0.80
SAME_RATIO = 0.005  # a relative change under half a percent is no news


class Effectiveness(NamedTuple):
    """The annotator's five figures (design.md section 4)."""

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


def load(by_node: Mapping[str, Points], step_seconds: float) -> Load:
    """Load figures from equally spaced points (Unix seconds, ratio) per node.

    p99 and mean are over nodes x time; a node-minute is step/60 for each point over the line (strictly); the spread is
    the standard deviation between nodes, averaged over time. ValueError without any point.
    """
    values = np.array([value for points in by_node.values() for _, value in points], np.float64)
    if not len(values):
        raise ValueError("no node has a single measured point; expected series from Prometheus for the whole phase")
    return _load(values, _spread(by_node), step_seconds / 60)


def load_over(ratios: npt.NDArray[np.floating], step_seconds: float) -> Load:
    """The same from ratios [steps, nodes], NaN where a node was not there. ValueError without any value."""
    there = np.isfinite(ratios)
    if not there.any():
        raise ValueError(f"no node has a single value in {ratios.shape[0]} steps; expected at least one node at a time")
    values = ratios[there.any(axis=1)].astype(np.float64)
    return _load(values[np.isfinite(values)], float(np.mean(np.nanstd(values, axis=1))), step_seconds / 60)


def _load(values: npt.NDArray[np.float64], spread_ratio: float, minutes: float) -> Load:
    return Load(
        mean_ratio=float(values.mean()),
        p99_ratio=float(np.percentile(values, 99)),
        warm_node_minutes=float((values > WARM_RATIO).sum() * minutes),
        hot_node_minutes=float((values > HOT_RATIO).sum() * minutes),
        spread_ratio=spread_ratio,
    )


def _spread(by_node: Mapping[str, Points]) -> float:
    moments: dict[float, list[float]] = {}
    for points in by_node.values():
        for at_seconds, value in points:
            moments.setdefault(at_seconds, []).append(value)
    return float(np.mean([np.std(values) for values in moments.values()]))


class Row(NamedTuple):
    """One line of the table: `better` is lower, higher, or "" where neither is better; `unit` is how to print."""

    name: str
    before: float
    after: float
    better: str
    unit: str

    @property
    def verdict(self) -> str:
        """better, worse, same, or "" where the figure takes no side."""
        if not self.better:
            return ""
        change = self.after - self.before
        if abs(change) <= SAME_RATIO * max(abs(self.before), abs(self.after)):
            return "same"
        return "better" if (change < 0) == (self.better == "lower") else "worse"


def rows(before: Figures, after: Figures) -> tuple[Row, ...]:
    """Every figure beside itself: plain first, Evenload second."""
    return (
        *_effectiveness(before.effectiveness, after.effectiveness),
        *_loads("CPU", before.cpu, after.cpu),
        *_loads("memory", before.memory, after.memory),
        Row("evictions", before.evictions, after.evictions, "", "count"),
        Row("PDB violations", before.pdb_violations, after.pdb_violations, "lower", "count"),
        Row("pods bound in all", before.pods_bound, after.pods_bound, "", "count"),
        Row("pods pending at the end", before.pods_pending, after.pods_pending, "lower", "count"),
    )


def _effectiveness(before: Effectiveness, after: Effectiveness) -> tuple[Row, ...]:
    sides = {
        "cpu_utilization_total_avg": ("lower", "percent"),
        "memory_utilization_total_avg": ("lower", "percent"),
        "effective_dynamic_schedule_count": ("", "half"),
        "total_schedule_count": ("", "count"),
        "effective_schedule_ratio": ("higher", "ratio"),
    }
    return tuple(Row(name, getattr(before, name), getattr(after, name), *side) for name, side in sides.items())


def _loads(resource: str, before: Load, after: Load) -> tuple[Row, ...]:
    return (
        Row(f"node {resource}, mean", before.mean_ratio, after.mean_ratio, "", "percent"),
        Row(f"node {resource}, p99", before.p99_ratio, after.p99_ratio, "lower", "percent"),
        Row(f"node {resource}, spread between nodes", before.spread_ratio, after.spread_ratio, "lower", "percent"),
        Row(
            f"node-minutes over 65 % {resource}", before.warm_node_minutes, after.warm_node_minutes, "lower", "minutes"
        ),
        Row(f"node-minutes over 80 % {resource}", before.hot_node_minutes, after.hot_node_minutes, "lower", "minutes"),
    )


def written(value: float, unit: str) -> str:
    """A figure as people read it."""
    return {
        "percent": f"{100 * value:.1f} %",
        "ratio": f"{value:.3f}",
        "minutes": f"{value:.2f}",
        "half": f"{value:.1f}",
        "count": f"{value:.0f}",
    }[unit]
