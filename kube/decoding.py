"""JSON of the apiserver into structs and errors.

`kube.client` decodes pages of lists, frames of watches and single objects with it, `kube.transport` failures. Decoders
are built once per kind, by one thread at a time. What is not the JSON we asked for becomes errors.Undecodable, with the
first characters of what came instead.
"""

import functools
import threading
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

import msgspec

from kube import errors
from kube.objects import ApiResource, Identified

T = TypeVar("T", bound=Identified)
SHOWN_CHARACTERS = 120
# A list of everything may be 300 MB: it is decoded in parts of about this size while the rest is still on its way.
PART_BYTES = 1 << 20
_ITEMS = b'"items":['
_BETWEEN = b'},{"metadata":{'  # two items as Go writes them; within a string the quotes would have a backslash


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """metadata of a list."""

    resource_version: str = ""
    token: str = msgspec.field(name="continue", default="")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list; servers write `null` for no items."""

    metadata: ListMeta
    items: tuple[T, ...] | None = None


class ServedList(msgspec.Struct, frozen=True):
    """meta/v1 APIResourceList."""

    resources: tuple[ApiResource, ...] | None = None


class Bookmark(msgspec.Struct, frozen=True):
    """The object of a BOOKMARK: only its version means anything, the rest is an empty object of the kind with Go's
    nulls (`"containers":null`), which no real object has.
    """

    metadata: ListMeta


class Frame(msgspec.Struct, frozen=True):
    """One line of a watch, its object still raw: what it is depends on the type."""

    type: str
    object: msgspec.Raw


class Cause(msgspec.Struct, frozen=True):
    """One of a Status's causes."""

    reason: str = ""
    message: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """A Status's details."""

    retry_after_seconds: float | None = None
    causes: tuple[Cause, ...] | None = None


class Status(msgspec.Struct, frozen=True):
    """meta/v1 Status: how the apiserver says no."""

    kind: str
    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None

    @property
    def causes(self) -> tuple[Cause, ...]:
        """details.causes, or none."""
        return (self.details.causes if self.details else None) or ()

    @property
    def text(self) -> str:
        """The message with its causes: a budget's name stands only in a cause."""
        return " ".join(part for part in (self.message, *(cause.message for cause in self.causes)) if part)


_served = msgspec.json.Decoder(ServedList)
_frames = msgspec.json.Decoder(Frame)
_bookmarks = msgspec.json.Decoder(Bookmark)
_statuses = msgspec.json.Decoder(Status)
# While msgspec (0.22) builds a struct's decoder, another one that holds the same struct gets the unfinished half of it
# and ends the process by SIGSEGV at its first use. Reflectors of several kinds start at once and share structs.
_building = threading.Lock()


def page(request: str, kind: type[T], pieces: Iterable[bytes]) -> Page[T]:
    """A page of a list, or a whole one, from the pieces of its JSON as they come."""
    parts = _Parts(_pages(kind))
    try:
        for piece in pieces:
            parts.add(piece)
        return parts.end()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _undecodable(request, bytes(parts.text), error) from error


class _Parts(Generic[T]):
    """A list decoded part by part; each part gets the list's own head, so that it is a list, too.

    Where no cut is found, or one that turns out to lie inside an item (the part's brackets do not match), the text is
    kept and tried again when it has doubled: at worst everything is decoded at the end.
    """

    def __init__(self, decoder: "msgspec.json.Decoder[Page[T]]") -> None:
        self._decoder = decoder
        self._items: list[T] = []
        self._enough_bytes = PART_BYTES
        self.text = bytearray()  # what is not decoded yet, behind the head

    def add(self, piece: bytes) -> None:
        """The next bytes; decodes when there are enough."""
        self.text += piece
        if len(self.text) >= self._enough_bytes:
            self._decode_whole_items()
            self._enough_bytes = max(PART_BYTES, 2 * len(self.text))

    def end(self) -> Page[T]:
        """The page, when all its bytes were added."""
        last = self._decoder.decode(self.text)
        return Page(last.metadata, (*self._items, *(last.items or ())))

    def _decode_whole_items(self) -> None:
        cut = self.text.rfind(_BETWEEN)
        if cut < 0:
            return
        rest = bytes(self.text[cut + 1 :])
        self.text[cut + 1 :] = b"]}"  # in place: a copy of each part would cost as much as decoding it
        try:
            whole = self._decoder.decode(self.text)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            self.text[cut + 1 :] = rest
            return
        self._items.extend(whole.items or ())
        head = self.text[: self.text.index(_ITEMS) + len(_ITEMS)]
        self.text = head + rest[1:]


def one(request: str, kind: type[T], body: bytes | msgspec.Raw) -> T:
    """A single object."""
    try:
        decoded: T = _objects(kind).decode(body)
        return decoded
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _undecodable(request, bytes(body), error) from error


def served(request: str, body: bytes) -> tuple[ApiResource, ...]:
    """What an API version serves."""
    try:
        return _served.decode(body).resources or ()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _undecodable(request, body, error) from error


def frame(request: str, line: bytes) -> Frame:
    """A line of a watch."""
    try:
        return _frames.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _undecodable(request, line, error) from error


def bookmarked_version(request: str, raw: msgspec.Raw) -> str:
    """The resourceVersion that a BOOKMARK frame carries."""
    try:
        return _bookmarks.decode(raw).metadata.resource_version
    except msgspec.MsgspecError as error:
        raise _undecodable(request, bytes(raw), error) from error


def failure(request: str, status: int, headers: Mapping[str, str], body: bytes) -> errors.ApiError:
    """The error of an answer that is not 2xx; a body that is no Status is quoted instead."""
    wish = _retry_after_seconds(headers)
    try:
        said = _statuses.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return errors.class_for(status)(
            request, status=status, reason="", message=_shown(body), retry_after_seconds=wish
        )
    if said.details is not None and wish is None:
        wish = said.details.retry_after_seconds or None
    budget = any(cause.reason == errors.BUDGET_CAUSE for cause in said.causes)
    reason = errors.BUDGET_CAUSE if budget else said.reason
    return errors.class_for(status)(request, status=status, reason=reason, message=said.text, retry_after_seconds=wish)


def failure_in_watch(request: str, raw: msgspec.Raw) -> errors.ApiError:
    """The error of an ERROR frame, whose object is a Status."""
    try:
        code = _statuses.decode(raw).code
    except msgspec.MsgspecError:
        code = 500
    return failure(request, code or 500, {}, bytes(raw))


@functools.cache
def _pages(kind: type[T]) -> msgspec.json.Decoder[Page[T]]:
    with _building:
        return msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]


@functools.cache
def _objects(kind: type[T]) -> msgspec.json.Decoder[T]:
    with _building:
        return msgspec.json.Decoder(kind)


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Retry-After in whole seconds; the date form is never sent by an apiserver and is ignored."""
    text = (headers.get("Retry-After") or "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _undecodable(request: str, body: bytes, error: Exception) -> errors.Undecodable:
    return errors.Undecodable(f"{request}: expected Kubernetes JSON, got {_shown(body)!r} ({error})")


def _shown(body: bytes) -> str:
    text = body[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
