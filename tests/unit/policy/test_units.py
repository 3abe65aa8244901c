"""What operators may write as ratio, duration, quantity and number, and the sentence for what they may not."""

import collections.abc
import math

import pydantic_core
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.schema import units

_Read = collections.abc.Callable[[object], object]


@pytest.mark.parametrize(
    ("read", "written", "meant"),
    [
        (units.ratio, 0.65, 0.65),
        (units.ratio, "65%", 0.65),
        (units.ratio, "2.5 %", 0.025),
        (units.ratio, 0, 0.0),
        (units.ratio, 1, 1.0),
        (units.ratio, "100%", 1.0),
        (units.duration_seconds, "30s", 30.0),
        (units.duration_seconds, "1h30m", 5400.0),
        (units.duration_seconds, "1.5h", 5400.0),
        (units.duration_seconds, "500ms", 0.5),
        (units.duration_seconds, "0s", 0.0),
        (units.cpu_millicores, "250m", 250.0),
        (units.cpu_millicores, "0.5", 500.0),
        (units.cpu_millicores, 2, 2000.0),
        (units.cpu_millicores, 0.1, 100.0),
        (units.memory_bytes, "200Mi", 209715200.0),
        (units.memory_bytes, "1G", 1e9),
        (units.memory_bytes, "1.5Gi", 1610612736.0),
        (units.memory_bytes, "128k", 128000.0),
        (units.memory_bytes, 1048576, 1048576.0),
        (units.weight, 0, 0.0),
        (units.weight, 0.8, 0.8),
        (units.number, 1000, 1000.0),
    ],
)
def test_a_value_written_the_documented_way_is_read(read: _Read, written: object, meant: float) -> None:
    assert read(written) == meant


@pytest.mark.parametrize(
    ("read", "written", "expected_message"),
    [
        (units.ratio, 65, 'did you mean "65%"'),
        (units.ratio, 1.65, "1.65 is out of range: a ratio from 0 to 1 expected"),
        (units.ratio, 650, "out of range"),
        (units.ratio, -0.1, "out of range"),
        (units.ratio, "120%", "out of range"),
        (units.ratio, "0.65", "a ratio such as 0.65"),
        (units.ratio, "٣%", "a ratio such as 0.65"),
        (units.ratio, True, "got true"),
        (units.ratio, math.nan, "a ratio such as"),
        (units.ratio, 10**400, "a huge number"),
        (units.duration_seconds, 30, "has no unit: write a Go duration such as 30s or 30m"),
        (units.duration_seconds, "30", "is not a Go duration"),
        (units.duration_seconds, "1d", "1 day is 24h"),
        (units.duration_seconds, "-5m", "is not a Go duration"),
        (units.duration_seconds, "5m ", "is not a Go duration"),
        (units.duration_seconds, "٣s", "is not a Go duration"),
        (units.duration_seconds, "99999999h", "longer than 10 years"),
        (units.duration_seconds, "9" * 50 + "h", "is not a Go duration"),
        (units.duration_seconds, None, "got nothing"),
        (units.duration_seconds, True, "got true"),
        (units.cpu_millicores, "NaN", "a Kubernetes quantity such as 250m"),
        (units.cpu_millicores, "1_0", "a Kubernetes quantity"),
        (units.cpu_millicores, "-1", "a Kubernetes quantity"),
        (units.cpu_millicores, -1, "must not be negative"),
        (units.cpu_millicores, math.inf, "a Kubernetes quantity"),
        (units.ratio, "\ud800", r'got "\ud800"'),
        (units.memory_bytes, "\ud800m", r'"\ud800m" is thousandths'),
        (units.memory_bytes, "200m", 'did you mean "200Mi"'),
        (units.memory_bytes, "200MB", "a Kubernetes quantity such as 200Mi"),
        (units.weight, 1e-9, "too small for a weight"),
        (units.weight, -1, "out of range"),
        (units.number, 1001, "out of range"),
        (units.number, "1", "a number expected"),
    ],
)
def test_a_value_written_another_way_is_refused_with_what_was_expected(
    read: _Read, written: object, expected_message: str
) -> None:
    with pytest.raises(pydantic_core.PydanticCustomError) as refused:
        read(written)
    assert expected_message in refused.value.message()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (30.0, "30s"), (300.0, "5m"), (5400.0, "1h30m"), (86400.0, "24h"), (0.5, "0.5s"), (3661.0, "1h1m1s")],
)
def test_a_duration_is_shown_as_the_go_string_people_would_write(seconds: float, text: str) -> None:
    assert units.duration_text(seconds) == text
    assert units.duration_seconds(text) == seconds


_TEXT = st.text(st.characters() | st.characters(categories=["Cs"]))  # with halves of surrogate pairs
_ANYTHING = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.lists(st.integers(), max_size=2)


@pytest.mark.parametrize(
    "read", [units.ratio, units.duration_seconds, units.cpu_millicores, units.memory_bytes, units.weight, units.number]
)
@given(written=_ANYTHING)
def test_whatever_is_written_the_result_is_a_finite_number_or_a_refusal(read: _Read, written: object) -> None:
    try:
        meant = read(written)
    except pydantic_core.PydanticCustomError as refused:
        str(refused).encode()  # can be printed
        return
    assert isinstance(meant, float)
    assert math.isfinite(meant)
    assert meant >= 0


@given(written=_ANYTHING)
def test_a_value_quoted_in_a_message_stays_on_one_short_line(written: object) -> None:
    assert "\n" not in units.quoted(written)
    assert len(units.quoted(written)) <= 64
