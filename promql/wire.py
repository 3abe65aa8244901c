"""The query API's JSON, decoded strictly: what is not exactly a vector or a matrix is Garbage.

`promql.client` hands the raw body in and gives the result out; the client library's own decoding is not used because it
drops `warnings`, takes any result type and leaves the values as strings. Shapes after Prometheus' HTTP API v1.

Warnings say that an answer may not be whole. Prometheus 2.47 to 2.53 put among them, too, what later ones call `infos`:
remarks on the query's text, such as that a counter's name does not end in _total. They say nothing of the answer.
"""

from typing import Final, Literal, TypeVar

import msgspec

from promql import door, errors

Point = tuple[float, str]


class _Timings(msgspec.Struct, rename="camel"):
    exec_total_time: float | None = None


class _Samples(msgspec.Struct, rename="camel"):
    total_queryable_samples: int | None = None


class _Stats(msgspec.Struct):
    timings: _Timings = msgspec.field(default_factory=_Timings)
    samples: _Samples = msgspec.field(default_factory=_Samples)


class _Data(msgspec.Struct):
    result_type: str = msgspec.field(name="resultType")
    result: msgspec.Raw


class _Costs(msgspec.Struct):
    stats: _Stats = msgspec.field(default_factory=_Stats)


class _CostEnvelope(msgspec.Struct):
    data: _Costs = msgspec.field(default_factory=_Costs)


class _Envelope(msgspec.Struct):
    status: str
    data: _Data | None = None
    warnings: tuple[str, ...] | None = None
    error_type: str = msgspec.field(name="errorType", default="")
    error: str = ""


class _Instant(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: Point


class _Range(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: tuple[Point, ...]


class _InstantData(msgspec.Struct):
    result_type: Literal["vector"] = msgspec.field(name="resultType")
    result: list[_Instant]


class _InstantEnvelope(msgspec.Struct):
    status: Literal["success"]
    data: _InstantData
    warnings: tuple[str, ...] | None = None


_INFO: Final = "PromQL info"
_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # all that msgspec raises for a body
_envelopes: Final = msgspec.json.Decoder(_InstantEnvelope)
T = TypeVar("T")


def vector(body: bytes) -> door.Answer:
    """The answer in an instant query's body; raises Garbage without a server name, the client adds it."""
    rows, warnings = _instants(body)
    samples = tuple([door.Sample(row.metric, float(row.value[1]), row.value[0]) for row in rows])
    return door.Answer(samples, warnings)


def measured(body: bytes) -> door.Measured:
    """An instant query's answer with the statistics beside it, as far as the server gives any; raises Garbage."""
    answer = vector(body)
    try:
        stats = msgspec.json.decode(body, type=_CostEnvelope).data.stats
    except _REFUSALS:  # another server's statistics, in another shape
        stats = _Stats()
    return door.Measured(answer, stats.timings.exec_total_time, stats.samples.total_queryable_samples)


def matrix(body: bytes) -> door.RangeAnswer:
    """The answer in a range query's body; raises Garbage."""
    rows, warnings = _rows(body, "matrix", _Range)
    series = tuple(door.Series(row.metric, tuple((at, float(value)) for at, value in row.values)) for row in rows)
    return door.RangeAnswer(series, warnings)


def server_error(body: bytes) -> str:
    """The server's own words in an error body, or the body's beginning when it is not the API's JSON."""
    try:
        return msgspec.json.decode(body, type=_Envelope).error or _beginning(body)
    except _REFUSALS:
        return _beginning(body)


def _instants(body: bytes) -> tuple[list[_Instant], tuple[str, ...]]:
    """In one pass where all is well, a third faster; else in steps, which say what is wrong."""
    try:
        whole = _envelopes.decode(body)
    except _REFUSALS:
        return _rows(body, "vector", _Instant)
    return whole.data.result, _without_infos(whole.warnings)


def _rows(body: bytes, expected: str, row: type[T]) -> tuple[list[T], tuple[str, ...]]:
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        if envelope.status != "success" or envelope.data is None:
            raise errors.Garbage(f"status {envelope.status!r} without data: {envelope.error or _beginning(body)}")
        if envelope.data.result_type != expected:
            raise errors.Garbage(f"the result is a {envelope.data.result_type}, expected a {expected}")
        rows = msgspec.json.decode(envelope.data.result, type=list[row])  # type: ignore[valid-type]
        return rows, _without_infos(envelope.warnings)
    except _REFUSALS as problem:
        raise errors.Garbage(f"{problem}; it begins {_beginning(body)!r}") from problem


def _without_infos(warnings: tuple[str, ...] | None) -> tuple[str, ...]:
    return tuple([text for text in warnings or () if not text.startswith(_INFO)])


def _beginning(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return text[:120] + ("…" if len(text) > 120 else "") if text else "an empty body"
