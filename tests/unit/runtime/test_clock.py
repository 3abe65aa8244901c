import threading

import pytest

from runtime import clock
from tests import clocks


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-21T04:00:00Z", 1795233600.0),
        ("2026-11-21T05:00:00+01:00", 1795233600.0),
        ("2026-11-21T04:00:00.250000Z", 1795233600.25),
        ("1970-01-01T00:00:00Z", 0.0),
    ],
)
def test_rfc3339_is_read_in_any_zone(text: str, seconds: float) -> None:
    assert clock.from_rfc3339(text) == seconds


@pytest.mark.parametrize("text", ["", "now", "2026-11-21", "2026-11-21T04:00:00", "2026-11-21 04:00:00Z", "1795233600"])
def test_what_is_no_full_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="RFC 3339") as caught:
        clock.from_rfc3339(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("seconds", [0.0, 1795233600.0, 1795233599.999999])
def test_micros_survive_a_round_trip(seconds: float) -> None:
    assert clock.from_rfc3339(clock.to_rfc3339(seconds, micros=True)) == pytest.approx(seconds, abs=1e-6)


def test_whole_seconds_are_cut_so_that_nothing_looks_newer() -> None:
    assert clock.to_rfc3339(1795233600.999) == "2026-11-21T04:00:00Z"


def test_the_wall_clock_returns_at_once_when_stopped() -> None:
    stop = threading.Event()
    stop.set()
    assert clock.WallClock().wait(stop, 3600)
    assert not clock.WallClock().wait(threading.Event(), -1)


def test_a_manual_clock_advances_instead_of_waiting() -> None:
    manual = clocks.ManualClock(100.0)
    assert not manual.wait(threading.Event(), 5)
    manual.jump(-50)
    assert (manual.now(), manual.monotonic(), manual.waits) == (55.0, 1005.0, [5])
