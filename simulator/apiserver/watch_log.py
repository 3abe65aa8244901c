"""A watch on the simulated apiserver: the log of a shelf from a position on, as events that a selection sees.

`door.SimulatedDoor.watch` makes it; `kube.cache.reflector` reads it. One that waits blocks until there is something,
another thread closes it or its time is over; one that does not ends as soon as everything is told. Both end with a
bookmark, so that its reader goes on from the newest version of all.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from kube.door import EventType, WatchEvent
from kube.objects import IdentifiedObject
from simulator.apiserver import refusals, selector_text
from simulator.apiserver.state import State
from simulator.apiserver.storage import Change, Storage, Version

T = TypeVar("T", bound=IdentifiedObject)
IDENTITY = ("name", "namespace", "uid", "resourceVersion")  # all that is told of an object that cannot be decoded
LOOK_SECONDS = 1.0  # on a clock of its own, time passes without an event


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a shelf, and where in its log to begin; `until_seconds` by the monotonic clock."""

    namespace: str
    matches: selector_text.Predicate
    position: int
    number: int
    until_seconds: float


class SimulatedWatch(Generic[T]):
    """See the module; a `kube.door.Watch`."""

    def __init__(self, state: State, shelf: Storage, type_: type[T], selection: Selection, *, waits: bool) -> None:
        self._state = state
        self._shelf = shelf
        self._type = type_
        self._prefix = f"{selection.namespace}/" if selection.namespace else ""
        self._matches = selection.matches
        self._sees_all = not self._prefix and selection.matches is selector_text.everything
        self._position = selection.position
        self._number = selection.number
        self._until_seconds = selection.until_seconds
        self._waits = waits
        self._closed = False
        self._stream = self._events()

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        return self._stream

    def __next__(self) -> WatchEvent[T]:
        return next(self._stream)

    def close(self) -> None:
        """End it now; from any thread."""
        with self._state.lock:
            self._closed = True
            if self._waits:
                self._state.changed.notify_all()

    def _events(self) -> Iterator[WatchEvent[T]]:
        while news := self._news():
            for event in news:
                if self._closed:
                    return
                yield event
        if not self._closed:
            yield WatchEvent("BOOKMARK", None, str(self._number))

    def _news(self) -> list[WatchEvent[T]]:
        """Returns the events since the last call; none once the watch is over."""
        with self._state.lock:
            while not self._closed:
                changes = self._changes()
                if events := [event for event in map(self._as_event, changes) if event is not None]:
                    return events
                if not changes and not self._wait():
                    break
            self._number = max(self._number, self._state.number)
        return []

    def _wait(self) -> bool:
        """Whether to look again: the time is not over."""
        left_seconds = self._until_seconds - self._state.clock.monotonic() if self._waits else 0.0
        if left_seconds <= 0:
            return False
        self._state.waiting += 1
        self._state.changed.wait(min(left_seconds, LOOK_SECONDS))
        self._state.waiting -= 1
        return True

    def _changes(self) -> list[Change]:
        try:
            changes = self._shelf.since(self._position)
        except LookupError as error:
            raise refusals.gone(str(self._number)) from error
        if changes:
            self._position += len(changes)
            self._number = changes[-1].number
        return changes

    def _as_event(self, change: Change) -> WatchEvent[T] | None:
        """A change as the selection sees it: an object that begins to match is added, one that ceases to is deleted."""
        old, new = change.old, change.new
        before = old is not None and self._selects(old)
        if new is not None and self._selects(new):
            return self._event("MODIFIED" if before else "ADDED", new)
        if old is None or not before:
            return None
        metadata = {**old.metadata, "resourceVersion": str(change.number)}  # as it was, at the version of the change
        return self._event("DELETED", Version(old.key, change.number, {**old.body, "metadata": metadata}))

    def _selects(self, version: Version) -> bool:
        return self._sees_all or (version.key.startswith(self._prefix) and version.selected(self._matches))

    def _event(self, type_: EventType, version: Version) -> WatchEvent[T]:
        struct = version.readable(self._type)
        if struct is None:
            metadata = {"metadata": {key: version.metadata.get(key, "") for key in IDENTITY}}
            type_, struct = "DELETED", msgspec.convert(metadata, self._type)
        return WatchEvent(type_, struct, version.metadata["resourceVersion"])
