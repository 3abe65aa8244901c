"""Growth per day of what processes hold, and sentences about too much of it."""

import os

import pytest

from lab.bench import contestants
from lab.campaigns.soak import growth, real
from lab.campaigns.soak.growth import Sample

HOUR = 3600.0


def samples(*amounts: float) -> list[Sample]:
    return [Sample(number * HOUR, {"memory MiB": amount}) for number, amount in enumerate(amounts)]


def test_growth_per_day_is_the_slope_from_a_time_on() -> None:
    rows = samples(0, 50, 100, 101, 102, 103)
    assert growth.per_day(rows, "memory MiB", from_seconds=2 * HOUR) == pytest.approx(24.0)


def test_one_sample_has_no_growth() -> None:
    assert growth.per_day(samples(1, 2, 3), "memory MiB", from_seconds=2 * HOUR) == 0.0


def test_an_amount_that_grows_too_fast_is_named() -> None:
    rows = samples(100, 101, 102)
    (sentence,) = growth.too_much(rows, {"memory MiB": 20.0}, from_seconds=0.0, process="annotator-0")
    assert sentence == "annotator-0: memory MiB grows by 24.00 a day, at most 20 expected"
    assert list(growth.too_much(rows, {"memory MiB": 30.0}, from_seconds=0.0, process="annotator-0")) == []


def test_own_memory_is_what_no_other_process_has_a_share_in() -> None:
    whole, own = (contestants.pss_mebibytes(os.getpid(), part) for part in ("Pss", real.OWN))
    assert 0.0 < own < whole
