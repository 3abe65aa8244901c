"""A pod as the extender's watch keeps it: 100,000 of them stay in memory, so it holds what placements read and no more.

`service` watches PODS; `placements` counts them, by the same properties that a whole `kube.objects.Pod` of a request
has (`counting.Countable`). It is `kube.lean_pods.Pod` with requests: of a pod of 3 KB on the wire some 600 bytes stay.
"""

import functools
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from kube import kinds, lean_pods, objects, resources


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


class Spec(lean_pods.Spec, frozen=True, gc=False, rename="camel"):
    """spec of a watched pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    level: Requirements = msgspec.field(name="resources", default=Requirements())
    overhead: Amounts = Amounts()


class Status(lean_pods.Status, frozen=True, gc=False):
    """status of a watched pod."""

    def __post_init__(self) -> None:
        """Read the one condition that counts here."""
        lean_pods.Status.__post_init__(self)
        msgspec.structs.force_setattr(self, "ready_since_seconds", None)


class Pod(lean_pods.Pod, frozen=True, kw_only=True, gc=False):
    """A pod on the watch."""

    spec: Spec = Spec()
    status: Status = Status()

    def __post_init__(self) -> None:
        """Let pods of one workload share their containers, too."""
        lean_pods.Pod.__post_init__(self)
        share = msgspec.structs.force_setattr
        share(self.spec, "containers", lean_pods.shared(self.spec.containers))
        share(self.spec, "init_containers", lean_pods.shared(self.spec.init_containers))

    @property
    def requests(self) -> objects.Resources:
        """Effective CPU and memory requests with overhead, as kube-scheduler counts them (`kube.resources`).

        It is read once, when the pod is first counted; those of a workload have one and the same.
        """
        spec = self.spec
        return _requests(spec.containers, spec.init_containers, spec.level, spec.overhead)


T = TypeVar("T", Pod, objects.Pod)


@functools.lru_cache(maxsize=4096)  # workloads of a large cluster; keys are shared with their pods
def _requests(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], level: Requirements, overhead: Amounts
) -> objects.Resources:
    total = resources.pod_total(
        containers,
        init_containers,
        read=lambda one: one.resources.requests.given(),
        pod_level=level.requests.given(),
    )
    return total.plus(resources.resources(overhead.given()))


def counts_alike(old: T, new: T) -> bool:
    """Whether two versions of a pod are the same to whoever counts it: most changes are the kubelet's, about phases
    and other conditions.
    """
    return (
        old.uid == new.uid
        and old.spec == new.spec
        and old.scheduled_at_seconds == new.scheduled_at_seconds
        and old.finished == new.finished
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.metadata.owner_references == new.metadata.owner_references
    )


PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
