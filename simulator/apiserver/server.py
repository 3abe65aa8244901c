"""The simulated apiserver: one per simulated cluster. Doors for the services, the rest for what plays the cluster.

`simulator.world` makes one; `simulator.controllers` and the model of kube-scheduler subscribe to it and write through
it. Everything happens on the caller's thread: when a write returns, whatever followed from it at once has happened.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kube import kinds
from kube.kinds import Kind
from kube.objects import IdentifiedObject
from runtime import clock as clocks
from simulator.apiserver import state
from simulator.apiserver.door import SimulatedDoor
from simulator.apiserver.storage import Body

T = TypeVar("T", bound=IdentifiedObject)

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class ApiServer:
    """An empty cluster: the namespaces and PriorityClasses that every cluster has, and nothing else.

    `rng` draws uids and the ends of generated names; times are the clock's.
    """

    def __init__(self, clock: clocks.Clock, rng: random.Random) -> None:
        self._state = state.State(clock, rng)
        self._writer = SimulatedDoor(self._state, waits=False)
        for name in NAMESPACES:
            self._writer.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        for name, value in PRIORITY_CLASSES.items():
            self._writer.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def door(self, *, waits: bool) -> SimulatedDoor:
        """A door for services. Without `waits` a watch ends when everything is told: for virtual time."""
        return SimulatedDoor(self._state, waits=waits)

    def serve(self, kind: Kind[Any], *, scale: bool = False) -> None:
        """Serve one more kind, as a CustomResourceDefinition makes the real one do."""
        with self._state.lock:
            self._state.serve(kind, state.SCALED if scale else state.STATUS)

    def close(self) -> None:
        """Drops all objects and subscribers. Services hold each other in circles, and all of them this: what a week
        left behind would wait for the garbage collector, and hundreds of megabytes with it where runs follow runs.
        """
        with self._state.lock:
            self._state.close()

    def subscribe(self, kind: Kind[T], handler: Callable[[T | None, T | None], None]) -> None:
        """Call a handler with (old, new) after every write: None as old is an addition, None as new a deletion.

        All handlers hear of all changes in their order, those of one change in the order of their subscription; what a
        handler writes is told when all subscribers have heard what it was told.
        """
        with self._state.lock:
            self._state.subscribe(kind, handler)

    def before_reading(self, kind: Kind[Any], action: Callable[[], None]) -> None:
        """Calls an action before objects of a kind are read, so that a status need not be written at each change
        of what it counts.
        """
        with self._state.lock:
            self._state.before_reading(kind, action)

    def body(self, kind: Kind[Any], name: str, *, namespace: str = "") -> Mapping[str, Any]:
        """An object as the JSON that it is, to be read; NotFound."""
        return self._writer.body(kind, name, namespace=namespace)

    @property
    def stamp(self) -> str:
        """Now, as an apiserver would write it."""
        return self._state.stamp()

    def generated(self, prefix: str) -> str:
        """A name of a pod as the server makes them for generateName."""
        return prefix + self._state.new_suffix(self._state.shelf(kinds.PODS))

    def create_pod(self, metadata: Body, spec: bytes, *, namespace: str) -> None:
        """Create a pod of metadata, which the caller gives away, and of a spec's text; Conflict, Forbidden."""
        self._writer.create_pod(metadata, spec, namespace=namespace)

    def bind(self, namespace: str, name: str, node_name: str) -> None:
        """The binding subresource; NotFound, and Conflict where the pod has a node or is going away."""
        self._writer.bind(namespace, name, node_name)

    def rewrite(self, kind: Kind[Any], name: str, parts: Body, *, namespace: str = "") -> None:
        """Put whole top-level parts (`{"status": ...}`), which the caller gives away; NotFound."""
        self._writer.rewrite(kind, name, parts, namespace=namespace)

    def remove(self, kind: Kind[Any], name: str, *, namespace: str = "") -> None:
        """Delete without grace, as the kubelet does at the end of a pod; NotFound."""
        self._writer.remove(kind, name, namespace=namespace)
