"""The only module that reads the time.

Loops and doors take a `Clock`; pure code takes a `now_seconds` (Unix seconds, UTC) as a value. Tests pass
`tests/clocks.py`'s ManualClock instead of WallClock. RFC 3339, the one text form of a time on the wire, is written and
read here.
"""

import datetime
import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Where loops get the time from, and how they wait."""

    def now(self) -> float:
        """Unix seconds, UTC; may jump when the machine's clock is set."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back. For ages, deadlines and time-outs."""

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `stop` is set or `seconds` are over; True when it was set."""


class WallClock:
    """The machine's own time."""

    def now(self) -> float:
        """Unix seconds, UTC."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        return time.monotonic()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Wait until `stop` is set or `seconds` are over; True when it was set."""
        return stop.wait(max(0.0, seconds))


def to_rfc3339(at_seconds: float, *, micros: bool = False) -> str:
    """Unix seconds as "2026-11-21T04:00:00Z"; `micros` gives the MicroTime form "2026-11-21T04:00:00.000000Z".

    Without `micros` the fraction is cut, not rounded: a reading must never look newer than it is.
    """
    moment = datetime.datetime.fromtimestamp(at_seconds, tz=datetime.UTC)
    return moment.isoformat(timespec="microseconds" if micros else "seconds").removesuffix("+00:00") + "Z"


def from_rfc3339(text: str) -> float:
    """Unix seconds of an RFC 3339 time; ValueError names the text. A time without a zone is refused, not guessed."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{text!r} is not a time: expected RFC 3339 as 2026-11-21T04:00:00Z") from error
    if moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(f"{text!r} has no date, time and zone together: expected RFC 3339 as 2026-11-21T04:00:00Z")
    return moment.timestamp()
