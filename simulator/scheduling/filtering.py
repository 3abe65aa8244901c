"""Which nodes a pod fits on, and what the others lack: the filter plugins in their order, over all nodes at once.

`scheduler` takes a sample of what fits and hands the reasons on where nothing does; `preemption` asks again with pods
taken away. The rules are `kube_scheduler`'s. A node's reason is that of the first plugin that refuses it; a refusal is
`final` where no pod's leaving could help (UnschedulableAndUnresolvable). Simulated pods have no volumes and no device
claims.
Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: nodeports, noderesources/fit.go.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kube.api import pods
from kube.objects import Pod
from kube_scheduler import inter_pod_affinity, node_rules, pod_requests, topology_spread
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.columns import Columns
from kube_scheduler.pod_requests import Demand
from kube_scheduler.refusals import PORTS, RESOURCES, Refusal
from simulator.scheduling.state import State

EXTENDER = "Extender"
PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"


class NodeRefusals(NamedTuple):
    """Nodes that do not fit: how many for each reason, by which plugins, and which may be preempted on (rows, in the
    order of nodes).
    """

    reasons: Mapping[str, int]
    plugins: frozenset[str]
    hopeful: Ints


def refusals(state: State, pod: Pod, demand: Demand) -> list[Refusal]:
    """All that refuses the pod somewhere, in the order of the plugins."""
    return [
        *node_rules.refusals(state.columns, pod),
        *passing(state, pod, demand),
        *_nominated(state, pod, demand),
    ]


def passing(state: State, pod: Pod, demand: Demand) -> Iterator[Refusal]:
    """Checks the rules whose result may change with the pods on the nodes: ports, resources, spread, inter-pod
    affinity.
    """
    columns = state.columns
    if pod.host_ports:
        clashing = columns.none()
        for row in columns.ports:
            clashing[row] = pods.ports_clash(pod.host_ports, columns.ports_on(row))
        yield Refusal(PORTS, PORT_TAKEN, clashing, columns.none())
    yield from _lacking(columns, demand)
    yield from topology_spread.refusals(state, pod)
    yield from inter_pod_affinity.refusals(state, pod)


def _lacking(columns: Columns, demand: Demand) -> Iterator[Refusal]:
    """NodeResourcesFit; final where an empty node is too small."""
    short = columns.base_allocatable - columns.requested < demand.base
    if demand.is_base and not np.count_nonzero(short):
        return
    for resource, amount in ((pod_requests.PODS, 1), *demand.amounts):
        lacking = columns.allocatable(resource) - columns.requested_of(resource) < amount
        if np.count_nonzero(lacking):
            reason = "Too many pods" if resource == pod_requests.PODS else f"Insufficient {resource}"
            final = columns.none() if resource == pod_requests.PODS else columns.allocatable(resource) < amount
            yield Refusal(RESOURCES, reason, lacking, final)


def fits(columns: Columns, entries: Sequence[Refusal]) -> Bools | None:
    """The rows that nothing refuses; None for all."""
    if not entries:
        return None
    refused = columns.none()
    for refusal in entries:
        refused |= refusal.rows
    return ~refused


def passes(state: State, pod: Pod, demand: Demand, row: int) -> bool:
    """Whether the pods there are now leave room for the pod on one row; what never changes with pods is not asked."""
    return not any(refusal.rows[row] for refusal in passing(state, pod, demand))


def is_plain(state: State, pod: Pod) -> bool:
    """Whether only amounts decide: neither the pod nor any other has a rule about the other."""
    affinity = pod.affinity is not None and pod.affinity.pods_matter
    if pod.host_ports or pod.spec.topology_spread_constraints or affinity:
        return False
    return not state.terms.about(pod, state.namespaces)


def waiting(state: State, pod: Pod, node: str) -> list[Pod]:
    """Other pods of at least the same priority for which room is being made on a node: they count as there."""
    there = state.nominated.get(node, {})
    return [one for uid, one in there.items() if uid != pod.uid and one.priority >= pod.priority]


def refused(columns: Columns, entries: Sequence[Refusal], rows: Ints) -> NodeRefusals:
    """The reasons of rows that do not fit. A plugin that lacks several resources says so of each."""
    open_rows, final = np.zeros((2, len(columns.names)), np.bool_)
    open_rows[rows] = True
    refused_rows = np.zeros(len(columns.names), np.bool_)
    reasons: collections.Counter[str] = collections.Counter()
    plugins = set()
    for plugin in dict.fromkeys(refusal.plugin for refusal in entries):
        own = [refusal for refusal in entries if refusal.plugin == plugin]
        for refusal in own:
            mine = refusal.rows & open_rows
            if mine.any():
                reasons[refusal.reason] += int(mine.sum())
                plugins.add(plugin)
                final |= mine & refusal.final
                refused_rows |= mine
            if plugin != RESOURCES:
                open_rows &= ~mine
        open_rows &= ~refused_rows
    return NodeRefusals(dict(reasons), frozenset(plugins), np.flatnonzero(refused_rows & ~final))


def only(pod: Pod) -> frozenset[str] | None:
    """The names of nodes that required node affinity names, as a DaemonSet's pods do; None for pods that name none."""
    rules = pod.affinity.node_affinity if pod.affinity is not None else None
    if rules is None or rules.required is None or not rules.required.terms:
        return None
    names: set[str] = set()
    for term in rules.required.terms:
        named = [set(one.values) for one in term.match_fields if one.key == "metadata.name" and one.operator == "In"]
        if not named:
            return None
        names |= set.intersection(*named)
    return frozenset(names)


def _nominated(state: State, pod: Pod, demand: Demand) -> Iterator[Refusal]:
    """Nodes where room is being made for others of at least the same priority must fit with them there as well."""
    for node in list(state.nominated):
        row = state.columns.rows.get(node)
        others = waiting(state, pod, node)
        if row is None or not others:
            continue
        with state.with_pods(others, node):
            reasons = [refusal for refusal in passing(state, pod, demand) if refusal.rows[row]]
        here = state.columns.all_rows == row
        yield from (one._replace(rows=one.rows & here) for one in reasons)
