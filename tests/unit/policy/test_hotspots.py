"""Hot spots: counting placements per window, and the points they cost."""

import numpy as np
import pytest

from policy.rules import hotspots
from policy.schema import load_policy

SPOTS = load_policy.defaults().hot_spots
WINDOWS = (60.0, 300.0, 1800.0)
NOW = 10_000.0


@pytest.mark.parametrize(
    ("age_seconds", "counted"),
    [
        pytest.param(0.0, (1, 1, 1), id="a placement of this moment counts in every window"),
        pytest.param(59.9, (1, 1, 1), id="just inside the shortest"),
        pytest.param(60.0, (0, 1, 1), id="exactly as old as a window is out of it"),
        pytest.param(1799.9, (0, 0, 1), id="just inside the longest"),
        pytest.param(1800.0, (0, 0, 0), id="older than all counts nowhere"),
        pytest.param(-30.0, (1, 1, 1), id="a binding time from the future counts as now"),
    ],
)
def test_a_placement_counts_while_it_is_younger_than_the_window(age_seconds: float, counted: tuple[int, ...]) -> None:
    assert hotspots.counts([NOW - age_seconds], NOW, WINDOWS) == counted


def test_the_windows_are_those_of_the_policy() -> None:
    assert hotspots.windows(SPOTS) == WINDOWS


@pytest.mark.parametrize(
    ("placed", "points"),
    [
        pytest.param((0, 0, 0), 0.0, id="nothing placed costs nothing"),
        pytest.param((1, 4, 19), 0.0, id="under every line costs nothing"),
        pytest.param((2, 2, 2), 1.0, id="the first line"),
        pytest.param((5, 5, 5), 3.0, id="every full multiple counts, in every window"),
        pytest.param((40, 40, 40), 30.0, id="penalties have no ceiling of their own"),
    ],
)
def test_the_penalty_counts_full_multiples_in_every_window(placed: tuple[int, ...], points: float) -> None:
    assert hotspots.penalty(np.array([placed, (0, 0, 0)]), hotspots.pricing(SPOTS)).tolist() == [points, 0.0]


def test_a_policy_without_hot_spots_has_no_penalty() -> None:
    assert hotspots.penalty(np.zeros((3, 0), dtype=np.int64), hotspots.pricing(())).tolist() == [0.0, 0.0, 0.0]


def test_a_hot_spot_costs_its_own_penalty() -> None:
    spots = load_policy.LoadPolicy.of({"hotSpots": [{"window": "1m", "pods": 2, "penalty": 0.5}]}).hot_spots
    assert hotspots.penalty(np.array([[5]]), hotspots.pricing(spots)).tolist() == [1.0]
