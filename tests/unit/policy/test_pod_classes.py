"""Classes of pods: which pod is of which, and what the policy is for a pod, alone and on a node."""

import itertools
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from policy.schema import load_policy, pod_classes
from policy.schema.pod_classes import PodExample

OF_PRODUCTION = {"cpu_avg_5m": 0.95, "cpu_max_1h": 0.0, "cpu_max_1d": 0.8}
PRODUCTION = {
    "name": "production",
    "match": {"priority": {"min": 9000, "max": 9999}},
    "filter": {"thresholds": OF_PRODUCTION},
    "score": {"weights": {"cpu_avg_5m": 2, "cpu_max_1h": 0}},
}
SHOP = {"name": "shop", "match": {"namespaces": ["shop", "shop-*"], "priorityClassNames": ["batch", "night"]}}
REST = {"name": "rest", "match": {"namespaces": ["rest"]}, "filter": {"thresholds": {"memory_avg_5m": 0.5}}}
SPOT = {
    "name": "spot",
    "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
    "filter": {"thresholds": {"cpu_avg_5m": 0.85, "memory_avg_5m": 0.9}},
    "score": {"weights": {"cpu_avg_5m": 3, "memory_avg_5m": 0}, "goal": "pack", "target": 0.4},
}
ON_SPOT = {"lifecycle": "spot"}
POLICY = load_policy.LoadPolicy.of({"podClasses": [PRODUCTION, SHOP, REST], "pools": [SPOT]})
PLAIN = PodExample("default", 0, "")


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        pytest.param(PLAIN, None, id="none matches"),
        pytest.param(PLAIN._replace(priority=9000), "production", id="the least priority"),
        pytest.param(PLAIN._replace(priority=9999), "production", id="the highest"),
        pytest.param(PLAIN._replace(priority=8999), None, id="under it"),
        pytest.param(PLAIN._replace(priority=10000), None, id="over it"),
        pytest.param(PodExample("shop", 0, "night"), "shop", id="namespace and PriorityClass"),
        pytest.param(PodExample("shop-eu", 0, "batch"), "shop", id="the beginning of a namespace"),
        pytest.param(PodExample("shopping", 0, "batch"), None, id="a name is no beginning"),
        pytest.param(PodExample("shop", 0, "day"), None, id="another PriorityClass"),
        pytest.param(PodExample("other", 0, "batch"), None, id="another namespace"),
        pytest.param(PodExample("shop", 9500, "batch"), "production", id="the first of two that match"),
    ],
)
def test_a_pod_is_of_the_first_class_whose_conditions_all_hold(pod: PodExample, name: str | None) -> None:
    found = POLICY.class_of(pod)
    assert (found.name if found else None) == name


def test_a_class_without_values_keeps_its_pods_out_of_the_classes_behind_it() -> None:
    wider = load_policy.LoadPolicy.of({"podClasses": [SHOP, {**REST, "match": {}}]})
    assert [one.filter.thresholds["memory_avg_5m"] for one in wider.of_classes] == [0.65, 0.5]
    assert wider.of_classes[0].filter == wider.filter


def test_a_classs_values_replace_the_policys_key_by_key() -> None:
    found = POLICY.of_classes[0]
    assert found.filter.thresholds == {**POLICY.filter.thresholds, **OF_PRODUCTION}
    assert found.score.weights == {**POLICY.score.weights, "cpu_avg_5m": 2.0, "cpu_max_1h": 0.0}
    assert found.pod_classes == ()
    same = {"filter": POLICY.filter, "score": POLICY.score, "pools": POLICY.pools, "pod_classes": POLICY.pod_classes}
    assert found.model_copy(update=same) == POLICY


def test_on_a_node_of_a_pool_the_class_comes_first_and_the_pool_keeps_what_the_class_does_not_name() -> None:
    found = POLICY.of_classes[0].on_node(ON_SPOT)
    assert found.filter.thresholds == {**POLICY.filter.thresholds, "memory_avg_5m": 0.9, **OF_PRODUCTION}
    weights = (found.score.weights["cpu_avg_5m"], found.score.weights["memory_avg_5m"])
    assert (weights, found.score.goal, found.score.target_ratio) == ((2.0, 0.0), "pack", 0.4)


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"goal": "spread"}, ("spread", 0.4)),
        ({"target": 0.7}, ("pack", 0.7)),
        ({"goal": "pack", "target": 0.7}, ("pack", 0.7)),
    ],
)
def test_a_class_may_have_a_goal_of_its_own_before_that_of_the_pool(
    own: dict[str, object], expected: tuple[str, float]
) -> None:
    policy = load_policy.LoadPolicy.of({"podClasses": [{**PRODUCTION, "score": own}], "pools": [SPOT]})
    score = policy.of_classes[0].on_node(ON_SPOT).score
    assert (score.goal, score.target_ratio) == expected


def test_a_pool_that_only_repeats_what_the_class_names_splits_no_score() -> None:
    pool = {**SPOT, "score": {"weights": {"cpu_avg_5m": 3}}}
    policy = load_policy.LoadPolicy.of({"podClasses": [PRODUCTION], "pools": [pool]})
    (left,) = policy.of_classes[0].pools
    assert policy.pools[0].score.differs
    assert not left.score.differs


METRICS = st.sampled_from(["cpu_avg_5m", "cpu_max_1h", "memory_avg_5m"])
MAPS = st.dictionaries(METRICS, st.sampled_from([0.0, 0.3, 0.9]))


@hypothesis.given(thresholds=st.tuples(MAPS, MAPS, MAPS), weights=st.tuples(MAPS, MAPS, MAPS))
def test_it_does_not_matter_whether_pod_or_node_is_asked_about_first(thresholds: Any, weights: Any) -> None:
    whole, in_pool, of_class = (
        {"filter": {"thresholds": limits}, "score": {"weights": weight}}
        for limits, weight in zip(thresholds, weights, strict=True)
    )
    policy = load_policy.LoadPolicy.of(
        {**whole, "pools": [{**SPOT, **in_pool}], "podClasses": [{**PRODUCTION, **of_class}]}
    )
    for labels in (ON_SPOT, {}):
        assert policy.of_classes[0].on_node(labels) == policy.on_node(labels).of_classes[0]


def test_crossing_a_threshold_of_any_class_is_written_at_once_unless_the_node_has_its_own() -> None:
    assert POLICY.crossings()["cpu_avg_5m"] == (0.6, 0.65, 0.8, 0.95)
    assert POLICY.on_node(ON_SPOT).crossings()["cpu_avg_5m"] == (0.6, 0.8, 0.85, 0.95)
    assert POLICY.crossings({"cpu_avg_5m": 0.7})["cpu_avg_5m"] == (0.6, 0.7, 0.8)


def test_a_changed_copy_of_a_policy_changes_its_classes_with_it() -> None:
    assert POLICY.of_classes[0].sync.period_seconds == 30
    slower = POLICY.model_copy(update={"sync": load_policy.Sync.model_validate({"period": "1m"})})
    assert slower.of_classes[0].sync.period_seconds == 60


def test_a_file_with_classes_is_read_back_as_it_was() -> None:
    assert load_policy.LoadPolicy.model_validate(POLICY.as_file()) == POLICY


PRIORITIES = st.sampled_from([{}, {"max": 0}, {"min": 1}, {"min": 0, "max": 2}, {"min": 3}, {"min": 2, "max": 2}])
MATCHES = st.fixed_dictionaries(
    {
        "priority": PRIORITIES,
        "namespaces": st.lists(st.sampled_from(["a", "b", "a*", "ab*", "ab"]), max_size=2),
        "priorityClassNames": st.lists(st.sampled_from(["x", "y"]), max_size=2),
    }
)
ALL_PODS = [
    PodExample(*fields)
    for fields in itertools.product(("a", "b", "ab", "abc", "ac", "other"), range(-1, 5), ("x", "y", ""))
]


@hypothesis.given(matches=st.lists(MATCHES, min_size=1, max_size=5))
def test_a_class_has_pods_exactly_if_trying_all_pods_finds_one(matches: list[dict[str, object]]) -> None:
    classes = [
        pod_classes.PodClass.model_validate({"name": f"c{at}", "match": match}) for at, match in enumerate(matches)
    ]
    reached = {pod_classes.place(classes, pod) for pod in ALL_PODS}
    assert [pod_classes.has_pods(classes, at) for at in range(len(classes))] == [
        at in reached for at in range(len(classes))
    ]
