"""State of the simulated apiserver: storage of every kind, one counter of resourceVersions, subscribers of changes.

`apiserver.writes` and `apiserver.eviction` change it, `door` and `apiserver.watch_log` read it, all of them holding
`lock`: services may have short threads, and a watch of a door that waits is closed from another one.
"""

import collections
import random
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from kube import kinds
from kube.kinds import Kind
from kube.objects import IdentifiedObject
from runtime import clock as clocks
from simulator.apiserver import refusals
from simulator.apiserver.storage import Body, Change, Storage, Version

T = TypeVar("T", bound=IdentifiedObject)
Handler = Callable[[T | None, T | None], None]

STATUS = frozenset({"status"})
SCALED = frozenset({"status", "scale"})
PLAIN: frozenset[str] = frozenset()
SUBRESOURCES = {
    "pods": frozenset({"status", "binding", "eviction"}),
    "replicasets": SCALED,
    "deployments": SCALED,
    "statefulsets": SCALED,
    "replicationcontrollers": SCALED,
    "nodes": STATUS,
    "namespaces": STATUS,
    "services": STATUS,
    "persistentvolumeclaims": STATUS,
    "persistentvolumes": STATUS,
    "jobs": STATUS,
    "poddisruptionbudgets": STATUS,
}
SUFFIX_LETTERS, SUFFIX_LENGTH = "bcdfghjklmnpqrstvwxz2456789", 5  # of generated names, as the API's


class State:
    """See the module. Every call is made with `lock` held; those of `ApiServer` take it."""

    def __init__(self, clock: clocks.Clock, rng: random.Random) -> None:
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.waiting = 0  # readers that are blocked until something changes
        self.clock = clock
        self.number = 1  # the newest resourceVersion
        self._rng = rng  # each kind draws from one of its own: what pods are called does not depend on other objects
        self._rngs: dict[Storage, random.Random] = {}
        self._shelves: dict[tuple[str, str], Storage] = {}
        self._subscribers: dict[Storage, list[tuple[type[Any], list[Handler[Any]]]]] = {}  # runs of one type
        self._untold: collections.deque[tuple[Storage, Version | None, Version | None]] = collections.deque()
        self._telling = False
        self._refreshers: dict[Storage, Callable[[], None]] = {}
        self._stamp: tuple[int, str] = (-1, "")
        for kind in kinds.ALL:
            self.serve(kind, SUBRESOURCES.get(kind.plural, PLAIN))

    def serve(self, kind: Kind[Any], subresources: frozenset[str]) -> None:
        """Serve a resource from now on."""
        shelf = Storage(kind, subresources)
        self._shelves[kind.path, kind.plural] = shelf
        self._rngs[shelf] = random.Random(self._rng.getrandbits(64))  # noqa: S311 - names
        self._subscribers[shelf] = []

    def shelf(self, kind: Kind[Any]) -> Storage:
        """The shelf of a kind, whichever struct it decodes into; NotFound when it is not served."""
        shelf = self._shelves.get((kind.path, kind.plural))
        if shelf is None:
            raise refusals.not_found(f"{kind.path}/{kind.plural}")
        return shelf

    def shelves(self) -> tuple[Storage, ...]:
        """All that is served."""
        return tuple(self._shelves.values())

    def stamp(self) -> str:
        """Now, as metadata and conditions say it: whole seconds."""
        second = int(self.clock.now())
        if self._stamp[0] != second:
            self._stamp = (second, clocks.to_rfc3339(second))
        return self._stamp[1]

    def new_uid(self, shelf: Storage) -> str:
        """A uid that no object has had."""
        digits = f"{self._rngs[shelf].getrandbits(128):032x}"  # as uuid.uuid4 writes it, at a fifth of the time
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def new_suffix(self, shelf: Storage) -> str:
        """Returns the random suffix for generateName."""
        return "".join(self._rngs[shelf].choices(SUFFIX_LETTERS, k=SUFFIX_LENGTH))

    def draft(self, key: str, body: Body) -> Version:
        """The version that `commit` would keep next. `body` and its metadata are the caller's own to give away."""
        number = self.number + 1
        body["metadata"]["resourceVersion"] = str(number)
        return Version(key, number, body)

    def commit(self, shelf: Storage, old: Version | None, new: Version) -> None:
        """Stores a draft and tells all subscribers."""
        self.number = new.number
        shelf.record(Change(new.number, old, new))
        self._tell(shelf, old, new)

    def remove(self, shelf: Storage, old: Version) -> None:
        """The object is no more."""
        self.number += 1
        shelf.record(Change(self.number, old, None))
        self._tell(shelf, old, None)

    def subscribe(self, kind: Kind[T], handler: Handler[T]) -> None:
        """Call a handler with (old, new) after every write: None as old is an addition, None as new a deletion.

        All handlers hear of all changes in their order, those of one change in the order of their subscription; what a
        handler writes is told when all subscribers have heard what it was told.
        """
        with self.lock:
            runs = self._subscribers[self.shelf(kind)]
            if runs and runs[-1][0] is kind.type:
                runs[-1][1].append(handler)
            else:
                runs.append((kind.type, [handler]))

    def before_reading(self, kind: Kind[Any], action: Callable[[], None]) -> None:
        """Calls an action before objects of a kind are read, so that a status need not be written at each change
        of what it counts.
        """
        with self.lock:
            self._refreshers[self.shelf(kind)] = action

    def fresh(self, kind: Kind[Any]) -> Storage:
        """The shelf of a kind that is about to be read, once what was put off is written."""
        shelf = self.shelf(kind)
        if action := self._refreshers.get(shelf):
            action()
        return shelf

    def close(self) -> None:
        """Drops all objects and subscribers. Services hold each other in circles, and all of them this: what a week
        left behind would wait for the garbage collector, and hundreds of megabytes with it where runs follow runs.
        """
        with self.lock:
            for shelf in self._shelves.values():
                shelf.clear()
            self._subscribers.clear()
            self._refreshers.clear()

    def _tell(self, shelf: Storage, old: Version | None, new: Version | None) -> None:
        """All subscribers hear of changes in their order: what a handler changes is told after what it was told of."""
        if self._telling:
            self._untold.append((shelf, old, new))
            return
        self._telling = True
        try:
            self._deliver(shelf, old, new)
            while self._untold:
                self._deliver(*self._untold.popleft())
        finally:
            self._telling = False
        if self.waiting:
            for action in self._refreshers.values():
                action()
            self.changed.notify_all()

    def _deliver(self, shelf: Storage, old: Version | None, new: Version | None) -> None:
        for type_, handlers in self._subscribers[shelf]:
            before = None if old is None else old.readable(type_)
            after = None if new is None else new.readable(type_)
            for handler in handlers:
                handler(before, after)
