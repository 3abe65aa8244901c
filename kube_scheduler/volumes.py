"""Whether a node reaches a pod's volumes, and can attach them beside those it has.

Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: volumebinding (node affinity of a bound volume), volumezone,
nodevolumelimits. Claims that are not bound yet, and in-tree volumes that a CSI driver attaches in their place, are not
counted.
"""

import collections
from collections.abc import Iterable, Iterator, Mapping

from kube.objects import CsiSource, Node, PersistentVolume, Pod

ZONES = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGIONS = "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"
Volumes = Mapping[str, PersistentVolume]  # claim ("namespace/name") -> the volume it is bound to


def mountable(volume: PersistentVolume, node: Node) -> bool:
    """Whether the volume can be reached from the node: by its node affinity, and by the zone and region labels that
    older volumes carry instead ("a__b" is either).
    """
    if volume.node_selector is not None and not volume.node_selector.matches(node.name, node.labels):
        return False
    if not any(key in node.labels for key in (*ZONES, *REGIONS)):
        return True
    return all(_within(volume, node, keys) for keys in (ZONES, REGIONS))


def reachable(pod: Pod, node: Node, volumes: Volumes) -> bool:
    """Whether all volumes behind the pod's claims can be mounted on the node; an unknown claim is no hindrance."""
    claims = (f"{pod.namespace}/{volume.claim}" for volume in pod.spec.volumes if volume.claim)
    return all(mountable(volumes[claim], node) for claim in claims if claim in volumes)


class Attachments:
    """Volume attachments of each node that has a limit: of a CSI driver's different volumes at most the count in the
    node's CSINode. A driver or node without a count has no limit.
    """

    def __init__(self, limits: Mapping[str, Mapping[str, int]], volumes: Volumes, pods: Iterable[Pod]) -> None:
        self._limits = limits
        self._sources = {claim: volume.spec.csi for claim, volume in volumes.items() if volume.spec.csi is not None}
        self._attached: dict[str, set[CsiSource]] = collections.defaultdict(set)
        for pod in pods if self._sources else ():
            self.take(pod, pod.node_name or pod.nominated_node)

    def take(self, pod: Pod, node: str) -> None:
        """Counts the pod's volumes on the node."""
        if node in self._limits:
            self._attached[node].update(self._volumes(pod))

    def allow(self, pod: Pod, node: str) -> bool:
        """Whether the node can attach the pod's volumes beside those it has."""
        limits = self._limits.get(node, {})
        attached = self._attached[node] if limits else set()
        added = {source for source in self._volumes(pod) if source.driver in limits} - attached
        counts = collections.Counter(source.driver for source in attached | added)
        return all(counts[source.driver] <= limits[source.driver] for source in added)

    def _volumes(self, pod: Pod) -> Iterator[CsiSource]:
        for volume in pod.spec.volumes:
            source = self._sources.get(f"{pod.namespace}/{volume.claim}") if volume.claim else None
            if source is not None:
                yield source


def _within(volume: PersistentVolume, node: Node, keys: tuple[str, ...]) -> bool:
    wanted = next((volume.labels[key] for key in keys if key in volume.labels), None)
    value = next((node.labels[key] for key in keys if key in node.labels), None)
    return wanted is None or value in wanted.split("__")
