"""Hot spots: placements that crowd on one node, counted per window, turned into penalty points.

Extender and annotator each count from their own Pod watch: the extender in rows (`extender.state.expected_load_table`),
where `penalty` is what its scores lose, the annotator per node (`annotator.placements.hot_counts`), whose counts are
written for people to see. A placement is in a window while its age is less than the window (age == window is out).
"""

import bisect
import collections.abc
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from policy.schema import load_policy


class Binding(NamedTuple):
    """A pod bound to a node: `at_seconds` is the moment of its PodScheduled condition, Unix seconds."""

    node: str
    uid: str
    at_seconds: float


def counts(
    bound_at_seconds: collections.abc.Sequence[float],
    now_seconds: float,
    windows_seconds: collections.abc.Sequence[float],
) -> tuple[int, ...]:
    """How many of the ascending binding times lie within each window; one from the future counts as now."""
    total = len(bound_at_seconds)
    return tuple(total - bisect.bisect_right(bound_at_seconds, now_seconds - window) for window in windows_seconds)


class Pricing(NamedTuple):
    """The policy's hot spots, compiled: by hot spot how many pods cost how many points."""

    pods: npt.NDArray[np.int64]
    points: npt.NDArray[np.float64]


def pricing(hot_spots: collections.abc.Sequence[load_policy.HotSpot]) -> Pricing:
    """Compile a policy's hot spots."""
    return Pricing(
        np.array([spot.pods for spot in hot_spots]),
        np.array([spot.penalty for spot in hot_spots]),
    )


def penalty(placed: npt.NDArray[np.int64], compiled: Pricing) -> npt.NDArray[np.float64]:
    """Penalty points [nodes] = sum of floor(n / pods) * penalty over hot spots; `placed` is n [nodes, hot spots]."""
    return (placed // compiled.pods) @ compiled.points


def windows(hot_spots: collections.abc.Iterable[load_policy.HotSpot]) -> tuple[float, ...]:
    """The windows of the policy's hot spots in seconds: the columns of the counts."""
    return tuple(spot.window_seconds for spot in hot_spots)
