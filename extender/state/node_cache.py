"""Load annotations of the nodes as columns of numbers, decoded before kube-scheduler asks.

The Node watch puts each node into a `NodeTable` once, when it changes; the ConfigMap watch brings heartbeats, which
confirm what the nodes say when either is next looked at. A
request takes the current `NodeLoads`, an immutable view of all rows, and only has to find the rows of the names asked
for. Whether a reading is still fresh depends on the moment of the request, so the view carries effective times and
`state.cluster_view` compares them with the clock. Rows are written several at once and copied when the view is next
read; only a node that comes or goes renumbers them.
"""

import collections.abc
import dataclasses
import itertools
import math
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from extender import deadline
from kube import objects
from policy.contract import heartbeat, load_annotation, node_thresholds, relief_hint
from policy.rules import expected_load
from policy.schema import node_pools
from runtime import logs

log = logs.get(__name__)

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

NO_ANNOTATION: Final = "no annotation"
UNKNOWN: Final = 0  # the row of every name that is not known here: it never holds a reading
_ROWS_AT_FIRST: Final = 64
_ROUNDING: Final = 1.0 + 1e-9  # 1 / (1 / allocatable) may be a little under allocatable
_UNWRITTEN_MOST: Final = 256  # rows that a request may have to write before it reads: half a millisecond


class NodeFacts(NamedTuple):
    """One node as its object says it: the reading or why there is none, allocatable resources, the relief hint, the
    thresholds of its own, its labels, and `Node.adverse_conditions`.
    """

    reading: load_annotation.Reading | None
    problem: str
    cpu_millicores: float
    memory_bytes: float
    relief: relief_hint.Relief | None
    own: node_thresholds.Own | None = None
    labels: collections.abc.Mapping[str, str] = {}
    conditions: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLoads:
    """The readings of all nodes at one moment; `names[row]` is whose the row is, "" for UNKNOWN and rows not in use.

    `values[rows, metrics]` are ratios, NaN where the metric is absent or invalid; `effective_seconds[rows]` is NaN
    without a reading; `per_allocatable[rows, cpu|memory]` is 1 / allocatable, 0 where that is unknown;
    `own_limits[rows, metrics]` are nodes' own filter thresholds, NaN where a node has none (None: no node has any);
    `pools[rows]` the place of each node's pool in the policy, `NO_POOL` for none (None: the policy has no pools).
    `index` and `names` are the same objects in two views unless a node came or went between them.
    """

    names: tuple[str, ...]
    index: collections.abc.Mapping[str, int]
    values: Floats
    effective_seconds: Floats
    per_allocatable: Floats
    reliefs: collections.abc.Mapping[int, relief_hint.Relief]
    own_limits: Floats | None = None
    pools: Rows | None = None

    def rows(self, names: collections.abc.Sequence[str]) -> Rows:
        """The row of each name, in the order given."""
        places = map(self.index.get, names, itertools.repeat(UNKNOWN))
        return np.fromiter(places, dtype=np.intp, count=len(names))

    def largest_node(self) -> expected_load.Load:
        """The most CPU and the most memory that a node offers, infinite where that of no node is known."""
        known = self.per_allocatable > 0
        least = self.per_allocatable.min(axis=0, initial=math.inf, where=known)
        return expected_load.Load(*(1.0 / share * _ROUNDING if share < math.inf else math.inf for share in least))


class Layout(NamedTuple):
    """Columns for another policy, filled aside: `NodeTable.use` puts them in force and adds what came meanwhile."""

    columns: dict[str, int]
    pools: tuple[node_pools.Pool, ...]
    values: Floats
    own_limits: Floats
    places: Rows
    facts: dict[str, NodeFacts]


@dataclasses.dataclass(frozen=True, slots=True)
class HeartbeatState:
    """The heartbeat for /nodes and the metrics: the last one's time and policy, and the nodes that differ from it.

    `matches` is false, too, while there is a `problem`: what the ConfigMap says now renews nothing.
    """

    at_seconds: float | None
    policy_hash: str
    matches: bool
    digest: str
    differing: tuple[str, ...]
    problem: str


class NodeSource(Protocol):
    """Source of the nodes' columns; any thread may call any method. `NodeTable` is the one that follows the watches."""

    def laid_out(
        self, metric_names: collections.abc.Sequence[str], pools: tuple[node_pools.Pool, ...] = ()
    ) -> Layout: ...
    def use(self, layout: Layout) -> None: ...
    def node_changed(self, old: objects.Node | None, new: objects.Node | None) -> None: ...
    def heartbeat_changed(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> None: ...
    def loads(self) -> NodeLoads: ...
    def facts(self) -> dict[str, NodeFacts]: ...
    def heartbeat_state(self) -> HeartbeatState: ...


# Makes a source for these metrics and pools.
NodeSourceFactory = collections.abc.Callable[[tuple[str, ...], tuple[node_pools.Pool, ...]], NodeSource]


class NodeTable:
    """Keeps the columns in step with the Node and ConfigMap watches. Every method may be called from any thread."""

    def __init__(self, metric_names: collections.abc.Sequence[str], pools: tuple[node_pools.Pool, ...] = ()) -> None:
        self._lock = deadline.Lock()
        self._pools = pools
        self._columns = {name: column for column, name in enumerate(metric_names)}
        self._facts: dict[str, NodeFacts] = {}
        self._unwritten: set[str] = set()  # nodes whose facts are newer than their rows
        self._unsettled: set[int] = set()  # buckets of texts that were not compared with the last heartbeat yet
        self._times = heartbeat.EffectiveTimes()
        self._heartbeat_problem = "none seen yet"
        self._index: dict[str, int] = {}
        self._free: list[int] = []
        self._values, self._effective, self._per_allocatable = _empty(_ROWS_AT_FIRST, len(self._columns))
        self._own_limits = np.full(self._values.shape, math.nan)
        self._places = np.full(_ROWS_AT_FIRST, node_pools.NO_POOL)
        self._reliefs: dict[int, relief_hint.Relief] = {}
        self._members: tuple[tuple[str, ...], dict[str, int]] | None = None
        self._loads: NodeLoads | None = None

    def laid_out(self, metric_names: collections.abc.Sequence[str], pools: tuple[node_pools.Pool, ...] = ()) -> Layout:
        """Columns for another policy's metrics and pools, made from what the nodes said; requests and watch go on."""
        columns = {name: column for column, name in enumerate(metric_names)}
        with self._lock:
            facts, rows, size = dict(self._facts), dict(self._index), len(self._values)
        values, own_limits = np.full((2, size, len(columns)), math.nan)
        places = np.full(size, node_pools.NO_POOL)
        written, contents = [rows[name] for name in facts], list(facts.values())
        _write(written, contents, columns, values=values, own_limits=own_limits)
        places[written] = _places(contents, pools)
        return Layout(columns, pools, values, own_limits, places, facts)

    def use(self, layout: Layout) -> None:
        """Put a layout in force. Nodes that changed since it was made are written again, they alone."""
        with self._lock:
            if (layout.columns, layout.pools) == (self._columns, self._pools):
                return
            self._columns, self._pools, self._loads = layout.columns, layout.pools, None
            places = np.full(len(self._effective), node_pools.NO_POOL)
            places[: len(layout.places)] = layout.places
            places[self._free] = node_pools.NO_POOL
            self._places = places
            both = np.full((2, len(self._effective), len(layout.columns)), math.nan)
            both[:, : len(layout.values)] = layout.values, layout.own_limits
            both[:, self._free] = math.nan
            self._values, self._own_limits = both
            self._unwritten.update(name for name, facts in self._facts.items() if layout.facts.get(name) is not facts)

    def node_changed(self, old: objects.Node | None, new: objects.Node | None) -> None:
        """A change from the Node watch; `new` None means that the node is gone."""
        if old is not None and new is not None and _says_the_same(old, new):
            if old.adverse_conditions != new.adverse_conditions:
                with self._lock:  # for people; the view for requests stays the same object
                    self._facts[new.name] = facts_of(new)
            return  # most changes are the kubelet's, about conditions and images
        with self._lock:
            if new is not None:
                self._put(new)
            elif old is not None:
                self._put_text(old.name, None)
                self._leave(old.name)
            if len(self._unwritten) > _UNWRITTEN_MOST:
                self._write_rows()
            self._loads = None

    def heartbeat_changed(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> None:
        """A change of the heartbeat ConfigMap; without a usable one readings simply age."""
        with self._lock:
            self._confirm()  # what matched the heartbeat before keeps its time
            self._heartbeat_problem = self._accept(data, now_seconds)
            self._loads = None
            self._confirm()

    def loads(self) -> NodeLoads:
        """The current view; the same object until something changes."""
        with self._lock:
            if self._loads is None:
                self._confirm()
                self._write_rows()
                self._loads = self._view()
            return self._loads

    def facts(self) -> dict[str, NodeFacts]:
        """Returns facts of each node's object, for people; requests need only `loads`."""
        with self._lock:
            return dict(self._facts)

    def heartbeat_state(self) -> HeartbeatState:
        """The digest state of this replica's view."""
        with self._lock:
            self._confirm()
            last = self._times.last
            return HeartbeatState(
                at_seconds=None if last is None else last.at_seconds,
                policy_hash="" if last is None else last.policy_hash,
                matches=not self._heartbeat_problem and self._times.matches(),
                digest="" if last is None else last.digest.whole,
                differing=self._times.differing_nodes(),
                problem=self._heartbeat_problem,
            )

    def _put(self, node: objects.Node) -> None:
        facts = facts_of(node)  # first: should it raise, text, facts and row still agree with each other
        name = node.name
        self._put_text(name, node.annotations.get(load_annotation.KEY))
        self._facts[name] = facts
        if name not in self._index:
            self._take_row(name)
        self._unwritten.add(name)

    def _put_text(self, name: str, text: str | None) -> None:
        """Tell the digests, which are settled once for many nodes, but not past a bucket that may match just now."""
        bucket = heartbeat.bucket_of(name)
        if bucket in self._unsettled:
            self._confirm()
        self._times.put(name, text)
        self._unsettled.add(bucket)

    def _take_row(self, name: str) -> None:
        """A row for a new node: one that another left, else the next; arrays that are full are doubled."""
        row = self._free.pop() if self._free else len(self._index) + 1
        if row == len(self._effective):
            grown = _empty(2 * row, len(self._columns))
            for new, old in zip(grown, (self._values, self._effective, self._per_allocatable), strict=True):
                new[:row] = old
            self._values, self._effective, self._per_allocatable = grown
            self._own_limits = np.concatenate((self._own_limits, np.full(self._own_limits.shape, math.nan)))
            self._places = np.concatenate((self._places, np.full(row, node_pools.NO_POOL)))
        self._index[name], self._members = row, None

    def _leave(self, name: str) -> None:
        if self._facts.pop(name, None) is None:
            return
        row = self._index.pop(name)
        self._unwritten.discard(name)
        self._values[row] = self._own_limits[row] = self._effective[row] = math.nan
        self._per_allocatable[row] = 0.0
        self._places[row] = node_pools.NO_POOL
        self._reliefs.pop(row, None)
        self._free.append(row)
        self._members = None

    def _accept(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> str:
        if data is None:
            return "none seen yet" if self._times.last is None else "the ConfigMap was deleted"
        try:
            accepted = self._times.accept(heartbeat.decode(data), now_seconds)
        except heartbeat.HeartbeatError as error:
            log.warning("heartbeat ignored", error=str(error))
            return str(error)
        return "" if accepted else "ignored: older than the last, or ahead of the clock"

    def _confirm(self) -> None:
        self._unsettled.clear()
        renewed = [name for name in self._times.settle() if name in self._index]  # one odd name costs only itself
        if renewed:
            self._write_effective(renewed)

    def _write_effective(self, names: list[str]) -> None:
        readings = [(name, self._facts[name].reading) for name in names]
        self._effective[[self._index[name] for name in names]] = [
            math.nan if reading is None else self._times.effective_seconds(name, reading.at_seconds)
            for name, reading in readings
        ]

    def _write_rows(self) -> None:
        """Write what changed since the view was last read: with a few nodes numpy's fixed cost is the cost."""
        if not self._unwritten:
            return
        names = list(self._unwritten)
        rows, facts = [self._index[name] for name in names], [self._facts[name] for name in names]
        _write(rows, facts, self._columns, values=self._values, own_limits=self._own_limits)
        if self._pools:
            self._places[rows] = _places(facts, self._pools)
        self._write_effective(names)
        self._per_allocatable[rows] = [(_inverse(one.cpu_millicores), _inverse(one.memory_bytes)) for one in facts]
        for row, one in zip(rows, facts, strict=True):
            self._reliefs.pop(row, None)
            if one.relief is not None:
                self._reliefs[row] = one.relief
        self._unwritten.clear()

    def _view(self) -> NodeLoads:
        if self._members is None:
            by_row = {row: name for name, row in self._index.items()}
            used = 1 + len(self._index) + len(self._free)
            self._members = tuple(by_row.get(row, "") for row in range(used)), dict(self._index)
        names, index = self._members
        every = (self._values, self._effective, self._per_allocatable)
        values, effective_seconds, per_allocatable = (column[: len(names)].copy() for column in every)
        for column in (values, effective_seconds, per_allocatable):
            column.flags.writeable = False
        own_limits = self._own_limits[: len(names)]
        limits = None if np.isnan(own_limits).all() else own_limits.copy()
        places = self._places[: len(names)].copy() if self._pools else None
        return NodeLoads(names, index, values, effective_seconds, per_allocatable, dict(self._reliefs), limits, places)


def facts_of(node: objects.Node) -> NodeFacts:
    """A node's facts. An annotation, hint or threshold that cannot be read is a reason in /nodes, never an error."""
    reading, problem = _reading(node.annotations.get(load_annotation.KEY))
    hint = relief_hint.decode(node.annotations.get(relief_hint.KEY))
    try:
        allocatable = node.allocatable
    except (ValueError, OverflowError):  # unknown: one odd node costs only itself
        allocatable = objects.NOTHING
    own = node_thresholds.decode(node.annotations.get(node_thresholds.KEY))
    sizes = allocatable.cpu_millicores, allocatable.memory_bytes
    return NodeFacts(reading, problem, *sizes, hint, own, node.labels, node.adverse_conditions)


def _says_the_same(old: objects.Node, new: objects.Node) -> bool:
    if old.annotations != new.annotations or old.labels != new.labels:
        return False
    return old.status.allocatable == new.status.allocatable


def _reading(text: str | None) -> tuple[load_annotation.Reading | None, str]:
    if text is None:
        return None, NO_ANNOTATION
    try:
        return load_annotation.decode(text), ""
    except load_annotation.AnnotationError as error:
        return None, f"annotation unusable: {error.reason}"


def _empty(rows: int, metrics: int) -> tuple[Floats, Floats, Floats]:
    """Columns without a reading."""
    return np.full((rows, metrics), math.nan), np.full(rows, math.nan), np.zeros((rows, 2))


def _write(
    rows: list[int],
    facts: list[NodeFacts],
    columns: collections.abc.Collection[str],
    *,
    values: Floats,
    own_limits: Floats,
) -> None:
    """Write the readings and own thresholds of some nodes into their rows."""
    if not rows:
        return
    values[rows] = [_by_column(one.reading.values if one.reading else {}, columns) for one in facts]
    own_limits[rows] = math.nan
    for row, one in zip(rows, facts, strict=True):
        if one.own is not None:
            own_limits[row] = _by_column(one.own.limits, columns)


def _places(facts: list[NodeFacts], pools: tuple[node_pools.Pool, ...]) -> list[int]:
    return [node_pools.place(pools, one.labels) for one in facts]


def _by_column(known: collections.abc.Mapping[str, float], columns: collections.abc.Iterable[str]) -> list[float]:
    return [known.get(metric, math.nan) for metric in columns]


def _inverse(amount: float) -> float:
    return 1.0 / amount if amount > 0 else 0.0
