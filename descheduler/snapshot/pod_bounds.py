"""How much of what a pod's author writes a run takes in, and how much of that is remembered.

`snapshot.interned_pods` asks for every pod it decodes. kube-apiserver bounds an object by its size alone, 1.5 MB: 5,000
anti-affinity terms of one pod cost every candidate of every run a second. A pod over a bound is read without what
exceeds it, which `objects.Pod.left_out` says, and is never evicted (`planning.protections`): its rules are not known.
"""

from collections.abc import Callable
from typing import Final, Generic, TypeVar

from kube.api.pods import PodSpec
from kube.objects import LabelSelector

V = TypeVar("V")

MOST_LABELS_BYTES: Final = 16 * 1024  # of JSON; a hundred labels of usual length
MOST_SPEC_BYTES: Final = 32 * 1024  # of JSON, without what no plan reads
MOST_RULES: Final = 128  # of each sort: tolerations, volumes, expressions about nodes, expressions about other pods
MOST_ANNOTATION_CHARACTERS: Final = 64  # all that are read are words or numbers, but for one
MOST_LIST_CHARACTERS: Final = 512  # that one: names of volumes
MOST_REMEMBERED_BYTES: Final = 8 * 2**20  # of the texts of a cache; what is made of them takes about three times that
_SHARE: Final = 256  # of a cache that one entry may take


class BoundedCache(Generic[V]):
    """Cache of values by the text they came from, bounded in bytes and emptied when full. With a bound on entries alone
    the authors of the texts would decide its size.
    """

    def __init__(self, make: Callable[[bytes], V], most_bytes: int = MOST_REMEMBERED_BYTES) -> None:
        self._make = make
        self._most_bytes = most_bytes
        self._values: dict[bytes, V] = {}
        self._bytes = 0

    def __call__(self, text: bytes) -> V:
        """The value of a text; equal texts have one and the same, unless they are very long."""
        value = self._values.get(text)
        if value is None:
            value = self._make(text)
            if len(text) <= self._most_bytes // _SHARE:
                self._remember(text, value)
        return value

    def _remember(self, text: bytes, value: V) -> None:
        if self._bytes + len(text) > self._most_bytes:
            self._values.clear()
            self._bytes = 0
        self._values[text] = value
        self._bytes += len(text)


def exceeded(spec: PodSpec) -> str:
    """Name the rules of a pod that exceed their bound, "" for none."""
    counts = {
        "tolerations": len(spec.tolerations),
        "volumes": len(spec.volumes),
        "rules about nodes": len(spec.node_selector) + _about_nodes(spec),
        "rules about other pods": _about_pods(spec),
    }
    return next((f"{count} {rules}" for rules, count in counts.items() if count > MOST_RULES), "")


def _about_nodes(spec: PodSpec) -> int:
    terms = spec.required_nodes.terms if spec.required_nodes is not None else ()
    return len(terms) + sum(len(term.match_expressions) + len(term.match_fields) for term in terms)


def _about_pods(spec: PodSpec) -> int:
    cost = sum(
        1 + _selected(rule.label_selector) + len(rule.match_label_keys) for rule in spec.topology_spread_constraints
    )
    if spec.affinity is None:
        return cost
    affinities = (spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity)
    return cost + sum(
        1 + _selected(term.label_selector) + _selected(term.namespace_selector) + len(term.namespaces)
        for one in affinities
        if one is not None
        for term in one.required
    )


def _selected(selector: LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels) + len(selector.match_expressions)
