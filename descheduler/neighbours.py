"""Whether a pod may stand on a node by the rules that involve other pods: required (anti-)affinity and hard topology
spread.

`destinations.py` asks for nodes that passed `placement.py` and tells where planned pods would go, so that two
evictions of one plan are judged as neighbours. Rules as in kube-scheduler's InterPodAffinity and PodTopologySpread, on
the snapshot without the moved pod itself.
"""

import collections
import collections.abc

from descheduler.snapshot import Snapshot
from kube.objects import Node, Pod, PodAffinityTerm, TopologySpread


class Neighbours:
    """All pods by namespace with the node each is on, planned moves included."""

    def __init__(self, taken: Snapshot) -> None:
        self._nodes = {node.name: node for node in taken.nodes}
        self._namespaces = taken.namespaces
        self._moved: dict[str, str] = {}
        self._by_namespace: dict[str, list[Pod]] = {}
        self._repelling: list[Pod] = []
        for pod in taken.pods:
            if not pod.node_name or pod.finished:
                continue
            self._by_namespace.setdefault(pod.namespace, []).append(pod)
            if _anti_affinity(pod):
                self._repelling.append(pod)

    def move(self, pod: Pod, node: str) -> None:
        """Remembers where a chosen pod's replacement is expected."""
        self._moved[pod.uid] = node

    def allow(self, pod: Pod, node: Node) -> bool:
        """Whether affinity, anti-affinity in both directions and hard spread let the pod onto the node."""
        return (
            all(self._attracted(pod, term, node) for term in _affinity(pod))
            and not any(self._near(pod, term, node, pod) for term in _anti_affinity(pod))
            and not any(self._repelled_by(other, pod, node) for other in self._repelling)
            and all(self._spread_allows(pod, rule, node) for rule in pod.topology_spread)
        )

    def _where(self, pod: Pod) -> Node | None:
        return self._nodes.get(self._moved.get(pod.uid, pod.node_name))

    def _attracted(self, pod: Pod, term: PodAffinityTerm, node: Node) -> bool:
        if node.labels.get(term.topology_key) is None:
            return False
        if self._near(pod, term, node, pod):
            return True
        # The first of a group that is attracted to itself may stand anywhere, or it could never start.
        return self._matches(term, pod, pod) and not any(self._meant(term, pod))

    def _near(self, owner: Pod, term: PodAffinityTerm, node: Node, without: Pod) -> bool:
        domain = node.labels.get(term.topology_key)
        if domain is None:
            return False
        return any(
            other.uid != without.uid and self._domain(other, term.topology_key) == domain
            for other in self._meant(term, owner)
        )

    def _repelled_by(self, other: Pod, pod: Pod, node: Node) -> bool:
        if other.uid == pod.uid:
            return False
        for term in _anti_affinity(other):
            domain = node.labels.get(term.topology_key)
            if domain is None or not self._matches(term, other, pod):
                continue
            if self._domain(other, term.topology_key) == domain:
                return True
        return False

    def _domain(self, pod: Pod, topology_key: str) -> str | None:
        node = self._where(pod)
        return node.labels.get(topology_key) if node is not None else None

    def _meant(self, term: PodAffinityTerm, owner: Pod) -> collections.abc.Iterator[Pod]:
        """The pods other than the owner that a term of `owner` selects."""
        for namespace in self._by_namespace:
            if self._namespace_meant(term, owner, namespace):
                for pod in self._by_namespace[namespace]:
                    if (
                        pod.uid != owner.uid
                        and term.label_selector is not None
                        and term.label_selector.matches(pod.labels)
                    ):
                        yield pod

    def _matches(self, term: PodAffinityTerm, owner: Pod, pod: Pod) -> bool:
        selector = term.label_selector
        return (
            selector is not None and self._namespace_meant(term, owner, pod.namespace) and selector.matches(pod.labels)
        )

    def _namespace_meant(self, term: PodAffinityTerm, owner: Pod, namespace: str) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            return namespace == owner.namespace
        if namespace in term.namespaces:
            return True
        return term.namespace_selector is not None and term.namespace_selector.matches(
            self._namespaces.get(namespace, {})
        )

    def _spread_allows(self, pod: Pod, rule: TopologySpread, node: Node) -> bool:
        """count(domain) + 1 - min over the domains open to the pod <= maxSkew, for whenUnsatisfiable DoNotSchedule."""
        if rule.when_unsatisfiable != "DoNotSchedule":
            return True
        domain = node.labels.get(rule.topology_key)
        if domain is None:
            return False
        counts: collections.Counter[str] = collections.Counter()
        for other in self._by_namespace.get(pod.namespace, []):
            if other.uid == pod.uid or other.deleting or rule.label_selector is None:
                continue
            place = self._domain(other, rule.topology_key)
            if place is not None and rule.label_selector.matches(other.labels):
                counts[place] += 1
        least = min((counts[place] for place in self._domains(pod, rule)), default=0)
        itself = 1 if rule.label_selector is not None and rule.label_selector.matches(pod.labels) else 0
        return counts[domain] + itself - least <= rule.max_skew

    def _domains(self, pod: Pod, rule: TopologySpread) -> set[str]:
        eligible = (node for node in self._nodes.values() if pod.selects(node.name, node.labels))
        return {node.labels[rule.topology_key] for node in eligible if rule.topology_key in node.labels}


def _affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    found = pod.affinity.pod_affinity if pod.affinity is not None else None
    return tuple(found.required) if found is not None else ()


def _anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    found = pod.affinity.pod_anti_affinity if pod.affinity is not None else None
    return tuple(found.required) if found is not None else ()
