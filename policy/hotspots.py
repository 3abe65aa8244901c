"""Hot spots: placements that crowd on one node, counted per window, turned into penalty points.

Extender and annotator each feed a `Placements` from their own Pod watch; the extender takes the penalty off its
scores, the annotator writes the counts for people to see. A placement is in a window while its age is less than the
window (age == window is out).
"""

import bisect
import collections.abc
import operator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from policy import schema


class Binding(NamedTuple):
    """A pod bound to a node: `at_seconds` is the moment of its PodScheduled condition, Unix seconds."""

    node: str
    uid: str
    at_seconds: float


class HotValue(NamedTuple):
    """A node's placements per window text, and the penalty points they make on the 0..10 scale."""

    counts: dict[str, int]
    penalty: float


_at_seconds = operator.attrgetter("at_seconds")


def counts(
    bound_at_seconds: collections.abc.Sequence[float],
    now_seconds: float,
    windows_seconds: collections.abc.Sequence[float],
) -> tuple[int, ...]:
    """How many of the ascending binding times lie within each window; one from the future counts as now."""
    total = len(bound_at_seconds)
    return tuple(total - bisect.bisect_right(bound_at_seconds, now_seconds - window) for window in windows_seconds)


def penalty(
    placed: npt.NDArray[np.int64], hot_spots: collections.abc.Sequence[schema.HotSpot]
) -> npt.NDArray[np.float64]:
    """Penalty points [nodes] = sum of floor(n / pods) * penalty over hot spots; `placed` is n [nodes, hot spots]."""
    pods = np.array([spot.pods for spot in hot_spots], dtype=np.int64)
    points = np.array([spot.penalty for spot in hot_spots], dtype=np.float64)
    return (placed // pods) @ points


def windows(hot_spots: collections.abc.Iterable[schema.HotSpot]) -> tuple[float, ...]:
    """The windows of the policy's hot spots in seconds: the columns of the counts."""
    return tuple(spot.window_seconds for spot in hot_spots)


def hot_value(placed: collections.abc.Sequence[int], hot_spots: collections.abc.Sequence[schema.HotSpot]) -> HotValue:
    """The hot value of one node from its count per hot spot."""
    points = sum(n // spot.pods * spot.penalty for n, spot in zip(placed, hot_spots, strict=True))
    return HotValue({spot.window: n for n, spot in zip(placed, hot_spots, strict=True)}, float(points))


class Placements:
    """Binding times per node, kept up pod by pod; counting costs O(log n) per node and window.

    The owner adds a pod when it sees it bound and removes it when it finishes, is deleted or does not count
    (DaemonSet and placeholder pods are never added). Not thread-safe: one owner.
    """

    def __init__(self) -> None:
        self._by_node: dict[str, list[Binding]] = {}
        self._by_uid: dict[str, Binding] = {}

    def add(self, binding: Binding) -> None:
        """Count a placement; a pod already known is moved to where and when it is bound now."""
        known = self._by_uid.get(binding.uid)
        if known == binding:
            return
        if known is not None:
            self.remove(binding.uid)
        self._by_uid[binding.uid] = binding
        bisect.insort(self._by_node.setdefault(binding.node, []), binding, key=_at_seconds)

    def remove(self, uid: str) -> Binding | None:
        """Forget a pod; returns its binding, None when it was not counted."""
        binding = self._by_uid.pop(uid, None)
        if binding is None:
            return None
        placed = self._by_node[binding.node]
        at = bisect.bisect_left(placed, binding.at_seconds, key=_at_seconds)
        while placed[at].uid != uid:
            at += 1
        del placed[at]
        if not placed:
            del self._by_node[binding.node]
        return binding

    def expire(self, before_seconds: float) -> int:
        """Forget everything bound before a moment, to bound memory; returns how many."""
        old = [binding.uid for binding in self._by_uid.values() if binding.at_seconds < before_seconds]
        for uid in old:
            self.remove(uid)
        return len(old)

    def counts(
        self, node: str, now_seconds: float, windows_seconds: collections.abc.Sequence[float]
    ) -> tuple[int, ...]:
        """Placements on a node within each window."""
        placed = self._by_node.get(node, [])
        total = len(placed)
        return tuple(
            total - bisect.bisect_right(placed, now_seconds - window, key=_at_seconds) for window in windows_seconds
        )

    def matrix(
        self,
        nodes: collections.abc.Sequence[str],
        now_seconds: float,
        windows_seconds: collections.abc.Sequence[float],
    ) -> npt.NDArray[np.int64]:
        """Counts [nodes, windows] for many nodes."""
        rows = [self.counts(node, now_seconds, windows_seconds) for node in nodes]
        return np.array(rows, dtype=np.int64).reshape(len(nodes), len(windows_seconds))

    def bindings(self, node: str) -> tuple[Binding, ...]:
        """The placements on a node, oldest first."""
        return tuple(self._by_node.get(node, ()))

    def __contains__(self, uid: object) -> bool:
        return uid in self._by_uid

    def __len__(self) -> int:
        return len(self._by_uid)
