"""What the nodes' annotations say, as columns of numbers that are ready before kube-scheduler asks.

The Node watch puts each node into a `NodeTable` once, when it changes; the ConfigMap watch brings heartbeats. A
request takes the current `NodeLoads`, an immutable view of all rows, and only has to find the rows of the names asked
for. Whether a reading is still fresh depends on the moment of the request, so the view carries effective times and
`view` compares them with the clock. Rows are changed in place and copied when the view is next read; only a node that
comes or goes renumbers them.
"""

import collections.abc
import dataclasses
import itertools
import math
from typing import Final

import numpy as np
import numpy.typing as npt

from extender import deadline
from kube import objects
from policy import annotations, freshness, heartbeat, node_thresholds, relief
from runtime import logs

log = logs.get(__name__)

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

NO_ANNOTATION: Final = "no annotation"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeFacts:
    """One node as its object says it: the reading or why there is none, allocatable resources, the relief hint and the
    thresholds of its own.
    """

    reading: annotations.Reading | None
    problem: str
    cpu_millicores: float
    memory_bytes: float
    relief: relief.Relief | None
    own: node_thresholds.Own | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLoads:
    """The readings of all nodes at one moment; row i is `names[i]`, the last row stands for any node not known here.

    `values[rows, metrics]` are ratios, NaN where the metric is absent or invalid; `effective_seconds[rows]` is NaN
    without a reading; `per_allocatable[rows, cpu|memory]` is 1 / allocatable, 0 where that is unknown;
    `own_limits[rows, metrics]` are nodes' own filter thresholds, NaN where a node has none (None: no node has any).
    """

    names: tuple[str, ...]
    index: collections.abc.Mapping[str, int]
    values: Floats
    effective_seconds: Floats
    per_allocatable: Floats
    reliefs: collections.abc.Mapping[int, relief.Relief]
    own_limits: Floats | None = None

    def rows(self, names: collections.abc.Sequence[str]) -> Rows:
        """The row of each name, in the order given; unknown names get the last row, which holds no reading."""
        found = map(self.index.get, names, itertools.repeat(len(self.names)))
        return np.fromiter(found, dtype=np.intp, count=len(names))


@dataclasses.dataclass(frozen=True, slots=True)
class HeartbeatState:
    """What /nodes and the metrics say about the heartbeat: the last one's time and policy, and who differs from it."""

    at_seconds: float | None
    policy_hash: str
    matches: bool
    digest: str
    differing: tuple[str, ...]
    problem: str


class NodeTable:
    """Keeps the columns in step with the Node and ConfigMap watches. Every method may be called from any thread."""

    def __init__(self, metric_names: collections.abc.Sequence[str]) -> None:
        self._lock = deadline.Lock()
        self._columns = {name: column for column, name in enumerate(metric_names)}
        self._facts: dict[str, NodeFacts] = {}
        self._times = heartbeat.EffectiveTimes()
        self._heartbeat_problem = "none seen yet"
        self._index: dict[str, int] = {}
        self._values, self._effective, self._per_allocatable = _empty(0, len(self._columns))
        self._own_limits = np.full(self._values.shape, math.nan)
        self._reliefs: dict[int, relief.Relief] = {}
        self._renumber = True
        self._loads: NodeLoads | None = None

    def use_metrics(self, metric_names: collections.abc.Sequence[str]) -> None:
        """The metrics of a new policy: columns are laid out again from what the nodes said."""
        with self._lock:
            self._columns = {name: column for column, name in enumerate(metric_names)}
            self._renumber, self._loads = True, None

    def node_changed(self, old: objects.Node | None, new: objects.Node | None) -> None:
        """A change from the Node watch; `new` None means that the node is gone."""
        if old is not None and new is not None and _says_the_same(old, new):
            return  # most changes are the kubelet's, about conditions and images
        with self._lock:
            if new is not None:
                self._put(new)
            elif old is not None:
                self._times.put(old.name, None)
                self._renumber |= self._facts.pop(old.name, None) is not None
            self._loads = None
            self._confirm()

    def heartbeat_changed(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> None:
        """A change of the heartbeat ConfigMap; without a usable one readings simply age."""
        with self._lock:
            self._heartbeat_problem = self._accept(data, now_seconds)
            self._loads = None
            self._confirm()

    def loads(self) -> NodeLoads:
        """The current view; the same object until something changes."""
        with self._lock:
            if self._renumber:
                self._lay_out()
            if self._loads is None:
                self._loads = self._view()
            return self._loads

    def facts(self) -> dict[str, NodeFacts]:
        """What each node's object says, for people; requests need only `loads`."""
        with self._lock:
            return dict(self._facts)

    def heartbeat_state(self) -> HeartbeatState:
        """The digest state of this replica's view."""
        with self._lock:
            last = self._times.last
            return HeartbeatState(
                at_seconds=None if last is None else last.at_seconds,
                policy_hash="" if last is None else last.policy_hash,
                matches=self._times.matches(),
                digest="" if last is None else last.digest.whole,
                differing=self._times.differing_nodes(),
                problem=self._heartbeat_problem,
            )

    def _put(self, node: objects.Node) -> None:
        facts = facts_of(node)  # first: should it raise, text, facts and row still agree with each other
        self._times.put(node.name, node.annotations.get(annotations.KEY))
        self._renumber |= node.name not in self._facts
        self._facts[node.name] = facts
        if not self._renumber:
            self._write_row(self._index[node.name], node.name, facts)

    def _accept(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> str:
        if data is None:
            return "none seen yet"
        try:
            accepted = self._times.accept(heartbeat.decode(data), now_seconds)
        except heartbeat.HeartbeatError as error:
            log.warning("heartbeat ignored", error=str(error))
            return str(error)
        return "" if accepted else "ignored: older than the last, or ahead of the clock"

    def _confirm(self) -> None:
        confirmed = self._times.settle()
        if not self._renumber:
            for name in self._index.keys() & confirmed:  # one odd name must not cost the others their renewal
                self._effective[self._index[name]] = self._effective_seconds(name, self._facts[name])

    def _lay_out(self) -> None:
        self._index = {name: row for row, name in enumerate(sorted(self._facts))}
        self._values, self._effective, self._per_allocatable = _empty(len(self._index), len(self._columns))
        self._own_limits = np.full(self._values.shape, math.nan)
        self._reliefs = {}
        for name, row in self._index.items():
            self._write_row(row, name, self._facts[name])
        self._renumber, self._loads = False, None

    def _write_row(self, row: int, name: str, facts: NodeFacts) -> None:
        self._values[row] = math.nan
        for metric, value in facts.reading.values.items() if facts.reading else ():
            if (column := self._columns.get(metric)) is not None:
                self._values[row, column] = value
        self._own_limits[row] = math.nan
        for metric, limit in facts.own.limits.items() if facts.own else ():
            if (column := self._columns.get(metric)) is not None:
                self._own_limits[row, column] = limit
        self._effective[row] = self._effective_seconds(name, facts)
        self._per_allocatable[row] = _inverse(facts.cpu_millicores), _inverse(facts.memory_bytes)
        self._reliefs.pop(row, None)
        if facts.relief is not None:
            self._reliefs[row] = facts.relief

    def _effective_seconds(self, name: str, facts: NodeFacts) -> float:
        if facts.reading is None:
            return math.nan
        return self._times.effective_seconds(name, facts.reading.at_seconds)

    def _view(self) -> NodeLoads:
        columns = self._values.copy(), self._effective.copy(), self._per_allocatable.copy()
        for column in columns:
            column.flags.writeable = False
        own_limits = None if np.isnan(self._own_limits).all() else self._own_limits.copy()
        return NodeLoads(tuple(self._index), self._index, *columns, dict(self._reliefs), own_limits)


def facts_of(node: objects.Node) -> NodeFacts:
    """A node's facts. An annotation, hint or threshold that cannot be read is a reason in /nodes, never an error."""
    reading, problem = _reading(node.annotations.get(annotations.KEY))
    hint = relief.decode(node.annotations.get(relief.KEY))
    allocatable = _allocatable(node)
    own = node_thresholds.decode(node.annotations.get(node_thresholds.KEY))
    return NodeFacts(reading, problem, allocatable.cpu_millicores, allocatable.memory_bytes, hint, own)


def state_of(facts: NodeFacts, effective_seconds: float, now_seconds: float, stale_after_seconds: float) -> str:
    """`usable`, or why the whole reading cannot be used: stale, future, missing, or what is wrong with its text."""
    if facts.reading is None:
        return facts.problem
    return freshness.usable(effective_seconds, now_seconds, stale_after_seconds)


def _allocatable(node: objects.Node) -> objects.Resources:
    """What the node offers; a quantity that cannot be read is unknown, so that one odd node costs only itself."""
    try:
        return node.allocatable
    except (ValueError, OverflowError):
        return objects.NOTHING


def _says_the_same(old: objects.Node, new: objects.Node) -> bool:
    return old.annotations == new.annotations and old.status.allocatable == new.status.allocatable


def _reading(text: str | None) -> tuple[annotations.Reading | None, str]:
    if text is None:
        return None, NO_ANNOTATION
    try:
        return annotations.decode(text), ""
    except annotations.AnnotationError as error:
        return None, f"annotation unusable: {error.reason}"


def _empty(nodes: int, metrics: int) -> tuple[Floats, Floats, Floats]:
    """Columns without a reading, one row more than there are nodes: unknown names point at the last."""
    return np.full((nodes + 1, metrics), math.nan), np.full(nodes + 1, math.nan), np.zeros((nodes + 1, 2))


def _inverse(amount: float) -> float:
    return 1.0 / amount if amount > 0 else 0.0
