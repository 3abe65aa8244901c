"""Amounts of CPU, memory and the rest, and what a pod requests as kube-scheduler counts it.

`kube.objects` builds Node.allocatable and Pod.requests with it. The rule for pods is that of
k8s.io/component-helpers/resource (PodRequests): the larger of the running containers together and each init container
in its turn, native sidecars counted in both, then pod-level requests, then overhead. Of a pod that is resized in place
kube-scheduler counts the largest of its spec, the allocated and the actual requests (UseStatusResources): `effective`
gives them, and both forms of a pod write them into their spec when they are decoded, so that every reader counts alike.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kube.api import container_states, quantities

Quantity = str | int | float  # the API writes strings; hand-made bodies also numbers
Amounts = Mapping[str, Quantity]
_NONE: Mapping[str, float] = MappingProxyType({})
REMEMBERED_MAPS = 8192  # some 8 MB at most
REMEMBERED_CHARACTERS = 256  # of a map's names and amounts; cpu, memory, storage and two kinds of devices have some 120


class Resources(NamedTuple):
    """Amounts; what is absent on the wire is 0.

    `extended` holds every other resource by its full name, in base units.
    """

    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    pods: int = 0
    extended: Mapping[str, float] = _NONE

    def get(self, name: str) -> float:
        """By Kubernetes' name: cpu in millicores, memory in bytes, pods, or an extended resource in its base unit."""
        if name == "cpu":
            return self.cpu_millicores
        if name == "memory":
            return self.memory_bytes
        return float(self.pods) if name == "pods" else self.extended.get(name, 0.0)

    def plus(self, other: "Resources") -> "Resources":
        """The sum, resource by resource."""
        if other is NOTHING:
            return self
        return other if self is NOTHING else self._merged(other, lambda mine, theirs: mine + theirs)

    def larger(self, other: "Resources") -> "Resources":
        """The larger of both, resource by resource."""
        return self if other is NOTHING else self._merged(other, max)

    def _merged(self, other: "Resources", combine: Callable[[float, float], float]) -> "Resources":
        extended = self.extended
        if other.extended:
            names = self.extended.keys() | other.extended.keys()
            extended = {name: combine(self.get(name), other.get(name)) for name in sorted(names)}
        return Resources(
            combine(self.cpu_millicores, other.cpu_millicores),
            combine(self.memory_bytes, other.memory_bytes),
            int(combine(self.pods, other.pods)),
            extended,
        )


NOTHING = Resources()


def resources(amounts: Amounts) -> Resources:
    """Resources from a wire map as {"cpu": "250m", "memory": "1Gi"}. ValueError names a text that is no quantity.

    Pods of a workload ask for the same, so equal maps give one shared value. A map that no person would write is
    not remembered: a client chooses its names and texts, and thousands of long ones would fill the memory.
    """
    if not amounts:
        return NOTHING
    key = tuple(amounts.items())
    known = _remembered.get(key)
    if known is None:
        known = _resources(key)
        if sum(len(name) + len(str(amount)) for name, amount in key) <= REMEMBERED_CHARACTERS:
            if len(_remembered) >= REMEMBERED_MAPS:
                _remembered.clear()
            _remembered[key] = known
    return known


def _resources(amounts: tuple[tuple[str, Quantity], ...]) -> Resources:
    texts = {name: str(amount) for name, amount in amounts}
    extended = {name: quantities.amount(text) for name, text in texts.items() if name not in _OWN_FIELDS}
    return Resources(
        quantities.cpu_millicores(texts.get("cpu", "0")),
        quantities.amount(texts.get("memory", "0")),
        int(quantities.amount(texts.get("pods", "0"))),
        MappingProxyType(extended) if extended else _NONE,
    )


_OWN_FIELDS = ("cpu", "memory", "pods")
_remembered: dict[tuple[tuple[str, Quantity], ...], Resources] = {}  # asked for each version of each node and pod


PENDING_RESIZE, INFEASIBLE = "PodResizePending", "Infeasible"  # the type of a condition, and a reason of it


def effective(spec: Amounts, allocated: Amounts, actual: Amounts, *, infeasible: bool) -> Amounts:
    """Returns the requests of a container, or of a pod, while it is resized: max(spec, allocated, actual) of each
    resource, without the spec where the kubelet can never do it (`infeasible`). ValueError names a text that is no
    quantity.
    """
    largest: dict[str, Quantity] = {}
    for amounts in (allocated, actual) if infeasible else (spec, allocated, actual):
        for name, amount in amounts.items():
            largest[name] = max(largest.get(name, amount), amount, key=lambda one: quantities.amount(str(one)))
    return largest


class Requirements(msgspec.Struct, frozen=True, gc=False):
    """`resources` of a container or of a pod, without limits."""

    requests: dict[str, Quantity] = {}

    def effective(self, allocated: Amounts, actual: "Requirements", *, infeasible: bool) -> "Requirements":
        """Returns the requests that count during a resize; see the function."""
        if self.requests == allocated == actual.requests:
            return self
        amounts = effective(self.requests, allocated, actual.requests, infeasible=infeasible)
        return self if amounts == self.requests else Requirements(dict(amounts))


class ContainerStatus(container_states.ContainerStatus, frozen=True, gc=False, rename="camel"):
    """A container's state, and the amounts as its kubelet allocated them and as they are in force."""

    name: str = ""
    allocated_resources: dict[str, Quantity] = msgspec.field(default={})
    resources: Requirements | None = None


class ContainerPort(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port; host_port 0 means none on the node."""

    host_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(name="hostIP", default="")


class Container(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields of a container that the scheduler counts."""

    name: str = ""
    resources: Requirements = Requirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running beside the others (restartPolicy: Always)."""
        return self.restart_policy == "Always"

    def effective(self, status: ContainerStatus | None, infeasible: bool) -> "Container":
        """Returns the container with the requests that count during a resize."""
        if status is None or status.resources is None:
            return self
        requests = self.resources.effective(status.allocated_resources, status.resources, infeasible=infeasible)
        return self if requests is self.resources else msgspec.structs.replace(self, resources=requests)


def pod_total(containers: Iterable[Container], init_containers: Iterable[Container], pod_level: Amounts) -> Resources:
    """Requests of a pod, without its overhead.

    running = sum of containers and sidecars; an init container needs its own and those of the sidecars started before
    it; total = max(running, each init container), and what `pod_level` names replaces the total for that resource.
    """
    running = sidecars = peak = NOTHING
    for container in containers:
        running = running.plus(resources(container.resources.requests))
    for container in init_containers:
        own = resources(container.resources.requests)
        if container.is_sidecar:
            running, sidecars = running.plus(own), sidecars.plus(own)
            peak = peak.larger(sidecars)
        else:
            peak = peak.larger(sidecars.plus(own))
    return _replaced(running.larger(peak), pod_level)


def _replaced(total: Resources, pod_level: Amounts) -> Resources:
    if not pod_level:
        return total
    named = resources(pod_level)
    return Resources(
        named.cpu_millicores if "cpu" in pod_level else total.cpu_millicores,
        named.memory_bytes if "memory" in pod_level else total.memory_bytes,
        total.pods,
        {**total.extended, **named.extended} or _NONE,
    )
