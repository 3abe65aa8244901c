"""When Enforce may act: local time, days, midnight and daylight saving."""

import datetime

import pytest

from descheduler import run_schedule
from policy.schema.descheduler_section import Window


def _window(**keys: object) -> Window:
    return Window.model_validate(keys)


NIGHT = _window(**{"from": "22:00", "to": "06:00", "days": ["Fri"]})
OFFICE = _window(**{"from": "08:00", "to": "17:00", "timeZone": "Europe/Berlin"})


@pytest.mark.parametrize(
    ("window", "moment", "is_open"),
    [
        pytest.param(NIGHT, "2026-11-20T22:00+00:00", True, id="it opens at its first minute"),
        pytest.param(NIGHT, "2026-11-20T21:59+00:00", False, id="it is closed before"),
        pytest.param(NIGHT, "2026-11-21T05:59+00:00", True, id="the morning after belongs to the day it began"),
        pytest.param(NIGHT, "2026-11-21T06:00+00:00", False, id="its end is exclusive"),
        pytest.param(NIGHT, "2026-11-20T05:00+00:00", False, id="the morning before belongs to the day before"),
        pytest.param(NIGHT, "2026-11-21T23:00+00:00", False, id="another day is closed"),
        pytest.param(OFFICE, "2026-11-20T07:00+00:00", True, id="winter time is an hour ahead of UTC"),
        pytest.param(OFFICE, "2026-07-20T06:00+00:00", True, id="summer time is two hours ahead"),
        pytest.param(OFFICE, "2026-11-20T06:00+00:00", False, id="summer's opening hour is closed in winter"),
        pytest.param(
            _window(**{"from": "00:00", "to": "24:00", "days": ["Sat"]}),
            "2026-11-21T23:59+00:00",
            True,
            id="24:00 is midnight",
        ),
    ],
)
def test_a_window_is_open_by_its_own_clock_and_calendar(window: Window, moment: str, is_open: bool) -> None:
    assert run_schedule.is_open([window], datetime.datetime.fromisoformat(moment).timestamp()) is is_open


def test_no_window_at_all_means_always() -> None:
    assert run_schedule.is_open([], 0.0)


def test_one_open_window_is_enough() -> None:
    assert run_schedule.is_open([NIGHT, OFFICE], datetime.datetime.fromisoformat("2026-11-20T09:00+00:00").timestamp())
