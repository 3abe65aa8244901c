"""An answer's values are believed once, or refused by name."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promql import door, readings
from promql.queries import identity

DIRECTORY = identity.build([identity.NodeAddress("a", ("10.0.0.1",)), identity.NodeAddress("b", ("10.0.0.2",))])


def judge(value: float) -> str | None:
    return None if math.isfinite(value) and value >= 0 else "broken"


def read(*pairs: tuple[str, float]) -> readings.NodeValues:
    answer = door.Answer.of(tuple(door.Sample({"instance": label}, value, 1.0) for label, value in pairs))
    return readings.by_node(answer, DIRECTORY, label="instance", judge=judge)


def test_two_series_for_one_node_are_both_refused() -> None:
    found = read(("10.0.0.1:9100", 0.2), ("a", 0.9), ("b", 0.5))
    assert found.values == {"b": 0.5}
    assert found.refused == {"a": "double"}


def test_values_the_judge_refuses_are_absent_and_counted() -> None:
    found = read(("a", math.nan), ("b", -0.5))
    assert found.values == {}
    assert found.refused_by_reason == {"broken": 2}


def test_the_noise_of_an_idle_rate_reads_as_no_load() -> None:
    assert read(("a", -0.004)).values == {"a": 0.0}


def test_a_series_without_the_label_is_no_nodes() -> None:
    samples = (door.Sample({"instance": "a"}, 0.2, 1.0), door.Sample({"job": "own"}, 0.3, 1.0))
    found = readings.by_node(door.Answer.of(samples), DIRECTORY, label="instance", judge=judge)
    assert (found.values, found.unmatched) == ({"a": 0.2}, ("",))


def test_series_of_no_node_are_listed_once() -> None:
    assert read(("10.9.9.9:9100", 0.2), ("10.9.9.9:9100", 0.3), ("a", 0.1)).unmatched == ("10.9.9.9:9100",)


def test_pods_are_keyed_by_namespace_and_name() -> None:
    samples = [
        door.Sample({"namespace": "shop", "pod": "web-1"}, 0.25, 1.0),
        door.Sample({"namespace": "shop", "pod": "web-2"}, math.inf, 1.0),
        door.Sample({"pod": "no-namespace"}, 0.5, 1.0),
    ]
    values, refused = readings.by_pod(door.Answer.of(tuple(samples)), judge=judge)
    assert (values, refused) == ({"shop/web-1": 0.25}, {"shop/web-2": "broken"})


VALUES = st.one_of(st.floats(0, 2), st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -0.01, -0.0]))
LABELS = st.sampled_from(["a", "A:9100", "10.0.0.1:9100", "10.0.0.2", "b", "10.9.9.9:9100", ""])


def one_by_one(texts: list[tuple[str, float]]) -> tuple[dict[str, float], dict[str, str]]:
    """The rule, said of every key by itself."""
    every: dict[str, list[float]] = {}
    for key, value in texts:
        every.setdefault(key, []).append(value)
    reasons = {key: readings.DOUBLE if len(each) > 1 else judge(each[0]) for key, each in every.items()}
    refused = {key: reason for key, reason in reasons.items() if reason is not None}
    return {key: each[0] for key, each in every.items() if key not in refused}, refused


@given(st.lists(st.tuples(LABELS, VALUES), max_size=8))
def test_an_answer_judged_as_a_whole_is_what_its_values_are_one_by_one(pairs: list[tuple[str, float]]) -> None:
    found = read(*pairs)
    nodes = [(DIRECTORY.resolve(label), 0.0 if -0.02 <= value < 0 else value) for label, value in pairs]
    values, refused = one_by_one([(node, value) for node, value in nodes if node is not None])
    assert (found.values, found.refused) == (values, refused)
    assert found.unmatched == tuple(sorted({label for label, _ in pairs if DIRECTORY.resolve(label) is None}))


@given(st.lists(st.tuples(st.sampled_from(["p", "q", ""]), VALUES), max_size=5))
def test_pods_judged_as_a_whole_are_what_they_are_one_by_one(pairs: list[tuple[str, float]]) -> None:
    samples = tuple(door.Sample({"namespace": "shop", "pod": pod}, value, 1.0) for pod, value in pairs)
    expected = one_by_one([(f"shop/{pod}", value) for pod, value in pairs if pod])
    assert readings.by_pod(door.Answer.of(samples), judge=judge) == expected


def of_pair(*ratios: float, replica: str = "prometheus_replica", **labels: str) -> readings.NodeValues:
    """Node a by as many replicas of one Prometheus, and b by one."""
    samples = [
        door.Sample({"instance": "a", "job": "n", replica: str(number), **labels}, ratio, 1.0)
        for number, ratio in enumerate(ratios)
    ]
    samples.append(door.Sample({"instance": "b", "job": "n"}, 0.5, 1.0))
    return readings.by_node(door.Answer.of(tuple(samples)), DIRECTORY, label="instance", judge=judge)


@pytest.mark.parametrize("replica", ["prometheus_replica", "replica", "__replica__", "thanos_ruler_replica"])
def test_an_ha_pair_that_agrees_is_one_reading_the_larger(replica: str) -> None:
    assert of_pair(0.42, 0.5, replica=replica).values == {"a": 0.5, "b": 0.5}
    assert of_pair(0.5, 0.42, 0.45, replica=replica).values["a"] == 0.5
    assert of_pair(-0.004, -0.001, replica=replica).values["a"] == 0.0


def test_an_ha_pair_that_disagrees_is_missing_and_says_so() -> None:
    found = of_pair(0.2, 0.2 + 2 * readings.AGREEING_RATIO)
    assert (found.values, found.refused) == ({"b": 0.5}, {"a": "replicas_disagree"})


@pytest.mark.parametrize("ratios", [(0.5, math.nan), (math.nan, 0.5), (math.nan, math.nan), (math.inf, math.inf)])
def test_an_ha_pair_of_which_one_is_no_number_is_refused(ratios: tuple[float, float]) -> None:
    assert of_pair(*ratios).values == {"b": 0.5}


@pytest.mark.parametrize("label", ["job", "cluster", "instance", "zone"])
def test_series_that_differ_by_more_than_a_replica_are_a_double_however_alike(label: str) -> None:
    one, other = ({"instance": "a", "job": "n", "replica": text} for text in "01")
    other[label] = "10.0.0.1:9100"
    answer_of_two = door.Answer.of((door.Sample(one, 0.5, 1.0), door.Sample(other, 0.5, 1.0)))
    found = readings.by_node(answer_of_two, DIRECTORY, label="instance", judge=judge)
    assert (found.values, found.refused) == ({}, {"a": "double"})


def test_data_are_as_old_as_the_older_replica_says() -> None:
    samples = [door.Sample({"instance": "a", "replica": text}, at, 1.0) for text, at in (("0", 1030.0), ("1", 1000.0))]
    found = readings.by_node(
        door.Answer.of(tuple(samples)), DIRECTORY, label="instance", judge=judge, of_replicas=readings.oldest
    )
    assert found.values == {"a": 1000.0}
