"""The node side: a machine that joins becomes a Ready Node, and with a Node that goes its pods go.

`simulator.world` calls `join` and `leave` when the scenario says so. A machine that leaves is gone with everything on
it at once, as when a cloud takes it away and the control plane has noticed; nodes are never unready.
"""

import ipaddress

from kube import kinds
from kube.objects import Pod
from simulator.apiserver import ApiServer
from simulator.controllers import objects
from simulator.scenario import Machine

FIRST_ADDRESS = ipaddress.IPv4Address("172.16.0.1")  # 172.16.0.0/12 holds a million


class Nodes:
    """See the module."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._joined = 0
        self._on: dict[str, dict[str, Pod]] = {}  # by node and key, as they were when they were bound
        api.subscribe(kinds.PODS, self._pod_changed)

    def join(self, machine: Machine) -> None:
        """Register a machine's Node; Conflict where there is one of its name."""
        address = str(FIRST_ADDRESS + self._joined)
        self._joined += 1
        self._api.create(kinds.NODES, objects.node(machine, address, self._api.stamp))

    def leave(self, name: str) -> None:
        """Take a machine away; NotFound where there is none of that name."""
        self._api.delete(kinds.NODES, name)
        for pod in tuple(self._on.get(name, {}).values()):
            self._api.remove(kinds.PODS, pod.name, namespace=pod.namespace)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._on.get(old.node_name, {}).pop(old.key, None)
        elif new is not None and new.node_name and (old is None or not old.node_name):
            self._on.setdefault(new.node_name, {})[new.key] = new
