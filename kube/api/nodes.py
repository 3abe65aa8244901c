"""Node, as far as loads and destinations need it, and the use of nodes and pods by metrics-server.

Decoded by `kube.http.client`; the annotator, the extender and the descheduler read them, through `kube.objects`.
"""

import functools
from typing import Final

import msgspec

from kube.api import quantities, resources
from kube.api.metadata import AnnotatedObject, Condition, IdentifiedObject, Moment, Object, holding, seconds
from kube.api.resources import Quantity, Resources
from kube.api.selectors import Taint

PRESSURES: Final = ("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
HUGE_PAGES: Final = "hugepages-"  # with the size of a page, a resource of its own


class Address(msgspec.Struct, frozen=True, gc=False):
    """One of a node's addresses: type InternalIP, Hostname, …"""

    type: str
    address: str


class NodeSpec(msgspec.Struct, frozen=True, gc=False):
    """spec of a Node."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(msgspec.Struct, frozen=True, gc=False):
    """status of a Node."""

    allocatable: dict[str, Quantity] = {}
    capacity: dict[str, Quantity] = {}
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[Address, ...] = ()


class Node(AnnotatedObject, frozen=True, kw_only=True, dict=True):
    """A Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def unschedulable(self) -> bool:
        """Cordoned."""
        return self.spec.unschedulable

    @property
    def taints(self) -> tuple[Taint, ...]:
        """spec.taints."""
        return self.spec.taints

    @functools.cached_property
    def allocatable(self) -> Resources:
        """Returns the amounts that pods may request in all."""
        return resources.resources(self.status.allocatable)

    @functools.cached_property
    def capacity(self) -> Resources:
        """Returns the amounts of the machine; memory is without the pools of huge pages, as that of allocatable and the
        load of a node are.
        """
        whole = resources.resources(self.status.capacity)
        pools_bytes = sum(amount for name, amount in whole.extended.items() if name.startswith(HUGE_PAGES))
        return whole._replace(memory_bytes=max(0.0, whole.memory_bytes - pools_bytes)) if pools_bytes else whole

    @property
    def ready(self) -> bool:
        """Whether the Ready condition is True; Unknown is not."""
        return holding(self.status.conditions, "Ready") is not None

    @functools.cached_property
    def adverse_conditions(self) -> tuple[str, ...]:
        """Returns the reasons why kube-scheduler places no pods on it, in kubectl's words: NotReady, pressures that the
        kubelet reports, SchedulingDisabled.
        """
        pressures = [kind for kind in PRESSURES if holding(self.status.conditions, kind)]
        states = [*pressures, *(["SchedulingDisabled"] if self.unschedulable else [])]
        return tuple(states if self.ready else ["NotReady", *states])

    @property
    def addresses(self) -> tuple[Address, ...]:
        """status.addresses."""
        return self.status.addresses


class _Measurement(IdentifiedObject, frozen=True, kw_only=True):
    """Use in metrics.k8s.io: the mean CPU over the `window` (a Go duration) that ended at `timestamp`, and the memory
    at its end. The amounts raise ValueError where there is none, or a text that is no quantity.
    """

    timestamp: Moment = None
    window: str = ""

    @property
    def at_seconds(self) -> float | None:
        """Unix seconds of the end of the window, by the node's clock."""
        return seconds(self.timestamp)

    @property
    def cpu_millicores(self) -> float:
        """The mean CPU of the window, of all containers of a pod."""
        return self._total("cpu", 1000)

    @property
    def memory_bytes(self) -> float:
        """The working set at the end of the window, of all containers of a pod."""
        return self._total("memory", 1)

    def _total(self, resource: str, scale: int) -> float:
        raise NotImplementedError


class NodeMetrics(Object, _Measurement, frozen=True, kw_only=True):
    """Use of a node in metrics.k8s.io."""

    usage: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def _total(self, resource: str, scale: int) -> float:
        return quantities.parsed(str(self.usage.get(resource, "")), scale)


class ContainerMetrics(msgspec.Struct, frozen=True, gc=False):
    """Use of one container in metrics.k8s.io."""

    name: str = ""
    usage: dict[str, Quantity] = msgspec.field(default_factory=dict)


class PodMetrics(_Measurement, frozen=True, kw_only=True):
    """Use of a pod in metrics.k8s.io, container by container. It has no uid."""

    containers: tuple[ContainerMetrics, ...] = ()

    def _total(self, resource: str, scale: int) -> float:
        if not self.containers:
            raise ValueError("no container is listed")
        return sum(quantities.parsed(str(one.usage.get(resource, "")), scale) for one in self.containers)
