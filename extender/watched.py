"""A pod as the extender's watch keeps it: 100,000 of them stay in memory, so it holds what placements read and no more.

`service` watches PODS; `placements` counts them, by the same properties that a whole `kube.objects.Pod` of a request
has (`counting.Countable`). Of a pod of 3 KB on the wire some 600 bytes stay, where the whole struct takes 4.8 KB, and
decoding takes a third of the time.
"""

import functools
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from kube import kinds, objects, pods, resources

T = TypeVar("T")

PLACEHOLDER_LABEL: Final = "evenload.io/placeholder"
SCHEDULED: Final = "PodScheduled"


@functools.lru_cache(maxsize=65536)  # the values of a cluster of 5,000 nodes several times over; then the oldest go
def _shared(value: T) -> T:
    """The first of all equal values, so that the others can be freed."""
    return value


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The one label that counting asks for."""

    placeholder: str = msgspec.field(name=PLACEHOLDER_LABEL, default="")


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """By which the kubelet marks the pods that it made itself."""

    mirror: str | None = msgspec.field(name=pods.MIRROR_ANNOTATION, default=None)
    source: str = msgspec.field(name=pods.SOURCE_ANNOTATION, default="api")


class Metadata(objects.Identity, frozen=True, gc=False, rename="camel"):
    """metadata of a watched pod."""

    labels: Labels = Labels()
    annotations: Annotations = Annotations()


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Requests of the two resources that load is measured in; a struct takes a fifth of the memory of a map."""

    cpu: resources.Quantity | None = None
    memory: resources.Quantity | None = None

    def given(self) -> Mapping[str, resources.Quantity]:
        """The same as the API's map, without what is absent."""
        both = {"cpu": self.cpu, "memory": self.memory}
        return {name: amount for name, amount in both.items() if amount is not None}


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """`resources` of a container or of a pod, without limits."""

    requests: Amounts = Amounts()


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What of a container adds to the pod's requests."""

    resources: Requirements = Requirements()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running beside the others (restartPolicy: Always)."""
        return self.restart_policy == "Always"


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a watched pod."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    level: Requirements = msgspec.field(name="resources", default=Requirements())
    overhead: Amounts = Amounts()


class Status(msgspec.Struct, frozen=True, gc=False):
    """status of a watched pod."""

    phase: str = ""
    conditions: tuple[objects.Condition, ...] = ()

    def __post_init__(self) -> None:
        """Keep the one condition that is read: the usual five are a third of what the whole struct keeps."""
        kept = (one for one in self.conditions if one.type == SCHEDULED)
        slim = tuple(objects.Condition(SCHEDULED, _shared(one.status), "", one.last_transition_time) for one in kept)
        msgspec.structs.force_setattr(self, "conditions", slim)


class Pod(objects.Identified, frozen=True, kw_only=True, gc=False):
    """A pod on the watch."""

    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        """Let pods of one workload, node or namespace hold the same values instead of equal ones."""
        share = msgspec.structs.force_setattr
        share(self.metadata, "namespace", _shared(self.metadata.namespace))
        share(self.metadata, "annotations", _shared(self.metadata.annotations))
        share(self.metadata, "owner_references", _shared(self.metadata.owner_references))
        share(self.spec, "node_name", _shared(self.spec.node_name))
        share(self.spec, "containers", _shared(self.spec.containers))
        share(self.spec, "init_containers", _shared(self.spec.init_containers))
        share(self.status, "phase", _shared(self.status.phase))

    @property
    def node_name(self) -> str:
        """The node it is bound to, "" while it is not."""
        return self.spec.node_name

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it uses nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_daemonset(self) -> bool:
        """Owned by a DaemonSet."""
        return self.owner is not None and self.owner.kind == "DaemonSet"

    @property
    def is_from_node(self) -> bool:
        """Static, or the apiserver's image of a static pod: no scheduler chose its node."""
        return self.metadata.annotations.mirror is not None or self.metadata.annotations.source != "api"

    @property
    def labels(self) -> Mapping[str, str]:
        """The placeholder label, if the pod has it; the others are not kept."""
        return {PLACEHOLDER_LABEL: self.metadata.labels.placeholder} if self.metadata.labels.placeholder else {}

    @property
    def scheduled_at_seconds(self) -> float | None:
        """When it was bound: the transition of PodScheduled to True."""
        return objects.holding_since_seconds(self.status.conditions, SCHEDULED)

    @property
    def requests(self) -> objects.Resources:
        """Effective CPU and memory requests with overhead, as kube-scheduler counts them (`kube.resources`).

        Computed anew at every call: it is read once, when the pod is first counted.
        """
        total = resources.pod_total(
            self.spec.containers,
            self.spec.init_containers,
            read=lambda one: one.resources.requests.given(),
            pod_level=self.spec.level.requests.given(),
        )
        return total.plus(resources.resources(self.spec.overhead.given()))


def counts_alike(old: Pod, new: Pod) -> bool:
    """Whether two versions of a pod are the same to whoever counts it: most changes are the kubelet's, about phases
    and other conditions.
    """
    return (
        old.uid == new.uid
        and old.spec == new.spec
        and old.status.conditions == new.status.conditions
        and old.finished == new.finished
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.owner_references == new.metadata.owner_references
    )


PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
