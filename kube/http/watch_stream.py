"""One watch over HTTP: bytes in pieces to lines, lines to events.

`kube.http.client.Client.watch` makes it; `kube.cache.reflector` reads it on one thread and closes it from another.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from kube import errors
from kube.door import EventType, WatchEvent
from kube.http import decoding
from kube.http.undecodable import Source, UndecodableObjects
from kube.objects import IdentifiedObject

if TYPE_CHECKING:
    from kube.http.transport import Stream

T = TypeVar("T", bound=IdentifiedObject)
LINE_LIMIT_BYTES = 16 << 20  # etcd takes objects of 1.5 MiB: a longer line is not from an apiserver


class HttpWatch(Generic[T]):
    """Iterates over events; ends when the server ends the stream or `close` is called.

    Raises Gone or another ApiError for an ERROR event, Unreachable when the stream breaks off or falls silent,
    Undecodable for a line that is no event, among them a last line cut short. An object that cannot be decoded and does
    not count in part is DELETED: it is missing until a version of it can be decoded.
    """

    def __init__(
        self, name: str, kind: type[T], stream: "Stream", source: Source, *, undecodable: UndecodableObjects
    ) -> None:
        self._name = name
        self._kind = kind
        self._stream = stream
        self._source = source
        self._undecodable = undecodable
        self._events = self._decoded()

    def __iter__(self) -> Iterator[WatchEvent[T]]:
        return self._events

    def __next__(self) -> WatchEvent[T]:
        return next(self._events)

    def close(self) -> None:
        """End the stream now; from any thread."""
        self._stream.close()

    def _decoded(self) -> Iterator[WatchEvent[T]]:
        try:
            for line in self._lines():
                yield self._event(decoding.one(self._name, decoding.Frame, line))
        finally:
            self._stream.close()

    def _lines(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        for piece in self._stream:
            head, *more = piece.split(b"\n")
            rest.append(head)
            for following in more:
                line = b"".join(rest)
                rest = [following]
                if line.strip():
                    yield line
            if sum(map(len, rest)) > LINE_LIMIT_BYTES:
                raise errors.Undecodable(f"{self._name}: a line of over {LINE_LIMIT_BYTES} bytes")
        if b"".join(rest).strip() and not self._stream.closed:
            raise errors.Unreachable(f"{self._name}: the stream was cut in the middle of an event")

    def _event(self, frame: decoding.Frame) -> WatchEvent[T]:
        match frame.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._changed(frame.type, frame)
            case "BOOKMARK":
                bookmark = decoding.one(self._name, decoding.Bookmark, frame.object)
                return WatchEvent("BOOKMARK", None, bookmark.metadata.resource_version)
            case "ERROR":
                raise decoding.failure_in_watch(self._name, frame.object)
        raise errors.Undecodable(f"{self._name}: expected an event ADDED, MODIFIED, DELETED …, got {frame.type!r}")

    def _changed(self, type_: EventType, frame: decoding.Frame) -> WatchEvent[T]:
        item, lost = decoding.decoded(self._name, self._kind, frame.object)
        if item is None and lost is not None:
            type_, item = "DELETED", decoding.one(self._name, self._kind, lost.identity())  # who held it lets go of it
        assert item is not None  # noqa: S101 - decoding names what it leaves out
        self._undecodable.changed(self._source, item.key, None if frame.type == "DELETED" else lost)
        return WatchEvent(type_, item, item.resource_version if lost is None else lost.resource_version)
