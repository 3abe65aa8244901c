"""The small objects: those that Evenload writes (ConfigMap, Lease, Event) and those whose one or two fields matter.

Decoded by `kube.http.client`, read through `kube.objects`.
"""

import msgspec

from kube.api import salvage
from kube.api.metadata import IdentifiedObject, Identity, Moment, Object
from kube.api.resources import Quantity
from kube.api.selectors import NodeSelector


class ConfigMap(Object, frozen=True, kw_only=True):
    """A ConfigMap's text data."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


class Namespace(Object, frozen=True, kw_only=True):
    """A Namespace; its labels matter."""


class PriorityClass(Object, frozen=True, kw_only=True, rename="camel"):
    """A PriorityClass."""

    value: int = 0
    preemption_policy: str = ""


class LeaseSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a Lease."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: Moment = None
    renew_time: Moment = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, kw_only=True):
    """A Lease. `undecodable` says why a part of it could not be read, such as a time of the year 0; the rest counts:
    an election goes by the holder and the resourceVersion.
    """

    counts_in_part = True
    spec: LeaseSpec = LeaseSpec()
    undecodable: str = msgspec.field(name=salvage.MARK, default="")


class Reference(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A pointer to an object, in Events."""

    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    api_version: str = ""


class Event(Object, frozen=True, kw_only=True, rename="camel"):
    """An events.k8s.io/v1 Event. eventTime may be null on Events of old writers, which breaks the official models."""

    reason: str = ""
    action: str = ""
    note: str = ""
    type: str = ""
    regarding: Reference = Reference()
    related: Reference | None = None
    event_time: Moment = None


class ServicePort(msgspec.Struct, frozen=True, gc=False):
    """A port of a Service or of an EndpointSlice."""

    name: str | None = None
    port: int | None = None


class ServiceSpec(msgspec.Struct, frozen=True, gc=False):
    """spec of a Service."""

    ports: tuple[ServicePort, ...] = ()


class Service(Object, frozen=True, kw_only=True):
    """A Service: its ports."""

    spec: ServiceSpec = ServiceSpec()


class Endpoint(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An endpoint behind a Service: a pod, as a rule."""

    addresses: tuple[str, ...] = ()
    target_ref: Reference | None = None


class EndpointSlice(Object, frozen=True, kw_only=True):
    """A part of a Service's endpoints; servers write `null` for none."""

    endpoints: tuple[Endpoint, ...] | None = None
    ports: tuple[ServicePort, ...] | None = None


class Presence(msgspec.Struct, frozen=True, gc=False):
    """An object of the API of which nothing matters but that it is there: a directory of the node, a group, a claim."""


class EmptyDir(msgspec.Struct, frozen=True, gc=False):
    """A scratch directory; medium "Memory" or "" for disk."""

    medium: str = ""


class ClaimSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A named PersistentVolumeClaim."""

    claim_name: str = ""


class Volume(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A pod's volume: what may tie the pod to a node, and the names of all other kinds of Kubernetes 1.36, whose data
    is reached from, or made on, any node. Of these nothing is read. The claim of a generic ephemeral volume is made for
    this pod, and goes with it.
    """

    name: str = ""
    host_path: Presence | None = msgspec.field(name="hostPath", default=None)
    empty_dir: EmptyDir | None = msgspec.field(name="emptyDir", default=None)
    claim_source: ClaimSource | None = msgspec.field(name="persistentVolumeClaim", default=None)
    ephemeral: Presence | None = msgspec.field(name="ephemeral", default=None)

    aws_elastic_block_store: Presence | None = msgspec.field(name="awsElasticBlockStore", default=None)
    azure_disk: Presence | None = msgspec.field(name="azureDisk", default=None)
    azure_file: Presence | None = msgspec.field(name="azureFile", default=None)
    cephfs: Presence | None = None
    cinder: Presence | None = None
    config_map: Presence | None = msgspec.field(name="configMap", default=None)
    csi: Presence | None = None
    downward_api: Presence | None = msgspec.field(name="downwardAPI", default=None)
    fc: Presence | None = None
    flex_volume: Presence | None = msgspec.field(name="flexVolume", default=None)
    flocker: Presence | None = None
    gce_persistent_disk: Presence | None = msgspec.field(name="gcePersistentDisk", default=None)
    git_repo: Presence | None = msgspec.field(name="gitRepo", default=None)
    glusterfs: Presence | None = None
    image: Presence | None = None
    iscsi: Presence | None = None
    nfs: Presence | None = None
    photon_persistent_disk: Presence | None = msgspec.field(name="photonPersistentDisk", default=None)
    portworx_volume: Presence | None = msgspec.field(name="portworxVolume", default=None)
    projected: Presence | None = None
    quobyte: Presence | None = None
    rbd: Presence | None = None
    scale_io: Presence | None = msgspec.field(name="scaleIO", default=None)
    secret: Presence | None = None
    storageos: Presence | None = None
    vsphere_volume: Presence | None = msgspec.field(name="vsphereVolume", default=None)

    @property
    def is_known(self) -> bool:
        """Whether it is of one of these kinds: nothing is certain of one that a later version brings."""
        if self.projected is not None or self.config_map is not None or self.empty_dir is not None:
            return True  # nearly all, and every pod is asked
        return any(kind is not None for kind in msgspec.structs.astuple(self)[1:])

    @property
    def ties(self) -> bool:
        """Whether a protection or a destination asks about it."""
        tied = (self.host_path, self.empty_dir, self.claim_source, self.ephemeral)
        return any(source is not None for source in tied) or not self.is_known

    @property
    def medium(self) -> str:
        """Of an emptyDir: "Memory", or "" for disk."""
        return self.empty_dir.medium if self.empty_dir else ""

    @property
    def claim(self) -> str:
        """The name of the claim that the pod names, "" for none (a generic ephemeral volume's is its own)."""
        return self.claim_source.claim_name if self.claim_source is not None else ""


class ClaimSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a PersistentVolumeClaim; `volume_name` is "" while it is unbound."""

    volume_name: str = ""
    storage_class_name: str | None = None


class PersistentVolumeClaim(Object, frozen=True, kw_only=True):
    """A claim: which volume it is bound to."""

    spec: ClaimSpec = ClaimSpec()


class VolumeNodeAffinity(msgspec.Struct, frozen=True, gc=False):
    """Where a volume can be mounted."""

    required: NodeSelector | None = None


class CsiSource(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A volume as its CSI driver knows it."""

    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a PersistentVolume."""

    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiSource | None = None
    host_path: Presence | None = None
    access_modes: tuple[str, ...] = ()
    storage_class_name: str = ""


class PersistentVolume(Object, frozen=True, kw_only=True):
    """A volume: the nodes it can be reached from, and the driver that attaches it."""

    spec: VolumeSpec = VolumeSpec()

    @property
    def node_selector(self) -> NodeSelector | None:
        """The nodes it can be mounted on, None for all."""
        return None if self.spec.node_affinity is None else self.spec.node_affinity.required

    @property
    def one_node_at_a_time(self) -> bool:
        """Whether it is attached to one node only: no mode of it is for many (kubernetes' isMultiAttachForbidden)."""
        return bool(self.spec.access_modes) and not any(mode.endswith("Many") for mode in self.spec.access_modes)

    @property
    def is_anywhere(self) -> bool:
        """Whether it is a directory of whichever node its pod runs on: every node has one of that name, and nothing
        says which of them has the data.
        """
        return self.spec.host_path is not None and self.node_selector is None


class DriverLimit(msgspec.Struct, frozen=True, gc=False):
    """How many volumes of a driver a node can hold; absent means unknown."""

    count: int | None = None


class NodeDriver(msgspec.Struct, frozen=True, gc=False):
    """A CSI driver as it runs on a node."""

    name: str = ""
    allocatable: DriverLimit | None = None


class CsiNodeSpec(msgspec.Struct, frozen=True, gc=False):
    """spec of a CSINode."""

    drivers: tuple[NodeDriver, ...] | None = None


class CsiNode(Object, frozen=True, kw_only=True):
    """The CSI drivers of the node of the same name; servers write `null` for none."""

    spec: CsiNodeSpec = CsiNodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """Volumes at most, by driver; drivers without a limit are absent."""
        known = ((one.name, one.allocatable) for one in self.spec.drivers or ())
        return {name: limit.count for name, limit in known if limit is not None and limit.count is not None}


class Replicas(msgspec.Struct, frozen=True, gc=False):
    """spec of a Scale, the replicas wanted (absent means 0), or its status, those that exist, ready or not."""

    replicas: int = 0


class FieldsOwner(msgspec.Struct, frozen=True, gc=False):
    """A writer of `fields` ("f:spec"): its name, and whether it applied them (Apply) or wrote them (Update)."""

    manager: str = ""
    operation: str = ""
    fields: dict[str, dict[str, object]] = msgspec.field(name="fieldsV1", default_factory=dict)


class ScaleMetadata(Identity, frozen=True, gc=False, rename="camel"):
    """metadata of a Scale. The apiserver shows no `managed_fields` of the subresource, those of the object alone."""

    managed_fields: tuple[FieldsOwner, ...] = ()

    @property
    def scalers(self) -> list[FieldsOwner]:
        """The owners of the replicas wanted."""
        return [one for one in self.managed_fields if "f:replicas" in one.fields.get("f:spec", {})]


class Scale(IdentifiedObject, frozen=True, kw_only=True):
    """The scale subresource of any kind that has one."""

    metadata: ScaleMetadata = ScaleMetadata()
    spec: Replicas = Replicas()
    status: Replicas = Replicas()


class Autoscaler(Object, frozen=True, kw_only=True):
    """A HorizontalPodAutoscaler, ScaledObject (which may name no kind) or VerticalPodAutoscaler."""

    spec: dict[str, object] = msgspec.field(default_factory=dict)

    def scales(self, deployment: str) -> bool:
        """Whether its target is the Deployment of this name."""
        targets = (self.spec.get("scaleTargetRef"), self.spec.get("targetRef"))
        named = [one for one in targets if isinstance(one, dict) and one.get("name") == deployment]
        return any(one.get("kind", "Deployment") == "Deployment" for one in named)


class ResourceQuota(Object, frozen=True, kw_only=True):
    """A ResourceQuota: `hard` and `used` of its status."""

    status: dict[str, dict[str, Quantity]] = msgspec.field(default_factory=dict)


class ApiResource(msgspec.Struct, frozen=True, gc=False):
    """A kind that an API version serves ("rollouts"), or a subresource of one ("rollouts/scale")."""

    name: str
    kind: str = ""
