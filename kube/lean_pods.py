"""A pod as they keep it who watch every pod of the cluster: where it runs, since when, whose it is, and no more.

100,000 pods stay in memory of each such process. The whole `kube.objects.Pod` takes 4.8 KB of one; this takes a tenth,
and decoding takes a third of the time. The annotator watches it as it is; `extender.watched` adds requests. Properties
have the names and meanings of the whole pod's, so that one function may be given either.
"""

import functools
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from kube import kinds, metadata, objects, pods

T = TypeVar("T")

PLACEHOLDER_LABEL: Final = "evenload.io/placeholder"  # deploy/placeholder sets it to "true"
PRESET_ANNOTATION: Final = "evenload.io/placeholder-preset"  # and this to "order" or "soak"
SCHEDULED: Final = "PodScheduled"
READY: Final = "Ready"
_TIMES: Final = {SCHEDULED: "scheduled_at_seconds", READY: "ready_since_seconds"}


@functools.lru_cache(maxsize=65536)  # the values of a cluster of 5,000 nodes several times over; then the oldest go
def shared(value: T) -> T:
    """The first of all equal values, so that the others can be freed."""
    return value


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The one label that counting asks for."""

    placeholder: str = msgspec.field(name=PLACEHOLDER_LABEL, default="")


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """By which the kubelet marks the pods that it made itself, and what a placeholder is for."""

    mirror: str | None = msgspec.field(name=pods.MIRROR_ANNOTATION, default=None)
    source: str = msgspec.field(name=pods.SOURCE_ANNOTATION, default="api")
    placeholder_preset: str = msgspec.field(name=PRESET_ANNOTATION, default="")


class Metadata(objects.Identity, frozen=True, gc=False, rename="camel"):
    """metadata, without the labels and annotations that nobody reads."""

    labels: Labels = Labels()
    annotations: Annotations = Annotations()


class Spec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec: where it runs."""

    node_name: str = ""


class Standing(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition as far as it is read. Its time stays a text: of the usual five one or two count."""

    type: str
    status: str
    last_transition_time: str | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    """status: the phase, and since when it is placed and at work.

    The two times are not on the wire: they are read from the conditions once, which are then not kept. A cluster is
    counted every half minute, and a number is smaller than a condition.
    """

    phase: str = ""
    conditions: tuple[Standing, ...] = ()
    scheduled_at_seconds: float | None = msgspec.field(name="-scheduled", default=None)
    ready_since_seconds: float | None = msgspec.field(name="-ready", default=None)

    def __post_init__(self) -> None:
        """Read the conditions; pods of the same moment hold the same number."""
        put = msgspec.structs.force_setattr
        for one in self.conditions:
            name = _TIMES.get(one.type)
            if name is not None and one.status == "True":
                put(self, name, _seconds(one.last_transition_time))
        put(self, "conditions", ())


@functools.lru_cache(maxsize=65536)  # as `shared`
def _seconds(text: str | None) -> float | None:
    """Unix seconds of a time as the API writes it; msgspec.ValidationError for a text that is none."""
    return metadata.seconds(msgspec.convert(text, metadata.Moment))


class Pod(objects.Identified, frozen=True, kw_only=True, gc=False):
    """A pod on the watch."""

    counts_in_part = True
    metadata: Metadata = Metadata()
    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        """Let pods of one workload, node or namespace hold the same values instead of equal ones."""
        share, own, spec, status = msgspec.structs.force_setattr, self.metadata, self.spec, self.status
        share(own, "namespace", shared(own.namespace))
        share(own, "annotations", shared(own.annotations))
        share(own, "labels", shared(own.labels))
        share(own, "owner_references", shared(own.owner_references))
        share(spec, "node_name", shared(spec.node_name))
        share(status, "phase", shared(status.phase))

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
    def annotations(self) -> Mapping[str, str]:
        """What a placeholder is for, if the pod says so; the others are not kept."""
        preset = self.metadata.annotations.placeholder_preset
        return {PRESET_ANNOTATION: preset} if preset else {}

    @property
    def scheduled_at_seconds(self) -> float | None:
        """When it was bound: the transition of PodScheduled to True."""
        return self.status.scheduled_at_seconds

    @property
    def ready_since_seconds(self) -> float | None:
        """When it became Ready; None while it is not."""
        return self.status.ready_since_seconds


PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
