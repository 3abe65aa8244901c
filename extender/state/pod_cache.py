"""A pod as the extender's watch keeps it: 100,000 of them stay in memory, so it holds what placements read and no more.

`service` watches PODS; `placements` counts them, by the same properties that a whole `kube.objects.Pod` of a request
has (`countable_pods.Countable`). It is `kube.pods.compact.Pod` with requests: of a pod of 3 KB on the wire some 600
bytes stay.
"""

import functools
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from kube import kinds, objects
from kube.api import pods, resources
from kube.pods import compact

REMEMBERED_CONTAINERS: Final = 8  # so many each, some 2 KB, in each of 4,096 sorts of pods
CONTAINERS: Final = "containers"  # what `Pod.left_out` can say besides


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Requests of the two resources that load is measured in; a struct takes a fifth of the memory of a map."""

    cpu: resources.Quantity | None = None
    memory: resources.Quantity | None = None

    def present(self) -> Mapping[str, resources.Quantity]:
        """Returns the API's map without absent entries."""
        both = {"cpu": self.cpu, "memory": self.memory}
        return {name: amount for name, amount in both.items() if amount is not None}


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """`resources` of a container or of a pod, without limits."""

    requests: Amounts = Amounts()


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a container that add to the pod's requests."""

    resources: Requirements = Requirements()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running beside the others (restartPolicy: Always)."""
        return self.restart_policy == "Always"


class Spec(compact.Spec, frozen=True, gc=False, rename="camel"):
    """spec of a watched pod. Of the containers nothing is kept but what all of them request."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    level: Requirements = msgspec.field(name="resources", default=Requirements())
    overhead: Amounts = Amounts()


class Status(compact.Status, frozen=True, gc=False):
    """status of a watched pod."""

    def __post_init__(self) -> None:
        """Read the one condition that counts here."""
        compact.Status.__post_init__(self)
        msgspec.structs.force_setattr(self, "ready_since_seconds", None)


class Pod(compact.Pod, frozen=True, kw_only=True, gc=False):
    """A pod on the watch.

    `requests` are not on the wire: effective CPU and memory requests with overhead, as kube-scheduler counts them
    (`kube.api.resources`). Requests that cannot be read are none, as the apiserver lets none of them in.
    """

    spec: Spec = Spec()
    status: Status = Status()
    requests: objects.Resources = msgspec.field(name="-requests", default=objects.NOTHING)

    def __post_init__(self) -> None:
        """Read the requests of the containers, which are then not kept."""
        compact.Pod.__post_init__(self)
        put, spec = msgspec.structs.force_setattr, self.spec
        count = len(spec.containers) + len(spec.init_containers)
        if count > pods.MOST_CONTAINERS:
            put(self, "left_out", CONTAINERS)
        else:
            read = _requests if count <= REMEMBERED_CONTAINERS else _requests.__wrapped__
            put(self, "requests", read(spec.containers, spec.init_containers, spec.level, spec.overhead))
        put(self, "spec", compact.shared(Spec(node_name=spec.node_name, priority=spec.priority)))


T = TypeVar("T", Pod, objects.Pod)


@functools.lru_cache(maxsize=4096)  # workloads of a large cluster, some 2 KB each
def _requests(
    containers: tuple[Container, ...], init_containers: tuple[Container, ...], level: Requirements, overhead: Amounts
) -> objects.Resources:
    try:
        total = resources.pod_total(
            containers,
            init_containers,
            read=lambda one: one.resources.requests.present(),
            pod_level=level.requests.present(),
        )
        return total.plus(resources.resources(overhead.present()))
    except (ValueError, OverflowError):
        return objects.NOTHING


def counts_alike(old: T, new: T) -> bool:
    """Whether two versions of a pod are the same to whoever counts it: most changes are the kubelet's, about phases
    and other conditions.
    """
    return (
        old.uid == new.uid
        and old.spec == new.spec
        and old.requests == new.requests
        and old.scheduled_at_seconds == new.scheduled_at_seconds
        and old.finished == new.finished
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.is_daemonset == new.is_daemonset
        and old.is_from_node == new.is_from_node
        and old.metadata.labels == new.metadata.labels
        and old.metadata.owner_references == new.metadata.owner_references
    )


PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
