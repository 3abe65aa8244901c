"""Loads over time, reduced to what a page can hold: bands over all nodes, the hottest nodes, cells of a heat map.

Pure. Input is `simulator.results.outcome.Timeline`'s arrays [steps, nodes] of ratios, NaN where a node is not there;
`workloads.owner_profiles` turns the output into coordinates. Several steps become one point, and a peak inside a point
is never averaged away: the outer band, the lines of nodes and the heat map show the highest step of each.
"""

import warnings
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from simulator.results.figures import HOT_RATIO, WARM_RATIO

Floats = npt.NDArray[np.floating]
Classes = npt.NDArray[np.int8]
QUANTILES: Final = (0.0, 10.0, 50.0, 90.0, 100.0)
ABSENT: Final = -1


class Band(NamedTuple):
    """Over all nodes and the steps of each point: least, 10th, 50th, 90th percentile, greatest; NaN without a node."""

    least: Floats
    p10: Floats
    median: Floats
    p90: Floats
    greatest: Floats


def steps_per_point(steps: int, most_points: int) -> int:
    """How many steps one point stands for, so that there are at most so many points; at least 1."""
    return max(1, -(-steps // most_points))


def folded(ratios: Floats, size: int) -> Floats:
    """[steps, nodes] -> [points, size, nodes]; the last point is filled up with NaN."""
    points = -(-len(ratios) // size)
    whole = np.full((points * size, ratios.shape[1]), np.nan, np.float32)
    whole[: len(ratios)] = ratios
    return whole.reshape(points, size, ratios.shape[1])


def band(ratios: Floats, size: int) -> Band:
    """The band over all nodes, a value for each point."""
    points = folded(ratios, size)
    flat = points.reshape(len(points), -1)
    with warnings.catch_warnings():  # a point without a node is NaN, as intended
        warnings.simplefilter("ignore", RuntimeWarning)
        return Band(*np.nanpercentile(flat, QUANTILES, axis=1))


def peaks(ratios: Floats, size: int) -> Floats:
    """[points, nodes]: the highest step of each node and point, NaN where the node was not there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        highest: Floats = np.nanmax(folded(ratios, size), axis=1)
    return highest


def hottest(ratios: Floats, count: int) -> tuple[int, ...]:
    """The nodes (columns) over the hot line longest, then over the warm one, then highest; the worst first."""
    filled = np.nan_to_num(ratios, nan=0.0)
    keys = (filled.max(axis=0, initial=0.0), (filled > WARM_RATIO).sum(axis=0), (filled > HOT_RATIO).sum(axis=0))
    return tuple(int(at) for at in np.lexsort(keys)[::-1][:count])


def heat(ratios: Floats, size: int, ends: tuple[float, ...]) -> Classes:
    """[points, nodes] of classes: how many ends of colours the peak is over, ABSENT where the node was not there."""
    highest = peaks(ratios, size)
    return np.where(np.isnan(highest), ABSENT, np.searchsorted(ends, highest, side="left")).astype(np.int8)


class Moment(NamedTuple):
    """One line of the table that says in words what a chart shows; ratios over the nodes there, None without any."""

    step: int
    median: float
    p90: float
    greatest: float
    hottest: int
    warm: int
    hot: int


def moments(ratios: Floats, count: int) -> tuple[Moment, ...]:
    """At most so many steps, evenly spread; steps without a node are left out."""
    steps = np.unique(np.linspace(0, len(ratios) - 1, min(count, len(ratios))).round().astype(int))
    return tuple(_moment(int(step), ratios[step]) for step in steps if not np.isnan(ratios[step]).all())


def _moment(step: int, nodes: Floats) -> Moment:
    median, p90, greatest = np.nanpercentile(nodes, QUANTILES[2:])
    warm, hot = int((nodes > WARM_RATIO).sum()), int((nodes > HOT_RATIO).sum())
    return Moment(step, float(median), float(p90), float(greatest), int(np.nanargmax(nodes)), warm, hot)
