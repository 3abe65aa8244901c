"""Free amounts and host ports: over all nodes at once, and on one node while pods are taken away and put back.

`refusals` serves a scheduler's filters; `NodeRoom` and `port_clashes` serve who looks at single nodes: the search for
preemption's victims, the descheduler's destinations.
Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: nodeports, noderesources/fit.go.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from kube.api import pods
from kube.api.pods import Port
from kube.objects import Pod
from kube_scheduler import pod_requests
from kube_scheduler.columns import BASE, Columns
from kube_scheduler.pod_requests import Demand
from kube_scheduler.refusals import PORTS, RESOURCES, Refusal

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"


def refusals(columns: Columns, pod: Pod, demand: Demand) -> Iterator[Refusal]:
    """Yields what refuses the pod on some node: a host port that is taken, a missing slot, each amount it asks for."""
    if pod.host_ports:
        clashing = columns.none()
        for row in columns.ports:
            clashing[row] = port_clashes(pod.host_ports, columns.ports_on(row))
        yield Refusal(PORTS, PORT_TAKEN, clashing, columns.none())
    yield from _lacking(columns, demand)


def port_clashes(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether one of the wanted ports is taken."""
    there = list(taken)
    return any(pods.ports_clash(port, other) for port in wanted for other in there)


class NodeRoom:
    """Free amounts of one node, of the resources that one pod asks for; other pods may go and come."""

    def __init__(self, columns: Columns, row: int, demand: Demand) -> None:
        self._wanted = ((pod_requests.PODS, 1), *demand.amounts)
        self._free = {name: columns.room_on(name, row) for name, _ in self._wanted}

    def take(self, demand: Demand, number: int = 1) -> None:
        """Count another pod as there; `number` -1 takes it away."""
        self._free[pod_requests.PODS] -= number
        for name, amount in demand.amounts:
            if name in self._free:
                self._free[name] -= number * amount

    def lacking(self) -> str:
        """Returns the resource that does not suffice for the pod ("pods" for a slot), "" if it fits."""
        return next((name for name, amount in self._wanted if amount > self._free[name]), "")


def _lacking(columns: Columns, demand: Demand) -> Iterator[Refusal]:
    """NodeResourcesFit; final where an empty node is too small."""
    short = columns.base_allocatable - columns.requested < demand.base
    if demand.is_base and not np.count_nonzero(short):
        return
    looked_at = dict(zip(BASE, short, strict=True))
    for resource, amount in ((pod_requests.PODS, 1), *demand.amounts):
        lacking = looked_at[resource] if resource in looked_at else columns.room(resource) < amount
        if np.count_nonzero(lacking):
            reason = "Too many pods" if resource == pod_requests.PODS else f"Insufficient {resource}"
            final = columns.none() if resource == pod_requests.PODS else columns.allocatable(resource) < amount
            yield Refusal(RESOURCES, reason, lacking, final)
