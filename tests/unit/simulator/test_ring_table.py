"""Rows keep their numbers, and at least as many of the newest as was promised."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.usage.ring_table import RingTable, RowExpired


@given(st.integers(-5, 5), st.integers(1, 20), st.lists(st.integers(0, 50), max_size=30))
def test_the_newest_rows_are_found_under_their_numbers(begin: int, row_limit: int, sizes: list[int]) -> None:
    rows = RingTable((2,), begin=begin, capacity=row_limit)
    for size in sizes:
        numbers = np.arange(rows.end, rows.end + size)
        rows.append(np.stack((numbers, -numbers), axis=1).astype(float))
    assert rows.begin == begin
    assert rows.end == begin + sum(sizes)
    assert rows.oldest <= max(begin, rows.end - row_limit)
    held = np.arange(rows.oldest, rows.end)
    np.testing.assert_array_equal(rows.between(rows.oldest, rows.end)[:, 1], -held)
    np.testing.assert_array_equal(rows.at(held, 0), held)
    assert all(rows[number][0] == number for number in held.tolist())


def test_a_row_that_is_not_held_any_more_is_refused() -> None:
    rows = RingTable((1,), begin=0, capacity=4)
    rows.append(np.zeros((50, 1)))
    refused = r"row 3 is not held any more, the oldest is 46"
    with pytest.raises(RowExpired, match=refused):
        rows[3]
    with pytest.raises(RowExpired, match=refused):
        rows.between(3, 50)
    with pytest.raises(RowExpired, match=refused):
        rows.at(np.array([49, 3]), 0)
