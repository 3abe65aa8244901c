"""Averages from samples of rows; tests/unit/annotator/test_node_windows.py has what they come to over a node's life."""

import math

import numpy as np
import pytest

from policy.rules import sample_windows
from policy.rules.sample_windows import Samples, SampleWindows

NOW = 1_795_233_600.0
WINDOW = 300.0


def windows(*uids: str) -> SampleWindows:
    """Rows of two columns."""
    made = SampleWindows(2)
    made.keep(WINDOW)
    made.follow(uids)
    return made


def add(held: SampleWindows, at_seconds: float, *values: tuple[float, float]) -> None:
    """One sample of 15 s of each row."""
    ends = np.full(len(values), at_seconds)
    held.add(Samples(ends, np.full(len(values), 15.0), np.array(values)), now_seconds=at_seconds)


def average(held: SampleWindows, column: int, now_seconds: float) -> list[float | None]:
    """By row."""
    return [None if math.isnan(one) else one for one in held.average(column, WINDOW, now_seconds).tolist()]


def test_each_row_has_its_own_average_of_each_column() -> None:
    held = windows("a", "b")
    for step in range(6):
        add(held, NOW + 30 * step, (100, 1), (200, 2))
    assert average(held, 0, NOW + 150) == [100, 200]
    assert average(held, 1, NOW + 150) == [1, 2]
    assert held.observed_seconds(1, WINDOW, NOW + 150) == 165, "15 s of the first sample and five times 30 s"


def test_a_row_keeps_its_samples_wherever_it_stands_and_a_new_one_begins_with_nothing() -> None:
    held = windows("a", "b")
    for step in range(6):
        add(held, NOW + 30 * step, (100, 1), (200, 2))
    assert held.follow(("new", "b")).tolist() == [-1, 1]
    assert average(held, 0, NOW + 150) == [None, 200]
    assert held.follow(()).tolist() == []
    assert held.follow(("b",)).tolist() == [-1], "a row that was gone is a new one"


def test_a_row_without_a_sample_in_a_list_keeps_its_age() -> None:
    held = windows("a")
    for step in range(6):
        add(held, NOW + 30 * step, (100, 1))
    held.add(Samples(np.array([math.nan]), np.array([math.nan]), np.full((1, 2), math.nan)), now_seconds=NOW + 180)
    assert held.newest_seconds().tolist() == [NOW + 150]


REFUSED = {
    "no_time": (None, "15s"),
    "future": (NOW + 61, "15s"),
    "stale": (NOW - 121, "15s"),
    "window": (NOW, "a while"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_an_item_whose_time_or_window_cannot_be_trusted_is_refused(reason: str) -> None:
    at_seconds, window = REFUSED[reason]
    with pytest.raises(sample_windows.Refusal, match=f"^{reason}$"):
        sample_windows.checked_seconds(at_seconds, window, NOW)
    assert sample_windows.checked_seconds(NOW - 120, "15.02s", NOW) == (NOW - 120, 15.02)
