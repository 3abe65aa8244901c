"""Free amounts and host ports of one node while pods are taken away and put back: for the descheduler's destinations,
and the simulated scheduler's search for victims.

Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: nodeports, noderesources/fit.go.
"""

from collections.abc import Iterable

from kube.api import pods
from kube.api.pods import Port
from kube_scheduler import pod_requests
from kube_scheduler.columns import Columns
from kube_scheduler.pod_requests import Demand


def port_clashes(wanted: Iterable[Port], taken: Iterable[Port]) -> bool:
    """Whether one of the wanted ports is taken."""
    there = list(taken)
    return any(pods.ports_clash(port, other) for port in wanted for other in there)


class NodeRoom:
    """Free amounts of one node, of the resources that one pod asks for; other pods may go and come."""

    def __init__(self, columns: Columns, row: int, demand: Demand) -> None:
        self._wanted = ((pod_requests.PODS, 1), *demand.amounts)
        each = ((name, columns.allocatable(name)[row], columns.requested_of(name)[row]) for name, _ in self._wanted)
        self._free = {name: int(whole - taken) for name, whole, taken in each}

    def take(self, demand: Demand, number: int = 1) -> None:
        """Count another pod as there; `number` -1 takes it away."""
        self._free[pod_requests.PODS] -= number
        for name, amount in demand.amounts:
            if name in self._free:
                self._free[name] -= number * amount

    def lacking(self) -> str:
        """Returns the resource that does not suffice for the pod ("pods" for a slot), "" if it fits."""
        return next((name for name, amount in self._wanted if amount > self._free[name]), "")
