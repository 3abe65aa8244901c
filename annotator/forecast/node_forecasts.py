"""Owners' expected use -> the load to be expected of every node in the hours to come, pure.

The load of a node in hour h is its present average with each of its pods moved from what the owner's replicas use now
to what they are expected to use in that hour:

    u(h) = u_avg + sum over pods (E_owner(h) - m_owner) * min(1, age / W) / allocatable

W is the averaging window of u_avg: a pod that started a moment ago is not in it yet, and what it will use is added as
the expected load of recent pods. A pod whose owner has no history of that hour stays as it is, and so does what no pod
of an owner uses. The figure of a metric is the highest u(h) from now to its window.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from annotator.collect.last_good_values import Floats
from annotator.forecast import expectation, owner_hours
from annotator.placements.pod_index import Numbers, PodIndex
from policy import metrics as load_metrics
from policy.contract import owner_usage
from policy.contract.load_annotation import Peak

HOURS_MOST: Final = 24


class PodRows(NamedTuple):
    """The pods that count: the number of each one's node and owner, and which share of it the averages show."""

    node: Numbers
    owner: Numbers
    shown_ratio: Floats


class Changes(NamedTuple):
    """By how much each node's pods will use more than now [nodes, resources, hours], in millicores and bytes, from the
    present hour `hour` on; and the error of that [nodes, resources], NaN where it is not known.
    """

    hour: int
    more: Floats
    error: Floats

    def peaks(self, metric: load_metrics.Metric, current: Floats, allocatable: Floats) -> "Peaks":
        """The figures of a metric; `current` [nodes] is the present average, `allocatable` [nodes, resources]."""
        place = load_metrics.RESOURCES.index(metric.resource)
        ahead = hours_ahead(metric)
        per_amount = np.divide(1.0, allocatable[:, place], where=allocatable[:, place] > 0, out=np.zeros(len(current)))
        ratios = np.maximum(current[:, None] + self.more[:, place, : ahead + 1] * per_amount[:, None], 0.0)
        hours = np.nan_to_num(ratios).argmax(axis=1)
        peaks = ratios[np.arange(len(ratios)), hours]
        return Peaks(self.hour + hours, peaks, self.error[:, place] * per_amount)


class Peaks(NamedTuple):
    """Of every node the hour of its highest load, that load and its error (ratios); NaN where it is not known."""

    hour: Numbers
    ratio: Floats
    error_ratio: Floats

    def of(self, place: int) -> Peak:
        """A node's peak as it is published."""
        error = float(self.error_ratio[place])
        at_seconds = float(self.hour[place]) * owner_hours.HOUR_SECONDS
        return Peak(at_seconds, None if np.isnan(error) else error)


def hours_ahead(metric: load_metrics.Metric) -> int:
    """How many hours after the present one a metric looks at."""
    return min(HOURS_MOST, round(metric.window_seconds / owner_hours.HOUR_SECONDS))


def pod_rows(pods: PodIndex, nodes: Sequence[str], *, window_seconds: float, now_seconds: float) -> PodRows:
    """The pods at work on these nodes that have an owner."""
    rows, by_name = pods.at_work_since(now_seconds), {name: place for place, name in enumerate(nodes)}
    places = np.array([by_name.get(name, -1) for name in pods.nodes_of(rows)], dtype=np.int64)
    rows, places = rows[places >= 0], places[places >= 0]
    age_seconds = now_seconds - pods.began_seconds_of(rows)
    return PodRows(places, pods.owner[rows], np.clip(age_seconds / window_seconds, 0.0, 1.0))


def changes(rows: PodRows, nodes: int, expected: expectation.Expected, present: Floats, hour: int) -> Changes:
    """Add the owners' changes up, node by node; `present` [owners, resources]. Replicas of an owner err together, and
    owners apart.
    """
    owners = max(len(present), 1)
    pairs, where = np.unique(rows.node * owners + rows.owner, return_inverse=True)
    replicas, node, owner = np.bincount(where, rows.shown_ratio, len(pairs)), pairs // owners, pairs % owners
    moves = np.nan_to_num(expected.use - present[:, :, None])[owner] * replicas[:, None, None]
    missed = expected.error[owner] * replicas[:, None]
    squares, known = _by_node(node, np.nan_to_num(missed) ** 2, nodes), _by_node(node, ~np.isnan(missed), nodes)
    return Changes(hour, _by_node(node, moves, nodes), np.sqrt(np.where(known > 0, squares, np.nan)))


def _by_node(node: Numbers, amounts: npt.NDArray[np.generic], nodes: int) -> Floats:
    """Sums of amounts [pairs, ...] by node [nodes, ...]."""
    columns = amounts.reshape(len(amounts), math.prod(amounts.shape[1:])).astype(np.float64).T
    sums = np.array([np.bincount(node, column, nodes) for column in columns], dtype=np.float64)
    return sums.T.reshape(nodes, *amounts.shape[1:])


def present_use(owners: Sequence[str], means: owner_usage.Means) -> Floats:
    """The present use of a replica of each owner [owners, resources], NaN where it is not known."""
    rows = [means.get(owner) for owner in owners]
    found = [(np.nan, np.nan) if one is None else (one.cpu_millicores, one.memory_bytes) for one in rows]
    return np.array(found, dtype=np.float64).reshape(len(owners), 2)
