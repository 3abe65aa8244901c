"""Where the simulated apiserver keeps the objects of one resource: as they are now, and what happened to them.

`writes` puts in, `door` reads lists, `apiserver.watch_log` follows the log. Bodies are plain JSON that never changes
once it is here; a struct is made of one only on demand, once per type and version, and every reader gets
the same.
"""

import bisect
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from kube.http import decoding
from kube.kinds import Kind
from kube.objects import IdentifiedObject

T = TypeVar("T", bound=IdentifiedObject)
Body = dict[str, Any]
KEPT_CHANGES = 8_192  # so far back a watch may begin, as with the window of a real apiserver's watch cache


@functools.cache
def _maker(type_: type[T]) -> "Callable[[Body], T]":
    """Returns the function that decodes a body into the struct."""
    if "RawType" in repr(msgspec.inspect.type_info(type_)):  # some fields keep their text, which a body has not
        return lambda body: decoding.one("simulated apiserver", type_, msgspec.json.encode(body))
    return functools.partial(msgspec.convert, type=type_)


class Version:
    """An object as it was at one resourceVersion. `body` and its `metadata` are never changed."""

    __slots__ = ("_known", "body", "key", "metadata", "number")

    def __init__(self, key: str, number: int, body: Body) -> None:
        self.key = key
        self.number = number
        self.body = body
        self.metadata: Body = body["metadata"]
        self._known: dict[object, Any] = {}  # structs by type, and what predicates said, which are the services' few

    def selected(self, matches: "Callable[[Version], bool]") -> bool:
        """Returns whether the selector matches; asked once per version, because every list and watch asks."""
        try:
            answer: bool = self._known[matches]
        except KeyError:
            answer = self._known[matches] = matches(self)
        return answer

    def decoded(self, type_: type[T]) -> T:
        """The struct of a type; msgspec.ValidationError where the body breaks it."""
        try:
            struct: T = self._known[type_]  # lists of thousands come by here
        except KeyError:
            struct = self._known[type_] = _maker(type_)(self.body)
        return struct

    def readable(self, type_: type[T]) -> T | None:
        """As the real door decodes it: in part or None where the struct refuses the body (`decoding.decoded`)."""
        try:
            return self.decoded(type_)
        except msgspec.ValidationError:
            return decoding.decoded("simulated apiserver", type_, msgspec.json.encode(self.body)).object

    @property
    def labels(self) -> Mapping[str, str]:
        """metadata.labels."""
        labels: Mapping[str, str] = self.metadata.get("labels") or {}
        return labels


class Change(msgspec.Struct, frozen=True, gc=False):
    """An entry of the log: None as old is an addition, None as new a deletion."""

    number: int
    old: Version | None
    new: Version | None

    @property
    def key(self) -> str:
        """Of the object."""
        version = self.new or self.old
        return "" if version is None else version.key


class Storage:
    """The objects of one resource in the order of their keys, and its log."""

    def __init__(self, kind: Kind[Any], subresources: frozenset[str], *, kept_changes: int = KEPT_CHANGES) -> None:
        self.kind = kind
        self.subresources = subresources
        self._kept_changes = kept_changes
        self._objects: dict[str, Version] = {}
        self._keys: list[str] = []
        self._log: list[Change] = []
        self._numbers: list[int] = []  # of the log's changes
        self._lists: dict[object, tuple[Any, ...]] = {}  # what was listed since the last change
        self._last_lists: dict[object, tuple[int, dict[str, Any]]] = {}  # what was listed before it, and until where
        self._dropped = 0  # changes that are no longer kept
        self._oldest_number = 0  # of the newest of those: no watch may begin before it

    def clear(self) -> None:
        """Keep nothing any more."""
        for table in (self._objects, self._keys, self._log, self._numbers, self._lists, self._last_lists):
            table.clear()

    def get(self, key: str) -> Version | None:
        """An object as it is now."""
        return self._objects.get(key)

    def within(self, namespace: str) -> list[Version]:
        """The objects of a namespace ("" is all) in the order of their keys."""
        return list(map(self._objects.__getitem__, self._keys_within(namespace)))

    def _keys_within(self, namespace: str) -> list[str]:
        if not namespace:
            return self._keys
        begin = bisect.bisect_left(self._keys, f"{namespace}/")
        return self._keys[begin : bisect.bisect_left(self._keys, f"{namespace}0", begin)]  # "0" comes after "/"

    def listed(self, type_: type[T], namespace: str, matches: "Callable[[Version], bool] | None") -> tuple[T, ...]:
        """The structs of a namespace's objects of which a predicate holds (None is all), in the order of their keys."""
        question = (type_, namespace, matches)
        structs = self._lists.get(question)
        if structs is None:
            matching = map(self._shown_now(type_, matches).get, self._keys_within(namespace))
            structs = self._lists[question] = tuple([one for one in matching if one is not None])
        return structs

    def _shown_now(self, type_: type[T], matches: "Callable[[Version], bool] | None") -> dict[str, T]:
        """The structs of objects of which a predicate holds, by key: those of the last list, with what changed since.
        Of thousands few change between two lists.
        """
        position, entries = self._last_lists.get((type_, matches), (-1, {}))
        keys: Iterable[str]
        if position < self._dropped:  # never listed, or too long ago
            keys, entries = self._keys, {}
        else:
            keys = {change.key for change in self.since(position)}
        for key in keys:
            version = self._objects.get(key)
            matching = version is not None and (matches is None or version.selected(matches))
            struct = version.readable(type_) if version is not None and matching else None
            if struct is not None:
                entries[key] = struct
            else:
                entries.pop(key, None)
        self._last_lists[type_, matches] = self._dropped + len(self._log), entries
        return entries

    def record(self, change: Change) -> None:
        """Take a change: the newest there is."""
        key = change.key
        if change.new is None:
            del self._objects[key]
            del self._keys[bisect.bisect_left(self._keys, key)]
        else:
            if change.old is None:
                bisect.insort(self._keys, key)
            self._objects[key] = change.new
        self._log.append(change)
        self._numbers.append(change.number)
        if self._lists:
            self._lists.clear()
        if len(self._log) >= 2 * self._kept_changes:
            self._dropped += self._kept_changes
            self._oldest_number = self._numbers[self._kept_changes - 1]
            del self._log[: self._kept_changes]
            del self._numbers[: self._kept_changes]

    def position(self, number: int) -> int | None:
        """Where in the log the changes after a resourceVersion begin; None when they are no longer all there."""
        if number < self._oldest_number:
            return None
        return self._dropped + bisect.bisect_right(self._numbers, number)

    def since(self, position: int) -> list[Change]:
        """The changes from a position of the log on; LookupError when they are no longer all there."""
        if position < self._dropped:
            raise LookupError(position)
        return self._log[position - self._dropped :]
