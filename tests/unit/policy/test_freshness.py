"""When a reading may be used: the borders of fresh, stale, future and missing."""

import math

import numpy as np
import pytest

from policy.contract import freshness

NOW = 1000.0

CASES = [
    pytest.param(NOW, "usable", id="a reading of this moment is usable"),
    pytest.param(NOW - 299.9, "usable", id="just under staleAfter is usable"),
    pytest.param(NOW - 300.0, "stale", id="exactly staleAfter is stale"),
    pytest.param(NOW - 1e9, "stale", id="ages are stale"),
    pytest.param(NOW + 60.0, "usable", id="a minute ahead is clock skew"),
    pytest.param(NOW + 60.1, "future", id="more than a minute ahead is refused"),
    pytest.param(-math.inf, "stale", id="the beginning of time is stale"),
    pytest.param(math.inf, "future", id="the end of time is in the future"),
    pytest.param(math.nan, "missing", id="no number is missing"),
]


@pytest.mark.parametrize(("effective_seconds", "state"), CASES)
def test_a_reading_is_usable_within_its_time_only(effective_seconds: float, state: str) -> None:
    assert freshness.usable(effective_seconds, NOW, 300.0) == state


def test_no_reading_is_missing() -> None:
    assert freshness.usable(None, NOW, 300.0) == "missing"


@pytest.mark.parametrize(("effective_seconds", "state"), CASES)
def test_the_mask_over_all_nodes_says_the_same(effective_seconds: float, state: str) -> None:
    mask = freshness.mask(np.array([effective_seconds, NOW]), NOW, 300.0)
    assert mask.tolist() == [state == "usable", True]
