"""Load figures are over the nodes that are there, and of nothing there are none."""

import numpy as np
import pytest

from simulator.results import figures


def test_a_node_that_is_not_there_counts_for_nothing() -> None:
    ratios = np.array([[0.9, np.nan], [0.9, 0.5], [np.nan, np.nan]])
    found = figures.load_over(ratios, 60.0)
    assert found.hot_node_minutes == 2.0
    assert found.spread_ratio == pytest.approx(0.1)
    assert found.mean_ratio == pytest.approx(2.3 / 3)


def test_no_value_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="no node has a single value in 3 steps"):
        figures.load_over(np.full((3, 2), np.nan), 60.0)
