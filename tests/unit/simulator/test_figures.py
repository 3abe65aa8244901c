"""Figures from an array of ratios are those from the same numbers as series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from simulator.results import figures

RATIOS = arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(0, 1))


@given(RATIOS)
def test_an_array_of_steps_and_nodes_says_the_same_as_series(ratios: np.ndarray) -> None:
    by_node = {str(node): list(enumerate(ratios[:, node].tolist())) for node in range(ratios.shape[1])}
    assert figures.load_over(ratios, 300.0) == pytest.approx(figures.load(by_node, 300.0))


def test_a_node_that_is_not_there_counts_for_nothing() -> None:
    ratios = np.array([[0.9, np.nan], [0.9, 0.5], [np.nan, np.nan]])
    found = figures.load_over(ratios, 60.0)
    assert found.hot_node_minutes == 2.0
    assert found.spread_ratio == pytest.approx(0.1)
    assert found.mean_ratio == pytest.approx(2.3 / 3)


def test_no_value_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no node has a single value in 3 steps"):
        figures.load_over(np.full((3, 2), np.nan), 60.0)
