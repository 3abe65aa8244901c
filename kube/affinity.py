"""A pod's placement rules as decoded from the wire: node and pod affinity, topology spread.

Fields of `kube.objects.Pod`; the descheduler's destination check reads them. Only what is required is kept: preferences
never make a destination impossible.
"""

from collections.abc import Mapping

import msgspec

from kube.selectors import LabelSelector, NodeSelector

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Which nodes a pod may run on."""

    required: NodeSelector | None = msgspec.field(name=REQUIRED, default=None)


class PodAffinityTerm(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Pods to be near to, or away from, within one topology domain.

    No namespaces and no namespace_selector mean the pod's own namespace; an empty namespace_selector means all.
    """

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class PodAffinity(msgspec.Struct, frozen=True, gc=False):
    """Terms that all must hold; of affinity or of anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(name=REQUIRED, default=())


class Affinity(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec.affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None

    def accepts_node(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether required node affinity, if any, holds for the node of this name and labels."""
        if self.node_affinity is None or self.node_affinity.required is None:
            return True
        return self.node_affinity.required.matches(name, labels)


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
