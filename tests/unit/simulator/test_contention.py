"""A full node serves its pods in proportion."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator import contention


@pytest.mark.parametrize(
    ("system", "wanted", "used", "factor"),
    [
        pytest.param(100.0, 300.0, 400.0, 1.0, id="there is room for all"),
        pytest.param(200.0, 1600.0, 1000.0, 0.5, id="pods share what the system leaves"),
        pytest.param(1500.0, 300.0, 1000.0, 0.0, id="the system takes everything"),
        pytest.param(100.0, 0.0, 100.0, 1.0, id="no pods"),
    ],
)
def test_a_full_node_serves_the_system_first_and_pods_in_proportion(
    system: float, wanted: float, used: float, factor: float
) -> None:
    shared = contention.shares(np.array([1000.0]), np.array([system]), np.array([wanted]))
    np.testing.assert_allclose(shared, [[used], [factor]])


AMOUNTS = st.floats(0, 1e12, allow_subnormal=False)


@example([(968817200991.799, 161237878593.4135, 1e12)])  # whose parts add up to more, rounded
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1))
def test_no_node_gives_more_than_it_has_and_no_pod_gets_more_than_it_wants(
    nodes: list[tuple[float, float, float]],
) -> None:
    usable, system, wanted = np.array(nodes).T
    used, factors = contention.shares(usable, system, wanted)
    assert (used <= usable).all()
    assert (used <= system + wanted).all()
    assert ((factors >= 0) & (factors <= 1)).all()
