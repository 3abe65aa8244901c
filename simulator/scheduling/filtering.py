"""Which nodes a pod fits on, and what the others lack: the filter plugins in their order, over all nodes at once.

`scheduler` takes a sample of what fits and hands the reasons on where nothing does; `preemption` asks again with pods
taken away. A node's reason is that of the first plugin that refuses it; a refusal is `final` where no pod's leaving
could help (UnschedulableAndUnresolvable).
Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: nodeunschedulable, nodename, tainttoleration, nodeaffinity,
nodeports, noderesources/fit.go. Volumes and dynamic resource allocation are not modelled.
"""

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kube.api import pods
from kube.objects import Pod
from simulator.scheduling import inter_pod_affinity, pod_requests, topology_spread
from simulator.scheduling.columns import BASE, Columns
from simulator.scheduling.node_order import Bools, Ints
from simulator.scheduling.pod_requests import Demand
from simulator.scheduling.state import State

UNSCHEDULABLE, NODE_NAME, TAINTS = "NodeUnschedulable", "NodeName", "TaintToleration"
NODE_AFFINITY, PORTS, RESOURCES = "NodeAffinity", "NodePorts", "NodeResourcesFit"
SPREAD, POD_AFFINITY, EXTENDER = "PodTopologySpread", "InterPodAffinity", "Extender"


class Refusal(NamedTuple):
    """Rows that one plugin refuses for one reason; `final` are those where no pod's leaving helps."""

    plugin: str
    reason: str
    rows: Bools
    final: Bools


class NodeRefusals(NamedTuple):
    """Nodes that do not fit: how many for each reason, by which plugins, and which may be preempted on (rows, in the
    order of nodes).
    """

    reasons: Mapping[str, int]
    plugins: frozenset[str]
    hopeful: Ints


def refusals(state: State, pod: Pod, demand: Demand) -> list[Refusal]:
    """All that refuses the pod somewhere, in the order of the plugins."""
    return [*_lasting(state.columns, pod), *passing(state, pod, demand), *_nominated(state, pod, demand)]


def passing(state: State, pod: Pod, demand: Demand) -> Iterator[Refusal]:
    """Checks the plugins whose result may change with the pods on the nodes: ports, resources, spread, inter-pod
    affinity.
    """
    columns = state.columns
    if pod.host_ports:
        clashing = _clashing(columns, pod)
        yield Refusal(PORTS, "node(s) didn't have free ports for the requested pod ports", clashing, _none(columns))
    yield from _lacking(columns, demand)
    skewed = topology_spread.failed(state, pod)
    if skewed is not None:
        reason = "node(s) didn't match pod topology spread constraints"
        yield Refusal(SPREAD, f"{reason} (missing required label)", skewed.unlabelled, skewed.unlabelled)
        yield Refusal(SPREAD, reason, skewed.skewed, _none(columns))
    neighbours = inter_pod_affinity.failed(state, pod)
    if neighbours is not None:
        away, none = neighbours.unattracted, _none(columns)
        yield Refusal(POD_AFFINITY, "node(s) didn't match pod affinity rules", away, away)
        yield Refusal(POD_AFFINITY, "node(s) didn't match pod anti-affinity rules", neighbours.repelled, none)
        reason = "node(s) didn't satisfy existing pods anti-affinity rules"
        yield Refusal(POD_AFFINITY, reason, neighbours.unwelcome, none)


def fits(columns: Columns, entries: Sequence[Refusal]) -> Bools | None:
    """The rows that nothing refuses; None for all."""
    if not entries:
        return None
    refused = _none(columns)
    for refusal in entries:
        refused |= refusal.rows
    return ~refused


def passes(state: State, pod: Pod, demand: Demand, row: int) -> bool:
    """Whether the pods there are now leave room for the pod on one row; what never changes with pods is not asked."""
    return not any(refusal.rows[row] for refusal in passing(state, pod, demand))


def is_plain(state: State, pod: Pod) -> bool:
    """Whether only amounts decide: neither the pod nor any other has a rule about the other."""
    if pod.host_ports or pod.topology_spread or (pod.affinity is not None and pod.affinity.pods_matter):
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
    found: set[str] = set()
    for term in rules.required.terms:
        named = [set(one.values) for one in term.match_fields if one.key == "metadata.name" and one.operator == "In"]
        if not named:
            return None
        found |= set.intersection(*named)
    return frozenset(found)


def _lasting(columns: Columns, pod: Pod) -> Iterator[Refusal]:
    """Checks the plugins that read only the node itself: cordon, name, taints, labels. Their refusals are final."""
    barred = columns.barred(pod)
    if pod.node_name:
        other = np.array([name != pod.node_name for name in columns.names], np.bool_)
        yield Refusal(NODE_NAME, "node(s) didn't match the requested node name", other, other)
    for plugin, reason, rows in (
        (UNSCHEDULABLE, "node(s) were unschedulable", barred.cordoned),
        (TAINTS, "node(s) had untolerated taint(s)", barred.tainted),
        (NODE_AFFINITY, "node(s) didn't match Pod's node affinity/selector", barred.unselected),
    ):
        if rows is not None:
            yield Refusal(plugin, reason, rows, rows)


def _lacking(columns: Columns, demand: Demand) -> Iterator[Refusal]:
    """NodeResourcesFit: a slot for the pod, and every amount it asks for; final where an empty node is too small."""
    short = columns.given - columns.requested < demand.base
    if demand.is_base and not np.count_nonzero(short):
        return
    looked_at = dict(zip(BASE, short, strict=True))
    for resource, amount in ((pod_requests.PODS, 1), *demand.amounts):
        lacking = looked_at[resource] if resource in looked_at else columns.room(resource) < amount
        if np.count_nonzero(lacking):
            reason = "Too many pods" if resource == pod_requests.PODS else f"Insufficient {resource}"
            final = _none(columns) if resource == pod_requests.PODS else columns.allocatable(resource) < amount
            yield Refusal(RESOURCES, reason, lacking, final)


def _nominated(state: State, pod: Pod, demand: Demand) -> Iterator[Refusal]:
    """Nodes where room is being made for others of at least the same priority must fit with them there as well."""
    for node in list(state.nominated):
        row = state.columns.rows.get(node)
        others = waiting(state, pod, node)
        if row is None or not others:
            continue
        with state.with_pods(others, node):
            found = [refusal for refusal in passing(state, pod, demand) if refusal.rows[row]]
        here = state.columns.all_rows == row
        yield from (one._replace(rows=one.rows & here) for one in found)


def _clashing(columns: Columns, pod: Pod) -> Bools:
    found = _none(columns)
    for row, taken in columns.ports.items():
        found[row] = any(
            pods.ports_clash(wanted, port) for port, number in taken.items() if number > 0 for wanted in pod.host_ports
        )
    return found


def _none(columns: Columns) -> Bools:
    return np.zeros(len(columns.names), np.bool_)
