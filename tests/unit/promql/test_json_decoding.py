"""Only an exact vector or matrix is an answer."""

import math

import pytest

from promql import errors
from promql.http import json_decoding

ROW = b'{"metric":{"instance":"a"},"value":[1700000000.5,"%s"]}'


def body(result: bytes, kind: bytes = b"vector", extra: bytes = b"") -> bytes:
    return b'{"status":"success","data":{"resultType":"%s","result":[%s]}%s}' % (kind, result, extra)


def test_a_vector_keeps_labels_values_and_times() -> None:
    answer = json_decoding.vector(
        body(ROW % b"0.25", extra=b',"infos":["x"],"isPartial":false,"stats":{"seriesFetched":"1"}')
    )
    assert answer.samples == (({"instance": "a"}, 0.25, 1700000000.5),)


INFO = b'"PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: \\"drops\\""'
MIX = b'"PromQL warning: encountered a mix of histograms and floats for aggregation"'


@pytest.mark.parametrize(
    ("extra", "reasons"),
    [
        pytest.param(b',"warnings":null', (), id="nothing"),
        pytest.param(b',"isPartial":false', (), id="VictoriaMetrics with all its stores"),
        pytest.param(b',"warnings":[%s]' % INFO, (), id="a remark on the query, of Prometheus 2.47 to 2.53"),
        pytest.param(b',"warnings":[%s],"infos":[%s]' % (MIX, INFO), (), id="a remark on the kind of the series"),
        pytest.param(b',"isPartial":true', ("isPartial is true",), id="VictoriaMetrics without a store"),
        pytest.param(b',"warnings":[%s,"store s1 is down"]' % INFO, ("store s1 is down",), id="a store behind Thanos"),
        pytest.param(
            b',"warnings":["1 more warning annotations omitted"]',
            ("1 more warning annotations omitted",),
            id="one that was left out, and may be of a store",
        ),
        pytest.param(b',"isPartial":true,"warnings":["a"]', ("isPartial is true", "a"), id="both, behind one another"),
    ],
)
def test_an_answer_is_partial_by_the_word_of_its_server(extra: bytes, reasons: tuple[str, ...]) -> None:
    assert json_decoding.matrix(body(b'{"metric":{},"values":[[1,"0.5"]]}', b"matrix", extra)).warnings == reasons
    for read in (json_decoding.vector, json_decoding.measured):
        if not reasons:
            read(body(ROW % b"0.25", extra=extra))
            continue
        with pytest.raises(errors.Partial) as caught:
            read(body(ROW % b"0.25", extra=extra))
        assert caught.value.reasons == reasons
        assert caught.value.answer.samples == (({"instance": "a"}, 0.25, 1700000000.5),)


def test_a_word_that_is_no_truth_value_is_no_answer() -> None:
    with pytest.raises(errors.Garbage, match=r"Expected `bool`, got `str` - at `\$\.isPartial`"):
        json_decoding.vector(body(ROW % b"0.25", extra=b',"isPartial":"yes"'))


@pytest.mark.parametrize("text", [b"NaN", b"+Inf", b"-Inf"])
def test_values_that_are_no_number_arrive_raw(text: bytes) -> None:
    value = json_decoding.vector(body(ROW % text)).samples[0].value
    assert not math.isfinite(value)


def test_a_matrix_keeps_its_points_in_order() -> None:
    answer = json_decoding.matrix(body(b'{"metric":{},"values":[[1,"0.5"],[2,"0.75"]]}', b"matrix"))
    assert answer.series[0].points == ((1.0, 0.5), (2.0, 0.75))
    assert not answer.warnings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(b"<html><title>Login</title>", "Login", id="a login page"),
        pytest.param(body(ROW % b"0.25")[:-20], "truncated", id="JSON that breaks off"),
        pytest.param(b"", "empty body", id="nothing at all"),
        pytest.param(body(b"", b"matrix"), "matrix, expected a vector", id="a range where an instant was asked"),
        pytest.param(b'{"status":"error","error":"boom"}', "boom", id="an error with status 200"),
        pytest.param(body(b'{"metric":{},"value":[1,2]}'), "Expected `str`", id="a number where text belongs"),
        pytest.param(b"[1,2]", "Expected `object`", id="an array"),
    ],
)
def test_anything_else_is_garbage_and_says_what_came(text: bytes, message: str) -> None:
    with pytest.raises(errors.Garbage, match=message):
        json_decoding.vector(text)


def test_a_value_that_is_no_number_text_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        json_decoding.vector(body(ROW % b"zero"))


def test_the_servers_own_words_are_found_in_an_error_body() -> None:
    assert (
        json_decoding.server_error(b'{"status":"error","errorType":"bad_data","error":"parse error"}') == "parse error"
    )
    assert json_decoding.server_error(b"<h1>502</h1>") == "<h1>502</h1>"
