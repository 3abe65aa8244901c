"""Compact Pod for cluster-wide watches: node, times, phase, owner and requests.

The annotator and the extender watch PODS: 100,000 pods stay in memory of each. The whole `kube.objects.Pod` takes 4.8
KB of one; this takes a twelfth, and decoding takes a third of the time. `kube.pods.pod_view.PodView` names what both
forms have.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from kube import kinds, objects
from kube.api import container_states, identifiers, pods, resources

T = TypeVar("T")

PLACEHOLDER_LABEL: Final = "evenload.io/placeholder"  # deploy/placeholder sets it to "true"
PRESET_ANNOTATION: Final = "evenload.io/placeholder-preset"  # and this to "order" or "soak"
EXPECTED_USAGE_ANNOTATION: Final = "evenload.io/expected-usage"  # `policy.contract.expected_usage`
SCHEDULED: Final = "PodScheduled"
READY: Final = "Ready"
OWNER, CONTAINERS = "owner", "containers"  # values of `Pod.left_out`
LONGEST_ANNOTATION: Final = 64
PHASES: Final = {phase: phase for phase in ("", "Pending", "Running", "Succeeded", "Failed", "Unknown")}
_TIMES: Final = {SCHEDULED: "scheduled_at_seconds", READY: "ready_since_seconds"}


@functools.lru_cache(maxsize=16384)  # a list has the pods of a workload together; the oldest go
def shared(value: T) -> T:
    """The first of all equal values, so that the others can be freed.

    It outlives the pods that have it, so only values of a bounded size may come here: 1 KB each, 16 MB in all.
    """
    return value


class Labels(msgspec.Struct, frozen=True, gc=False):
    """The one label that counting asks for."""

    placeholder: str = msgspec.field(name=PLACEHOLDER_LABEL, default="")


class Annotations(msgspec.Struct, frozen=True, gc=False):
    """By which the kubelet marks the pods that it made itself, what a placeholder is for, and a pod's own estimate."""

    mirror: str | None = msgspec.field(name=pods.MIRROR_ANNOTATION, default=None)
    placeholder_preset: str = msgspec.field(name=PRESET_ANNOTATION, default="")
    expected_usage: str = msgspec.field(name=EXPECTED_USAGE_ANNOTATION, default="")


class Metadata(objects.Identity, frozen=True, gc=False, rename="camel"):
    """metadata, without the labels and annotations that counting never reads."""

    labels: Labels = Labels()
    annotations: Annotations = Annotations()


class ReadyCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A condition as far as it is read. Its time stays a text: of the usual five one or two count."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class Status(pods.FormStatus, frozen=True, gc=False, rename="camel"):
    """status: the phase and the nominated node. Conditions, states and amounts are read once, and then not kept."""

    conditions: tuple[ReadyCondition, ...] = ()

    @property
    def resize_infeasible(self) -> bool:
        """See `kube.api.pods.PodStatus.resize_infeasible`."""
        reasons = (one.reason for one in self.conditions if one.type == resources.PENDING_RESIZE)
        return next(reasons, "") == resources.INFEASIBLE


# As `shared`: of equal first fields one struct, which has the defaults of the others.
_spec = functools.lru_cache(maxsize=16384)(pods.FormSpec)
_status = functools.lru_cache(maxsize=16384)(Status)
_requests = functools.lru_cache(maxsize=4096)(objects.Resources)  # workloads of a large cluster
_annotations = functools.lru_cache(maxsize=4096)(Annotations)  # the same, some 200 bytes each


@functools.lru_cache(maxsize=16384)  # as `shared`
def _owners(written: objects.OwnerReference) -> tuple[objects.OwnerReference, ...]:
    """The owner, or none where there can be no such object; of bounded ones only."""
    return (written,) if written.is_possible else ()


class Pod(pods.PodForm, frozen=True, kw_only=True, gc=False):
    """A pod on the watch.

    Fields whose name begins with "-" are not on the wire: they are read once. A cluster is counted every half minute,
    and a number is smaller than a condition. `scheduling_failure` changes with the text for which its last scheduling
    failed, and is 0 while none did. `requests` are the effective CPU and memory requests with overhead, as
    kube-scheduler counts them (`kube.api.resources`); unreadable requests count as none, because the apiserver refuses
    them. `left_out` names the part of the pod that is too long or impossible and therefore not kept: "owner" or
    "containers", or "" for nothing.
    """

    metadata: Metadata = Metadata()
    status: Status = Status()
    scheduled_at_seconds: float | None = msgspec.field(name="-scheduled", default=None)
    ready_since_seconds: float | None = msgspec.field(name="-ready", default=None)
    running_since_seconds: float | None = msgspec.field(name="-running", default=None)
    failing: bool = msgspec.field(name="-failing", default=False)
    scheduling_failure: int = msgspec.field(name="-schedulingFailure", default=0)
    is_daemonset: bool = msgspec.field(name="-daemonSet", default=False)
    is_from_node: bool = msgspec.field(name="-fromNode", default=False)
    left_out: str = msgspec.field(name="-leftOut", default="")
    requests: objects.Resources = msgspec.field(name="-requests", default=objects.NOTHING)

    def __post_init__(self) -> None:
        """Let pods of one workload, node or namespace hold the same values instead of equal ones, and none that is
        longer than Kubernetes' own.
        """
        put, own, spec, status = msgspec.structs.force_setattr, self.metadata, self.spec, self.status
        owner = self._put_owner(put)
        if own.annotations.mirror is not None:
            put(self, "is_from_node", pods.from_node(owner, spec.node_name))
        put(self, "is_daemonset", pods.of_daemonset(owner, spec.pinned))
        preset, expected_usage = own.annotations.placeholder_preset, own.annotations.expected_usage
        preset = preset if len(preset) <= identifiers.LONGEST_LABEL else ""
        put(own, "annotations", _annotations(None, preset, expected_usage[:LONGEST_ANNOTATION]))
        put(own, "namespace", shared(own.namespace))
        put(own, "labels", shared(own.labels))
        self._put_states(put)
        self._put_requests(put)
        nominated = status.nominated_node_name if len(status.nominated_node_name) <= identifiers.LONGEST_NAME else ""
        put(self, "status", _status(PHASES.get(status.phase, "Unknown"), nominated))
        put(self, "spec", _spec(spec.node_name, spec.priority))

    def _put_owner(self, put: Callable[[msgspec.Struct, str, object], None]) -> objects.OwnerReference | None:
        """Keeps of the owners the controlling one, if there can be such an object."""
        own = self.metadata
        written = objects.controller(own.owner_references)
        owners = _owners(written) if written is not None and written.is_bounded else ()
        put(own, "owner_references", owners)
        if owners:
            return owners[0]
        if written is not None:
            put(self, "left_out", OWNER)
        return None

    def _put_states(self, put: Callable[[msgspec.Struct, str, object], None]) -> None:
        """Reads conditions and states of containers; pods of the same moment hold the same number."""
        status = self.status
        for one in status.conditions:
            name = _TIMES.get(one.type)
            if name is not None and one.status == "True":
                put(self, name, container_states.moment_seconds(one.last_transition_time))
            elif one.type == SCHEDULED and one.status == "False":
                put(self, "scheduling_failure", hash((one.reason, one.message)))
        containers, init_containers = status.container_statuses, status.init_container_statuses
        if containers:
            put(self, "running_since_seconds", container_states.running_since_seconds(status.phase, containers))
        if containers or init_containers:
            put(self, "failing", container_states.failing(containers, init_containers))

    def _put_requests(self, put: Callable[[msgspec.Struct, str, object], None]) -> None:
        """Reads the requests of the containers."""
        spec, status = self.spec, self.status
        if len(spec.containers) + len(spec.init_containers) > pods.MOST_CONTAINERS:
            put(self, "left_out", CONTAINERS)
            return
        pods.put_effective(spec, status, infeasible=status.resize_infeasible)
        with contextlib.suppress(ValueError, OverflowError):
            whole = spec.requests()
            put(self, "requests", _requests(whole.cpu_millicores, whole.memory_bytes))

    @property
    def labels(self) -> Mapping[str, str]:
        """The placeholder label, if the pod has it; the others are not kept."""
        return {PLACEHOLDER_LABEL: self.metadata.labels.placeholder} if self.metadata.labels.placeholder else {}

    @property
    def annotations(self) -> Mapping[str, str]:
        """Returns the placeholder's preset and the pod's own estimate; other annotations are not stored."""
        own = self.metadata.annotations
        both = {PRESET_ANNOTATION: own.placeholder_preset, EXPECTED_USAGE_ANNOTATION: own.expected_usage}
        return {name: text for name, text in both.items() if text}


PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
