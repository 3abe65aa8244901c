"""Times on the wire: UTC or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.contract import timestamps


def test_the_epoch_of_the_design_is_written_in_utc() -> None:
    assert timestamps.encode(1795233600.9) == "2026-11-21T04:00:00Z"
    assert timestamps.decode("2026-11-21T04:00:00Z") == 1795233600.0


@given(at=st.integers(0, 200_000_000_000))
def test_whole_seconds_come_back_as_they_went(at: int) -> None:
    assert timestamps.decode(timestamps.encode(float(at))) == float(at)


def test_a_year_before_1000_has_four_digits() -> None:
    text = "0357-11-21T04:00:00Z"
    assert timestamps.encode(timestamps.decode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        None,
        3,
        "",
        "2026-11-21",
        "2026-11-21T04:00:00",
        "2026-11-21T04:00:00+00:00",
        "2026-11-21 04:00:00Z",
        "2026-02-30T04:00:00Z",
        "2026-11-21T24:30:00Z",
        "2026-11-21T04:00:00Z\n",
        "x" * 1000,
    ],
)
def test_anything_but_a_utc_time_is_refused_with_its_text(text: object) -> None:
    with pytest.raises(ValueError, match="is not a UTC time such as"):
        timestamps.decode(text)
