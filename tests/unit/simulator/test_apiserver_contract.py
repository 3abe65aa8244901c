"""The simulated Kubernetes door passes the suite of all doors, over three nodes, with kubelets that take no time."""

import random

import pytest

from kube import door, kinds, objects
from runtime import clock
from simulator import kernel
from simulator.apiserver import ApiServer
from simulator.controllers import budgets, kubelet
from tests import builders, door_suite


@pytest.fixture
def simulated() -> ApiServer:
    """A cluster that places every pod on its first node, and runs it at once."""
    time = clock.WallClock()
    server = ApiServer(time, random.Random(1))
    admin = server.door(waits=False)

    def place(_old: objects.Pod | None, new: objects.Pod | None) -> None:
        if new is not None and not new.node_name and new.spec.scheduler_name == "default-scheduler":
            server.bind(new.namespace, new.name, admin.list(kinds.NODES).items[0].name)

    for number in range(3):
        admin.create(kinds.NODES, builders.node_body(f"node-{number}"))
    server.subscribe(kinds.PODS, place)
    kubelet.Kubelet(server, kernel.Kernel(time.now()))
    budgets.Budgets(server, time)
    return server


class TestTheSimulatedDoor(door_suite.DoorSuite):
    """One whose watches wait, as the real one's do."""

    quiet_seconds, controllers = 1, False

    @pytest.fixture
    def api(self, simulated: ApiServer) -> door.KubeDoor:
        """A door to the cluster of this test."""
        return simulated.door(waits=True)

    @pytest.fixture
    def home(self, namespace: str) -> str:
        """A namespace takes pods at once: there are no ServiceAccounts."""
        return namespace
