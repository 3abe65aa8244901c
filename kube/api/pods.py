"""Pod, as far as placement, protections and usage need it.

Decoded by `kube.http.client`; the extender counts placements with it, the descheduler judges candidates and
destinations by it, through `kube.objects`. Rules of placement are in `kube.api.affinity` and `kube.api.selectors`,
amounts in `kube.api.resources`.
"""

import functools
from collections.abc import Iterable, Mapping

import msgspec

from kube.api import container_states, salvage
from kube.api.affinity import Affinity, TopologySpread, pinned_to
from kube.api.metadata import (
    AnnotatedObject,
    Condition,
    IdentifiedObject,
    Moment,
    OwnerReference,
    holding,
    holding_since_seconds,
    seconds,
)
from kube.api.resources import (
    INFEASIBLE,
    PENDING_RESIZE,
    Container,
    ContainerStatus,
    Quantity,
    Requirements,
    Resources,
    pod_total,
    resources,
)
from kube.api.selectors import NodeSelector, Toleration
from kube.api.small_objects import Presence, Volume

Port = tuple[str, str, int]  # protocol, host IP or "", port
# Two well-known annotations by which the kubelet marks pods it made itself.
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SOURCE_ANNOTATION = "kubernetes.io/config.source"
MOST_CONTAINERS = 128  # more than any kubelet would start: requests of more are not added up
DISRUPTION = "DisruptionTarget"  # the condition of pods that the control plane ends
LONGEST_REASON = 64  # who may patch a status writes it


class FormSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a spec that both forms of a pod have."""

    node_name: str = ""
    priority: int | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    level: Requirements = msgspec.field(name="resources", default=Requirements())
    overhead: dict[str, Quantity] = {}
    affinity: Affinity | None = None

    @property
    def pinned(self) -> str:
        """See `pinned_to`."""
        required = self.required_nodes
        return "" if required is None else pinned_to(required.terms)

    @property
    def required_nodes(self) -> NodeSelector | None:
        """The terms of required node affinity, None without any."""
        rules = self.affinity.node_affinity if self.affinity is not None else None
        return rules.required if rules is not None else None

    def requests(self) -> Resources:
        """Effective requests with overhead, as kube-scheduler counts them (`kube.api.resources`). ValueError or
        OverflowError for one that cannot be read.
        """
        total = pod_total(self.containers, self.init_containers, self.level.requests)
        return total.plus(resources(self.overhead)) if self.overhead else total


class FormStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a status that both forms have."""

    phase: str = ""
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: dict[str, Quantity] | None = None
    resources: Requirements | None = None


class PodForm(IdentifiedObject, frozen=True, kw_only=True):
    """A pod as far as its whole form and its compact one (`kube.pods.compact`) are read alike."""

    counts_in_part = True
    spec: FormSpec = FormSpec()
    status: FormStatus = FormStatus()

    @property
    def node_name(self) -> str:
        """The node it is bound to, "" while it is not."""
        return self.spec.node_name

    @property
    def nominated_node(self) -> str:
        """The node on which the scheduler makes room for it by preemption, or binds it soon, "" if none."""
        return self.status.nominated_node_name

    @property
    def phase(self) -> str:
        """Pending, Running, Succeeded, Failed or Unknown."""
        return self.status.phase

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: it uses nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def pending(self) -> bool:
        """Whether some container has not started yet: image pull, init containers."""
        return self.status.phase == container_states.PENDING

    @property
    def priority(self) -> int:
        """spec.priority, 0 if absent."""
        return self.spec.priority or 0


class PodSpec(FormSpec, frozen=True, gc=False, rename="camel"):
    """spec of a Pod."""

    scheduler_name: str = ""
    priority_class_name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpread, ...] = ()
    volumes: tuple[Volume, ...] = ()
    preemption_policy: str = ""
    restart_policy: str = ""
    host_network: bool = False
    resource_claims: tuple[Presence, ...] = ()  # of devices: dynamic resource allocation
    scheduling_group: Presence | None = None
    workload_ref: Presence | None = None  # its name in Kubernetes 1.35


class PodStatus(FormStatus, frozen=True, gc=False, rename="camel"):
    """status of a Pod."""

    qos_class: str = ""
    start_time: Moment = None
    conditions: tuple[Condition, ...] = ()

    @property
    def resize_infeasible(self) -> bool:
        """Says that the kubelet can never resize it as its spec asks: the reason of the first such condition."""
        return next((one.reason for one in self.conditions if one.type == PENDING_RESIZE), "") == INFEASIBLE


class Pod(AnnotatedObject, PodForm, frozen=True, kw_only=True, dict=True):
    """A Pod; the requests in its spec are those that kube-scheduler counts (`put_effective`).

    `undecodable` is why it could not be decoded whole: it counts where it runs, and no more is certain of it.
    `left_out` is not on the wire, either: what of it was too long to be kept, "" for nothing.
    """

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
    undecodable: str = msgspec.field(name=salvage.MARK, default="")
    left_out: str = msgspec.field(name="-leftOut", default="")

    def __post_init__(self) -> None:
        """Counts a resize in place."""
        put_effective(self.spec, self.status, infeasible=self.status.resize_infeasible)

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is True."""
        return holding(self.status.conditions, "Ready") is not None

    @property
    def ready_since_seconds(self) -> float | None:
        """When it became Ready, or None while it is not."""
        return holding_since_seconds(self.status.conditions, "Ready")

    @property
    def disruption(self) -> str:
        """Why the control plane ends it: the reason of its condition DisruptionTarget, "" without one."""
        condition = holding(self.status.conditions, DISRUPTION)
        return condition.reason[:LONGEST_REASON] if condition is not None else ""

    @property
    def scheduled_at_seconds(self) -> float | None:
        """When it was bound: the transition of PodScheduled to True."""
        return holding_since_seconds(self.status.conditions, "PodScheduled")

    @property
    def scheduling_failure(self) -> int:
        """A number that changes with the reason for which its last scheduling failed; 0 while none did."""
        reasons = [one.reason for one in self.status.conditions if one.type == "PodScheduled" and one.status == "False"]
        return hash(reasons[0]) if reasons else 0

    @property
    def running_since_seconds(self) -> float | None:
        """When the last of its containers started; None while it is pending or where that is not known."""
        return container_states.running_since_seconds(self.phase, self.status.container_statuses)

    @property
    def failing(self) -> bool:
        """Whether it waits for a failure of its own, not of its node: its configuration, a crash loop."""
        status = self.status
        return container_states.failing(status.container_statuses, status.init_container_statuses)

    @property
    def started_at_seconds(self) -> float | None:
        """When the kubelet took it up (status.startTime)."""
        return seconds(self.status.start_time)

    @property
    def restarts(self) -> int:
        """Restarts of its containers where they count as failures of a Job (restartPolicy OnFailure), else 0."""
        return counted_restarts(self.spec, self.status)

    @property
    def preempts(self) -> bool:
        """Whether pods of lower priority may have to make way for it."""
        return self.spec.preemption_policy != "Never"

    @property
    def priority_class(self) -> str:
        """spec.priorityClassName."""
        return self.spec.priority_class_name

    @functools.cached_property
    def requests(self) -> Resources:
        """Those of its spec."""
        return self.spec.requests()

    @property
    def affinity(self) -> Affinity | None:
        """spec.affinity."""
        return self.spec.affinity

    @property
    def tolerations(self) -> tuple[Toleration, ...]:
        """spec.tolerations."""
        return self.spec.tolerations

    @property
    def host_ports(self) -> tuple[Port, ...]:
        """Every port it takes on its node; sidecars' too."""
        spec = self.spec
        running = [*spec.containers, *[one for one in spec.init_containers if one.is_sidecar]]
        ports = [port for one in running for port in one.ports if port.host_port]
        return tuple([(port.protocol, port.host_ip, port.host_port) for port in ports])

    @property
    def scheduling_group(self) -> str:
        """The field that says that the pod is scheduled with others, "" for none; to whom it leads is not read."""
        if self.spec.scheduling_group is not None:
            return "spec.schedulingGroup"
        return "spec.workloadRef" if self.spec.workload_ref is not None else ""

    @property
    def is_mirror(self) -> bool:
        """Says that it is the apiserver's image of a static pod: deleting that stops nothing."""
        return MIRROR_ANNOTATION in self.annotations

    @property
    def is_static(self) -> bool:
        """Says that a kubelet made it from a file or URL, not from the API."""
        return self.annotations.get(SOURCE_ANNOTATION, "api") != "api"

    @property
    def is_from_node(self) -> bool:
        """The apiserver's image of a static pod: no scheduler chose its node (`from_node`)."""
        return self.is_mirror and from_node(self.owner, self.node_name)

    @property
    def is_daemonset(self) -> bool:
        """Made by a DaemonSet's controller for one node (`of_daemonset`)."""
        return of_daemonset(self.owner, self.spec.pinned)

    def selects(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether nodeSelector and required node affinity accept the node of this name and labels."""
        if any(labels.get(key) != value for key, value in self.spec.node_selector.items()):
            return False
        required = self.spec.required_nodes
        return required is None or required.matches(name, labels)


def counted_restarts(spec: PodSpec, status: PodStatus) -> int:
    """Restarts of a pod's containers that its Job's controller counts: of those that the kubelet restarts in place."""
    if spec.restart_policy != "OnFailure":
        return 0
    return sum(one.restart_count for one in (*status.container_statuses, *status.init_container_statuses))


def put_effective(spec: FormSpec, status: FormStatus, *, infeasible: bool) -> None:
    """Writes the effective requests of a pod that is resized into its decoded spec."""
    put = msgspec.structs.force_setattr
    if status.container_statuses:
        held = {one.name: one for one in status.container_statuses}
        put(spec, "containers", tuple([one.effective(held.get(one.name), infeasible) for one in spec.containers]))
    if status.init_container_statuses:
        held = {one.name: one for one in status.init_container_statuses}
        starting = [
            one.effective(held.get(one.name), infeasible) if one.is_sidecar else one for one in spec.init_containers
        ]
        put(spec, "init_containers", tuple(starting))
    if status.resources is not None:
        level = spec.level.requests
        amounts = spec.level.effective(status.allocated_resources or {}, status.resources, infeasible=infeasible)
        put(spec, "level", Requirements({name: amounts.requests.get(name, 0) for name in level}))
        put(status, "resources", None)
        put(status, "allocated_resources", None)


def of_daemonset(owner: OwnerReference | None, pinned: str) -> bool:
    """Whether a DaemonSet's controller made the pod: owned by one of Kubernetes' own, and asking for one node by name.

    Both can be written by hand; such a pod has then no choice of nodes that a scheduler could get wrong, and the
    garbage collector deletes it where no DaemonSet of that uid is in its namespace.
    """
    return owner is not None and owner.is_daemonset and bool(pinned)


def from_node(owner: OwnerReference | None, node_name: str) -> bool:
    """Whether a pod with the mirror annotation is its node's own, which NodeRestriction asks kubelets for.

    kube-apiserver refuses to add that annotation later, and with it a pod must name its node when it is created: no
    scheduler is asked about it.
    """
    if owner is None or (owner.api_version, owner.kind) != ("v1", "Node"):
        return False
    return bool(node_name) and owner.name == node_name


def ports_clash(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether one of the wanted ports is taken: same protocol and port, on the same address or with one of them on all
    addresses (kube-scheduler's NodePorts).
    """
    everywhere = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound
    there = list(taken)
    return any(
        port[0] == other[0]
        and port[2] == other[2]
        and (port[1] == other[1] or port[1] in everywhere or other[1] in everywhere)
        for port in wanted
        for other in there
    )
