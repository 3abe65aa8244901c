"""The cluster as the plan would leave it: nodes, the pods on them, and where the chosen pods are expected.

`placement.destinations` asks which rule of kube-scheduler keeps a pod off a node, and tells where chosen pods would go,
so that two evictions of one plan are judged as neighbours. A pod is judged as if it had left its node. Most pods have
no rules about others and most nodes are never looked at: pods are counted in groups when the first rule asks, and on a
node when it is first considered. Pods for which the scheduler makes room by preemption count as there already;
placeholders of lower priority make way. Not checked, because only kube-scheduler can: plugins and extenders of others.
"""

import collections
import itertools
from collections.abc import Mapping
from typing import Final, NamedTuple

from descheduler.snapshot.snapshot import Snapshot
from kube.api import pods
from kube.objects import Pod
from kube.pods import pod_view
from kube_scheduler import inter_pod_affinity, node_rules, pod_requests, topology_spread, volumes
from kube_scheduler.arrays import Bools
from kube_scheduler.columns import Columns, NodeRoom
from kube_scheduler.pod_groups import PodGroups, Terms
from kube_scheduler.pod_requests import Demand

RULES: Final[Mapping[str, str]] = {
    node_rules.CORDONED: "cordon",
    node_rules.UNTOLERATED: "taint",
    node_rules.UNSELECTED: "node affinity",
    topology_spread.UNLABELLED: "topology spread",
    topology_spread.SKEWED: "topology spread",
    inter_pod_affinity.UNATTRACTED: "pod affinity",
    inter_pod_affinity.REPELLED: "pod anti-affinity",
    inter_pod_affinity.UNWELCOME: "pod anti-affinity",
}


class PodFit(NamedTuple):
    """A pod as the rules judge it: what it asks for, and by rule the rows that are not for it."""

    pod: Pod
    demand: Demand
    refusals: tuple[tuple[str, Bools], ...]


class PlannedCluster:
    """A `kube_scheduler.pod_groups.ClusterState` of a snapshot, with the moves planned so far."""

    def __init__(self, taken: Snapshot) -> None:
        self.columns: Final = Columns(sorted(taken.nodes, key=lambda node: node.name))
        self.terms: Final = Terms()
        self.namespaces: Final = taken.namespaces
        self._pods = taken.pods
        self._volumes = taken.volumes
        self._attachments = volumes.Attachments(taken.attach_limits, taken.volumes, taken.pods)
        self._on_nodes = taken.on_nodes
        self._groups: PodGroups | None = None
        self._moved: dict[str, str] = {}  # uid -> the node it is expected on, "" while it is judged
        self._counted: set[int] = set()
        self._placeholders: dict[int, list[Pod]] = collections.defaultdict(list)
        for pod in self._pods:
            if pod.spec.affinity is not None and _stands(pod):
                self.terms.add(pod, pod.node_name)

    @property
    def groups(self) -> PodGroups:
        """The pods on nodes by namespace and labels."""
        if self._groups is None:
            self._groups = PodGroups()
            for pod in filter(_stands, self._pods):
                node = self._moved.get(pod.uid, pod.node_name)
                if node:
                    self._groups.add(pod, node)
        return self._groups

    def fit(self, pod: Pod) -> PodFit:
        """Asks the rules about nodes and other pods, of all nodes at once, for a pod that is on none of them."""
        of_pods = (*topology_spread.refusals(self, pod), *inter_pod_affinity.refusals(self, pod))
        refusals = [*node_rules.refusals(self.columns, pod), *of_pods]
        return PodFit(pod, pod_requests.of_pod(pod), tuple((RULES[one.reason], one.rows) for one in refusals))

    def why_not(self, fit: PodFit, row: int) -> str:
        """Returns the rule that keeps the pod off the node, "" if kube-scheduler would let it stand there."""
        node = self.columns.nodes[row]
        return (
            next((rule for rule, rows in fit.refusals if rows[row]), "")
            or self._lacking(fit, row)
            or ("" if volumes.reachable(fit.pod, node, self._volumes) else "volume")
            or ("" if self._attachments.allow(fit.pod, node.name) else "volume limit")
        )

    def _lacking(self, fit: PodFit, row: int) -> str:
        """Returns what the node lacks for the pod beside those that are there and expected there.

        Placeholders count only if they outrank the pod, or if it never preempts.
        """
        self._count_pods(row)
        pod = fit.pod
        staying = [one for one in self._placeholders[row] if one.priority >= pod.priority or not pod.preempts]
        room = NodeRoom(self.columns, row, fit.demand)
        for one in staying:
            room.take(pod_requests.of_pod(one))
        if lacking := room.lacking():
            return "pod slots" if lacking == pod_requests.PODS else "requests"
        taken = itertools.chain(self.columns.ports_on(row), *(one.host_ports for one in staying))
        return "host port" if pod.host_ports and pods.ports_clash(pod.host_ports, taken) else ""

    def move(self, pod: Pod, node: str) -> None:
        """Remembers where a chosen pod's replacement is expected."""
        row = self.columns.rows[node]
        self._count_pods(row)
        self._take(row, pod)
        self._attachments.take(pod, node)
        self.place(pod, node)

    def stay(self, pod: Pod, node: str) -> None:
        """Takes back that a pod left, and that it was expected on a node ("" for none); its volumes stay counted."""
        if node:
            self._take(self.columns.rows[node], pod, -1)
        self.place(pod, pod.node_name)

    def place(self, pod: Pod, node: str) -> None:
        """Counts the pod on another node for the rules about other pods; "" for none, until it is moved or stays."""
        before = self._moved.get(pod.uid, pod.node_name)
        self._moved[pod.uid] = node
        for table in (self.terms, *([self._groups] if self._groups is not None else ())):
            if before:
                table.add(pod, before, number=-1)
            if node:
                table.add(pod, node)

    def _count_pods(self, row: int) -> None:
        """Counts the pods that are on the node or coming, once."""
        if row in self._counted:
            return
        self._counted.add(row)
        name = self.columns.names[row]
        coming = (pod for pod in self._on_nodes.get("", ()) if pod.nominated_node == name)
        for pod in itertools.chain(self._on_nodes.get(name, ()), coming):
            if pod.finished:
                continue
            if pod_view.is_placeholder(pod):
                self._placeholders[row].append(pod)
            else:
                self._take(row, pod)

    def _take(self, row: int, pod: Pod, number: int = 1) -> None:
        demand = pod_requests.of_pod(pod)
        self.columns.count(row, demand, demand.host_ports, number)


def _stands(pod: Pod) -> bool:
    """Whether it is on a node, so that rules count it."""
    return bool(pod.spec.node_name) and not pod.finished
