"""Windows of all nodes, kept in memory from samples: averages of the last minutes, and maxima of these averages.

`annotator.collect.metrics_server` adds the samples of each sync and reads the windows; pure, as columns over the nodes.
The averages are those of `policy.rules.sample_windows`.

    maximum over w    max of the averages at the syncs of the last w seconds

* A maximum is over what was observed: `shortest.since_seconds` says since when, without a gap of five minutes. Without
  the current average it is missing.
* Memory does not grow: a node has BUCKETS averages of each maximum, each the highest of its part of the window, and
  for each length of averages slots of its own: those of an hour are too long for five minutes.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from annotator.collect.last_good_values import Floats, NodeSet
from policy import metrics as load_metrics
from policy.contract.load_annotation import Reading, Windows
from policy.metrics import Metric
from policy.rules import sample_windows
from policy.rules.sample_windows import Average, Samples, SampleWindows

BUCKETS: Final = 60  # of an hour a minute each, of a day 24 min each


class ConfirmedReading(NamedTuple):
    """A reading that stands on a node, and when it was last confirmed (Unix seconds)."""

    reading: Reading
    confirmed_seconds: float


class NodeWindows:
    """The windows of a set of nodes. Used by one thread."""

    def __init__(self) -> None:
        self._uids: tuple[str, ...] = ()
        self._rows: Mapping[str, int] = {}  # by name
        self.metrics: tuple[Metric, ...] = ()  # whose windows are kept
        self._samples = {0.0: self._empty(0.0)}  # by the length of averages, the shortest first
        self._peaks: dict[Metric, Floats] = {}  # [nodes, buckets] by maximum
        self._bucket: dict[Metric, int] = {}  # the number of the newest

    def follow(self, fleet: NodeSet, metrics: Sequence[Metric]) -> None:
        """These are the nodes and the metrics now. A new machine and a changed metric begin with nothing."""
        if fleet.uids != self._uids:
            self._align(fleet)
        if tuple(metrics) != self.metrics:
            maxima = [metric for metric in metrics if metric.statistic == load_metrics.MAXIMUM]
            self.metrics = tuple(metrics)
            lengths = sorted({metric.averaging_seconds for metric in metrics}) or [0.0]
            self._samples = {seconds: self._samples.get(seconds) or self._empty(seconds) for seconds in lengths}
            empty = sample_windows.nothing(len(fleet.names), BUCKETS)
            self._peaks = {one: self._peaks.get(one, empty.copy()) for one in maxima}

    def _empty(self, averaging_seconds: float) -> SampleWindows:
        samples = SampleWindows(len(load_metrics.RESOURCES))
        samples.keep(averaging_seconds)
        samples.follow(self._uids)
        return samples

    @property
    def shortest(self) -> SampleWindows:
        """The samples in the shortest slots; when nodes were observed is the same in all."""
        return next(iter(self._samples.values()))

    def _align(self, fleet: NodeSet) -> None:
        rows, *_ = [samples.follow(fleet.uids) for samples in self._samples.values()]
        self._peaks = {one: sample_windows.taken(peaks, rows) for one, peaks in self._peaks.items()}
        self._uids, self._rows = fleet.uids, {name: row for row, name in enumerate(fleet.names)}

    def resume(self, carried: Mapping[str, ConfirmedReading], *, now_seconds: float) -> None:
        """Goes on from what stands on nodes, where that is newer than what is known here: averages are samples as
        long as their windows, a maximum the average of its time. Readings that do not say when that was are left out.
        """
        self._note_peaks(now_seconds)  # which brings all buckets to this time
        newest_seconds = self.shortest.newest_seconds()
        for name, (reading, confirmed_seconds) in carried.items():
            row = self._rows.get(name)
            if row is None or reading.windows is None or confirmed_seconds <= newest_seconds[row]:
                continue
            for peaks in self._peaks.values():
                peaks[row] = np.nan
            self._resume_node(row, reading, reading.windows, confirmed_seconds)

    def _resume_node(self, row: int, reading: Reading, windows: Windows, confirmed_seconds: float) -> None:
        averages = [
            Average(load_metrics.RESOURCES.index(one.resource), one.window_seconds, reading.values[one.name])
            for one in self.metrics
            if one.statistic == load_metrics.AVERAGE and one.name in reading.values
        ]
        since_seconds = min(windows.since_seconds, confirmed_seconds)
        for samples in self._samples.values():
            samples.resume(row, averages, at_seconds=confirmed_seconds, since_seconds=since_seconds)
        for metric, peaks in self._peaks.items():
            at_seconds, ratio = windows.peaks.get(metric.name), reading.values.get(metric.name)
            if at_seconds is None or ratio is None:
                continue
            number = _number(metric, at_seconds)
            if 0 <= self._bucket[metric] - number < BUCKETS:
                peaks[row, number % BUCKETS] = ratio

    def add(self, newest: Samples, *, now_seconds: float) -> None:
        """Takes the samples that are newer than those before, and the averages that follow into the maxima."""
        for samples in self._samples.values():
            samples.add(newest, now_seconds=now_seconds)
        self._note_peaks(now_seconds)

    def _note_peaks(self, now_seconds: float) -> None:
        averages: dict[tuple[str, float], Floats] = {}
        for metric, peaks in self._peaks.items():
            key = (metric.resource, metric.averaging_seconds)
            if key not in averages:
                averages[key] = self._average(*key, now_seconds)
            number = _number(metric, now_seconds)
            passed = number - self._bucket.get(metric, number)
            if passed < 0 or passed >= BUCKETS:  # a clock that was set, or a long pause
                peaks[:] = np.nan
            else:
                peaks[:, [(number - back) % BUCKETS for back in range(passed)]] = np.nan
            self._bucket[metric] = number
            column = peaks[:, number % BUCKETS]
            np.fmax(column, averages[key], out=column)

    def values(self, metric: Metric, *, now_seconds: float) -> Floats:
        """The ratios of an average or a maximum [nodes]; NaN where there is none."""
        average = self._average(metric.resource, metric.averaging_seconds, now_seconds)
        if metric.statistic == load_metrics.AVERAGE:
            return average
        highest = np.fmax.reduce(self._peaks[metric], axis=1, initial=np.nan)
        return np.where(np.isnan(average), np.nan, highest)

    def _average(self, resource: str, seconds: float, now_seconds: float) -> Floats:
        return self._samples[seconds].average(load_metrics.RESOURCES.index(resource), seconds, now_seconds)

    def observed_seconds(self, node: str, seconds: float, *, now_seconds: float) -> float:
        """How much of the last `seconds` of a node was observed; `seconds` is the length of an average."""
        return self._samples[seconds].observed_seconds(self._rows[node], seconds, now_seconds)

    def extent(self, node: str) -> Windows | None:
        """Since when a node is observed, and when its maxima were; None where nothing is known of it."""
        row = self._rows.get(node)
        since_seconds = math.nan if row is None else float(self.shortest.since_seconds()[row])
        if row is None or math.isnan(since_seconds):
            return None
        peaks = {
            metric.name: _time_seconds(metric, self._bucket[metric], held[row])
            for metric, held in self._peaks.items()
            if not np.isnan(held[row]).all()
        }
        return Windows(since_seconds, peaks)


def _number(metric: Metric, at_seconds: float) -> int:
    """The bucket of a time, counted from 1970."""
    return math.floor(at_seconds / metric.window_seconds * BUCKETS)


def _time_seconds(metric: Metric, newest: int, held: Floats) -> float:
    """The beginning of the bucket with the highest average."""
    number = newest - (newest - int(np.nanargmax(held))) % BUCKETS
    return number * metric.window_seconds / BUCKETS
