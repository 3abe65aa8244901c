"""Averages over the last minutes, kept in memory from the samples of metrics-server: of nodes or of pods, as rows.

`annotator.collect.node_windows` keeps them of nodes, `descheduler.sources.pod_windows` of pods; pure.

    average over W    sum(overlap_i * v_i) / sum(overlap_i)    overlap_i: seconds of the last W that sample i has

* A sample speaks for the time since the sample before it, or for its own window where that is over two minutes ago.
* An average needs samples of at least half of W; it is missing otherwise.
* Memory does not grow: a row has so many slots. A sample that comes sooner than a slot is long is merged into it.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policy.contract import freshness
from policy.schema import units

SLOTS: Final = 64  # of 5 min slots of up to 9.4 s: metrics-server has a sample every 10 s at the most
LONGEST_SPAN_SECONDS: Final = 120.0  # metrics-server of large providers has a sample a minute, and may miss one
GAP_SECONDS: Final = 300.0  # as long as the averages are: in a shorter gap no average is missing
ENOUGH_RATIO: Final = 0.5
STALE_SECONDS: Final = 120.0  # an item is up to a minute old where metrics-server asks kubelets once a minute

EVERY: Final = slice(None)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Refusal(ValueError):
    """An item that is not used; the text is its reason, fit for a metric label."""


def window_seconds(text: str) -> float | None:
    """The length of an item's window, a Go duration; None where it cannot be read."""
    try:
        return units.duration_seconds(text) or None
    except ValueError:
        return None


def checked_seconds(at_seconds: float | None, window: str, now_seconds: float) -> tuple[float, float]:
    """The end of an item's window (Unix seconds) and its length. Raises Refusal: no_time, future, stale, window."""
    if at_seconds is None:
        raise Refusal("no_time")
    if at_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS:
        raise Refusal("future")
    if at_seconds < now_seconds - STALE_SECONDS:
        raise Refusal("stale")
    span_seconds = window_seconds(window)
    if span_seconds is None:
        raise Refusal("window")
    return at_seconds, span_seconds


class Samples(NamedTuple):
    """One sample of each row: its end (Unix seconds), its length in seconds, and its values [rows, columns]. NaN where
    there is none.
    """

    at_seconds: Floats
    window_seconds: Floats
    values: Floats


class Average(NamedTuple):
    """The average of a column over its window."""

    column: int
    window_seconds: float
    ratio: float


class _Table(NamedTuple):
    """All state by row; NaN where there is nothing."""

    at_seconds: Floats  # [rows, slots] end of each sample
    span_seconds: Floats  # [rows, slots]
    values: Floats  # [rows, slots, columns]
    slot: Ints  # [rows] the newest
    newest_seconds: Floats  # [rows] end of the newest sample
    newest: Floats  # [rows, columns]
    since_seconds: Floats  # [rows]

    @classmethod
    def empty(cls, rows: int, slots: int, columns: int) -> "_Table":
        return cls(
            at_seconds=nothing(rows, slots),
            span_seconds=nothing(rows, slots),
            values=nothing(rows, slots, columns),
            slot=np.zeros(rows, np.int64),
            newest_seconds=nothing(rows),
            newest=nothing(rows, columns),
            since_seconds=nothing(rows),
        )

    def aligned(self, rows: Ints) -> "_Table":
        """The rows in another order; -1 is an empty one."""
        empty = _Table.empty(1, *self.values.shape[1:])
        return _Table(*(np.concatenate(pair)[rows] for pair in zip(self, empty, strict=True)))


class SampleWindows:
    """The samples of a set of rows, each known by its uid, with so many values each. Used by one thread."""

    def __init__(self, columns: int, slots: int = SLOTS) -> None:
        self._uids: tuple[str, ...] = ()
        self._slots, self._slot_seconds = slots, 0.0
        self._table = _Table.empty(0, slots, columns)

    def follow(self, uids: Sequence[str]) -> Ints:
        """These are the rows now, a new one begins with nothing; where each was before, -1 for a new one."""
        known: Mapping[str, int] = {uid: row for row, uid in enumerate(self._uids)}
        rows = np.array([known.get(uid, -1) for uid in uids], np.int64)
        self._table, self._uids = self._table.aligned(rows), tuple(uids)
        return rows

    def keep(self, longest_seconds: float) -> None:
        """The longest average that is asked for."""
        # Two slots in a row are longer than one may be, so that all of them hold the longest average.
        self._slot_seconds = 2 * longest_seconds / self._slots

    def resume(self, row: int, averages: Sequence[Average], *, at_seconds: float, since_seconds: float) -> None:
        """The row has the samples that these averages of one moment make, and is observed since then."""
        table = self._table
        for array in (table.at_seconds, table.span_seconds, table.values, table.newest):
            array[row] = np.nan
        spans = sorted({one.window_seconds for one in averages})[: self._slots]
        for back, (begin, end) in enumerate(itertools.pairwise((0.0, *spans))):
            table.at_seconds[row, -back], table.span_seconds[row, -back] = at_seconds - begin, end - begin
            for column in range(table.values.shape[2]):
                table.values[row, -back, column] = _between([one for one in averages if one.column == column], end)
        table.slot[row], table.newest_seconds[row], table.since_seconds[row] = 0, at_seconds, since_seconds
        if spans:
            table.newest[row] = table.values[row, 0]

    def add(self, samples: Samples, *, now_seconds: float) -> None:
        """Takes the samples that are newer than those before."""
        table = self._table
        set_back = table.newest_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS  # this machine's clock was
        table.newest_seconds[set_back], table.at_seconds[set_back] = np.nan, np.nan
        gap_seconds = samples.at_seconds - table.newest_seconds
        rows = np.flatnonzero(np.isfinite(samples.at_seconds) & ~(gap_seconds <= 0))
        gaps = np.where(np.isnan(gap_seconds), np.inf, gap_seconds)[rows]
        own = np.minimum(samples.window_seconds[rows], LONGEST_SPAN_SECONDS)
        spans = np.where(gaps <= LONGEST_SPAN_SECONDS, gaps, np.minimum(own, gaps))
        ends, values = samples.at_seconds[rows], samples.values[rows]
        self._store(rows, ends, spans, values, joined=gaps <= LONGEST_SPAN_SECONDS)
        table.newest_seconds[rows], table.newest[rows] = ends, values
        anew = rows[(gaps > GAP_SECONDS) | np.isnan(table.since_seconds[rows])]
        table.since_seconds[anew] = samples.at_seconds[anew] - np.minimum(
            samples.window_seconds[anew], LONGEST_SPAN_SECONDS
        )

    def _store(self, rows: Ints, ends: Floats, spans: Floats, values: Floats, *, joined: Flags) -> None:
        """Into a new slot each, or into the newest one while that is shorter than a slot may be."""
        table = self._table
        held = table.slot[rows]
        held_spans, held_values = table.span_seconds[rows, held], table.values[rows, held]
        whole = np.isfinite(held_values).all(axis=1) & np.isfinite(values).all(axis=1)
        merged = joined & whole & (held_spans + spans <= self._slot_seconds)
        shares = np.where(merged, held_spans / (held_spans + spans), 0.0)[:, None]
        values = np.where(merged[:, None], held_values * shares + values * (1 - shares), values)
        slots = np.where(merged, held, (held + 1) % self._slots)
        table.at_seconds[rows, slots] = ends
        table.span_seconds[rows, slots] = np.where(merged, held_spans + spans, spans)
        table.values[rows, slots] = values
        table.slot[rows] = slots

    def average(self, column: int, seconds: float, now_seconds: float) -> Floats:
        """The averages of a column over the last seconds [rows]; NaN without enough samples, or where the newest one
        has no value.
        """
        table = self._table
        values = table.values[:, :, column]
        overlap = self._overlap(seconds, now_seconds)
        overlap = np.where(np.isnan(overlap) | np.isnan(values), 0.0, overlap)
        total = overlap.sum(axis=1)
        enough = (total >= ENOUGH_RATIO * seconds) & np.isfinite(table.newest[:, column])
        sums = np.where(overlap > 0, values, 0.0) * overlap
        return np.asarray(np.divide(sums.sum(axis=1), total, out=nothing(len(total)), where=enough))

    def _overlap(self, seconds: float, now_seconds: float, rows: slice = EVERY) -> Floats:
        """Seconds of the last `seconds` that each sample speaks for [rows, slots]."""
        ends = self._table.at_seconds[rows]
        begins = np.maximum(ends - self._table.span_seconds[rows], now_seconds - seconds)
        return np.asarray(np.maximum(np.minimum(ends, now_seconds) - begins, 0.0))

    def observed_seconds(self, row: int, seconds: float, now_seconds: float) -> float:
        """How much of the last `seconds` of a row was observed."""
        return float(np.nansum(self._overlap(seconds, now_seconds, slice(row, row + 1))))

    def newest_seconds(self) -> Floats:
        """When the newest sample of each row ended [rows]; NaN without one."""
        return self._table.newest_seconds.copy()

    def since_seconds(self) -> Floats:
        """Since when each row is observed without a gap of five minutes [rows]; NaN where it is not."""
        return self._table.since_seconds


def _between(averages: Sequence[Average], end_seconds: float) -> float:
    """The mean of what is older than all averages over less than `end_seconds` and in the next longer one; NaN where
    none is as long: `(W_2 * a_2 - W_1 * a_1) / (W_2 - W_1)`.
    """
    window = operator.attrgetter("window_seconds")
    shorter = max((one for one in averages if one.window_seconds < end_seconds), key=window, default=None)
    longer = min((one for one in averages if one.window_seconds >= end_seconds), key=window, default=None)
    if longer is None:
        return np.nan
    known_seconds, known = (0.0, 0.0) if shorter is None else (shorter.window_seconds, shorter.ratio)
    rest = longer.window_seconds * longer.ratio - known_seconds * known
    return max(0.0, rest / (longer.window_seconds - known_seconds))


def nothing(*shape: int) -> Floats:
    """An array without a value."""
    return np.full(shape, np.nan)


def taken(held: Floats, rows: Ints) -> Floats:
    """These rows of a column; -1 is one without anything."""
    return np.concatenate((held, nothing(1, *held.shape[1:])))[rows]
