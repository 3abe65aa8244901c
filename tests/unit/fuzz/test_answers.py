"""Whatever the apiserver, Prometheus or a proxy before them answers, it is an answer or an error of its door."""

import contextlib
import json
from collections.abc import Callable
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from descheduler.snapshot import interned_pods
from kube import errors, kinds, objects
from kube.http import decoding
from kube.pods import compact
from promql import errors as promql_errors
from promql.http import json_decoding
from tests import builders
from tests.unit.fuzz import mutating

STATUS = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"causes": [{"reason": "x"}]}}
POD = builders.pod_body("web-1", node="node-1")
NODE = builders.node_body("node-1")
PAGES = [{"metadata": {"resourceVersion": "7"}, "items": items} for items in ([POD, POD], [NODE], [NODE, POD])]
FRAMES = [{"type": kind, "object": POD} for kind in ("ADDED", "DELETED", "BOOKMARK")] + [
    {"type": "ERROR", "object": STATUS}
]
ROWS = [{"metric": {"instance": "a"}, "value": [1700000000.5, "0.25"]}]
VECTOR = {"status": "success", "data": {"resultType": "vector", "result": ROWS}, "warnings": ["w"]}
MATRIX = {"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}}
REFUSED = {"status": "error", "errorType": "bad_data", "error": "parse error"}
DEEP = b'{"kind":"x","metadata":' + b'{"name":' * 5000 + b"1" + b"}" * 5000 + b"}"
KINDS: list[kinds.Kind[Any]] = [kinds.PODS, compact.PODS, interned_pods.PODS, kinds.NODES, kinds.BUDGETS]


def texts(*samples: Any) -> st.SearchStrategy[bytes]:
    """The samples changed as documents and as bytes."""
    return st.one_of(
        mutating.documents(samples).map(lambda document: mutating.json_text(document).encode()),
        mutating.garbled([json.dumps(sample, separators=(",", ":")).encode() for sample in samples]),
    )


def _bookmark(text: bytes) -> object:
    return decoding.one("watch", decoding.Bookmark, msgspec.Raw(text))


def _watch(text: bytes) -> object:
    frame = decoding.one("watch", decoding.Frame, text)
    if frame.type == "ERROR":
        return decoding.failure_in_watch("watch", frame.object)
    if frame.type == "BOOKMARK":
        return _bookmark(bytes(frame.object))
    return [decoding.decoded("watch", kind.type, frame.object) for kind in KINDS]


BROKEN = [b'{"metadata":{"resourceVersion":"\xff"}}', b'{"kind":"Status","message":"\xff"}', DEEP]


@mutating.BOUNDED
@hypothesis.given(text=texts(*PAGES), kind=st.sampled_from(KINDS))
def test_a_list_is_read_or_undecodable(text: bytes, kind: kinds.Kind[Any]) -> None:
    try:
        found = decoding.page("GET /pods", kind.type, [text])
    except errors.Undecodable:
        return
    for one in found.items or ():
        assert isinstance(one, objects.IdentifiedObject)
    for lost in found.undecodable:
        assert lost.name
        assert lost.reason in ("time", "encoding", "missing_field", "type", "range", "depth", "value")


@mutating.BOUNDED
@hypothesis.given(text=texts(*FRAMES))
def test_an_event_is_read_or_undecodable(text: bytes) -> None:
    try:
        _watch(text)
    except errors.Undecodable:
        return


@pytest.mark.parametrize("text", BROKEN, ids=["a version", "a status", "depth"])
@pytest.mark.parametrize("read", [_bookmark, lambda text: decoding.one("GET /pods", objects.Pod, text)])
def test_bytes_that_are_no_text_and_depth_are_undecodable(text: bytes, read: Callable[[bytes], object]) -> None:
    if text is BROKEN[1]:
        assert isinstance(decoding.failure_in_watch("watch", msgspec.Raw(text)), errors.ServerError)
        return
    with pytest.raises(errors.Undecodable):
        read(text)


@mutating.BOUNDED
@hypothesis.given(text=texts(STATUS))
@hypothesis.example(text=BROKEN[1])
@hypothesis.example(text=DEEP)
def test_a_refusal_is_an_error_whatever_it_says(text: bytes) -> None:
    failure = decoding.failure("GET /pods", 503, {}, text)
    assert (failure.status, isinstance(str(failure), str)) == (503, True)


@mutating.BOUNDED
@hypothesis.given(text=texts(VECTOR, MATRIX, REFUSED))
@hypothesis.example(text=b'{"status":"error","error":"\xff"}')
@hypothesis.example(text=json.dumps(VECTOR).encode().replace(b"instance", b"\xff"))
@hypothesis.example(text=DEEP)
def test_prometheus_is_understood_partial_or_answers_garbage(text: bytes) -> None:
    assert isinstance(json_decoding.server_error(text), str)
    for read in (json_decoding.vector, json_decoding.measured, json_decoding.matrix):
        with contextlib.suppress(promql_errors.Garbage, promql_errors.Partial):
            try:
                read(text)
            except UnicodeDecodeError:
                raise
            except ValueError:
                continue  # a value that is no number, which the door expects
