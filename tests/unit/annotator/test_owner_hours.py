"""The hours of the last week that are known of each owner."""

import math

import numpy as np

from annotator.forecast import owner_hours
from annotator.forecast.owner_hours import DAY, WEEK, OwnerHours
from policy.contract.owner_usage import Mean

HOUR = 490_000
WEB = "shop/ReplicaSet/web"


def cpu(hours: OwnerHours, hour: int, owner: str = WEB) -> float:
    return float(hours.of([owner])[0, 0, hour % WEEK])


def test_an_hour_is_read_back_for_its_owner_and_nothing_for_others() -> None:
    hours = OwnerHours()
    hours.write(HOUR, {WEB: Mean(120.0, None, 3)})
    assert cpu(hours, HOUR) == 120.0
    assert math.isnan(hours.of([WEB])[0, 1, HOUR % WEEK])
    assert np.isnan(hours.of(["shop/ReplicaSet/other"])).all()
    assert np.isnan(OwnerHours().of([WEB])).all()


def test_the_hour_missing_is_the_newest_one_within_a_week() -> None:
    hours = OwnerHours()
    assert hours.missing(HOUR) == HOUR
    hours.write(HOUR, {})
    assert hours.missing(HOUR) == HOUR - 1
    for hour in range(HOUR - 1, HOUR - WEEK, -1):
        hours.write(hour, {})
    assert hours.missing(HOUR) is None
    assert hours.count == WEEK
    assert hours.missing(HOUR + 1) == HOUR + 1


def test_an_hour_of_the_past_fills_its_place_and_forgets_nothing() -> None:
    hours = OwnerHours()
    hours.write(HOUR, {WEB: Mean(1.0, 1.0, 1)})
    hours.write(HOUR - DAY, {WEB: Mean(2.0, 1.0, 1)})
    assert (cpu(hours, HOUR), cpu(hours, HOUR - DAY)) == (1.0, 2.0)


def test_hours_nobody_wrote_are_unknown_and_not_those_of_the_week_before() -> None:
    hours = OwnerHours()
    hours.write(HOUR, {WEB: Mean(1.0, 1.0, 1)})
    hours.write(HOUR + WEEK - 1, {WEB: Mean(2.0, 1.0, 1)})
    assert cpu(hours, HOUR) == 1.0
    hours.write(HOUR + WEEK + 2, {WEB: Mean(3.0, 1.0, 1)})
    assert math.isnan(cpu(hours, HOUR))
    assert math.isnan(cpu(hours, HOUR + 1))
    assert cpu(hours, HOUR + WEEK - 1) == 2.0


def test_an_owner_without_an_hour_in_a_week_is_forgotten_and_the_others_stay() -> None:
    hours = OwnerHours()
    hours.write(HOUR, {"gone": Mean(1.0, None, 1), WEB: Mean(1.0, None, 1)})
    hours.write(HOUR + 1, {WEB: Mean(2.0, None, 1)})
    hours.write(HOUR + WEEK, {"new": Mean(3.0, None, 1)})
    assert len(hours) == 2
    assert cpu(hours, HOUR + 1) == 2.0
    assert cpu(hours, HOUR + WEEK, "new") == 3.0


def test_owners_beyond_the_most_are_left_out() -> None:
    hours = OwnerHours()
    hours.write(HOUR, {f"owner-{number}": Mean(1.0, 1.0, 1) for number in range(owner_hours.MOST_OWNERS + 1)})
    assert len(hours) == owner_hours.MOST_OWNERS
