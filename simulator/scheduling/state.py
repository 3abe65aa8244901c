"""State of the scheduler: nodes as columns, pods by node, groups of pods, pending and nominated pods.

`scheduler` passes every change on and reads all of it for a decision; `preemption` takes pods away and puts them back
to see what would be. A pod's change costs the same however large the cluster is; only a node's shape (labels, taints,
amounts, coming and going) makes the columns again, an annotation does not.
"""

import collections
import contextlib
from collections.abc import Iterable, Iterator, Mapping

from kube.objects import DisruptionBudget, LabelSelector, Node, Pod
from kube_scheduler import pod_groups, pod_requests
from kube_scheduler.columns import Columns
from kube_scheduler.pod_requests import Demand
from simulator.scheduling import node_order

Name = tuple[str, str]  # namespace, name


class State:
    """The cluster as told so far. `namespaces` holds labels of namespaces, for selectors of them."""

    def __init__(self) -> None:
        self.groups = pod_groups.PodGroups()
        self.terms = pod_groups.Terms()
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.budgets: dict[str, DisruptionBudget] = {}  # by key
        self.selectors: dict[tuple[str, str, str], LabelSelector] = {}
        self.nominated: dict[str, dict[str, Pod]] = {}
        self._nodes: dict[str, Node] = {}
        self._tree = node_order.Tree()
        self._columns: Columns | None = None
        self._pods: dict[Name, Pod] = {}
        self._on: dict[str, dict[Name, Demand]] = {}
        self._priorities: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)

    @property
    def columns(self) -> Columns:
        """The nodes, made again if a shape has changed."""
        if self._columns is None:
            self._columns = Columns([self._nodes[name] for name in self._tree.names()])
            for name, row in self._columns.rows.items():
                for demand in self._on.get(name, {}).values():
                    self._columns.count(row, demand, demand.host_ports)
        return self._columns

    def owner_selector(self, pod: Pod) -> LabelSelector | None:
        """The selector of the workload that owns the pod; None without one."""
        owner = pod.owner
        return self.selectors.get((pod.namespace, owner.kind, owner.name)) if owner is not None else None

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """A node came (old None), changed or went (new None)."""
        name = (new or old or _nothing()).name
        known = self._nodes.get(name)
        if known is not None and new is not None and _same_shape(known, new):
            self._nodes[name] = new
            return
        self._columns = None
        if known is not None and (new is None or node_order.zone(known.labels) != node_order.zone(new.labels)):
            self._tree.remove(name, known.labels)
        if new is None:
            self._nodes.pop(name, None)
        else:
            self._tree.add(name, new.labels)
            self._nodes[name] = new

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed or went. Those that are bound and not finished count; others may wait for room."""
        pod = new or old or _nothing()
        metadata = pod.metadata
        key = metadata.namespace, metadata.name
        known = self._pods.get(key)
        gone = new is None or new.finished
        if gone or pod.node_name:
            self.nominate(pod, "")
        elif pod.nominated_node or (old is not None and old.nominated_node):
            self.nominate(pod, pod.nominated_node)
        if known is not None and not gone and _same_demand(known, pod):
            self._pods[key] = pod
            return
        if known is not None:
            self.take_away(known)
        if not gone and pod.node_name:
            self.put(pod)

    def nominate(self, pod: Pod, node: str) -> None:
        """Remember that room is being made for a pod on a node; "" for none."""
        if not self.nominated and not node:
            return
        for name in [name for name, waiting in self.nominated.items() if pod.uid in waiting and name != node]:
            del self.nominated[name][pod.uid]
            if not self.nominated[name]:
                del self.nominated[name]
        if node:
            self.nominated.setdefault(node, {})[pod.uid] = pod

    def pods_on(self, node: str) -> list[Pod]:
        """The pods that count on a node."""
        return [self._pods[key] for key in self._on.get(node, {})]

    def less_important(self, pod: Pod, node: str) -> list[Pod]:
        """The pods on a node that have a lower priority than a pod; most nodes have none, which costs nothing."""
        if all(priority >= pod.priority for priority in self._priorities.get(node, ())):
            return []
        return [one for one in self.pods_on(node) if one.priority < pod.priority]

    def demand(self, pod: Pod) -> Demand:
        """Returns the requests of a pod that counts on its node. KeyError for one that does not."""
        return self._on[pod.node_name][pod.namespace, pod.name]

    def put(self, pod: Pod, node: str = "") -> None:
        """Count a pod where it is bound, or as if it were bound to `node`."""
        name, key, demand = node or pod.node_name, (pod.namespace, pod.name), pod_requests.of_pod(pod)
        self._pods[key] = pod
        self._on.setdefault(name, {})[key] = demand
        self._count(pod, name, demand, 1)

    def take_away(self, pod: Pod, node: str = "") -> None:
        """The opposite of `put`, with the same pod and node. KeyError for a pod that is not there."""
        name, key = node or pod.node_name, (pod.namespace, pod.name)
        demand = self._on[name].pop(key)
        if not self._on[name]:
            del self._on[name]
        self._count(self._pods.pop(key), name, demand, -1)

    @contextlib.contextmanager
    def with_pods(self, pods: Iterable[Pod], node: str) -> Iterator[None]:
        """As if further pods were on a node, for as long as the block lasts."""
        added = list(pods)
        for pod in added:
            self.put(pod, node)
        yield
        for pod in added:
            self.take_away(pod, node)

    def _count(self, pod: Pod, node: str, demand: Demand, number: int) -> None:
        pod_groups.count(self._priorities[node], pod.priority, number)
        self.groups.add(pod, node, number=number)
        self.terms.add(pod, node, number=number)
        columns = self._columns
        row = columns.rows.get(node) if columns is not None else None
        if columns is not None and row is not None:
            columns.count(row, demand, demand.host_ports, number)


def _same_shape(old: Node, new: Node) -> bool:
    return (
        old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
        and old.status.allocatable == new.status.allocatable
    )


def _same_demand(old: Pod, new: Pod) -> bool:
    return old.deleting == new.deleting and old.metadata.labels == new.metadata.labels and old.spec == new.spec


def _nothing() -> Pod:
    raise ValueError("a change of nothing into nothing: expected the old or the new object")
