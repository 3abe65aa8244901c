"""Hot spots: counting placements per window, and the points they cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy import hotspots, schema
from policy.hotspots import Binding

SPOTS = schema.defaults().hot_spots
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
    assert hotspots.penalty(np.array([placed, (0, 0, 0)]), SPOTS).tolist() == [points, 0.0]
    assert hotspots.hot_value(placed, SPOTS) == hotspots.HotValue(
        dict(zip(("1m", "5m", "30m"), placed, strict=True)), points
    )


def test_a_policy_without_hot_spots_has_no_penalty() -> None:
    assert hotspots.penalty(np.zeros((3, 0), dtype=np.int64), ()).tolist() == [0.0, 0.0, 0.0]


def test_placements_are_counted_per_node() -> None:
    placements = hotspots.Placements()
    placements.add(Binding("a", "1", NOW - 10))
    placements.add(Binding("a", "2", NOW - 100))
    placements.add(Binding("b", "3", NOW - 1000))
    assert placements.matrix(["a", "b", "c"], NOW, WINDOWS).tolist() == [[1, 2, 2], [0, 0, 1], [0, 0, 0]]
    assert len(placements) == 3


def test_a_pod_seen_twice_counts_once_and_a_pod_bound_elsewhere_moves() -> None:
    placements = hotspots.Placements()
    for binding in (Binding("a", "1", NOW), Binding("a", "1", NOW), Binding("b", "1", NOW - 100)):
        placements.add(binding)
    assert placements.matrix(["a", "b"], NOW, WINDOWS).tolist() == [[0, 0, 0], [0, 1, 1]]


def test_a_removed_pod_counts_no_more_and_an_unknown_one_is_no_matter() -> None:
    placements = hotspots.Placements()
    placements.add(Binding("a", "1", NOW))
    placements.add(Binding("a", "2", NOW))
    assert placements.remove("1") == Binding("a", "1", NOW)
    assert placements.remove("1") is None
    assert placements.bindings("a") == (Binding("a", "2", NOW),)
    assert "2" in placements
    assert "1" not in placements


def test_old_placements_expire() -> None:
    placements = hotspots.Placements()
    for age in (10, 100, 5000):
        placements.add(Binding("a", str(age), NOW - age))
    assert placements.expire(NOW - 1800) == 1
    assert [binding.uid for binding in placements.bindings("a")] == ["100", "10"]


def test_no_nodes_have_an_empty_matrix_with_a_column_per_window() -> None:
    assert hotspots.Placements().matrix([], NOW, WINDOWS).shape == (0, 3)


_STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from("ab"), st.sampled_from("123456"), st.integers(9000, 10_100)), max_size=40
)


@given(steps=_STEPS)
def test_after_any_history_the_counts_are_those_of_the_pods_that_are_left(
    steps: list[tuple[bool, str, str, int]],
) -> None:
    placements, left = hotspots.Placements(), dict[str, Binding]()
    for added, node, uid, at in steps:
        if added:
            left[uid] = Binding(node, uid, float(at))
            placements.add(left[uid])
        else:
            assert placements.remove(uid) == left.pop(uid, None)
    for node in "ab":
        times = sorted(binding.at_seconds for binding in left.values() if binding.node == node)
        assert placements.counts(node, NOW, WINDOWS) == hotspots.counts(times, NOW, WINDOWS)
    assert len(placements) == len(left)
