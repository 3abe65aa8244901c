"""Store of a reflector: objects by key, kept in order by uid and resourceVersion.

`kube.cache.reflector` feeds it lists and watch events from one thread; readers on any thread take immutable snapshots.
It decides what is a change and what is a duplicate or late event. It knows no sockets, threads or time.

A list replaces everything: all but the first are read without a resourceVersion and so are current, and where one is
older than the store's, the cluster was restored from a backup and the older is the truth. A watch event never takes an
object back to an older version.
"""

import threading
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

import msgspec

from kube.door import WatchEvent
from kube.objects import IdentifiedObject

T = TypeVar("T", bound=IdentifiedObject)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """From old to new: None as old is an addition, None as new a deletion. A replaced object (new uid) gives both."""

    old: T | None
    new: T | None


class Store(Generic[T]):
    """Objects by key. One writer thread, any number of readers."""

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}
        self._view: Mapping[str, T] | None = None
        self._lock = threading.Lock()

    def snapshot(self) -> Mapping[str, T]:
        """Everything at one moment, as a mapping that never changes; copied once per change that is looked at."""
        with self._lock:
            if self._view is None:
                self._view = MappingProxyType(dict(self._objects))
            return self._view

    def get(self, key: str) -> T | None:
        """The object of this key now, None if there is none; nothing is copied."""
        return self._objects.get(key)

    def replace(self, items: Iterable[T]) -> list[Change[T]]:
        """Take a whole list as the truth; gives what differs, deletions first."""
        listed = {item.key: item for item in items}
        changes = [Change(held, None) for key, held in self._objects.items() if key not in listed]
        for key, item in listed.items():
            held = self._objects.get(key)
            if held is None or held.uid != item.uid or held.resource_version != item.resource_version:
                changes.extend(_between(held, item))
        with self._lock:
            self._objects = listed
            self._view = None if changes else self._view
        return changes

    def apply(self, event: WatchEvent[T]) -> list[Change[T]]:
        """Take one watch event; gives no change for a bookmark, a duplicate or an event that comes too late."""
        item = event.object
        if item is None:
            return []
        key = item.key
        held = self._objects.get(key)
        if event.type == "DELETED":
            return self._remove(key, held) if held is not None and held.uid == item.uid else []
        if held is not None and not is_newer(item.metadata.resource_version, held.metadata.resource_version):
            return []
        changes = _between(held, item)
        with self._lock:
            self._objects[key] = item
            self._view = None
        return changes

    def _remove(self, key: str, held: T) -> list[Change[T]]:
        with self._lock:
            del self._objects[key]
            self._view = None
        return [Change(held, None)]


def is_newer(version: str, held: str) -> bool:
    """Whether a resourceVersion is later: they are integers that grow (KEP-5504); others only compare as different."""
    try:
        return int(version) > int(held)
    except ValueError:
        return version != held


def _between(old: T | None, new: T) -> list[Change[T]]:
    """The changes from one version to another."""
    if old is None or old.metadata.uid == new.metadata.uid:
        return [Change(old, new)]
    return [Change(old, None), Change(None, new)]
