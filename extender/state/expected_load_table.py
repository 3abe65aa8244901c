"""Placements per node as columns for requests: pods per hot-spot window, and the load that windows cannot show yet as a
straight line in time.

`placements` owns the `ExpectedLoadTable` of its table. It knows which pods count where and writes a node's row whenever
one comes, goes or leaves a window; requests and `state.score_cache` read rows, in the order of `node_cache.NodeLoads`.
Not thread-safe: the table has the lock.

The expected load of a pod is est * (1 - age / W) while age < W. Over the pods of a node that is A - (now * A - B) / W
with A = sum(est) and B = sum(est * began at), so `_offset` holds A + B / W and `_slope` holds A / W, with times
counted from a nearby origin. A pod that begins to use its node later (it waits for its start, or the scheduler's clock
is ahead) is new until then: its est stands in A of the offset alone.
"""

import collections.abc
import contextlib
import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender.state import usage_estimates
from policy import metrics
from policy.rules import expected_load, hotspots
from policy.schema import load_policy

PUT_OFF: Final = 8  # rows that wait until a request needs one of them
_NO_ROWS: Final = np.array([], dtype=np.intp)


class Placement(NamedTuple):
    """A pod that counts on a node, with the load expected of it, by what it was estimated, and since when it uses the
    node (`expected_load.began_at_seconds`); an assumed one counts until a moment.
    """

    binding: hotspots.Binding
    load: expected_load.Load
    key: usage_estimates.EstimateKey
    began_at_seconds: float
    until_seconds: float = math.inf

    @property
    def is_assumption(self) -> bool:
        """Whether the pod watch has not shown the pod on that node yet."""
        return self.until_seconds < math.inf


class Group(NamedTuple):
    """Metrics that show a pod equally late: the averaging window W behind them and the place of their resource in a
    `Load`.
    """

    window_seconds: float
    place: int


class ExpectedLoadColumns(NamedTuple):
    """Placements as columns for the nodes of one request.

    `counts[nodes, hot spots]` are pods placed inside each window; `amounts[nodes, metrics]` is the expected load that
    a metric cannot show yet, in millicores or bytes by the metric's resource.
    """

    counts: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.float64]


class _Columns(NamedTuple):
    """The table by row: counts, the line of each metric, whether it was written, and whether a slope is not 0."""

    counts: npt.NDArray[np.int64]
    offset: npt.NDArray[np.float64]
    slope: npt.NDArray[np.float64]
    touched: npt.NDArray[np.bool_]
    aging: npt.NDArray[np.bool_]


class ExpectedLoadTable:
    """Counts and lines of all nodes under one policy. `windows` are all its spans in seconds, ascending: a row must be
    written again when a placement becomes older than one of them. What is expected of a placement is in no line once it
    is `expecting_seconds` old.
    """

    def __init__(self, policy: load_policy.LoadPolicy, origin_seconds: float) -> None:
        self._metrics = policy.metrics_in_force
        self._hot_windows = [spot.window_seconds for spot in policy.hot_spots]
        self._groups = _columns_by_window(self._metrics) if policy.recent_pods.enabled else {}
        self._spans = {group.window_seconds for group in self._groups}
        self._crowding_seconds = max(self._hot_windows, default=-math.inf)
        self.expecting_seconds = max(self._spans, default=-math.inf)
        self._origin_seconds = origin_seconds
        self._index: collections.abc.Mapping[str, int] = {}
        self._columns = self._empty(1)

    def follow(self, index: collections.abc.Mapping[str, int], rows: int) -> set[str]:
        """Stand in the order of `index` from now on; gives the nodes whose rows are to be written.

        A node keeps its row, so that those are only the nodes that came.
        """
        if index is self._index:
            self._grow(rows)
            return set()
        before, self._index = self._index, index
        moved = {name for name, _ in before.items() ^ index.items()}
        self._grow(max(rows, 1 + max(index.values(), default=0)))
        for row in (before[name] for name in moved if name in before):
            self._zero(row)
        return moved

    def end_seconds(self, bound_at_seconds: float, began_at_seconds: float) -> float:
        """When a placement has left every window; -inf without any."""
        return max(bound_at_seconds + self._crowding_seconds, began_at_seconds + self.expecting_seconds)

    def turns(self, placement: Placement) -> set[float]:
        """The moments at which a placement begins to age or leaves a window: its node's row is written again then."""
        at_seconds, began_at_seconds = placement.binding.at_seconds, placement.began_at_seconds
        ends = {at_seconds + window for window in self._hot_windows} | {began_at_seconds + span for span in self._spans}
        return {at_seconds, began_at_seconds, *ends}

    def write(self, node: str, here: collections.abc.Collection[Placement], now_seconds: float) -> None:
        """Write what counts on a node at this moment; a node without a row has none."""
        row = self._index.get(node)
        if row is None:
            return
        if not here:
            self._zero(row)
            return
        ages = [now_seconds - placement.binding.at_seconds for placement in here]
        columns = self._columns
        columns.counts[row] = [len([age for age in ages if age < window]) for window in self._hot_windows]
        offset, slope = [0.0] * len(self._metrics), [0.0] * len(self._metrics)
        for group, places in self._groups.items():
            line = self._line(group, here, now_seconds)
            for place in places:
                offset[place], slope[place] = line
        columns.offset[row], columns.slope[row] = offset, slope  # at once: numpy's fixed cost is the cost
        columns.touched[row], columns.aging[row] = True, any(slope)

    @contextlib.contextmanager
    def put_back(self, node: str) -> collections.abc.Iterator[None]:
        """Put a node's row back when the block ends, also by an error; `touched` gives no change of it."""
        row = self._index.get(node)
        before = [] if row is None else [(column, column[row].copy()) for column in self._columns]
        try:
            yield
        finally:
            for column, values in before:
                column[row] = values

    def clear(self, nodes: collections.abc.Iterable[str]) -> None:
        """Write that nothing counts on these nodes any more: mostly all whose assumed pods end with a second."""
        self._zero(np.array([self._index[node] for node in nodes if node in self._index], dtype=np.intp))

    def read(self, rows: npt.NDArray[np.intp], now_seconds: float) -> ExpectedLoadColumns:
        """The columns of some rows at this moment."""
        columns, since_origin_seconds = self._columns, now_seconds - self._origin_seconds
        amounts = columns.offset.take(rows, axis=0) - since_origin_seconds * columns.slope.take(rows, axis=0)
        return ExpectedLoadColumns(columns.counts.take(rows, axis=0), np.maximum(amounts, 0.0))

    def touched(self, rows: npt.NDArray[np.intp] | None, *, aging: bool) -> npt.NDArray[np.intp]:
        """The rows written since this last gave them, to the one who keeps the others; none of them while there are
        few and none is `rows` for (None: all are). With `aging` also those whose expected load is another one at every
        moment.
        """
        touched = self._columns.touched
        if not aging:
            number = np.count_nonzero(touched)
            if not number or (rows is not None and number < PUT_OFF and not touched[rows].any()):
                return _NO_ROWS
        (changes,) = (touched | self._columns.aging if aging else touched).nonzero()
        touched[changes] = False
        return changes

    def _line(self, group: Group, here: collections.abc.Iterable[Placement], now_seconds: float) -> tuple[float, float]:
        """A + B / W and A / W of the module's formula, in the resource's unit and that per second."""
        (window_seconds, place), amounts, moments, coming = group, [], [], []
        for placement in here:
            amount, age = placement.load[place], now_seconds - placement.began_at_seconds
            if age < 0:
                coming.append(amount)
            elif age < window_seconds:
                amounts.append(amount)
                moments.append(amount * (placement.began_at_seconds - self._origin_seconds))
        total = math.fsum(amounts)
        return total + math.fsum(moments) / window_seconds + math.fsum(coming), total / window_seconds

    def _zero(self, rows: int | npt.NDArray[np.intp]) -> None:
        for column in self._columns:
            column[rows] = 0
        self._columns.touched[rows] = True

    def _empty(self, rows: int) -> _Columns:
        counts = np.zeros((rows, len(self._hot_windows)), dtype=np.int64)
        return _Columns(counts, *np.zeros((2, rows, len(self._metrics))), *np.zeros((2, rows), dtype=np.bool_))

    def _grow(self, rows: int) -> None:
        size = len(self._columns.counts)
        if rows > size:
            grown = zip(self._columns, self._empty(2 * rows - size), strict=True)
            self._columns = _Columns._make(map(np.concatenate, grown))


def _columns_by_window(in_force: collections.abc.Sequence[metrics.Metric]) -> dict[Group, list[int]]:
    groups: dict[Group, list[int]] = {}
    for column, metric in enumerate(in_force):
        place = metrics.place(metric.resource)  # a Load has them in this order
        if place is None:  # no pod is expected to use it
            continue
        groups.setdefault(Group(metric.averaging_seconds, place), []).append(column)
    return groups
