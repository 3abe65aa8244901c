"""A pod as a run lists it: `kube.objects.Pod` whose equal parts are one object, without what no plan reads.

`reading.py` lists PODS; everything behind it takes an `objects.Pod` and need not know. A cluster of 20,000 pods has
some hundred sorts of them: pods of one workload share labels, owner, containers, tolerations and rules, and what they
request is computed once for all. Of a pod of 3 KB on the wire 1.3 KB stay, where the whole struct takes 5.

Labels and owners stay text while a pod is decoded, and equal text is decoded once. A spec is decoded, which is faster
than looking for a node's name in its text, and compared with the last one of the same owners.
"""

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from descheduler import keys
from kube import kinds, lean_pods, objects, pods
from kube.lean_pods import shared
from kube.metadata import seconds
from policy import opting_out

SORTS: Final = 8192  # remembered; each takes some 3 KB
_NOTHING: Final = msgspec.Raw()


class Sort(NamedTuple):
    """What pods of equal specs have in common: the spec without a node, its requests and host ports."""

    spec: pods.PodSpec
    requests: objects.Resources
    host_ports: tuple[tuple[str, str, int], ...]


NO_SORT: Final = Sort(pods.PodSpec(), objects.NOTHING, ())


class Read(msgspec.Struct, frozen=True, gc=False):
    """The annotations that rules read, and no others; a rule that reads another one adds it here."""

    evictable: str | None = msgspec.field(name=keys.EVICTABLE[0], default=None)
    evictable_elsewhere: str | None = msgspec.field(name=keys.EVICTABLE[1], default=None)
    deletion_cost: str | None = msgspec.field(name=keys.DELETION_COST, default=None)
    filter: str | None = msgspec.field(name=opting_out.KEY, default=None)
    mirror: str | None = msgspec.field(name=pods.MIRROR_ANNOTATION, default=None)
    source: str | None = msgspec.field(name=pods.SOURCE_ANNOTATION, default=None)


class Metadata(objects.Metadata, frozen=True, gc=False, rename="camel"):
    """metadata; what has a name that begins with "-" is not read from the wire, but made from the text below it."""

    resource_version: str = msgspec.field(name="-resourceVersion", default="")
    owner_references: tuple[objects.OwnerReference, ...] = msgspec.field(name="-owners", default=())
    labels: dict[str, str] = msgspec.field(name="-labels", default={})
    annotations: dict[str, str] = msgspec.field(name="-annotations", default={})
    owners_text: msgspec.Raw = msgspec.field(name="ownerReferences", default=_NOTHING)
    labels_text: msgspec.Raw = msgspec.field(name="labels", default=_NOTHING)
    read: Read | None = msgspec.field(name="annotations", default=None)


class Pod(objects.Pod, frozen=True, kw_only=True):
    """A pod of a snapshot; what has a name that begins with "-" is made from the rest."""

    metadata: Metadata = Metadata()
    sort: Sort = msgspec.field(name="-sort", default=NO_SORT)
    is_ready: bool = msgspec.field(name="-ready", default=False)
    ready_since_seconds: float | None = msgspec.field(name="-readySince", default=None)
    scheduled_at_seconds: float | None = msgspec.field(name="-boundAt", default=None)

    def __post_init__(self) -> None:
        """Let it hold the parts that an equal one brought."""
        put, status = msgspec.structs.force_setattr, self.status
        owners = _put_texts(self.metadata)
        node_name, spec = shared(self.spec.node_name), _without_its_own(self.spec)
        sort = _sort_of(spec, _latest(owners))
        put(self, "sort", sort)
        put(self, "spec", msgspec.structs.replace(sort.spec, node_name=node_name))
        put(status, "phase", shared(status.phase))
        put(status, "qos_class", shared(status.qos_class))
        self._put_conditions(put)

    def _put_conditions(self, put: Callable[[msgspec.Struct, str, object], None]) -> None:
        """Keeps what is asked of the two conditions that anybody asks about: all five are a third of a whole pod."""
        for one in self.status.conditions:
            if one.type == lean_pods.READY and one.status == "True":
                put(self, "is_ready", True)
                put(self, "ready_since_seconds", seconds(one.last_transition_time))
            elif one.type == lean_pods.SCHEDULED and one.status == "True":
                put(self, "scheduled_at_seconds", seconds(one.last_transition_time))
        put(self.status, "conditions", ())

    @property
    def ready(self) -> bool:
        """As of any pod."""
        return self.is_ready

    @property
    def requests(self) -> objects.Resources:
        """As of any pod."""
        return self.sort.requests

    @property
    def host_ports(self) -> tuple[tuple[str, str, int], ...]:
        """As of any pod."""
        return self.sort.host_ports


def _put_texts(own: Metadata) -> bytes:
    """Gives metadata what its texts say, and lets go of them, who would keep the whole answer in memory."""
    put, owners, labels = msgspec.structs.force_setattr, bytes(own.owners_text), bytes(own.labels_text)
    put(own, "owners_text", _NOTHING)
    put(own, "labels_text", _NOTHING)
    put(own, "namespace", shared(own.namespace))
    if owners:
        put(own, "owner_references", _owners(owners))
    if labels:
        put(own, "labels", _labels(labels))
    if own.read is not None:
        put(own, "annotations", _annotations(own.read))
        put(own, "read", None)
    return owners


def _without_its_own(spec: pods.PodSpec) -> pods.PodSpec:
    """The spec, changed, without its node and the volumes that nothing asks about: they have names of their own."""
    put = msgspec.structs.force_setattr
    put(spec, "node_name", "")
    put(spec, "volumes", tuple([volume for volume in spec.volumes if _ties(volume)]))
    return spec


def _sort_of(spec: pods.PodSpec, latest: list[Sort]) -> Sort:
    """The sort of a spec; comparing it with the latest of its owners' is four times as fast as writing it down."""
    for sort in latest:
        if sort.spec == spec:
            return sort
    sort = _sort(_encoder.encode(spec))
    latest[:] = [sort]
    return sort


def _ties(volume: objects.Volume) -> bool:
    """Whether a protection or a destination asks about it."""
    return (
        volume.empty_dir_source is not None
        or volume.claim_source is not None
        or volume.host_path_source is not None
        or volume.ephemeral_source is not None
    )


@functools.lru_cache(maxsize=SORTS)
def _sort(spec: bytes) -> Sort:
    """The sort of pods with this spec, from its JSON."""
    pod = objects.Pod(spec=_decoder.decode(spec))
    return Sort(pod.spec, pod.requests, pod.host_ports)


@functools.lru_cache(maxsize=SORTS)
def _latest(owners: bytes) -> list[Sort]:
    """The sort of the last pod with these owners, mostly the next one's too; empty before the first."""
    return []


@functools.lru_cache(maxsize=65536)
def _owners(text: bytes) -> tuple[objects.OwnerReference, ...]:
    return msgspec.json.decode(text, type=tuple[objects.OwnerReference, ...])


@functools.lru_cache(maxsize=65536)
def _labels(text: bytes) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])


@functools.lru_cache(maxsize=65536)
def _annotations(read: Read) -> dict[str, str]:
    pairs = zip(read.__struct_encode_fields__, msgspec.structs.astuple(read), strict=True)
    return {name: value for name, value in pairs if value is not None}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(pods.PodSpec)
PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
