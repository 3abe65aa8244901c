"""A full node serves its pods in proportion."""

import numpy as np
import pytest
from hypothesis import given
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
    shared = contention.share(contention.Load(1000.0, 1e6), contention.Load(system, 0.0), contention.Load(wanted, 0.0))
    assert shared.used.cpu_millicores == pytest.approx(used)
    assert shared.cpu_factor == pytest.approx(factor)


def test_memory_stops_just_under_what_there_is() -> None:
    shared = contention.share(
        contention.Load(1000.0, 1000.0), contention.Load(0.0, 100.0), contention.Load(0.0, 5000.0)
    )
    assert shared.used.memory_bytes == pytest.approx(980)


AMOUNTS = st.floats(0, 1e12, allow_subnormal=False)


@given(st.lists(st.tuples(AMOUNTS, AMOUNTS, AMOUNTS), min_size=1))
def test_many_nodes_are_divided_as_each_of_them_alone(nodes: list[tuple[float, float, float]]) -> None:
    usable, system, wanted = np.array(nodes).T
    used, factors = contention.shares(usable, system, wanted)
    for at, (cpu, own, wish) in enumerate(nodes):
        alone = contention.share(contention.Load(cpu, 0.0), contention.Load(own, 0.0), contention.Load(wish, 0.0))
        assert (used[at], factors[at]) == (alone.used.cpu_millicores, alone.cpu_factor)
        assert 0 <= factors[at] <= 1
