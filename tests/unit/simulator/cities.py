"""A small simulated cluster for tests of its controllers: two machines, and a scheduler that fills the first one."""

import random
from collections.abc import Sequence
from typing import Any

from kube import kinds, objects
from simulator import kernel
from simulator.apiserver import ApiServer
from simulator.apiserver.door import SimulatedDoor
from simulator.contention import Load
from simulator.controllers import budgets, kubelet, nodes, owners
from simulator.scenario import Machine, Owner, Replica

START_SECONDS = 1_795_233_600.0
GRACE_SECONDS = 20.0
REQUESTS = Load(250.0, 256 * 2.0**20)


def owner(name: str = "web", kind: str = "Deployment", **fields: Any) -> Owner:
    """A workload in the namespace "shop"."""
    return Owner("shop", name, REQUESTS, kind, **fields)


def replicas(of: int, count: int, *, node: str = "") -> tuple[Replica, ...]:
    """Replicas of an owner, wanted for ever."""
    return tuple(Replica(of, ordinal, START_SECONDS, START_SECONDS + 1e9, 0, node=node) for ordinal in range(count))


class City:
    """A cluster in which pods take a second to start and 20 to end, unless `grace_seconds` says otherwise."""

    def __init__(
        self,
        owning: Sequence[Owner],
        replicas: Sequence[Replica],
        *,
        machines: int = 2,
        grace_seconds: float = GRACE_SECONDS,
    ) -> None:
        self.kernel = kernel.Kernel(START_SECONDS)
        self.api = ApiServer(self.kernel.clock, random.Random(1))
        self.door: SimulatedDoor = self.api.door(waits=False)
        self.door.create(kinds.NAMESPACES, {"metadata": {"name": "shop"}})
        self.nodes = nodes.Nodes(self.api)
        kubelets = kubelet.Kubelet(self.api, self.kernel, start_seconds=1.0, grace_seconds=grace_seconds)
        self.owners = owners.Owners(self.api, owning, replicas, finish=kubelets.finish)
        budgets.Budgets(self.api, self.kernel.clock)
        self.api.subscribe(kinds.PODS, self._place)
        for number in range(machines):
            self.nodes.join(Machine(f"node-{number}", Load(8000.0, 32 * 2.0**30)))

    def _place(self, _old: objects.Pod | None, new: objects.Pod | None) -> None:
        if new is not None and not new.node_name:
            found = [node for node in self.door.list(kinds.NODES).items if new.selects(node.name, node.labels)]
            self.api.bind(new.namespace, new.name, found[0].name)

    def arrive(self, *indices: int) -> "City":
        """Let replicas arrive, and a second pass."""
        for index in indices:
            self.owners.arrive(index)
        return self.wait(1.0)

    def wait(self, seconds: float) -> "City":
        """Let time pass."""
        self.kernel.run(self.kernel.now_seconds + seconds)
        return self

    def pods(self) -> list[objects.Pod]:
        """All pods."""
        return list(self.door.list(kinds.PODS).items)

    def living(self) -> list[objects.Pod]:
        """Those that are not ending."""
        return [pod for pod in self.pods() if not pod.deleting]

    def evict(self, pod: objects.Pod) -> int:
        """The status with which the apiserver answers."""
        return self.door.evict(namespace=pod.namespace, name=pod.name, uid=pod.uid, dry_run=False).status

    def budget(self) -> objects.DisruptionBudget:
        """The only one there is."""
        (found,) = self.door.list(kinds.BUDGETS).items
        return found
