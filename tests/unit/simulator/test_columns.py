"""What is told of all nodes is the same as what an answer says of them, in whatever order and whoever is missing."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from promql import readings
from simulator.prometheus.columns import Column, MetricColumns

NAMES = ("a", "b", "c")
RATIOS = st.lists(st.floats(0, 1.5) | st.just(math.nan), min_size=3, max_size=3)
ORDERS = st.permutations((*NAMES, "new")) | st.just(NAMES) | st.just(())


@given(ratios=RATIOS, nodes=ORDERS.map(tuple))
def test_a_column_says_what_an_answer_says(ratios: list[float], nodes: tuple[str, ...]) -> None:
    column = Column(NAMES, np.array(ratios))
    values = {name: ratio for name, ratio in zip(NAMES, ratios, strict=True) if not math.isnan(ratio)}
    told, answered = MetricColumns(column), readings.NodeValues(values, {}, ())
    np.testing.assert_array_equal(told.of(nodes), answered.of(nodes))
    assert dict(told.values) == values
    assert bool(told.values) == bool(values)
    assert (told.refused, told.unmatched) == (answered.refused, answered.unmatched)
