"""Nodes as columns: one row per node, one array per amount; rules compute over all rows at once.

Who keeps the columns builds them when a node's shape changes and counts pods one by one. Which nodes tolerations,
selectors and topology keys mean is remembered until then: pods of one workload ask the same. A rule about a label is
asked once for each value of the label, not for each node.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kube.api import selectors
from kube.api.pods import Port
from kube.api.selectors import NodeSelectorTerm, Requirement
from kube.objects import Node, Pod, Taint
from kube_scheduler import pod_requests
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.pod_requests import Demand

CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
SCORED = (pod_requests.CPU, pod_requests.MEMORY)
BASE = (*SCORED, pod_requests.PODS)
REMEMBERED = 1000  # each pod of a DaemonSet names another node
NOWHERE = -2  # the number of a value that no node has


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
            mask = self.labelled if where is None else self.labelled & where
            codes, per_row = codes[mask], per_row[mask]
        return np.bincount(codes, weights=per_row, minlength=len(self.numbers) + 1).astype(np.int64)


class TaintedNodes(NamedTuple):
    """Rows that a pod may not use for what they are themselves, by rule; None for a rule that bars none."""

    cordoned: Bools | None
    tainted: Bools | None
    unselected: Bools | None


class Columns:
    """Nodes by row. `base_allocatable` and `requested` have a line for each resource of BASE, in millicores, bytes and
    pods; of the SCORED among them `scored` is what LeastAllocated counts, `divisors` the allocatable, at least 1;
    `kinds` is how many of them a node has, at least 1, `whole` whether it has all, and `all_whole` whether every node
    has.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.names = tuple(node.name for node in nodes)
        self.rows = {name: row for row, name in enumerate(self.names)}
        self.all_rows = np.arange(len(nodes))
        self._closed = np.array([row for row, node in enumerate(nodes) if node.taints or node.unschedulable], np.int64)
        self.base_allocatable, self.requested = np.zeros((2, len(BASE), len(nodes)), np.int64)
        self.scored = np.zeros((len(SCORED), len(nodes)), np.int64)
        self._allocatable = dict(zip(BASE, self.base_allocatable, strict=True))
        self._requested = dict(zip(BASE, self.requested, strict=True))
        for row, node in enumerate(nodes):
            for resource, amount in pod_requests.of_node(node).items():
                self._array(self._allocatable, resource)[row] = amount
        offered = self.base_allocatable[: len(SCORED)] > 0
        self.divisors = np.maximum(self.base_allocatable[: len(SCORED)], 1)
        self.whole, self.kinds = offered.all(axis=0), np.maximum(offered.sum(axis=0), 1)
        self.all_whole = bool(self.whole.all())
        self.ports: dict[int, collections.Counter[Port]] = {}
        self._topologies: dict[str, Topology] = {}
        self._barred: dict[object, TaintedNodes] = {}

    def allocatable(self, resource: str) -> Ints:
        """Returns the allocatable amount of a resource, by row."""
        return self._array(self._allocatable, resource)

    def requested_of(self, resource: str) -> Ints:
        """Returns the amount of a resource that pods ask for, by row."""
        return self._array(self._requested, resource)

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
        topology = self._topologies.get(key)
        if topology is None:
            numbers: dict[str, int] = {}
            values = [node.labels.get(key) for node in self.nodes]
            places = (-1 if one is None else numbers.setdefault(one, len(numbers)) for one in values)
            codes = np.fromiter(places, np.int64, len(values))
            labelled = codes >= 0
            topology = self._topologies[key] = Topology(codes, numbers, labelled, bool(labelled.all()))
        return topology

    def rows_of(self, names: Sequence[str]) -> Ints:
        """The rows of names, in their order. KeyError for one without a node."""
        return np.fromiter(map(self.rows.__getitem__, names), np.int64, len(names))

    def placed(self, *places: Mapping[str, int]) -> Ints:
        """Numbers by node name added up by row; names without a node are nowhere."""
        numbers = np.zeros(len(self.names), np.int64)
        for each in places:
            for name, number in each.items():
                if (row := self.rows.get(name)) is not None:
                    numbers[row] += number
        return numbers

    def barred(self, pod: Pod) -> TaintedNodes:
        """NodeUnschedulable, TaintToleration, NodeAffinity with the node selector: rows the pod may not use at all."""
        key = pod.tolerations, frozenset(pod.spec.node_selector.items()), pod.spec.required_nodes
        barred = self._barred.get(key)
        if barred is None:
            open_to_it = any(one.tolerates(CORDON) for one in pod.tolerations)
            cordoned = self._rows_where(lambda node: node.unschedulable and not open_to_it, self._closed)
            tainted = self._rows_where(
                lambda node: selectors.untolerated(node.taints, pod.tolerations) is not None, self._closed
            )
            if len(self._barred) >= REMEMBERED:
                self._barred.clear()
            barred = self._barred[key] = TaintedNodes(
                *(one if one.any() else None for one in (cordoned, tainted, ~self._selected(pod)))
            )
        return barred

    def none(self) -> Bools:
        """No row."""
        return np.zeros(len(self.names), np.bool_)

    def ports_on(self, row: int) -> list[Port]:
        """The host ports that pods of a row hold."""
        return [port for port, number in self.ports.get(row, {}).items() if number > 0]

    def _selected(self, pod: Pod) -> Bools:
        """Rows that the pod's node selector and required node affinity accept."""
        rows = ~self.none()
        for key, value in pod.spec.node_selector.items():
            topology = self.topology(key)
            rows &= topology.codes == topology.numbers.get(value, NOWHERE)
        required = pod.spec.required_nodes
        if required is None:
            return rows
        accepted = self.none()
        for term in required.terms:
            accepted |= self.meeting(term)
        return rows & accepted

    def meeting(self, term: NodeSelectorTerm) -> Bools:
        """Rows that meet a term; an empty one is met by none."""
        rows = ~self.none() if term.match_expressions or term.match_fields else self.none()
        for requirement in term.match_expressions:
            topology = self.topology(requirement.key)
            values = [requirement.matches({requirement.key: value}) for value in topology.numbers]
            rows &= np.array([*values, requirement.matches({})], np.bool_)[topology.codes]
        for requirement in term.match_fields:
            rows &= self._with_field(requirement)
        return rows

    def _with_field(self, requirement: Requirement) -> Bools:
        """Rows whose name meets the requirement: metadata.name is a node's only field."""
        if (requirement.key, requirement.operator) != ("metadata.name", "In"):
            return self._rows_where(lambda node: requirement.matches({"metadata.name": node.name}), self.all_rows)
        rows = self.none()
        rows[[self.rows[name] for name in requirement.values if name in self.rows]] = True
        return rows

    def _rows_where(self, holds: Callable[[Node], bool], rows: Ints) -> Bools:
        """Of some rows those for whose node it holds."""
        mask = self.none()
        mask[[row for row in rows.tolist() if holds(self.nodes[row])]] = True
        return mask

    def _array(self, table: dict[str, Ints], resource: str) -> Ints:
        amounts = table.get(resource)
        if amounts is None:
            amounts = table[resource] = np.zeros(len(self.names), np.int64)
        return amounts


class NodeRoom:
    """Free amounts of one node, of the resources that one pod asks for; other pods may go and come: for the
    descheduler's destinations, and the simulated scheduler's search for victims.

    Source: kubernetes v1.36 pkg/scheduler/framework/plugins/noderesources/fit.go.
    """

    def __init__(self, columns: Columns, row: int, demand: Demand) -> None:
        self._wanted = ((pod_requests.PODS, 1), *demand.amounts)
        each = ((name, columns.allocatable(name)[row], columns.requested_of(name)[row]) for name, _ in self._wanted)
        self._free = {name: int(whole - taken) for name, whole, taken in each}

    def take(self, demand: Demand, number: int = 1) -> None:
        """Count another pod as there; `number` -1 takes it away."""
        self._free[pod_requests.PODS] -= number
        for name, amount in demand.amounts:
            if name in self._free:
                self._free[name] -= number * amount

    def lacking(self) -> str:
        """Returns the resource that does not suffice for the pod ("pods" for a slot), "" if it fits."""
        return next((name for name, amount in self._wanted if amount > self._free[name]), "")
