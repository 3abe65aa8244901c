"""Spans of the week: which minutes are in them, and what is refused."""

import re

import hypothesis
import pytest
from hypothesis import strategies as st

from cli.placeholder import sizing
from descheduler import run_schedule
from policy.schema import descheduler_section

HELD = {
    "the first minute": ("20:00-07:00=2", "Tue", "20:00", True),
    "past midnight": ("20:00-07:00=2", "Wed", "06:59", True),
    "the end itself": ("20:00-07:00=2", "Wed", "07:00", False),
    "from Sunday into Monday": ("20:00-07:00=2", "Mon", "03:00", True),
    "a day that is not named": ("Sat,Sun 00:00-24:00=0", "Fri", "23:59", False),
    "a day that is named": ("Sat,Sun 00:00-24:00=0", "Sun", "23:59", True),
    "the night after a named day": ("Fri 20:00-07:00=0", "Sat", "06:59", True),
    "the middle of several days": ("Fri 20:00-Mon 07:00=0", "Sun", "12:00", True),
    "the end of several days": ("Fri 20:00-Mon 07:00=0", "Mon", "07:00", False),
    "outside several days": ("Fri 20:00-Mon 07:00=0", "Fri", "19:59", False),
    "over the end of the week": ("Sun 20:00-Mon 07:00=0", "Mon", "00:00", True),
    "the other days of a week but an hour": ("Mon 01:00-Mon 00:00=0", "Sun", "12:00", True),
    "the same time is a day later": ("Mon 08:00-08:00=1", "Tue", "07:59", True),
}


@pytest.mark.parametrize("case", HELD)
def test_a_minute_is_in_a_span_or_not(case: str) -> None:
    text, day, time, expected = HELD[case]
    hours, minutes = time.split(":")
    minute = descheduler_section.DAYS.index(day) * sizing.DAY_MINUTES + int(hours) * 60 + int(minutes)
    assert sizing.parse_span(text).holds(minute) is expected


@hypothesis.given(
    days=st.sets(st.sampled_from(descheduler_section.DAYS), min_size=1),
    begins=st.integers(0, sizing.DAY_MINUTES - 1),
    ends=st.integers(0, sizing.DAY_MINUTES),
    at=st.integers(0, sizing.WEEK_MINUTES - 1),
)
def test_without_a_last_day_it_is_a_window_of_the_policy(days: set[str], begins: int, ends: int, at: int) -> None:
    texts = [f"{minutes // 60:02}:{minutes % 60:02}" for minutes in (begins, ends)]
    window = descheduler_section.Window.model_validate({"days": sorted(days), "from": texts[0], "to": texts[1]})
    monday_seconds = 4 * 86400  # 1970-01-05
    hypothesis.assume(begins != ends % sizing.DAY_MINUTES)  # a policy refuses what is empty or a whole day
    span = sizing.parse_span(f"{','.join(sorted(days))} {texts[0]}-{texts[1]}=1")
    assert span.holds(at) is run_schedule.is_open([window], monday_seconds + at * 60)


REFUSED = {
    "no size": ("20:00-07:00", "is not a span with a size"),
    "no times": ("2", "is not a span with a size"),
    "an hour that is none": ("25:00-07:00=2", "is not a span with a size"),
    "one digit": ("7:00-20:00=2", "is not a span with a size"),
    "a day that is none": ("Caturday 20:00-07:00=2", "'Caturday' is not a day: write one of Mon, Tue"),
    "a last day that is none": ("Fri 20:00-monday 07:00=2", "'monday' is not a day"),
    "a last day of several": ("Fri,Sat 20:00-Mon 07:00=2", "begins on 2 days: name one"),
    "a last day without a first": ("20:00-Mon 07:00=2", "begins on 7 days: name one"),
    "the end of a day at its begin": ("24:00-07:00=2", "write 00:00 of the next day"),
    "a size of no number": ("20:00-07:00=few", "the size 'few' is neither"),
    "a size under 0": ("20:00-07:00=-1", "the size '-1' is neither"),
    "a size too large": ("20:00-07:00=10001", "the size '10001' is neither"),
    "a share too large": ("20:00-07:00=1001%", "the size '1001%' is neither"),
    "digits of another script": ("20:00-07:00=٢", "the size '٢' is neither"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_span_is_refused_with_what_is_expected(case: str) -> None:
    text, message = REFUSED[case]
    with pytest.raises(ValueError, match=re.escape(message)):
        sizing.parse_span(text)


@hypothesis.given(percent=st.integers(0, 1000), ordinary=st.integers(0, 10_000))
def test_a_share_of_the_ordinary_number_counts_a_begun_one(percent: int, ordinary: int) -> None:
    found = sizing.parse_size(f"{percent}%").of(ordinary)
    assert 100 * (found - 1) < percent * ordinary <= 100 * found


def test_a_plain_size_is_itself_whatever_the_ordinary_number() -> None:
    assert sizing.parse_size("0").of(10) == 0
    assert sizing.parse_size("30").of(10) == 30
