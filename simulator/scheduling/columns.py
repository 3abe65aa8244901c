"""Nodes as columns: one row per node in the order in which kube-scheduler looks at them, one array per amount.

`state` builds the columns when a node's shape changes and keeps them up to date pod by pod; `filtering` and `scoring`
compute over all rows at once. Which nodes tolerations, selectors and topology keys mean is remembered until a shape
changes: pods of one workload ask the same.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kube.api import selectors
from kube.api.affinity import PreferredNode
from kube.api.pods import Port
from kube.objects import Node, NodeSelector, Pod, Taint, Toleration
from simulator.scheduling import pod_requests
from simulator.scheduling.node_order import Bools, Ints
from simulator.scheduling.pod_requests import Demand

CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
SOFT = "PreferNoSchedule"
SCORED = (pod_requests.CPU, pod_requests.MEMORY)
BASE = (*SCORED, pod_requests.PODS)
REMEMBERED = 1000  # each pod of a DaemonSet names another node
Tolerations = tuple[Toleration, ...]


class Topology(NamedTuple):
    """The domains of one topology key: each row's domain as a number, -1 where the node has no such label; `whole` if
    there is no such node.
    """

    codes: Ints
    numbers: Mapping[str, int]
    labelled: Bools
    whole: bool

    def sums(self, per_row: Ints, where: Bools | None = None) -> Ints:
        """Amounts of rows added up by domain, of the rows of `where` only; the last number, which -1 reads, is 0."""
        codes = self.codes
        if where is not None or not self.whole:
            kept = self.labelled if where is None else self.labelled & where
            codes, per_row = codes[kept], per_row[kept]
        return np.bincount(codes, weights=per_row, minlength=len(self.numbers) + 1).astype(np.int64)

    def domains(self, codes: Ints) -> int:
        """How many domains some rows' codes are; rows without the label are one together."""
        return int(np.count_nonzero(np.bincount(codes + 1)))


class TaintedNodes(NamedTuple):
    """Rows that a pod may not use for what they are themselves, by rule; None for a rule that bars none."""

    cordoned: Bools | None
    tainted: Bools | None
    unselected: Bools | None


class Columns:
    """Nodes by row. `given` and `requested` have a line for each resource of BASE, in millicores, bytes and pods; of
    the SCORED among them `scored` is what LeastAllocated counts, `divisors` what is given, at least 1; `kinds` is how
    many of them a node has, at least 1, `whole` whether it has all, and `all_whole` whether every node has.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(node.name for node in nodes)
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.all_rows = np.arange(len(nodes))
        self.given, self.requested = np.zeros((2, len(BASE), len(nodes)), np.int64)
        self.scored = np.zeros((len(SCORED), len(nodes)), np.int64)
        self._given = dict(zip(BASE, self.given, strict=True))
        self._requested = dict(zip(BASE, self.requested, strict=True))
        for row, node in enumerate(nodes):
            for resource, amount in pod_requests.of_node(node).items():
                self._array(self._given, resource)[row] = amount
        offered = self.given[: len(SCORED)] > 0
        self.divisors = np.maximum(self.given[: len(SCORED)], 1)
        self.whole, self.kinds = offered.all(axis=0), np.maximum(offered.sum(axis=0), 1)
        self.all_whole = bool(self.whole.all())
        self.ports: dict[int, collections.Counter[Port]] = {}
        self._topologies: dict[str, Topology] = {}
        self._barred: dict[object, TaintedNodes] = {}
        self._unloved: dict[Tolerations, Ints | None] = {}
        self._preferred: dict[tuple[PreferredNode, ...], Ints] = {}

    def room(self, resource: str) -> Ints:
        """Returns the free amount of a resource, by row."""
        return self.allocatable(resource) - self._array(self._requested, resource)

    def allocatable(self, resource: str) -> Ints:
        """Returns the allocatable amount of a resource, by row."""
        return self._array(self._given, resource)

    def room_on(self, resource: str, row: int) -> int:
        """Returns the free amount of a resource on one row."""
        return int(self.allocatable(resource)[row] - self._array(self._requested, resource)[row])

    def count(self, row: int, demand: Demand, ports: Sequence[Port], number: int = 1) -> None:
        """Add a pod to a row; `number` -1 takes it away."""
        self.requested[:, row] += number * demand.base[:, 0]
        self.scored[:, row] += number * demand.scored[:, 0]
        for resource, amount in () if demand.is_base else demand.amounts:
            if resource not in SCORED:
                self._array(self._requested, resource)[row] += number * amount
        if ports:
            taken = self.ports.setdefault(row, collections.Counter())
            taken.update(dict.fromkeys(ports, number))

    def topology(self, key: str) -> Topology:
        """The domains of a topology key."""
        found = self._topologies.get(key)
        if found is None:
            numbers: dict[str, int] = {}
            for node in self.nodes:
                if key in node.labels:
                    numbers.setdefault(node.labels[key], len(numbers))
            codes = self._each(lambda node: numbers[node.labels[key]] if key in node.labels else -1)
            labelled = codes >= 0
            found = self._topologies[key] = Topology(codes, numbers, labelled, bool(labelled.all()))
        return found

    def named(self, rows: Ints) -> tuple[str, ...]:
        """The names of rows, in their order."""
        return self.names if rows is self.all_rows else tuple(map(self.names.__getitem__, rows.tolist()))

    def at(self, per_row: Ints, rows: Ints) -> Ints:
        """Returns the amounts of some rows from an amount by row; mostly all rows, in their order."""
        return per_row if rows is self.all_rows else per_row[rows]

    def rows_of(self, names: Sequence[str]) -> Ints:
        """The rows of names, in their order. KeyError for one without a node."""
        return np.fromiter(map(self.rows.__getitem__, names), np.int64, len(names))

    def placed(self, places: Mapping[str, int], into: Ints) -> None:
        """Add numbers by node name to an array by row; names without a node are nowhere."""
        for name, number in places.items():
            row = self.rows.get(name)
            if row is not None:
                into[row] += number

    def barred(self, pod: Pod) -> TaintedNodes:
        """NodeUnschedulable, TaintToleration, NodeAffinity with the node selector: rows the pod may not use at all."""
        key = pod.tolerations, frozenset(pod.node_selector.items()), _required(pod)
        found = self._barred.get(key)
        if found is None:
            cordoned = self._where(lambda node: node.unschedulable and not _tolerated(CORDON, pod.tolerations))
            tainted = self._where(lambda node: selectors.untolerated(node.taints, pod.tolerations) is not None)
            unselected = self._where(lambda node: not pod.selects(node.name, node.labels))
            if len(self._barred) >= REMEMBERED:
                self._barred.clear()
            found = self._barred[key] = TaintedNodes(
                *(one if one.any() else None for one in (cordoned, tainted, unselected))
            )
        return found

    def unloved(self, tolerations: Tolerations) -> Ints | None:
        """How many PreferNoSchedule taints of each row are not tolerated; None where all are."""
        if tolerations not in self._unloved:
            counts = self._each(
                lambda node: sum(taint.effect == SOFT and not _tolerated(taint, tolerations) for taint in node.taints)
            )
            self._unloved[tolerations] = counts if counts.any() else None
        return self._unloved[tolerations]

    def preferred(self, terms: tuple[PreferredNode, ...]) -> Ints:
        """The weights of the terms that each row's node meets, added up."""
        found = self._preferred.get(terms)
        if found is None:
            found = self._preferred[terms] = self._each(
                lambda node: sum(one.weight for one in terms if one.preference.matches(node.name, node.labels))
            )
        return found

    def _each(self, value: Callable[[Node], int]) -> Ints:
        return np.array([value(node) for node in self.nodes], np.int64)

    def _where(self, holds: Callable[[Node], bool]) -> Bools:
        return np.array([holds(node) for node in self.nodes], np.bool_)

    def _array(self, table: dict[str, Ints], resource: str) -> Ints:
        found = table.get(resource)
        if found is None:
            found = table[resource] = np.zeros(len(self.names), np.int64)
        return found


def _required(pod: Pod) -> NodeSelector | None:
    rules = pod.affinity.node_affinity if pod.affinity is not None else None
    return rules.required if rules is not None else None


def _tolerated(taint: Taint, tolerations: Tolerations) -> bool:
    return any(one.tolerates(taint) for one in tolerations)
