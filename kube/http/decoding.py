"""JSON of the apiserver into structs and errors.

`kube.http.client` decodes pages of lists, frames of watches and single objects with it, `kube.http.transport` failures.
Decoders are built once per kind, by one thread at a time. Anything but the requested JSON becomes errors.Undecodable,
with the first characters of what came instead.
"""

import functools
import threading
from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

import msgspec

from kube import errors
from kube.api import salvage
from kube.api.salvage import REFUSALS, UndecodableObject
from kube.objects import ApiResource, IdentifiedObject

T = TypeVar("T", bound=IdentifiedObject)
M = TypeVar("M", bound=msgspec.Struct)
SHOWN_CHARACTERS = 120
CREATED = 201
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
    undecodable: tuple[UndecodableObject, ...] = msgspec.field(name=salvage.MARK, default=())


class RawPage(msgspec.Struct, frozen=True):
    """A page whose items are still text: for a page of which some item is refused."""

    metadata: ListMeta
    items: tuple[msgspec.Raw, ...] | None = None


class DecodedObject(NamedTuple, Generic[T]):
    """An object, and why it is not whole; `object` None: it is left out, as nothing of it counts."""

    object: T | None
    undecodable: UndecodableObject | None = None


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


class _Refusal(msgspec.Struct, frozen=True):
    """The answer by which a service says no."""

    message: str


_raw_pages = msgspec.json.Decoder(RawPage)
_statuses = msgspec.json.Decoder(Status)
# While msgspec (0.22) builds a struct's decoder, another one that holds the same struct gets the unfinished half of it
# and ends the process by SIGSEGV at its first use. Reflectors of several kinds start at once and share structs.
_building = threading.Lock()


def page(request: str, kind: type[T], pieces: Iterable[bytes]) -> Page[T]:
    """A page of a list, or a whole one, from the pieces of its JSON as they come.

    An item that cannot be decoded is left out alone, or decoded in part, and named in `undecodable`.
    """
    parts = _Parts(request, kind)
    try:
        for piece in pieces:
            parts.add(piece)
        return parts.end()
    except REFUSALS as error:
        raise _undecodable(request, bytes(parts.text), error) from error


class _Parts(Generic[T]):
    """A list decoded part by part; each part gets the list's own head, so that it is a list, too.

    Where no cut is found, or one that turns out to lie inside an item (the part's brackets do not match), the text is
    kept and tried again when it has doubled: at worst everything is decoded at the end.
    """

    def __init__(self, request: str, kind: type[T]) -> None:
        self._request = request
        self._kind = kind
        self._decoder: msgspec.json.Decoder[Page[T]] = _objects(Page[kind])  # type: ignore[valid-type]
        self._items: list[T] = []
        self._undecodable: list[UndecodableObject] = []
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
        last = self._part()
        return Page(last, tuple(self._items), tuple(self._undecodable))

    def _part(self) -> ListMeta:
        """Take over the items of the text as it stands. Where one of them is refused, item by item: only this part
        pays for it. Raises one of REFUSALS, or Undecodable, where the text is no list.
        """
        try:
            whole = self._decoder.decode(self.text)
        except REFUSALS:
            raw_page = _raw_pages.decode(bytes(self.text))
            items = [decoded(self._request, self._kind, raw) for raw in raw_page.items or ()]
            self._items.extend([one.object for one in items if one.object is not None])
            self._undecodable.extend([one.undecodable for one in items if one.undecodable is not None])
            return raw_page.metadata
        self._items.extend(whole.items or ())
        return whole.metadata

    def _decode_whole_items(self) -> None:
        cut = self.text.rfind(_BETWEEN)
        if cut < 0:
            return
        rest = bytes(self.text[cut + 1 :])
        self.text[cut + 1 :] = b"]}"  # in place: a copy of each part would cost as much as decoding it
        try:
            self._part()
        except REFUSALS:
            self.text[cut + 1 :] = rest
            return
        head = self.text[: self.text.index(_ITEMS) + len(_ITEMS)]
        self.text = head + rest[1:]


def decoded(request: str, kind: type[T], raw: bytes | msgspec.Raw) -> DecodedObject[T]:
    """A single object of many, of which no other may suffer: what cannot be decoded is left out or decoded in part.

    Undecodable where it has no name that can be read: what it is about would stay as it was for ever.
    """
    decoder = _objects(kind)
    try:
        return DecodedObject(decoder.decode(raw))
    except REFUSALS as error:
        text = bytes(raw)
        lost = salvage.identified(text, error)
        if lost is None:
            raise _undecodable(request, text, error) from error
        return DecodedObject(salvage.in_part(decoder, text, lost.reason) if kind.counts_in_part else None, lost)


def one(request: str, kind: type[M], body: bytes | msgspec.Raw) -> M:
    """A single object, the `Frame` of a line of a watch, or another whole body."""
    decoder: msgspec.json.Decoder[M] = _objects(kind)
    try:
        return decoder.decode(body)
    except REFUSALS as error:
        raise _undecodable(request, bytes(body), error) from error


def failure(request: str, status: int, headers: Mapping[str, str], body: bytes) -> errors.ApiError:
    """The error of an answer that is not 2xx; a body that is no Status is quoted instead."""
    wish = _retry_after_seconds(headers)
    try:
        reply = _statuses.decode(body)
    except REFUSALS:
        reason, text = errors.FLOW_CONTROL if status == errors.TOO_MANY_REQUESTS else "", _words(body)
    else:
        if reply.details is not None and wish is None:
            wish = reply.details.retry_after_seconds or None
        budget = any(cause.reason == errors.BUDGET_CAUSE for cause in reply.causes)
        reason, text = errors.BUDGET_CAUSE if budget else reply.reason, reply.text
    return errors.class_for(status)(request, status=status, reason=reason, message=text, retry_after_seconds=wish)


def status_code(body: bytes | msgspec.Raw, otherwise: int) -> int:
    """The code of a Status, which for success is that in the head of its answer; `otherwise` for any other body."""
    try:
        return _statuses.decode(body).code or otherwise
    except REFUSALS:
        return otherwise


def failure_in_watch(request: str, raw: msgspec.Raw) -> errors.ApiError:
    """The error of an ERROR frame, whose object is a Status."""
    return failure(request, status_code(raw, 500), {}, bytes(raw))


@functools.cache
def _objects(kind: type[M]) -> msgspec.json.Decoder[M]:
    with _building:
        return msgspec.json.Decoder(kind)


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Retry-After in whole seconds; the date form is never sent by an apiserver and is ignored."""
    text = (headers.get("Retry-After") or "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def _undecodable(request: str, body: bytes, error: Exception) -> errors.Undecodable:
    return errors.Undecodable(f"{request}: expected Kubernetes JSON, got {_excerpt(body)!r} ({error})")


def _words(body: bytes) -> str:
    """The message of a service that the apiserver passes on, or the beginning of another body."""
    try:
        return msgspec.json.decode(body, type=_Refusal).message[: 8 * SHOWN_CHARACTERS]
    except REFUSALS:
        return _excerpt(body)


def _excerpt(body: bytes) -> str:
    text = body[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"
