"""Watched pods -> placements per node and window, and which pod events are scheduling results.

Pure functions over pods: `annotator.node_sync` asks for the hot counts of each sync, with the placements that
`annotator.placements.pod_index` picks, so they are rebuilt from the cluster after a restart. The moment of a binding is
the pod's PodScheduled transition. Pods that say nothing of where the scheduler crowds do not count: finished and
terminating ones, those that wait for a reason of failure, DaemonSet pods (one per node by definition), static pods
(never scheduled) and placeholders (they give way).
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.rules import hotspots
from policy.rules.hotspots import Binding
from policy.schema.load_policy import HotSpot

PRESETS: Final = ("order", "soak")  # of placeholders: docs/how-to/hold-room.md
STATES: Final = ("placed", "waiting")


def binding(pod: PodView) -> Binding | None:
    """The pod's placement, or None when it is not placed or does not count."""
    if not pod.node_name or not pod_view.counts_as_load(pod):
        return None
    at_seconds = pod.scheduled_at_seconds
    return None if at_seconds is None else Binding(pod.node_name, pod.uid, at_seconds)


def waiting(pods: Iterable[PodView]) -> int:
    """How many pods have no node yet: a node patch makes the scheduler try such pods again."""
    return len([pod for pod in pods if not (pod.node_name or pod.finished or pod.deleting)])


def placeholders(pods: Iterable[PodView]) -> Mapping[tuple[str, str], int]:
    """How many placeholders of each preset have a node, and how many wait for one: by (preset, state).

    Those of `soak` wait until there is room anyway and want no node for it; all others are there to order one.
    """
    living = [pod for pod in pods if pod_view.is_placeholder(pod) and not (pod.finished or pod.deleting)]
    return collections.Counter((PRESETS[pod_view.preset(pod) == "soak"], STATES[not pod.node_name]) for pod in living)


def scheduling_result(old: PodView | None, new: PodView | None, *, since_seconds: float) -> Binding | None:
    """The placement that a watch event tells of for the first time, if it was made at or after `since_seconds`.

    A pod first seen already bound counts when its binding is young enough: the watch may join the two events. The
    PodScheduled time has whole seconds, so `since_seconds` is cut down to one.
    """
    if new is None or (old is not None and old.node_name):
        return None
    placed = binding(new)
    return placed if placed is not None and placed.at_seconds >= int(since_seconds) else None


class Hot(NamedTuple):
    """Placements by node, as their ascending times (Unix seconds), and the hot spots that they are counted for."""

    placed_seconds: Mapping[str, Sequence[float]]
    hot_spots: Sequence[HotSpot]
    now_seconds: float

    def of(self, node: str) -> Mapping[str, int]:
        """The counts of a node per window text ("5m": 3)."""
        windows_seconds = hotspots.windows(self.hot_spots)
        counts = hotspots.counts(self.placed_seconds.get(node, ()), self.now_seconds, windows_seconds)
        return {spot.window: number for spot, number in zip(self.hot_spots, counts, strict=True)}


def hot_counts(placed: Iterable[tuple[str, float]], hot_spots: Sequence[HotSpot], *, now_seconds: float) -> Hot:
    """The placements, by node and time (Unix seconds); those before the longest window count in none."""
    times: dict[str, list[float]] = {}
    for node, at_seconds in placed:
        times.setdefault(node, []).append(at_seconds)
    return Hot({node: sorted(each) for node, each in times.items()}, hot_spots, now_seconds)
