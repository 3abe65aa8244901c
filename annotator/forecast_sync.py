"""Forecasts of nodes' load: the metrics of a policy that look ahead, from hours of owners' use read from Prometheus.

`annotator.node_sync` calls `read_an_hour` after the heartbeat: it reads the newest full hour of the last week that is
not held, two queries for all pods. So at the start a week comes back, an hour a sync, and nothing has to outlive the
process; later two queries an hour are enough. `of_nodes` gives the figures of a sync by the hours that are held.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from annotator import change_logger
from annotator.collect.collector import MetricAnswer
from annotator.collect.last_good_values import Floats, NodeSet
from annotator.forecast import expectation, hour_means, node_forecasts, owner_hours
from annotator.metrics import Telemetry
from annotator.placements.pod_index import PodIndex
from policy import metrics as load_metrics
from policy.contract import load_annotation, owner_usage
from policy.metrics import Metric
from promql import errors, readings

SETTLING_SECONDS: Final = 90.0  # after the end of an hour: its last scrapes are there by then
PAUSE_SECONDS: Final = 600.0  # after a failure: an hour is not urgent

AskAt = Callable[[str, float, float], Mapping[str, float]]
"""Pods' mean use of a resource (cores, bytes) over a span (seconds) that ends at a moment; raises PromqlError."""


class Forecasts:
    """Owners' hours, and the peaks of the last sync. Used by one thread."""

    def __init__(self, ask: AskAt, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._ask = ask
        self._telemetry = telemetry
        self._now = now
        self._hours = owner_hours.OwnerHours()
        self._paused_until_seconds = -math.inf
        self._complaints = change_logger.ChangeLogger()
        self._peaks: Mapping[str, node_forecasts.Peaks] = {}

    @property
    def peaks(self) -> Mapping[str, Callable[[int], load_annotation.Peak]]:
        """By metric the peak of the node at a place of the last sync's nodes."""
        return {name: peaks.of for name, peaks in self._peaks.items()}

    def read_an_hour(self, pods: PodIndex) -> None:
        """Read the newest full hour that is not held, if there is one."""
        now_seconds = self._now()
        hour = self._hours.missing(owner_hours.hour_of(now_seconds - SETTLING_SECONDS) - 1)
        if hour is None or now_seconds < self._paused_until_seconds:
            return
        end_seconds = (hour + 1) * owner_hours.HOUR_SECONDS
        try:
            amounts = [self._ask(each, owner_hours.HOUR_SECONDS, end_seconds) for each in load_metrics.RESOURCES]
        except errors.PromqlError as error:
            self._paused_until_seconds = now_seconds + PAUSE_SECONDS
            self._complaints.update("hours of owners' use not read", str(error))
            return
        self._complaints.update("hours of owners' use not read", "")
        use = hour_means.HourUse(*amounts)
        self._hours.write(hour, hour_means.means(use, pods, end_seconds - owner_hours.HOUR_SECONDS))
        self._telemetry.forecast_hours.set(self._hours.count)
        self._telemetry.forecast_owners.set(len(self._hours))

    def of_nodes(
        self,
        metrics: Sequence[Metric],
        averages: Mapping[str, MetricAnswer],
        pods: PodIndex,
        means: owner_usage.Means,
        fleet: NodeSet,
    ) -> tuple[MetricAnswer, ...]:
        """The figures of these metrics; `averages` are the answers of each resource's first average, `means` what
        owners' replicas use now.

        Where nothing is known of other days a forecast is the average itself; without that there is none.
        """
        changes, allocatable = self._changes(metrics, pods, means, fleet), _allocatable(fleet)
        self._peaks, found = {}, []
        for metric in metrics:
            average = averages[metric.resource]
            if average.answer is None:
                found.append(MetricAnswer(metric, None, average.error))
                continue
            current = average.answer.of(fleet.names)
            peaks = changes.peaks(metric, current, allocatable)
            self._peaks = {**self._peaks, metric.name: peaks}
            found.append(MetricAnswer(metric, readings.NodeValues(_by_name(fleet, peaks.ratio), {}, ())))
        return tuple(found)

    def _changes(
        self, metrics: Sequence[Metric], pods: PodIndex, means: owner_usage.Means, fleet: NodeSet
    ) -> node_forecasts.Changes:
        now_seconds = self._now()
        hour, ahead = owner_hours.hour_of(now_seconds), max(map(node_forecasts.hours_ahead, metrics))
        present = node_forecasts.present_use(pods.owners, means)
        expected = expectation.expected(self._hours.of(pods.owners), present, hour, ahead)
        window_seconds = max(metric.averaging_seconds for metric in metrics)
        rows = node_forecasts.pod_rows(pods, fleet.names, window_seconds=window_seconds, now_seconds=now_seconds)
        return node_forecasts.changes(rows, len(fleet.names), expected, present, hour)


def _allocatable(fleet: NodeSet) -> Floats:
    both = [(node.allocatable.cpu_millicores, node.allocatable.memory_bytes) for node in fleet.nodes]
    return np.array(both, dtype=np.float64).reshape(len(both), len(load_metrics.RESOURCES))


def _by_name(fleet: NodeSet, ratios: Floats) -> dict[str, float]:
    """The ratios of the nodes that have one, none above what an annotation may say."""
    pairs = zip(fleet.names, np.minimum(ratios, load_annotation.MAX_RATIO).tolist(), strict=True)
    return {name: ratio for name, ratio in pairs if ratio == ratio}
