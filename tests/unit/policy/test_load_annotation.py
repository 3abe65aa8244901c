"""The text of the load annotation: exactly as designed, read back strictly, written only when it is worth a patch."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.contract import load_annotation
from policy.contract.load_annotation import Reading, Windows

AT = 1795233600.0  # 2026-11-21T04:00:00Z


def test_the_text_is_exactly_the_one_of_the_design() -> None:
    reading = Reading(AT, {"cpu_avg_5m": 0.31272, "cpu_max_1h": 0.4402}, {"1m": 0, "5m": 2, "30m": 5})
    assert load_annotation.encode(reading) == (
        '{"v":1,"at":"2026-11-21T04:00:00Z","m":{"cpu_avg_5m":0.3127,"cpu_max_1h":0.4402},"hot":{"1m":0,"5m":2,"30m":5}}'
    )


def test_windows_of_the_annotators_own_say_since_when_and_when_their_peaks_were() -> None:
    reading = Reading(AT, {"cpu_max_1h": 0.4402}, windows=Windows(AT - 600.7, {"cpu_max_1h": AT - 60}))
    text = load_annotation.encode(reading)
    assert text.endswith(
        ',"hot":{},"windows":{"since":"2026-11-21T03:49:59Z","peaks":{"cpu_max_1h":"2026-11-21T03:59:00Z"}}}'
    )
    assert load_annotation.decode(text).windows == Windows(AT - 601, {"cpu_max_1h": AT - 60})


@pytest.mark.parametrize(
    "windows",
    [
        "1",
        "{}",
        '{"since":"2026-11-21T04:00:00Z"}',
        '{"since":7,"peaks":{}}',
        '{"since":"2026-11-21T04:00:00Z","peaks":{"a":1}}',
    ],
)
def test_windows_that_cannot_be_read_are_dropped_because_they_are_information(windows: str) -> None:
    reading = load_annotation.decode(
        f'{{"v":1,"at":"2026-11-21T04:00:00Z","m":{{"cpu_avg_5m":0.3}},"windows":{windows}}}'
    )
    assert (reading.values, reading.windows) == ({"cpu_avg_5m": 0.3}, None)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.01, 1.51])
def test_an_invalid_value_is_absent_from_the_text_and_never_zero(value: float) -> None:
    assert json.loads(load_annotation.encode(Reading(AT, {"cpu_avg_5m": value, "cpu_max_1h": 0.5})))["m"] == {
        "cpu_max_1h": 0.5
    }


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (math.nan, "nan"),
        (math.inf, "infinite"),
        (-math.inf, "infinite"),
        (-0.0001, "negative"),
        (1.5001, "over_range"),
        (10**400, "over_range"),
        (0.0, None),
        (1.5, None),
    ],
)
def test_a_value_is_invalid_for_one_named_reason(value: float, reason: str | None) -> None:
    assert load_annotation.invalid_reason(value) == reason


def test_minus_zero_is_written_as_zero() -> None:
    assert '"cpu_avg_5m":0.0' in load_annotation.encode(Reading(AT, {"cpu_avg_5m": -0.0}))


@given(
    st.lists(
        st.one_of(
            st.floats(0, 1.5),
            st.integers(0, 15000).map(lambda number: (number + 0.5) / 10_000),  # halfway, as near as a double can be
            st.integers(0, 15000).map(lambda number: math.nextafter((number + 0.5) / 10_000, 2.0)),
            st.floats(),
        )
    )
)
def test_many_ratios_are_written_as_each_is_rounded_by_itself(ratios: list[float]) -> None:
    one_by_one = [round(ratio, 4) if 0 <= ratio <= 1.5 else math.nan for ratio in ratios]
    np.testing.assert_array_equal(load_annotation.written(np.array(ratios, dtype=np.float64)), one_by_one)


@given(
    at=st.integers(0, 4_000_000_000),
    values=st.dictionaries(st.from_regex(r"[a-z][a-z0-9_]{0,10}", fullmatch=True), st.floats(0, 1.5), max_size=8),
    hot=st.dictionaries(st.sampled_from(["1m", "5m", "30m"]), st.integers(0, 1000)),
)
def test_what_is_encoded_is_decoded_to_four_decimals(at: int, values: dict[str, float], hot: dict[str, int]) -> None:
    reading = load_annotation.decode(load_annotation.encode(Reading(float(at), values, hot)))
    assert reading == Reading(float(at), {name: round(value, 4) for name, value in values.items()}, hot)
    assert list(reading.values) == list(values)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not_json"),
        ("garbage", "not_json"),
        ('{"v":1,"at":"2026-11-21T04:00:00Z","m":{"cpu', "not_json"),
        ("[" * 10_000, "not_json"),
        ("9" * 5_000, "not_json"),
        ("x" * 20_000, "too_long"),
        ("[]", "not_object"),
        ("null", "not_object"),
        ('{"v":1,"at":"2026-11-21T04:00:00Z"}', "not_object"),
        ('{"v":1,"at":"2026-11-21T04:00:00Z","m":[]}', "not_object"),
        ('{"at":"2026-11-21T04:00:00Z","m":{}}', "version"),
        ('{"v":2,"at":"2026-11-21T04:00:00Z","m":{}}', "version"),
        ('{"v":true,"at":"2026-11-21T04:00:00Z","m":{}}', "version"),
        ('{"v":"1","at":"2026-11-21T04:00:00Z","m":{}}', "version"),
        ('{"v":1.0,"at":"2026-11-21T04:00:00Z","m":{}}', "version"),
        ('{"v":1,"m":{}}', "no_time"),
        ('{"v":1,"at":1795233600,"m":{}}', "no_time"),
        ('{"v":1,"at":"2026-11-21T04:00:00","m":{}}', "no_time"),
        ('{"v":1,"at":"2026-11-21T04:00:00+08:00","m":{}}', "no_time"),
        ('{"v":1,"at":"2026-13-21T04:00:00Z","m":{}}', "no_time"),
        ('{"v":1,"at":"٢026-11-21T04:00:00Z","m":{}}', "no_time"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_text_that_is_no_reading_is_refused_with_a_word_for_the_metric(text: str, reason: str) -> None:
    with pytest.raises(load_annotation.AnnotationError, match=r"evenload\.io/load is unusable") as refused:
        load_annotation.decode(text)
    assert refused.value.reason == reason
    assert len(str(refused.value)) < 300


def test_one_bad_value_spoils_its_metric_only() -> None:
    measured = '{"a":NaN,"b":1e999,"c":-1,"d":2,"e":"0.5","f":null,"g":true,"h":0.5,"i":1}'
    reading = load_annotation.decode(f'{{"v":1,"at":"2026-11-21T04:00:00Z","m":{measured}}}')
    assert reading.values == {"h": 0.5, "i": 1.0}
    assert reading.invalid == {
        "a": "nan",
        "b": "infinite",
        "c": "negative",
        "d": "over_range",
        "e": "not_number",
        "f": "not_number",
        "g": "not_number",
    }


@pytest.mark.parametrize("hot", ["null", "[]", '"x"', '{"1m":-1}', '{"1m":1.5}', '{"1m":true}'])
def test_wrong_hot_counts_are_dropped_because_they_are_information(hot: str) -> None:
    assert load_annotation.decode(f'{{"v":1,"at":"2026-11-21T04:00:00.5Z","m":{{"a":0.5}},"hot":{hot}}}') == Reading(
        AT + 0.5, {"a": 0.5}
    )


CROSSINGS = {"cpu_avg_5m": (0.6, 0.65)}
METRICS = ("cpu_avg_5m", "x")


def columns(*readings: Reading) -> load_annotation.Floats:
    ratios = np.array([[reading.values.get(name, math.nan) for name in METRICS] for reading in readings])
    return load_annotation.written(ratios)


def must_write(
    old: Reading, new: Reading, min_change_ratio: float, crossings: load_annotation.Crossings = CROSSINGS
) -> bool:
    limits = load_annotation.limits(crossings, METRICS)
    (found,) = load_annotation.must_write(columns(old), columns(new), min_change_ratio, limits).tolist()
    return bool(found)


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        pytest.param({"cpu_avg_5m": 0.30}, {"cpu_avg_5m": 0.31}, False, id="a small move is not written"),
        pytest.param({"cpu_avg_5m": 0.10}, {"cpu_avg_5m": 0.12}, True, id="a move of exactly minChange is written"),
        pytest.param({"cpu_avg_5m": 0.50}, {"cpu_avg_5m": 0.48}, True, id="a move down is written like a move up"),
        pytest.param({"cpu_avg_5m": 0.645}, {"cpu_avg_5m": 0.651}, True, id="a threshold crossed upwards is written"),
        pytest.param({"cpu_avg_5m": 0.601}, {"cpu_avg_5m": 0.60}, True, id="a threshold reached from above is crossed"),
        pytest.param({"cpu_avg_5m": 0.645}, {"cpu_avg_5m": 0.65}, False, id="a threshold reached from below is not"),
        pytest.param({"cpu_avg_5m": 0.65}, {"cpu_avg_5m": 0.65004}, False, id="what rounding hides is no crossing"),
        pytest.param({"cpu_avg_5m": 0.3}, {"cpu_avg_5m": 0.3, "x": 0.1}, True, id="a metric that appears is written"),
        pytest.param({"cpu_avg_5m": 0.3, "x": 0.1}, {"cpu_avg_5m": 0.3}, True, id="a metric that vanishes is written"),
        pytest.param({"cpu_avg_5m": 0.3}, {"cpu_avg_5m": math.nan}, True, id="a value turned invalid has vanished"),
        pytest.param({"cpu_avg_5m": 0.3}, {"cpu_avg_5m": 0.3, "x": math.nan}, False, id="an invalid value is no news"),
    ],
)
def test_a_reading_is_written_when_it_says_something_new(
    old: dict[str, float], new: dict[str, float], written: bool
) -> None:
    assert must_write(Reading(AT, old), Reading(AT + 30, new), 0.02) is written


def test_a_first_reading_is_written_and_an_equal_one_is_not_even_if_every_move_counts() -> None:
    reading = Reading(AT, {"cpu_avg_5m": 0.3})
    assert must_write(Reading(AT, {}), reading, 0.02, {})
    assert not must_write(reading, reading, 0.0, {})
    assert must_write(reading, Reading(AT, {"cpu_avg_5m": 0.3001}), 0.0, {})


def test_limits_are_columns_with_nothing_where_a_metric_has_fewer() -> None:
    np.testing.assert_array_equal(load_annotation.limits(CROSSINGS, METRICS), [[0.6, 0.65], [math.nan, math.nan]])
    assert load_annotation.limits({}, METRICS).shape == (2, 0)
