"""Spans of the week with a size: `20:00-07:00=2`, `Fri 20:00-Mon 07:00=0`, `Mon,Tue 08:30-09:15=150%`.

`sizing` reads them from options and asks which one holds. Pure; local time comes in from outside. A span without days
begins on every day; one that ends at or before the time it begins ends on the next day, or where a day is named before
the end, on the next such day.
"""

import math
import re
from typing import Final, NamedTuple

from policy.schema import descheduler_section

DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
MOST_REPLICAS: Final = 10_000
MOST_PERCENT: Final = 1_000
_TIME: Final = r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00"
_WRITTEN: Final = re.compile(
    rf"(?:(?P<days>[A-Za-z,]+) )?(?P<begins>{_TIME})-(?:(?P<end_day>[A-Za-z]+) )?(?P<ends>{_TIME})=(?P<size>\S+)"
)
EXPECTED: Final = (
    "[DAYS ]FROM-[DAY ]TO=REPLICAS, as 20:00-07:00=2, 'Fri 20:00-Mon 07:00=0' or 'Sat,Sun 00:00-24:00=20%'"
)


class Size(NamedTuple):
    """A number of replicas, or a percentage of the ordinary number, of which a fraction counts as a whole one."""

    number: int
    percent: bool = False

    def of(self, ordinary: int) -> int:
        """The replicas meant, with so many ordinarily."""
        return math.ceil(self.number * ordinary / 100) if self.percent else self.number


class Span(NamedTuple):
    """Minutes of the week (Monday 00:00 is 0) at which it begins, how long it lasts, and the size while it does."""

    text: str
    begins_minutes: tuple[int, ...]
    length_minutes: int
    size: Size

    def holds(self, minute_of_week: int) -> bool:
        """Whether the minute is in it; its end is not."""
        return any((minute_of_week - begins) % WEEK_MINUTES < self.length_minutes for begins in self.begins_minutes)


def parse(text: str) -> Span:
    """The span that a text means; ValueError says what is expected."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a span with a size: write {EXPECTED}")
    days = [_day(name, text) for name in match["days"].split(",")] if match["days"] else list(range(7))
    begins, ends = _minutes(match["begins"]), _minutes(match["ends"])
    if begins == DAY_MINUTES:
        raise ValueError(f"{text!r} begins at 24:00: write 00:00 of the next day")
    if match["end_day"] is None:
        length = (ends - begins) % DAY_MINUTES or DAY_MINUTES
    elif len(days) > 1:
        raise ValueError(f"{text!r} ends on {match['end_day']} and begins on {len(days)} days: name one")
    else:
        end = _day(match["end_day"], text) * DAY_MINUTES + ends
        length = (end - days[0] * DAY_MINUTES - begins) % WEEK_MINUTES or WEEK_MINUTES
    return Span(text, tuple(day * DAY_MINUTES + begins for day in days), length, parse_size(match["size"]))


def parse_size(text: str) -> Size:
    """`2` or `20%`; ValueError says what is expected."""
    digits = text.removesuffix("%")
    percent = digits != text
    most = MOST_PERCENT if percent else MOST_REPLICAS
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6 and int(digits) <= most):
        expected = f"a number of replicas from 0 to {MOST_REPLICAS}, or a share of the ordinary number as 20%"
        raise ValueError(f"the size {text!r} is neither: {expected} (at most {MOST_PERCENT}%)")
    return Size(int(digits), percent)


def _day(name: str, text: str) -> int:
    if name not in descheduler_section.DAYS:
        raise ValueError(f"{text!r}: {name!r} is not a day: write one of {', '.join(descheduler_section.DAYS)}")
    return descheduler_section.DAYS.index(name)


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
