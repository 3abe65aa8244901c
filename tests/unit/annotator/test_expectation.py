"""The use to be expected of a replica in the hours to come, by its owner's hours before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.forecast import expectation
from annotator.forecast.expectation import DAY_WEIGHT, PERSISTENCE
from annotator.forecast.owner_hours import DAY, WEEK, Hours

HOUR = 490_000 - 490_000 % DAY  # midnight


def hours(by_hour: dict[int, float]) -> Hours:
    """One owner whose CPU in these hours was so, memory the same."""
    found = np.full((1, 2, WEEK), np.nan, dtype=np.float32)
    for hour, amount in by_hour.items():
        found[:, :, hour % WEEK] = amount
    return found


def expected(by_hour: dict[int, float], present: float, ahead: int = 3, hour: int = HOUR) -> list[float]:
    made = expectation.expected(hours(by_hour), np.full((1, 2), present), hour, ahead)
    return [float(each) for each in made.use[0, 0]]


def every_hour(amount_at: dict[int, float], days: int, otherwise: float = 100.0) -> dict[int, float]:
    """So many days before HOUR, each with these amounts by the hour of the day."""
    return {HOUR - back: amount_at.get((HOUR - back) % DAY, otherwise) for back in range(1, days * DAY + 1)}


def test_a_daily_peak_is_expected_at_its_hour() -> None:
    assert expected(every_hour({2: 900.0}, days=3), present=100.0) == pytest.approx([100.0, 100.0, 900.0, 100.0])


def test_days_weigh_less_the_longer_they_are_past() -> None:
    past = every_hour({}, days=2) | {HOUR - DAY + 1: 400.0, HOUR - 2 * DAY + 1: 200.0}
    assert expected(past, 100.0)[1] == pytest.approx((400.0 + DAY_WEIGHT * 200.0) / (1 + DAY_WEIGHT))


def test_a_departure_from_the_other_days_is_carried_on_and_fades() -> None:
    """The present and the last full hour are both 50 over the other days'."""
    past = every_hour({}, days=3) | {HOUR - 1: 150.0}
    assert expected(past, present=150.0) == pytest.approx([100 + 50 * PERSISTENCE**k for k in range(4)])


def test_the_departure_is_the_mean_of_now_and_the_last_full_hour() -> None:
    assert expected(every_hour({}, days=3), present=200.0)[0] == pytest.approx(150.0)


def test_without_the_last_full_hour_the_departure_is_that_of_now() -> None:
    past = every_hour({}, days=3)
    del past[HOUR - 1]
    assert expected(past, present=200.0)[0] == pytest.approx(200.0)


def test_an_hour_that_no_day_has_is_not_known() -> None:
    past = {hour: amount for hour, amount in every_hour({}, days=3).items() if hour % DAY != 2}
    assert np.isnan(expected(past, present=100.0)).tolist() == [False, False, True, False]


def test_without_history_or_without_the_present_nothing_is_known() -> None:
    assert np.isnan(expected({}, present=100.0)).all()
    assert np.isnan(expected(every_hour({}, days=2), present=np.nan)).all()


def test_a_day_ahead_uses_the_days_that_are_over() -> None:
    found = expected(every_hour({0: 500.0}, days=2), present=500.0, ahead=24)
    assert found[0] == pytest.approx(500.0)
    assert found[24] == pytest.approx(500.0)


def test_the_error_is_what_the_days_before_missed_in_the_last_day() -> None:
    calm = expectation.expected(hours(every_hour({}, days=3)), np.full((1, 2), 100.0), HOUR, 1)
    assert calm.error[0, 0] == 0.0
    past = every_hour({}, days=3) | {HOUR - back: 130.0 for back in range(1, DAY + 1)}
    missed = expectation.expected(hours(past), np.full((1, 2), 130.0), HOUR, 1)
    assert missed.error[0, 0] == pytest.approx(30.0)


def test_the_error_of_one_day_of_history_is_not_known() -> None:
    made = expectation.expected(hours(every_hour({}, days=1)), np.full((1, 2), 100.0), HOUR, 1)
    assert np.isnan(made.error).all()


@given(
    amounts=st.dictionaries(st.integers(HOUR - WEEK, HOUR - 1), st.floats(0, 1e6, width=32)),
    present=st.floats(0, 1e6),
    ahead=st.integers(0, DAY),
)
def test_no_expectation_is_negative(amounts: dict[int, float], present: float, ahead: int) -> None:
    found = expected(amounts, present, ahead)
    assert len(found) == ahead + 1
    assert all(each >= 0 or np.isnan(each) for each in found)
