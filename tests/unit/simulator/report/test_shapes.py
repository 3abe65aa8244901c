"""What is drawn is what was measured: no peak is averaged away, nothing that is absent becomes 0."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from policy.schema import load_policy
from simulator.report import charts, drawing, shapes

RATIOS = arrays.arrays(
    np.float32,
    st.tuples(st.integers(1, 60), st.integers(1, 6)),
    elements=st.one_of(st.floats(0.0, 1.5, width=32), st.just(np.nan)),
)
FRAME = drawing.Frame(0.0, 86_400.0)
ENDS = charts.edges("cpu", None)


@given(RATIOS, st.integers(1, 70))
def test_there_are_never_more_points_than_asked_for_and_no_peak_is_lost(ratios: shapes.Floats, most: int) -> None:
    size = shapes.steps_per_point(len(ratios), most)
    found = shapes.peaks(ratios, size)
    assert len(found) <= most
    known = ~np.isnan(ratios).all(axis=0)
    assert np.array_equal(np.nanmax(found[:, known], axis=0), np.nanmax(ratios[:, known], axis=0))
    assert np.isnan(found[:, ~known]).all()


@given(RATIOS)
def test_the_band_is_in_order_and_its_edges_are_the_extremes(ratios: shapes.Floats) -> None:
    found = np.array(shapes.band(ratios, 4))
    known = ~np.isnan(found[0])
    assert (np.diff(found[:, known], axis=0) >= -1e-6).all()
    if known.any():
        assert np.nanmax(found) == pytest.approx(np.nanmax(ratios))
        assert np.nanmin(found) == pytest.approx(np.nanmin(ratios))


@given(RATIOS)
def test_the_cells_of_a_heat_map_cover_each_known_point_once(ratios: shapes.Floats) -> None:
    classes = shapes.heat(ratios, 1, ENDS)
    seen = np.full(classes.shape, shapes.ABSENT)
    for number, path in enumerate(drawing.cells(classes, charts.COLOURS)):
        for first, row, length in re.findall(r"M(\d+) (\d+)\.5h(\d+)", path):
            part = seen[int(first) : int(first) + int(length), int(row)]
            assert (part == shapes.ABSENT).all()
            part[:] = number
    assert np.array_equal(seen, classes)
    assert np.array_equal(classes == shapes.ABSENT, np.isnan(ratios))


def test_a_cell_has_the_colour_of_the_policys_lines() -> None:
    ratios = np.array([[0.0, 0.3, 0.64, 0.66, 0.74, 0.81, 1.2]], np.float64)
    assert shapes.heat(ratios, 1, ENDS).tolist() == [[0, 1, 2, 3, 4, 5, 5]]
    low = load_policy.LoadPolicy.of({"filter": {"thresholds": {"cpu_avg_5m": 0.6}}})
    assert shapes.heat(ratios, 1, charts.edges("cpu", low)).tolist() == [[0, 1, 3, 3, 4, 5, 5]]
    assert charts.edges("memory", low)[2:] == (0.8, 0.8, 0.8), "no line keeps new pods away"


def test_the_hottest_are_those_longest_over_the_line() -> None:
    ratios = np.array([[0.99, 0.81, 0.7, np.nan], [0.1, 0.81, 0.7, 0.1], [0.1, 0.1, 0.7, 0.1]])
    assert shapes.hottest(ratios, 4) == (1, 0, 2, 3)
    assert shapes.hottest(ratios, 2) == (1, 0)


def test_words_are_of_moments_with_nodes_first_and_last_included() -> None:
    ratios = np.array([[0.1, 0.9], [np.nan, np.nan], [0.3, 0.7]])
    found = shapes.moments(ratios, 13)
    assert [(one.step, one.hottest, one.warm, one.hot) for one in found] == [(0, 1, 1, 1), (2, 1, 1, 0)]
    assert found[0].median == pytest.approx(0.5)


def test_a_line_is_broken_where_nothing_is_known() -> None:
    times = np.arange(5) * 3600.0
    values = np.array([0.0, 0.5, np.nan, 1.0, np.nan])
    assert drawing.line(FRAME, times, values) == "M0 1000L41.7 500M125 0h1"
    assert drawing.area(FRAME, times[:2], values[:2], np.array([1.0, 1.0])) == "M0 0L41.7 0L41.7 500L0 1000Z"


def test_values_outside_stay_inside_the_plot() -> None:
    assert (FRAME.x(-5.0), FRAME.x(1e9), FRAME.y(1.7), FRAME.y(-0.1)) == (0.0, 1000.0, 0.0, 1000.0)


@pytest.mark.parametrize("days", [0.05, 1, 2, 7, 30, 365])
def test_ticks_are_whole_hours_and_few(days: float) -> None:
    frame = FRAME._replace(start_seconds=1_790_000_123.0, end_seconds=1_790_000_123.0 + days * 86_400)
    found = drawing.time_ticks(frame)
    assert 1 <= len(found) <= 15
    assert all(re.fullmatch(r"\d\d:00|[A-Z][a-z]{2} \d\d", tick.label) for tick in found)


def test_labels_never_cover_each_other() -> None:
    found = drawing.apart([drawing.Tick(60.0, "b"), drawing.Tick(50.0, "a"), drawing.Tick(90.0, "c")], 11.0)
    assert [(tick.at, tick.label) for tick in found] == [(50.0, "a"), (61.0, "b"), (90.0, "c")]
