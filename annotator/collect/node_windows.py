"""Windows of all nodes, kept in memory from samples: averages of the last minutes, and maxima of these averages.

`annotator.collect.metrics_server` adds the samples of each sync and reads the windows; pure, as columns over the nodes.

    average over W    sum(overlap_i * u_i) / sum(overlap_i)    overlap_i: seconds of the last W that sample i has
    maximum over w    max of the averages at the syncs of the last w seconds

* A sample speaks for the time since the sample before it, or for its own window where that is over two minutes ago.
* An average needs samples of at least half of W; it is missing otherwise, and with it the maxima.
* A maximum is over what was observed: `observed_since_seconds` says since when, without a gap of five minutes.
* Memory does not grow: a node has SLOTS samples, and BUCKETS averages of each maximum. A sample that comes sooner than
  a slot is long is merged into it; a bucket holds the highest average of its part of the window.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from annotator.collect.last_good_values import Flags, Floats, NodeSet
from policy import metrics as load_metrics
from policy.contract import freshness
from policy.contract.load_annotation import Reading, Windows
from policy.metrics import Metric

SLOTS: Final = 64  # of 5 min slots of up to 9.4 s: metrics-server has a sample every 10 s at the most
BUCKETS: Final = 60  # of an hour a minute each, of a day 24 min each
LONGEST_SPAN_SECONDS: Final = 120.0  # metrics-server of large providers has a sample a minute, and may miss one
GAP_SECONDS: Final = 300.0  # as long as the averages are: in a shorter gap no average is missing
ENOUGH_RATIO: Final = 0.5

Ints = npt.NDArray[np.int64]


class Samples(NamedTuple):
    """One sample of each node: its end (Unix seconds), its length in seconds, and the ratios [nodes, resources] in the
    order of `policy.metrics.RESOURCES`. NaN where there is none.
    """

    at_seconds: Floats
    window_seconds: Floats
    ratios: Floats


class Carried(NamedTuple):
    """A reading that stands on a node, and when it was last confirmed (Unix seconds)."""

    reading: Reading
    confirmed_seconds: float


class _Table(NamedTuple):
    """All state by row, one of each node; NaN where there is nothing."""

    at_seconds: Floats  # [nodes, slots] end of each sample
    span_seconds: Floats  # [nodes, slots]
    ratios: Floats  # [nodes, slots, resources]
    slot: Ints  # [nodes] the newest
    newest_seconds: Floats  # [nodes] end of the newest sample
    newest: Floats  # [nodes, resources]
    since_seconds: Floats  # [nodes]

    @classmethod
    def empty(cls, nodes: int) -> "_Table":
        resources = len(load_metrics.RESOURCES)
        return cls(
            at_seconds=_nothing(nodes, SLOTS),
            span_seconds=_nothing(nodes, SLOTS),
            ratios=_nothing(nodes, SLOTS, resources),
            slot=np.zeros(nodes, np.int64),
            newest_seconds=_nothing(nodes),
            newest=_nothing(nodes, resources),
            since_seconds=_nothing(nodes),
        )

    def forget(self, row: int) -> None:
        """In place: nothing is known of a node."""
        for column in (self.at_seconds, self.span_seconds, self.ratios, self.newest_seconds, self.newest):
            column[row] = np.nan
        self.since_seconds[row], self.slot[row] = np.nan, 0

    def aligned(self, rows: Ints) -> "_Table":
        """The rows in another order; -1 is an empty one."""
        return _Table(
            at_seconds=_taken(self.at_seconds, rows),
            span_seconds=_taken(self.span_seconds, rows),
            ratios=_taken(self.ratios, rows),
            slot=np.append(self.slot, 0)[rows],
            newest_seconds=_taken(self.newest_seconds, rows),
            newest=_taken(self.newest, rows),
            since_seconds=_taken(self.since_seconds, rows),
        )


class NodeWindows:
    """The windows of a set of nodes. Used by one thread."""

    def __init__(self) -> None:
        self._uids: tuple[str, ...] = ()
        self._rows: Mapping[str, int] = {}  # by name
        self._metrics: tuple[Metric, ...] = ()
        self._slot_seconds = 0.0
        self._table = _Table.empty(0)
        self._peaks: dict[Metric, Floats] = {}  # [nodes, buckets] by maximum
        self._bucket: dict[Metric, int] = {}  # the number of the newest

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics whose windows are kept."""
        return self._metrics

    def follow(self, fleet: NodeSet, metrics: Sequence[Metric]) -> None:
        """These are the nodes and the metrics now. A new machine and a changed metric begin with nothing."""
        if fleet.uids != self._uids:
            self._align(fleet)
        if tuple(metrics) != self._metrics:
            maxima = [metric for metric in metrics if metric.statistic == load_metrics.MAXIMUM]
            self._metrics = tuple(metrics)
            # Two slots in a row are longer than one may be, so that all of them hold the longest average.
            self._slot_seconds = 2 * max((metric.averaging_seconds for metric in metrics), default=0.0) / SLOTS
            self._peaks = {one: self._peaks.get(one, _nothing(len(fleet.names), BUCKETS)) for one in maxima}

    def _align(self, fleet: NodeSet) -> None:
        known = {uid: row for row, uid in enumerate(self._uids)}
        rows = np.array([known.get(uid, -1) for uid in fleet.uids], np.int64)
        self._table = self._table.aligned(rows)
        self._peaks = {one: _taken(peaks, rows) for one, peaks in self._peaks.items()}
        self._uids, self._rows = fleet.uids, {name: row for row, name in enumerate(fleet.names)}

    def resume(self, carried: Mapping[str, Carried], *, now_seconds: float) -> None:
        """Goes on from what stands on nodes, where that is newer than what is known here: an average is a sample as
        long as its window, a maximum the average of its time. Readings that do not say when that was are left out.
        """
        self._note_peaks(now_seconds)  # which brings all buckets to this time
        for name, (reading, confirmed_seconds) in carried.items():
            row = self._rows.get(name)
            if row is None or reading.windows is None or confirmed_seconds <= self._table.newest_seconds[row]:
                continue
            self._table.forget(row)
            for peaks in self._peaks.values():
                peaks[row] = np.nan
            self._resume_node(row, reading, reading.windows, confirmed_seconds)

    def _resume_node(self, row: int, reading: Reading, windows: Windows, confirmed_seconds: float) -> None:
        table, averages = self._table, _current_averages(self._metrics)
        ratios = [reading.values.get(one.name, math.nan) if one is not None else math.nan for one in averages]
        span_seconds = max((one.averaging_seconds for one in averages if one is not None), default=0.0)
        table.at_seconds[row, 0], table.span_seconds[row, 0], table.ratios[row, 0] = (
            confirmed_seconds,
            span_seconds,
            ratios,
        )
        table.newest_seconds[row], table.newest[row] = confirmed_seconds, ratios
        table.since_seconds[row] = min(windows.since_seconds, confirmed_seconds)
        for metric, peaks in self._peaks.items():
            at_seconds, ratio = windows.peaks.get(metric.name), reading.values.get(metric.name)
            if at_seconds is None or ratio is None:
                continue
            number = _number(metric, at_seconds)
            if 0 <= self._bucket[metric] - number < BUCKETS:
                peaks[row, number % BUCKETS] = ratio

    def add(self, samples: Samples, *, now_seconds: float) -> None:
        """Takes the samples that are newer than those before, and the averages that follow into the maxima."""
        table = self._table
        set_back = table.newest_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS  # this machine's clock was
        table.newest_seconds[set_back], table.at_seconds[set_back] = np.nan, np.nan
        gap_seconds = samples.at_seconds - table.newest_seconds
        rows = np.flatnonzero(np.isfinite(samples.at_seconds) & ~(gap_seconds <= 0))
        gaps = np.where(np.isnan(gap_seconds), np.inf, gap_seconds)[rows]
        own = np.minimum(samples.window_seconds[rows], LONGEST_SPAN_SECONDS)
        spans = np.where(gaps <= LONGEST_SPAN_SECONDS, gaps, np.minimum(own, gaps))
        ends, ratios = samples.at_seconds[rows], samples.ratios[rows]
        self._store(rows, ends, spans, ratios, joined=gaps <= LONGEST_SPAN_SECONDS)
        table.newest_seconds[rows], table.newest[rows] = ends, ratios
        anew = rows[(gaps > GAP_SECONDS) | np.isnan(table.since_seconds[rows])]
        table.since_seconds[anew] = samples.at_seconds[anew] - np.minimum(
            samples.window_seconds[anew], LONGEST_SPAN_SECONDS
        )
        self._note_peaks(now_seconds)

    def _store(self, rows: Ints, ends: Floats, spans: Floats, ratios: Floats, *, joined: Flags) -> None:
        """Into a new slot each, or into the newest one while that is shorter than a slot may be."""
        table = self._table
        held = table.slot[rows]
        held_spans, held_ratios = table.span_seconds[rows, held], table.ratios[rows, held]
        whole = np.isfinite(held_ratios).all(axis=1) & np.isfinite(ratios).all(axis=1)
        merged = joined & whole & (held_spans + spans <= self._slot_seconds)
        shares = np.where(merged, held_spans / (held_spans + spans), 0.0)[:, None]
        ratios = np.where(merged[:, None], held_ratios * shares + ratios * (1 - shares), ratios)
        slots = np.where(merged, held, (held + 1) % SLOTS)
        table.at_seconds[rows, slots] = ends
        table.span_seconds[rows, slots] = np.where(merged, held_spans + spans, spans)
        table.ratios[rows, slots] = ratios
        table.slot[rows] = slots

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
        table, column = self._table, load_metrics.RESOURCES.index(resource)
        ratios = table.ratios[:, :, column]
        overlap = self._overlap(seconds, now_seconds)
        overlap = np.where(np.isnan(overlap) | np.isnan(ratios), 0.0, overlap)
        total = overlap.sum(axis=1)
        enough = (total >= ENOUGH_RATIO * seconds) & np.isfinite(table.newest[:, column])
        sums = np.where(overlap > 0, ratios, 0.0) * overlap
        return np.asarray(np.divide(sums.sum(axis=1), total, out=_nothing(len(total)), where=enough))

    def _overlap(self, seconds: float, now_seconds: float) -> Floats:
        """Seconds of the last `seconds` that each sample speaks for [nodes, slots]."""
        table = self._table
        begins = np.maximum(table.at_seconds - table.span_seconds, now_seconds - seconds)
        return np.asarray(np.maximum(np.minimum(table.at_seconds, now_seconds) - begins, 0.0))

    def observed_seconds(self, node: str, seconds: float, *, now_seconds: float) -> float:
        """How much of the last `seconds` of a node was observed."""
        return float(np.nansum(self._overlap(seconds, now_seconds)[self._rows[node]]))

    def newest_seconds(self) -> Floats:
        """When the newest sample of each node ended [nodes]; NaN without one."""
        return self._table.newest_seconds.copy()

    def observed_since_seconds(self) -> Floats:
        """Since when each node is observed without a gap [nodes]; NaN where it is not."""
        return self._table.since_seconds

    def extent(self, node: str) -> Windows | None:
        """Since when a node is observed, and when its maxima were; None where nothing is known of it."""
        row = self._rows.get(node)
        if row is None or math.isnan(self._table.since_seconds[row]):
            return None
        peaks = {
            metric.name: _time_seconds(metric, self._bucket[metric], held[row])
            for metric, held in self._peaks.items()
            if not np.isnan(held[row]).all()
        }
        return Windows(float(self._table.since_seconds[row]), peaks)


def _number(metric: Metric, at_seconds: float) -> int:
    """The bucket of a time, counted from 1970."""
    return math.floor(at_seconds / metric.window_seconds * BUCKETS)


def _time_seconds(metric: Metric, newest: int, held: Floats) -> float:
    """The beginning of the bucket with the highest average."""
    number = newest - (newest - int(np.nanargmax(held))) % BUCKETS
    return number * metric.window_seconds / BUCKETS


def _current_averages(metrics: Sequence[Metric]) -> list[Metric | None]:
    """The first average of each resource."""
    averages = [metric for metric in metrics if metric.statistic == load_metrics.AVERAGE]
    return [next((one for one in averages if one.resource == name), None) for name in load_metrics.RESOURCES]


def _nothing(*shape: int) -> Floats:
    return np.full(shape, np.nan)


def _taken(held: Floats, rows: Ints) -> Floats:
    """These rows of a column; -1 is one without anything."""
    return np.concatenate((held, _nothing(1, *held.shape[1:])))[rows]
