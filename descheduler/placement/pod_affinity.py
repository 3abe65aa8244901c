"""Whether a pod may stand on a node by the rules that involve other pods: required (anti-)affinity, hard topology
spread.

`placement.destinations` asks for a `PodAffinityVerdict` per pod, then for nodes that passed `placement.node_rules`, and
tells where planned pods would go, so that two evictions of one plan are judged as neighbours. Rules as in
kube-scheduler's InterPodAffinity and PodTopologySpread, on the snapshot without the moved pod itself. Pods with equal
labels are counted together: a rule is matched once per sort of pod, not once per pod and node.
"""

import collections
import collections.abc
import dataclasses
from typing import NamedTuple

from descheduler.snapshot.snapshot import Snapshot
from kube.api import selectors
from kube.objects import Node, Pod, PodAffinityTerm, TopologySpread

HARD = "DoNotSchedule"
Places = collections.Counter[str]  # node name -> pods


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroup:
    """Pods of one namespace with equal labels: where they stand, and where those stand that are not leaving."""

    namespace: str
    labels: collections.abc.Mapping[str, str]
    places: Places = dataclasses.field(default_factory=collections.Counter)
    staying: Places = dataclasses.field(default_factory=collections.Counter)


class Repeller(NamedTuple):
    """Pods of one owner with the same anti-affinity, and where they stand."""

    sample: Pod
    places: Places


class Spread(NamedTuple):
    """One hard spread rule, counted: count(domain) + itself - least <= max_skew must hold."""

    key: str
    counts: collections.Counter[str]
    least: int
    itself: int
    max_skew: int


class PodAffinityVerdict(NamedTuple):
    """Inter-pod rules of one pod: the domains it must be in, may not be in, and its spread constraints.

    `attracted` is (topology key, domains) per affinity term; `first` says that the pod may start a group of its own.
    """

    attracted: tuple[tuple[str, frozenset[str]], ...]
    first: bool
    repelled: frozenset[tuple[str, str]]
    spreads: tuple[Spread, ...]

    def why_not(self, node: Node) -> str:
        """The rule that keeps the pod off the node, "" if none does."""
        if not self._attracted_to(node):
            return "pod affinity"
        if any(node.labels.get(key) == domain for key, domain in self.repelled):
            return "pod anti-affinity"
        return "" if all(_within_skew(rule, node) for rule in self.spreads) else "topology spread"

    def _attracted_to(self, node: Node) -> bool:
        if any(key not in node.labels for key, _ in self.attracted):
            return False
        return self.first or all(node.labels[key] in domains for key, domains in self.attracted)


class PodAffinityRules:
    """All pods by namespace and labels with the nodes they are on, planned moves included.

    Most pods have no rules about others, and most plans need no crowds: they are counted when the first rule asks.
    """

    def __init__(self, taken: Snapshot) -> None:
        self._nodes = {node.metadata.name: node for node in taken.nodes}
        self._namespaces = taken.namespaces
        self._pods = taken.pods
        self._moved: list[tuple[Pod, str]] = []
        self._counted: dict[tuple[str, frozenset[tuple[str, str]]], PodGroup] | None = None
        self._repellers: dict[tuple[str, str], list[Repeller]] = {}
        for pod in self._pods:
            if pod.spec.affinity is not None and _anti_affinity(pod) and _stands(pod):
                self._repeller(pod).places[pod.node_name] += 1

    def move(self, pod: Pod, node: str) -> None:
        """Remembers where a chosen pod's replacement is expected."""
        self._moved.append((pod, node))
        if self._counted is not None:
            _move(_crowd(self._counted, pod), pod, node)
        if _anti_affinity(pod):
            places = self._repeller(pod).places
            places[pod.node_name] -= 1
            places[node] += 1

    def judge(self, pod: Pod) -> PodAffinityVerdict:
        """The rules of and about one pod, matched against all others."""
        wanted = _affinity(pod)
        attracted = tuple((term.topology_key, self._domains(term.topology_key, wanted, pod)) for term in wanted)
        first = not any(domains for _, domains in attracted) and all(self._means(term, pod, pod) for term in wanted)
        repelled = frozenset((*self._repelled_by_its_own(pod), *self._repelled_by_others(pod)))
        rules = [rule for rule in pod.topology_spread if rule.when_unsatisfiable == HARD]
        keys = [rule.topology_key for rule in rules]
        labelled = [node for node in self._nodes.values() if rules and all(key in node.labels for key in keys)]
        return PodAffinityVerdict(
            attracted, first, repelled, tuple(self._spread(pod, rule, labelled) for rule in rules)
        )

    @property
    def _crowds(self) -> dict[tuple[str, frozenset[tuple[str, str]]], PodGroup]:
        if self._counted is None:
            self._counted = {}
            for pod in filter(_stands, self._pods):
                crowd = _crowd(self._counted, pod)
                crowd.places[pod.node_name] += 1
                crowd.staying[pod.node_name] += 0 if pod.deleting else 1
            for pod, node in self._moved:
                _move(_crowd(self._counted, pod), pod, node)
        return self._counted

    def _repeller(self, pod: Pod) -> Repeller:
        """Pods of one owner are made from one template, mostly: those whose terms differ are kept apart."""
        several = self._repellers.setdefault((pod.namespace, pod.owner.uid if pod.owner is not None else pod.uid), [])
        found = next((one for one in several if _alike(one.sample, pod)), None)
        if found is None:
            found = Repeller(pod, collections.Counter())
            several.append(found)
        return found

    def _repelled_by_its_own(self, pod: Pod) -> collections.abc.Iterator[tuple[str, str]]:
        for term in _anti_affinity(pod):
            for domain in self._domains(term.topology_key, (term,), pod):
                yield term.topology_key, domain

    def _repelled_by_others(self, pod: Pod) -> collections.abc.Iterator[tuple[str, str]]:
        for repeller in (one for several in self._repellers.values() for one in several):
            own = repeller.places if not _alike(repeller.sample, pod) else _without(repeller.places, pod)
            for term in _anti_affinity(repeller.sample):
                if self._means(term, repeller.sample, pod):
                    for name, number in own.items():
                        domain = self._label(name, term.topology_key)
                        if number > 0 and domain is not None:
                            yield term.topology_key, domain

    def _domains(self, key: str, terms: tuple[PodAffinityTerm, ...], pod: Pod) -> frozenset[str]:
        """The domains in which pods other than the pod itself meet all its terms: one that meets one of two attracts
        nobody.
        """
        found: set[str | None] = set()
        own = _crowd(self._crowds, pod)
        for crowd in self._crowds.values():
            if all(self._means(term, pod, crowd) for term in terms):
                places = _without(crowd.places, pod) if crowd is own else crowd.places
                found.update(self._label(name, key) for name, number in places.items() if number > 0)
        return frozenset(domain for domain in found if domain is not None)

    def _label(self, node: str, key: str) -> str | None:
        known = self._nodes.get(node)
        return known.labels.get(key) if known is not None else None

    def _means(self, term: PodAffinityTerm, owner: Pod, other: "PodGroup | Pod") -> bool:
        """Whether a term of `owner` selects these pods."""
        selector, namespace = term.label_selector, other.namespace
        return (
            selector is not None
            and term.means_namespace(owner.namespace, namespace, self._namespaces.get(namespace, {}))
            and selector.matches(other.labels)
        )

    def _spread(self, pod: Pod, rule: TopologySpread, labelled: list[Node]) -> Spread:
        """The rule's counts over the nodes that its policies let count; too few domains make the least 0."""
        counts: collections.Counter[str] = collections.Counter()
        counted = {node.name: node.labels[rule.topology_key] for node in labelled if _counts(pod, rule, node)}
        counts.update(dict.fromkeys(counted.values(), 0))
        own = _crowd(self._crowds, pod)
        for crowd in self._crowds.values():
            if crowd.namespace != pod.namespace or not rule.selects(pod.labels, crowd.labels):
                continue
            for name, number in (_without(crowd.staying, pod) if crowd is own else crowd.staying).items():
                if name in counted:
                    counts[counted[name]] += number
        enough = rule.min_domains is None or len(counts) >= rule.min_domains
        least = min(counts.values(), default=0) if enough else 0
        return Spread(rule.topology_key, counts, least, int(rule.selects(pod.labels, pod.labels)), rule.max_skew)


def _crowd(crowds: dict[tuple[str, frozenset[tuple[str, str]]], PodGroup], pod: Pod) -> PodGroup:
    key = (pod.namespace, frozenset(pod.labels.items()))
    found = crowds.get(key)
    if found is None:
        found = crowds[key] = PodGroup(pod.namespace, pod.labels)
    return found


def _move(crowd: PodGroup, pod: Pod, node: str) -> None:
    for places in (crowd.places, crowd.staying):
        places[pod.node_name] -= 1
        places[node] += 1


def _within_skew(rule: Spread, node: Node) -> bool:
    domain = node.labels.get(rule.key)
    return domain is not None and rule.counts[domain] + rule.itself - rule.least <= rule.max_skew


def _counts(pod: Pod, rule: TopologySpread, node: Node) -> bool:
    """nodeAffinityPolicy and nodeTaintsPolicy: whether the node's domain and pods count at all."""
    if rule.node_affinity_policy == "Honor" and not pod.selects(node.name, node.labels):
        return False
    return rule.node_taints_policy != "Honor" or selectors.untolerated(node.taints, pod.tolerations) is None


def _without(places: Places, pod: Pod) -> Places:
    rest = places.copy()
    rest[pod.node_name] -= 1
    return rest


def _alike(pod: Pod, other: Pod) -> bool:
    owners = pod.owner, other.owner
    same = pod.uid == other.uid if None in owners else owners[0] == owners[1]
    return same and _anti_affinity(pod) == _anti_affinity(other)


def _stands(pod: Pod) -> bool:
    """Whether it is on a node, so that rules count it."""
    return bool(pod.spec.node_name) and not pod.finished


def _affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    found = pod.affinity.pod_affinity if pod.affinity is not None else None
    return tuple(found.required) if found is not None else ()


def _anti_affinity(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    found = pod.affinity.pod_anti_affinity if pod.affinity is not None else None
    return tuple(found.required) if found is not None else ()
