"""The query API's JSON, decoded strictly: what is not exactly a vector or a matrix is Garbage.

`promql.http.client` hands the raw body in and gives the result out; the client library's own decoding is not used
because it drops `warnings`, takes any result type and leaves the values as strings. Shapes after Prometheus' HTTP API
v1.

An answer is partial where `isPartial` is true (VictoriaMetrics' cluster, when a vmstorage did not answer), or where a
warning stands beside it: Thanos, Prometheus' remote read and promxy say so of stores that did not answer. Annotations
are no such warning: remarks that PromQL's own evaluation makes on the query or the kind of its series, which are the
same however often it is asked. They begin with `PromQL warning:`, or, where Prometheus 2.47 to 2.53 put among the
warnings what later ones call `infos`, with `PromQL info:`. Any other text is taken for data that is missing.
"""

from typing import Final, TypeVar

import msgspec
import numpy as np

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
    is_partial: bool = msgspec.field(name="isPartial", default=False)
    error: str = ""


class _Instant(msgspec.Struct, gc=False):
    metric: dict[str, str]
    value: Point


class _Range(msgspec.Struct, gc=False):
    metric: dict[str, str]
    values: tuple[Point, ...]


_REFUSALS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)  # all that msgspec raises for a body
_ANNOTATIONS: Final = ("PromQL info:", "PromQL warning:")
_IS_PARTIAL: Final = "isPartial is true"
T = TypeVar("T")


def vector(body: bytes) -> door.Answer:
    """The answer in an instant query's body; raises Garbage and Partial without a server name, the client adds it."""
    rows, warnings = _rows(body, "vector", _Instant)
    values = np.array([float(row.value[1]) for row in rows], np.float64)
    answer = door.Answer([row.metric for row in rows], values, rows[0].value[0] if rows else 0.0)
    if warnings:
        raise errors.Partial("; ".join(warnings), answer=answer, reasons=warnings)
    return answer


def measured(body: bytes) -> door.MeasuredAnswer:
    """An instant query's answer with the statistics beside it, as far as the server gives any; raises as `vector`."""
    answer = vector(body)
    try:
        stats = msgspec.json.decode(body, type=_CostEnvelope).data.stats
    except _REFUSALS:  # another server's statistics, in another shape
        stats = _Stats()
    return door.MeasuredAnswer(answer, stats.timings.exec_total_time, stats.samples.total_queryable_samples)


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


def _rows(body: bytes, expected: str, row: type[T]) -> tuple[list[T], tuple[str, ...]]:
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        if envelope.status != "success" or envelope.data is None:
            raise errors.Garbage(f"status {envelope.status!r} without data: {envelope.error or _beginning(body)}")
        if envelope.data.result_type != expected:
            raise errors.Garbage(f"the result is a {envelope.data.result_type}, expected a {expected}")
        rows = msgspec.json.decode(envelope.data.result, type=list[row])  # type: ignore[valid-type]
        return rows, _of_missing_data(envelope)
    except _REFUSALS as problem:
        raise errors.Garbage(f"{problem}; it begins {_beginning(body)!r}") from problem


def _of_missing_data(envelope: _Envelope) -> tuple[str, ...]:
    """The server's words that its answer is not whole, or this module's for them."""
    warnings = tuple([text for text in envelope.warnings or () if not text.startswith(_ANNOTATIONS)])
    return (_IS_PARTIAL, *warnings) if envelope.is_partial else warnings


def _beginning(body: bytes) -> str:
    text = " ".join(body[:400].decode("utf-8", "replace").split())
    return text[:120] + ("…" if len(text) > 120 else "") if text else "an empty body"
