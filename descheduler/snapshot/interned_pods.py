"""A pod as the descheduler keeps it: `kube.objects.Pod` whose equal parts are one object, without what no plan reads.

`snapshot.cluster_watch` watches PODS; everything behind it takes an `objects.Pod` and need not know. A cluster of
20,000 pods has some hundred sorts of them: pods of one workload share labels, owner, containers, tolerations and rules,
and what they request is computed once for all. Of a pod of 3 KB on the wire 1.4 KB stay, where the whole struct takes
5.

Labels and owners stay text while a pod is decoded, and equal text is decoded once. A spec is decoded, which is faster
than looking for a node's name in its text, and compared with the last one of the same owners.
"""

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from descheduler.snapshot import pod_annotations, pod_bounds
from kube import kinds, objects
from kube.api import container_states, identifiers, pods
from kube.api.metadata import seconds
from kube.pods import compact
from kube.pods.compact import shared
from policy.contract import filter_opt_out

SORTS: Final = 8192  # latest ones, each of an owner
SORTS_BYTES: Final = 16 * 2**20  # of JSON, remembered: 8,000 of usual specs
LABELS: Final = "labels"  # what `left_out` can say, besides compact.OWNER and what `pod_bounds.exceeded` finds
QOS_CLASSES: Final = {name: name for name in ("", "Guaranteed", "Burstable", "BestEffort")}
_NOTHING: Final = msgspec.Raw()


class Sort(NamedTuple):
    """Shared part of equal pod specs: the spec without a node, its requests and host ports, and which of its
    rules are left out as too many.
    """

    spec: pods.PodSpec
    requests: objects.Resources
    host_ports: tuple[pods.Port, ...]
    left_out: str = ""


class Owners(NamedTuple):
    """The controlling owner, if there is one, and what of it is left out."""

    references: tuple[objects.OwnerReference, ...]
    left_out: str = ""


class RuleAnnotations(msgspec.Struct, frozen=True, gc=False):
    """The annotations that rules read, and no others; a rule that reads another one adds it here."""

    evictable: str | None = msgspec.field(name=pod_annotations.EVICTABLE[0], default=None)
    evictable_elsewhere: str | None = msgspec.field(name=pod_annotations.EVICTABLE[1], default=None)
    evict_elsewhere: str | None = msgspec.field(name=pod_annotations.EVICTABLE[2], default=None)
    deletion_cost: str | None = msgspec.field(name=pod_annotations.DELETION_COST, default=None)
    eviction_cost: str | None = msgspec.field(name=pod_annotations.EVICTION_COST, default=None)
    safe_to_evict: str | None = msgspec.field(name=pod_annotations.SAFE_TO_EVICT, default=None)
    safe_volumes: str | None = msgspec.field(name=pod_annotations.SAFE_VOLUMES, default=None)
    do_not_disrupt: str | None = msgspec.field(name=pod_annotations.DO_NOT_DISRUPT, default=None)
    prefer_no_eviction: str | None = msgspec.field(name=pod_annotations.PREFER_NO_EVICTION, default=None)
    eviction_in_progress: str | None = msgspec.field(name=pod_annotations.EVICTION_IN_PROGRESS, default=None)
    volcano_group: str | None = msgspec.field(name=pod_annotations.GROUPS[0], default=None)
    koordinator_group: str | None = msgspec.field(name=pod_annotations.GROUPS[1], default=None)
    yunikorn_group: str | None = msgspec.field(name=pod_annotations.GROUPS[2], default=None)
    lws_size: str | None = msgspec.field(name=pod_annotations.LWS_SIZE, default=None)
    index_failures: str | None = msgspec.field(name=pod_annotations.INDEX_FAILURES, default=None)
    filter: str | None = msgspec.field(name=filter_opt_out.KEY, default=None)
    expected_usage: str | None = msgspec.field(name=compact.EXPECTED_USAGE_ANNOTATION, default=None)
    mirror: str | None = msgspec.field(name=pods.MIRROR_ANNOTATION, default=None)
    source: str | None = msgspec.field(name=pods.SOURCE_ANNOTATION, default=None)


class Metadata(objects.Metadata, frozen=True, gc=False, rename="camel"):
    """metadata; what has a name that begins with "-" is not read from the wire, but made from the text below it."""

    owner_references: tuple[objects.OwnerReference, ...] = msgspec.field(name="-owners", default=())
    labels: dict[str, str] = msgspec.field(name="-labels", default={})
    annotations: dict[str, str] = msgspec.field(name="-annotations", default={})
    owners_text: msgspec.Raw = msgspec.field(name="ownerReferences", default=_NOTHING)
    labels_text: msgspec.Raw = msgspec.field(name="labels", default=_NOTHING)
    read: RuleAnnotations | None = msgspec.field(name="annotations", default=None)


class Pod(objects.Pod, frozen=True, kw_only=True):
    """A pod of a snapshot; what has a name that begins with "-" is made from the rest."""

    metadata: Metadata = Metadata()
    requests: objects.Resources = msgspec.field(name="-requests", default=objects.NOTHING)
    host_ports: tuple[pods.Port, ...] = msgspec.field(name="-hostPorts", default=())
    ready: bool = msgspec.field(name="-ready", default=False)
    ready_since_seconds: float | None = msgspec.field(name="-readySince", default=None)
    scheduled_at_seconds: float | None = msgspec.field(name="-boundAt", default=None)
    disruption: str = msgspec.field(name="-disruption", default="")
    restarts: int = msgspec.field(name="-restarts", default=0)
    running_since_seconds: float | None = msgspec.field(name="-runningSince", default=None)
    failing: bool = msgspec.field(name="-failing", default=False)

    def __post_init__(self) -> None:
        """Let it hold the parts that an equal one brought."""
        put, status = msgspec.structs.force_setattr, self.status
        pods.put_effective(self.spec, status, infeasible=status.resize_infeasible)
        left_out = _put_texts(self.metadata)
        node_name, spec, owner = shared(self.spec.node_name), self.spec, self.owner
        put(spec, "node_name", "")  # sorts are without it, and without the volumes that nothing asks about
        put(spec, "volumes", tuple([volume for volume in spec.volumes if volume.ties]))
        sort = _sort_of(spec, _latest(owner.uid if owner is not None else ""))
        put(self, "requests", sort.requests)
        put(self, "host_ports", sort.host_ports)
        put(self, "left_out", left_out or sort.left_out)
        put(self, "spec", msgspec.structs.replace(sort.spec, node_name=node_name))
        put(status, "phase", compact.PHASES.get(status.phase, "Unknown"))
        put(status, "qos_class", QOS_CLASSES.get(status.qos_class, ""))
        put(self, "restarts", pods.counted_restarts(self.spec, status))
        if len(status.nominated_node_name) > identifiers.LONGEST_NAME:
            put(status, "nominated_node_name", "")
        self._put_conditions(put)
        self._put_states(put)

    def _put_conditions(self, put: Callable[[msgspec.Struct, str, object], None]) -> None:
        """Keeps the fields of the three conditions that rules read: all five are a third of a whole pod."""
        for one in self.status.conditions:
            if one.type == compact.READY and one.status == "True":
                put(self, "ready", True)
                put(self, "ready_since_seconds", seconds(one.last_transition_time))
            elif one.type == compact.SCHEDULED and one.status == "True":
                put(self, "scheduled_at_seconds", seconds(one.last_transition_time))
            elif one.type == pods.DISRUPTION and one.status == "True":
                put(self, "disruption", shared(one.reason[: pods.LONGEST_REASON]))
        put(self.status, "conditions", ())

    def _put_states(self, put: Callable[[msgspec.Struct, str, object], None]) -> None:
        """Keeps since when its containers run and whether they wait for a reason of failure."""
        status = self.status
        containers, init_containers = status.container_statuses, status.init_container_statuses
        if containers or init_containers:
            put(self, "running_since_seconds", container_states.running_since_seconds(status.phase, containers))
            put(self, "failing", container_states.failing(containers, init_containers))
            put(status, "container_statuses", ())
            put(status, "init_container_statuses", ())


def _put_texts(own: Metadata) -> str:
    """Gives metadata what its texts say, and lets go of them, who would keep the whole answer in memory; what of them
    is too long to be taken in.
    """
    put, owners, labels = msgspec.structs.force_setattr, bytes(own.owners_text), bytes(own.labels_text)
    put(own, "owners_text", _NOTHING)
    put(own, "labels_text", _NOTHING)
    put(own, "namespace", shared(own.namespace))
    left_out = ""
    if owners:
        owner = _owners(owners)
        put(own, "owner_references", owner.references)
        left_out = owner.left_out
    if len(labels) > pod_bounds.MOST_LABELS_BYTES:
        left_out = LABELS
    elif labels:
        put(own, "labels", _labels(labels))
    if own.read is not None:
        put(own, "annotations", _annotations(own.read))
        put(own, "read", None)
    return left_out


def _sort_of(spec: pods.PodSpec, latest: list[Sort]) -> Sort:
    """The sort of a spec; comparing it with the latest of its owners' is four times as fast as writing it down."""
    for sort in latest:
        if sort.spec == spec:
            return sort
    exceeded = pod_bounds.exceeded(spec)
    text = b"" if exceeded else _encoder.encode(spec)
    if len(text) > pod_bounds.MOST_SPEC_BYTES:
        exceeded = f"spec of {len(text)} bytes"
    if exceeded:
        return _without_rules(spec, exceeded)
    sort = _sort(text)
    latest[:] = [sort]
    return sort


def _without_rules(spec: pods.PodSpec, exceeded: str) -> Sort:
    """The sort of a pod that says more than is taken in: it stands where it stands, with what it requests."""
    known = pods.PodSpec(priority=spec.priority, preemption_policy=spec.preemption_policy)
    if len(spec.containers) + len(spec.init_containers) > pods.MOST_CONTAINERS:
        return Sort(known, objects.NOTHING, (), exceeded)
    whole = objects.Pod(spec=spec)
    return Sort(known, whole.requests, whole.host_ports[: pod_bounds.MOST_RULES], exceeded)


def _made_sort(spec: bytes) -> Sort:
    """The sort of pods with this spec, from its JSON."""
    pod = objects.Pod(spec=_decoder.decode(spec))
    return Sort(pod.spec, pod.requests, pod.host_ports)


@functools.lru_cache(maxsize=SORTS)
def _latest(owner: str) -> list[Sort]:
    """The sort of the last pod with this owner (uid), mostly the next one's too; empty before the first."""
    return []


def _made_owners(text: bytes) -> Owners:
    owner = objects.controller(msgspec.json.decode(text, type=tuple[objects.OwnerReference, ...]))
    if owner is None:
        return Owners(())
    return Owners((owner,)) if owner.is_bounded else Owners((), compact.OWNER)


def _annotations(read: RuleAnnotations) -> dict[str, str]:
    """The annotations, each up to a length beyond which no value of them means anything. A list is left out when it is
    too long: the beginning of a name may be another's.
    """
    if read.safe_volumes is not None and len(read.safe_volumes) > pod_bounds.MOST_LIST_CHARACTERS:
        read = msgspec.structs.replace(read, safe_volumes=None)
    most = pod_bounds.MOST_ANNOTATION_CHARACTERS
    if all(len(value) <= most for name, value in _pairs(read).items() if name != pod_annotations.SAFE_VOLUMES):
        return _usual_annotations(read)
    return {
        name: value if name == pod_annotations.SAFE_VOLUMES else value[:most] for name, value in _pairs(read).items()
    }


def _pairs(read: RuleAnnotations) -> dict[str, str]:
    pairs = zip(read.__struct_encode_fields__, msgspec.structs.astuple(read), strict=True)
    return {name: value for name, value in pairs if value is not None}


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(pods.PodSpec)
_sort = pod_bounds.BoundedCache(_made_sort, SORTS_BYTES)
_owners = pod_bounds.BoundedCache(_made_owners)
_labels = pod_bounds.BoundedCache(msgspec.json.Decoder(dict[str, str]).decode)
_usual_annotations = functools.lru_cache(maxsize=4096)(_pairs)
PODS: Final = kinds.Kind("api/v1", "pods", "Pod", Pod)
