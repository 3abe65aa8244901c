"""Pools: which node belongs to which, and what the policy is on a node."""

import pytest

from policy.schema import load_policy, node_pools

SPOT = {
    "name": "spot",
    "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
    "filter": {"thresholds": {"cpu_avg_5m": 0.85, "cpu_max_1h": 0, "cpu_max_1d": 0.9}},
}
LARGE = {"name": "large", "nodeSelector": {"matchExpressions": [{"key": "large", "operator": "Exists"}]}}
REST = {"name": "rest", "nodeSelector": {}, "filter": {"thresholds": {"memory_avg_5m": 0.5}}}
POLICY = load_policy.LoadPolicy.of({"pools": [SPOT, LARGE, REST]})


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        pytest.param({"lifecycle": "spot"}, "spot", id="one matches"),
        pytest.param({"lifecycle": "spot", "large": ""}, "spot", id="the first of two that match"),
        pytest.param({"lifecycle": "on-demand", "large": ""}, "large", id="another value"),
        pytest.param({}, "rest", id="the empty selector matches every node"),
    ],
)
def test_a_node_belongs_to_the_first_pool_that_matches_its_labels(labels: dict[str, str], name: str) -> None:
    pool = POLICY.pool_of(labels)
    assert pool is not None
    assert pool.name == name
    assert POLICY.pools[node_pools.place(POLICY.pools, labels)] is pool


def test_a_node_that_no_pool_matches_has_the_policy_itself() -> None:
    policy = load_policy.LoadPolicy.of({"pools": [SPOT]})
    assert policy.pool_of({"lifecycle": "on-demand"}) is None
    assert policy.on_node({"lifecycle": "on-demand"}) is policy
    assert load_policy.defaults().on_node({"lifecycle": "spot"}) == load_policy.defaults()


def test_a_pools_values_replace_the_policys_key_by_key() -> None:
    on_spot = POLICY.on_node({"lifecycle": "spot"})
    own = {"cpu_avg_5m": 0.85, "cpu_max_1h": 0.0, "cpu_max_1d": 0.9}
    assert on_spot.filter.thresholds == {**POLICY.filter.thresholds, **own}
    assert on_spot.filter.exempt == POLICY.filter.exempt
    assert on_spot.pools == ()
    assert on_spot.model_copy(update={"filter": POLICY.filter, "pools": POLICY.pools}) == POLICY


def test_a_pools_weights_replace_the_policys_key_by_key() -> None:
    spot = {"name": "spot", "nodeSelector": {}, "score": {"weights": {"cpu_avg_5m": 2, "cpu_max_1d": 0}}}
    policy = load_policy.LoadPolicy.of({"pools": [spot]})
    on_spot = policy.on_node({}).score
    assert on_spot.weights == {**policy.score.weights, "cpu_avg_5m": 2.0, "cpu_max_1d": 0.0}
    assert on_spot.model_copy(update={"weights": policy.score.weights}) == policy.score


@pytest.mark.parametrize(
    ("whole", "own", "expected"),
    [
        pytest.param({}, {"goal": "pack"}, ("pack", 0.5), id="a goal of its own"),
        pytest.param({"goal": "pack", "target": 0.6}, {"target": 0.4}, ("pack", 0.4), id="a target of its own"),
        pytest.param({"goal": "pack", "target": 0.6}, {"goal": "spread"}, ("spread", 0.6), id="spread in one pool"),
        pytest.param({"goal": "pack", "target": 0.6}, {}, ("pack", 0.6), id="the policy's"),
    ],
)
def test_a_pool_may_have_a_goal_of_its_own(
    whole: dict[str, object], own: dict[str, object], expected: tuple[str, float]
) -> None:
    policy = load_policy.LoadPolicy.of({"score": whole, "pools": [{"name": "p", "nodeSelector": {}, "score": own}]})
    on_pool = policy.on_node({}).score
    assert (on_pool.goal, on_pool.target_ratio) == expected
    assert on_pool.weights == policy.score.weights


def test_a_pools_relief_replaces_the_policys_key_by_key_but_for_caps_on_all_its_nodes() -> None:
    relief = {
        "mode": "Enforce",
        "thresholds": {"cpu_avg_5m": {"evictAbove": 0.95, "evictUntil": 0.7}},
        "limits": {"perRun": 1, "perHour": 2, "perNode": 3},
    }
    spot = {"name": "spot", "nodeSelector": {}, "descheduler": relief}
    policy = load_policy.LoadPolicy.of({"pools": [spot]})
    own, on_spot = policy.descheduler, policy.on_node({}).descheduler
    assert (own.mode, on_spot.mode, policy.evicts, load_policy.defaults().evicts) == ("Observe", "Enforce", True, False)
    lines = {name: (one.evict_above_ratio, one.evict_until_ratio) for name, one in on_spot.thresholds.items()}
    assert list(lines.items()) == [("memory_avg_5m", (0.8, 0.6)), ("cpu_avg_5m", (0.95, 0.7))]
    assert on_spot.limits == own.limits.model_copy(update={"per_node": 3})
    assert on_spot.model_copy(update={"mode": own.mode, "thresholds": own.thresholds, "limits": own.limits}) == own


def test_a_pool_without_values_keeps_its_nodes_out_of_the_pools_behind_it() -> None:
    assert POLICY.on_node({"large": ""}).filter == POLICY.filter


def test_what_crosses_a_pools_threshold_is_written_at_once_unless_the_node_has_its_own() -> None:
    on_spot = POLICY.on_node({"lifecycle": "spot"})
    assert on_spot.crossings()["cpu_avg_5m"] == (0.6, 0.8, 0.85)
    assert on_spot.crossings({"cpu_avg_5m": 0.7})["cpu_avg_5m"] == (0.6, 0.7, 0.8)


def test_a_changed_copy_of_a_policy_changes_its_pools_with_it() -> None:
    assert POLICY.on_node({}).sync.period_seconds == 30
    slower = POLICY.model_copy(update={"sync": load_policy.Sync.model_validate({"period": "1m"})})
    assert slower.on_node({}).sync.period_seconds == 60


def test_a_file_with_pools_is_read_back_as_it_was() -> None:
    assert load_policy.LoadPolicy.model_validate(POLICY.as_file()) == POLICY
