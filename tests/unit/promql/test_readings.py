"""An answer's values are believed once, or refused by name."""

import math

from promql import door, identity, readings

DIRECTORY = identity.build([identity.NodeAddress("a", ("10.0.0.1",)), identity.NodeAddress("b", ("10.0.0.2",))])


def judge(value: float) -> str | None:
    return None if math.isfinite(value) and value >= 0 else "broken"


def answer(*pairs: tuple[str, float], warnings: tuple[str, ...] = ()) -> door.Answer:
    return door.Answer(tuple(door.Sample({"instance": label}, value, 1.0) for label, value in pairs), warnings)


def read(*pairs: tuple[str, float]) -> readings.NodeValues:
    return readings.by_node(answer(*pairs), DIRECTORY, label="instance", judge=judge)


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


def test_series_of_no_node_are_listed_once() -> None:
    assert read(("10.9.9.9:9100", 0.2), ("10.9.9.9:9100", 0.3), ("a", 0.1)).unmatched == ("10.9.9.9:9100",)


def test_a_warned_answer_is_partial() -> None:
    found = readings.by_node(answer(("a", 0.1), warnings=("store down",)), DIRECTORY, label="instance", judge=judge)
    assert found.partial


def test_pods_are_keyed_by_namespace_and_name() -> None:
    samples = [
        door.Sample({"namespace": "shop", "pod": "web-1"}, 0.25, 1.0),
        door.Sample({"namespace": "shop", "pod": "web-2"}, math.inf, 1.0),
        door.Sample({"pod": "no-namespace"}, 0.5, 1.0),
    ]
    values, refused = readings.by_pod(door.Answer(tuple(samples)), judge=judge)
    assert (values, refused) == ({"shop/web-1": 0.25}, {"shop/web-2": "broken"})
