"""A pod as a run lists it: `kube.objects.Pod` whose equal parts are one object, without what no plan reads.

`reading.py` lists PODS; everything behind it takes an `objects.Pod` and need not know. A cluster of 20,000 pods has
some hundred sorts of them: pods of one workload share labels, owner, containers, tolerations and rules, and what they
request is computed once for all. Of a pod of 3 KB on the wire 1.3 KB stay, where the whole struct takes 5.
"""

import functools
from typing import Final, NamedTuple

import msgspec

from descheduler import keys
from kube import kinds, lean_pods, objects, pods
from kube.lean_pods import shared

CONDITIONS: Final = (lean_pods.READY, lean_pods.SCHEDULED)
SORTS: Final = 8192  # remembered; each takes some 3 KB


class Sort(NamedTuple):
    """What pods of equal specs have in common: the spec without a node, its requests and host ports."""

    spec: pods.PodSpec
    requests: objects.Resources
    host_ports: tuple[tuple[str, str, int], ...]


NO_SORT: Final = Sort(pods.PodSpec(), objects.NOTHING, ())


class Pod(objects.Pod, frozen=True, kw_only=True):
    """A pod of a snapshot; `sort` is not on the wire."""

    sort: Sort = msgspec.field(name="-", default=NO_SORT)

    def __post_init__(self) -> None:
        """Let it hold the parts that an equal one brought."""
        put = msgspec.structs.force_setattr
        put(self, "sort", _put_spec(self))
        _share_metadata(self.metadata)
        put(self.status, "phase", shared(self.status.phase))
        put(self.status, "qos_class", shared(self.status.qos_class))
        put(self.status, "conditions", lean_pods.kept(self.status.conditions, CONDITIONS))

    @property
    def requests(self) -> objects.Resources:
        """As of any pod."""
        return self.sort.requests

    @property
    def host_ports(self) -> tuple[tuple[str, str, int], ...]:
        """As of any pod."""
        return self.sort.host_ports


def _put_spec(pod: Pod) -> Sort:
    """Gives the pod the spec of its sort, with its own node."""
    put, own = msgspec.structs.force_setattr, pod.spec
    node_name = shared(own.node_name)
    put(own, "node_name", "")
    put(own, "volumes", tuple([volume for volume in own.volumes if _ties(volume)]))
    sort = _sort(_encoder.encode(own))
    put(pod, "spec", msgspec.structs.replace(sort.spec, node_name=node_name))
    return sort


def _ties(volume: objects.Volume) -> bool:
    """Whether a protection or a destination asks about it; the others have names of their own in each pod."""
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


def _share_metadata(metadata: objects.Metadata) -> None:
    put = msgspec.structs.force_setattr
    put(metadata, "namespace", shared(metadata.namespace))
    put(metadata, "resource_version", "")
    put(metadata, "owner_references", shared(metadata.owner_references))
    put(metadata, "labels", _mapping(tuple(metadata.labels.items())))
    read = tuple([item for item in metadata.annotations.items() if item[0] in keys.READ])
    put(metadata, "annotations", _mapping(read))


@functools.lru_cache(maxsize=65536)
def _mapping(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(items)


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(pods.PodSpec)
PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
