"""Pods of one namespace with equal labels, counted by node, and the affinity terms that pods have about others.

Who keeps them tells of pods that come and go; `topology_spread` and `inter_pod_affinity` ask for those a selector
means. Both tables are looked up by label, so that a question costs as much as its answer is long, whatever
else the cluster runs.
"""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from kube.objects import LabelSelector, Pod, PodAffinityTerm
from kube_scheduler.columns import Columns

Places = collections.Counter[str]  # node name -> pods
Key = tuple[str, frozenset[tuple[str, str]]]
Selectors = Sequence[LabelSelector]
Namespaces = Mapping[str, Mapping[str, str]]
K = TypeVar("K")
V = TypeVar("V")
W = TypeVar("W")


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PodGroup:
    """Pods alike: where they stand, and where those stand that are not on their way out."""

    labels: Mapping[str, str]
    places: Places = dataclasses.field(default_factory=collections.Counter)
    staying: Places = dataclasses.field(default_factory=collections.Counter)


class PodGroups:
    """All groups, by namespace and by namespace and label."""

    def __init__(self) -> None:
        self._in_namespace: dict[str, dict[Key, PodGroup]] = {}
        self._with_label: dict[tuple[str, str, str], dict[Key, PodGroup]] = {}

    @property
    def namespaces(self) -> Iterable[str]:
        """Namespaces that have pods on nodes."""
        return self._in_namespace.keys()

    def add(self, pod: Pod, node: str, *, number: int = 1) -> None:
        """Count a pod on a node; `number` -1 takes it away."""
        key = pod.namespace, frozenset(pod.labels.items())
        group = self._in_namespace.get(pod.namespace, {}).get(key)
        if group is None:
            group = self._in_namespace.setdefault(pod.namespace, {})[key] = PodGroup(pod.labels)
            for name, value in key[1]:
                self._with_label.setdefault((pod.namespace, name, value), {})[key] = group
        count(group.places, node, number)
        if not pod.deleting:
            count(group.staying, node, number)
        if not group.places:
            _drop(self._in_namespace, pod.namespace, key)
            for name, value in key[1]:
                _drop(self._with_label, (pod.namespace, name, value), key)

    def meant(self, namespace: str, selectors: Selectors) -> Iterator[PodGroup]:
        """The groups of a namespace that all selectors match."""
        for group in self._candidates(namespace, selectors).values():
            if all(selector.matches(group.labels) for selector in selectors):
                yield group

    def _candidates(self, namespace: str, selectors: Selectors) -> dict[Key, PodGroup]:
        for selector in selectors:
            for name, value in selector.match_labels.items():
                return self._with_label.get((namespace, name, value), {})
        return self._in_namespace.get(namespace, {})


class Term(NamedTuple):
    """A term of pods that stand somewhere: `role` is required or preferred, of affinity (1) or anti-affinity (-1)."""

    required: bool
    sign: int
    weight: int
    term: PodAffinityTerm
    namespace: str
    places: Places


class Terms:
    """Every term of every pod that has any, found by the labels of the pods it is about."""

    def __init__(self) -> None:
        self._holders: dict[tuple[str, bytes], tuple[Term, ...]] = {}
        self._about: dict[tuple[str, str] | None, dict[int, Term]] = {}

    def add(self, pod: Pod, node: str, *, number: int = 1) -> None:
        """Count a pod on a node; `number` -1 takes it away. Pods of one template share their terms."""
        if pod.affinity is None or not pod.affinity.pods_matter:
            return
        key = pod.namespace, msgspec.msgpack.encode(pod.affinity)
        terms = self._holders.get(key) or of_pod(pod)
        if not terms:
            return
        if key not in self._holders:
            self._holders[key] = terms
            for term in terms:
                self._about.setdefault(_subject(term), {})[id(term)] = term
        count(terms[0].places, node, number)
        if not terms[0].places:
            for term in self._holders.pop(key):
                _drop(self._about, _subject(term), id(term))

    def about(self, pod: Pod, namespaces: Namespaces) -> list[Term]:
        """The terms that mean this pod."""
        if not self._about:
            return []
        subjects = (None, *pod.labels.items())
        terms = (term for subject in subjects for term in self._about.get(subject, {}).values())
        return [term for term in terms if means(term.term, term.namespace, pod, namespaces)]


class ClusterState(Protocol):
    """The nodes and the pods on them, as far as rules about other pods read them: nodes by row, their pods in groups,
    the terms that pods have about others, and labels of namespaces.
    """

    @property
    def columns(self) -> Columns: ...
    @property
    def groups(self) -> PodGroups: ...
    @property
    def terms(self) -> Terms: ...
    @property
    def namespaces(self) -> Namespaces: ...


def of_pod(pod: Pod) -> tuple[Term, ...]:
    """A pod's own terms about other pods, with room to count where such pods stand."""
    if pod.affinity is None:
        return ()
    places: Places = collections.Counter()
    terms: list[Term] = []
    for rules, sign in ((pod.affinity.pod_affinity, 1), (pod.affinity.pod_anti_affinity, -1)):
        if rules is not None:
            terms += [Term(True, sign, 1, one, pod.namespace, places) for one in rules.required]
            terms += [Term(False, sign, one.weight, one.term, pod.namespace, places) for one in rules.preferred]
    return tuple(terms)


def means(term: PodAffinityTerm, own: str, pod: Pod, namespaces: Namespaces) -> bool:
    """Whether a term of a pod in the namespace `own` means this pod."""
    selector = term.label_selector
    if selector is None or not selector.matches(pod.labels):
        return False
    return term.means_namespace(own, pod.namespace, namespace_labels(namespaces, pod.namespace))


def namespace_labels(namespaces: Namespaces, name: str) -> Mapping[str, str]:
    """The labels of a namespace; of an unknown one those that the apiserver puts on each."""
    return namespaces.get(name) or {"kubernetes.io/metadata.name": name}


def _subject(term: Term) -> tuple[str, str] | None:
    selector = term.term.label_selector
    return next(iter(selector.match_labels.items()), None) if selector is not None else None


def count(counts: collections.Counter[K], key: K, number: int) -> None:
    """Add a number to what is counted under a key; nothing stays under one that comes to 0."""
    left = counts.get(key, 0) + number  # asking a Counter for what it has not calls Python
    if left:
        counts[key] = left
    else:
        counts.pop(key, None)


def _drop(table: dict[K, dict[V, W]], key: K, entry: V) -> None:
    rest = table[key]
    rest.pop(entry, None)
    if not rest:
        del table[key]
