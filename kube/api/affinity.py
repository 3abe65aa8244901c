"""A pod's placement rules as decoded from the wire: node and pod affinity, topology spread.

Fields of `kube.objects.Pod`. The descheduler's destination check reads what is required; the simulated scheduler also
what is preferred. The pods that a rule selects are found here, once, for both.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kube.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class PreferredNode(msgspec.Struct, frozen=True, gc=False):
    """Nodes a pod would rather have, and how much (1 to 100)."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which nodes a pod may run on."""

    required: NodeSelector | None = msgspec.field(name=REQUIRED, default=None)
    preferred: tuple[PreferredNode, ...] = msgspec.field(name=PREFERRED, default=())


def pinned_to(terms: Iterable[NodeSelectorTerm]) -> str:
    """The one node that every term asks for by its name, "" if they leave a choice.

    So the DaemonSet controller makes its pods (ReplaceDaemonSetPodNodeNameNodeAffinity): it puts exactly this into each
    term of the template's node affinity.
    """
    fields = [term.match_fields for term in terms]
    if not fields or len(fields[0]) != 1 or any(other != fields[0] for other in fields):
        return ""
    only = fields[0][0]
    return only.values[0] if (only.key, only.operator, len(only.values)) == ("metadata.name", "In", 1) else ""


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods to be near to, or away from, within one topology domain.

    No namespaces and no namespace_selector mean the pod's own namespace; an empty namespace_selector means all.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None

    def means_namespace(self, own: str, other: str, labels: Mapping[str, str]) -> bool:
        """Whether pods of the namespace `other`, which has these labels, are meant by a pod of the namespace `own`."""
        if not self.namespaces and self.namespace_selector is None:
            return other == own
        return other in self.namespaces or (
            self.namespace_selector is not None and self.namespace_selector.matches(labels)
        )


class WeightedTerm(msgspec.Struct, frozen=True, gc=False):
    """A term a pod would rather have met (or avoided), and how much (1 to 100)."""

    weight: int = 0
    term: PodAffinityTerm = msgspec.field(name="podAffinityTerm", default=PodAffinityTerm())


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Terms that all must hold, and terms that rather should; of affinity or of anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(name=REQUIRED, default=())
    preferred: tuple[WeightedTerm, ...] = msgspec.field(name=PREFERRED, default=())


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    @property
    def pods_matter(self) -> bool:
        """Whether it says anything of other pods."""
        return self.pod_affinity is not None or self.pod_anti_affinity is not None


class TopologySpread(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of spec.topologySpreadConstraints; DoNotSchedule is the one that forbids."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
