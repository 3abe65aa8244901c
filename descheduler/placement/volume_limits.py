"""How many volumes nodes may still attach while a plan is made.

`placement.destinations` asks for every node it considers and takes the places of chosen pods. The rule is
kube-scheduler's (NodeVolumeLimits): the different volumes of a CSI driver behind the claims of a node's pods, with
those of the pod, are at most the count in the node's CSINode. A driver or node without a count has no limit. Claims
that are not bound yet, and in-tree volumes that a CSI driver attaches in their place, are not counted.
"""

import collections
import collections.abc

from descheduler.snapshot.snapshot import Snapshot
from kube.objects import CsiSource, Pod


class Attachments:
    """Volume attachments of each node that has a limit, planned moves included."""

    def __init__(self, taken: Snapshot) -> None:
        self._limits = taken.attach_limits
        self._sources = {claim: volume.csi for claim, volume in taken.volumes.items() if volume.csi is not None}
        self._attached: dict[str, set[CsiSource]] = collections.defaultdict(set)
        for pod in taken.pods if self._sources else ():
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
        held = collections.Counter(source.driver for source in attached | added)
        return all(held[source.driver] <= limits[source.driver] for source in added)

    def _volumes(self, pod: Pod) -> collections.abc.Iterator[CsiSource]:
        for volume in pod.volumes:
            source = self._sources.get(f"{pod.namespace}/{volume.claim}") if volume.claim else None
            if source is not None:
                yield source
