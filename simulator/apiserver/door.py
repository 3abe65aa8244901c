"""The simulated Kubernetes door: what `kube.http.client` is over HTTP, over a `State` in the same process.

Services get one from `ApiServer.door` and do not know the difference: tests/contract/door_suite.py is passed by both.
`simulator.world` makes one `ApiServer`; `simulator.controllers` and the model of kube-scheduler subscribe to it and
write through it. Everything happens on the caller's thread: when a write returns, whatever followed from it at once has
happened.
"""

import builtins
import random
from typing import Any, TypeVar

import msgspec

from kube import errors, kinds
from kube.door import Listing
from kube.kinds import Kind
from kube.objects import ApiResource, IdentifiedObject, Scale
from runtime import clock as clocks
from simulator.apiserver import refusals, selector_text, watch_log
from simulator.apiserver.state import SCALED, STATUS, State
from simulator.apiserver.writes import Writer

T = TypeVar("T", bound=IdentifiedObject)

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITY_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


class SimulatedDoor(Writer):
    """A `kube.door.ScalesDoor`. With `waits` a watch blocks as the real one does; without, it ends when all is told."""

    def __init__(self, state: State, *, waits: bool) -> None:
        super().__init__(state)
        self._waits = waits

    def list(
        self,
        kind: Kind[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        from_cache: bool = False,
    ) -> Listing[T]:
        """See KubeDoor. It comes whole, and is current, whatever `limit` and `from_cache`."""
        matches = selector_text.predicate(kind.plural, label_selector, field_selector)
        with self._state.lock:
            shelf = self._state.fresh(kind)
            listing = shelf.listed(kind.type, namespace, None if matches is selector_text.everything else matches)
            return Listing(listing, str(self._state.number))

    def watch(
        self,
        kind: Kind[T],
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: float = 300,
    ) -> watch_log.SimulatedWatch[T]:
        """See KubeDoor."""
        if not resource_version.isascii() or not resource_version.isdigit():
            raise refusals.bad_request(f"resourceVersion is {resource_version!r}, expected one that a list gave")
        matches, number = selector_text.predicate(kind.plural, label_selector, field_selector), int(resource_version)
        with self._state.lock:
            shelf = self._state.fresh(kind)
            position = shelf.position(number)
            if position is None:
                raise refusals.gone(resource_version)
            until_seconds = self._state.clock.monotonic() + timeout_seconds
            selection = watch_log.Selection(namespace, matches, position, number, until_seconds)
            return watch_log.SimulatedWatch(self._state, shelf, kind.type, selection, waits=self._waits)

    def get(self, kind: Kind[T], name: str, *, namespace: str = "") -> T:
        """See KubeDoor."""
        with self._state.lock:
            self._state.fresh(kind)
            scale = self._existing(kind, name, namespace)[1].readable(kind.type)
        if scale is None:
            raise errors.Undecodable(f"simulated apiserver: {kind.name} {name}")
        return scale

    def scale(self, kind: Kind[Scale], name: str, *, namespace: str) -> Scale:
        """See ScalesDoor."""
        with self._state.lock:
            self._state.fresh(kind)
            shelf, entry = self._existing(kind, name, namespace)
            if "scale" not in shelf.subresources:
                raise refusals.not_found(f"{kind.plural} {entry.key}/scale")
            spec, status = entry.body.get("spec") or {}, entry.body.get("status") or {}
            amounts = {"spec": {"replicas": spec.get("replicas", 1)}, "status": {"replicas": status.get("replicas", 0)}}
            return msgspec.convert({"metadata": entry.metadata, **amounts}, Scale)

    def resources(self, api_version: str) -> tuple[ApiResource, ...]:
        """See ScalesDoor."""
        with self._state.lock:
            kinds_served: builtins.list[ApiResource] = []
            for shelf in self._state.shelves():
                if shelf.kind.api_version == api_version:
                    names = (shelf.kind.plural, *(f"{shelf.kind.plural}/{one}" for one in sorted(shelf.subresources)))
                    kinds_served.extend(ApiResource(name, shelf.kind.name) for name in names)
        if not kinds_served:
            raise refusals.not_found(api_version)
        return tuple(kinds_served)


class ApiServer(SimulatedDoor):
    """An empty cluster: the namespaces and PriorityClasses that every cluster has, and nothing else.

    A door itself, and for what plays the cluster `subscribe`, `before_reading` and `close` of its `State`. `rng` draws
    uids and the ends of generated names; times are the clock's.
    """

    def __init__(self, clock: clocks.Clock, rng: random.Random) -> None:
        own = State(clock, rng)
        super().__init__(own, waits=False)
        self.subscribe, self.before_reading, self.close = own.subscribe, own.before_reading, own.close
        for name in NAMESPACES:
            self.create(kinds.NAMESPACES, {"metadata": {"name": name}})
        for name, value in PRIORITY_CLASSES.items():
            self.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})

    def door(self, *, waits: bool) -> SimulatedDoor:
        """A door for services. Without `waits` a watch ends when everything is told: for virtual time."""
        return SimulatedDoor(self._state, waits=waits)

    def serve(self, kind: Kind[Any], *, scale: bool = False) -> None:
        """Serve one more kind, as a CustomResourceDefinition makes the real one do."""
        with self._state.lock:
            self._state.serve(kind, SCALED if scale else STATUS)

    @property
    def stamp(self) -> str:
        """Now, as an apiserver would write it."""
        return self._state.stamp()

    def generated(self, prefix: str) -> str:
        """A name of a pod as the server makes them for generateName."""
        return prefix + self._state.new_suffix(self._state.shelf(kinds.PODS))
