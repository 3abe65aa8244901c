"""Reads the rest of an object that its struct refuses: its identity, and of a pod or a budget the sound fields.

`kube.http.decoding` comes here with single items of a list and single events of a watch, after msgspec refused them. A
year 0 in a condition, which kube-apiserver stores for anyone who may patch a status, must not cost more than that
object. Types whose objects count even when only partly readable set `IdentifiedObject.counts_in_part`: what their
decoder refuses is taken out of the JSON, as little as possible, and the rest is decoded with `undecodable` set to the
reason."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # all that msgspec raises for a text
MARK: Final = "-undecodable"  # a key that no API object has
DEPTH: Final = 5  # of $.status.conditions[0].lastTransitionTime
LEFT_OUT_IN_TURN: Final = 32  # fields of a struct that are tried without each in turn
_REASONS: Final = (  # a part of msgspec's message, and the word for it; the first that fits
    ("datetime", "time"),
    ("year ", "time"),
    ("codec can't decode", "encoding"),
    ("missing required field", "missing_field"),
    ("Expected", "type"),
    ("out of range", "range"),
    ("recursion", "depth"),
)

Check = Callable[[bytes], object]  # raises one of REFUSALS where the JSON is refused


class UndecodableObject(NamedTuple):
    """An object that could not be decoded: which one, and why.

    `reason` is one of few words, fit for a metric label; `error` is msgspec's message with the path of the field.
    `node` is where a pod is bound, "" where that cannot be read.
    """

    namespace: str
    name: str
    uid: str
    node: str
    resource_version: str
    reason: str
    error: str

    @property
    def key(self) -> str:
        """ "namespace/name", or the name of a cluster-wide object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def identity(self) -> bytes:
        """The JSON of an object that has only its identity."""
        return _encode(_NamedObject(_Identity(self.name, self.namespace, self.uid, self.resource_version)))


class _Identity(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _NamedObject(msgspec.Struct):
    metadata: _Identity


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _BoundPod(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_named = msgspec.json.Decoder(_NamedObject)
_bound = msgspec.json.Decoder(_BoundPod)
_objects = msgspec.json.Decoder(dict[str, msgspec.Raw])
_arrays = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.Encoder().encode


def identified(text: bytes, error: Exception) -> UndecodableObject | None:
    """Identify the object that was refused with `error`; None where its name cannot be read."""
    try:
        own = _named.decode(text).metadata
    except REFUSALS:
        return None
    if not own.name:
        return None
    return UndecodableObject(
        own.namespace, own.name, own.uid, _node(text), own.resource_version, reason(error), str(error)
    )


def reason(error: Exception) -> str:
    """The word for a refusal: time, encoding, missing_field, type, range, depth, or value for any other."""
    if isinstance(error, UnicodeDecodeError):
        return "encoding"
    text = str(error)
    return next((word for part, word in _REASONS if part in text), "value")


def readable(check: Check, text: bytes, depth: int = DEPTH) -> bytes | None:
    """The JSON without the values that `check` refuses; None where nothing is left that it accepts."""
    if _accepts(check, text):
        return text
    opening = text.lstrip()[:1]
    parts = {b"{": _readable_object, b"[": _readable_array}.get(opening)
    if not depth or parts is None:
        return None
    try:
        return parts(check, text, depth - 1)
    except REFUSALS:  # a key is no text: what it is of cannot be said
        return None


def _readable_object(check: Check, text: bytes, depth: int) -> bytes | None:
    """Each field alone where that is accepted; in a struct with required fields, all without the one that is not."""
    fields = _objects.decode(text)
    parts = {name: readable(_within(check, _encode(name)), bytes(value), depth) for name, value in fields.items()}
    rest = _encode({name: msgspec.Raw(value) for name, value in parts.items() if value is not None})
    if _accepts(check, rest):
        return rest
    if len(fields) > LEFT_OUT_IN_TURN:
        return None
    others = (_encode({other: fields[other] for other in fields if other != name}) for name in fields)
    return next((other for other in others if _accepts(check, other)), None)


def _readable_array(check: Check, text: bytes, depth: int) -> bytes | None:
    parts = (readable(lambda one: check(b"[%s]" % one), bytes(value), depth) for value in _arrays.decode(text))
    rest = _encode([msgspec.Raw(value) for value in parts if value is not None])
    return rest if _accepts(check, rest) else None


def _within(check: Check, name: bytes) -> Check:
    return lambda value: check(b"{%s:%s}" % (name, value))


def _accepts(check: Check, text: bytes) -> bool:
    try:
        check(text)
    except REFUSALS:
        return False
    return True


def _node(text: bytes) -> str:
    try:
        return _bound.decode(text).spec.node_name
    except REFUSALS:
        return ""


def in_part(decoder: "msgspec.json.Decoder[Any]", text: bytes, why: str) -> Any | None:
    """The object without what its decoder refuses, marked with the reason; None where too little is left."""
    left = readable(decoder.decode, text)
    if left is None:
        return None
    try:
        return decoder.decode(_encode({**_objects.decode(left), MARK: why}))
    except REFUSALS:
        return None
