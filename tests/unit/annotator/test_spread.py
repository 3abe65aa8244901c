"""How load is spread over the nodes: quantiles of what is held, and the lines that the policy draws."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.collect.last_good_values import EMPTY, GoodValue, LastGoodValues
from annotator.diagnostics import standing
from policy.schema import load_policy

POLICY = load_policy.LoadPolicy.of(
    {
        "filter": {"thresholds": {"cpu_avg_5m": 0.65, "memory_avg_5m": 0}},
        "descheduler": {"thresholds": {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}},
    }
)
RATIOS = st.lists(st.floats(0, 1.5), min_size=1, max_size=30)


def book(*ratios: float, metric: str = "cpu_avg_5m") -> LastGoodValues:
    return LastGoodValues.of({f"n{at}": {metric: GoodValue(ratio, 0.0)} for at, ratio in enumerate(ratios)}, (metric,))


def spread(held: LastGoodValues) -> standing.Spread:
    return standing.Standing(held, POLICY, 0.0).spread()


def test_median_ninth_decile_and_hottest_node_of_what_is_held() -> None:
    eleven = book(*(at / 10 for at in range(11)))
    loads = spread(eleven.aligned((*eleven.nodes, "silent"), eleven.metrics)).loads
    assert loads == pytest.approx({("cpu_avg_5m", "0.5"): 0.5, ("cpu_avg_5m", "0.9"): 0.9, ("cpu_avg_5m", "1"): 1.0})


@given(RATIOS)
def test_quantiles_never_fall_and_the_last_is_the_hottest_node(ratios: list[float]) -> None:
    found = list(spread(book(*ratios)).loads.values())
    assert found == sorted(found)
    assert found[-1] == max(ratios)


def test_a_metric_that_no_node_has_or_the_policy_does_not_know_is_absent_and_never_0() -> None:
    assert spread(LastGoodValues.of({"n": {}}, ("cpu_avg_5m",))).loads == {}
    assert spread(book(0.5, metric="gone")).loads == {}


def test_lines_are_those_of_filter_and_descheduler_and_a_rule_that_is_off_draws_none() -> None:
    assert spread(EMPTY).lines == {
        ("cpu_avg_5m", "filter"): 0.65,
        ("memory_avg_5m", "evict_above"): 0.8,
        ("memory_avg_5m", "evict_until"): 0.6,
    }
