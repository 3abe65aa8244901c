"""crane's policy becomes ours: what has an equal is converted, everything else is named."""

import pathlib
from typing import Any

import pytest

from policy.imports import converting, crane
from policy.loading import loader
from policy.schema import load_policy

PRESET = pathlib.Path(__file__).parents[3] / "deploy" / "policies" / "crane.yaml"
PERIODS = {"avg_5m": "3m", "max_avg_1h": "15m", "max_avg_1d": "3h"}
# What crane does, where our default is another.
WAITS = {"whenAllRejected": "pending"}
ONE_MEAN = {"combine": "mean", "spread": "none", "incomingPod": False}


def crane_default() -> dict[str, Any]:
    """The values of the policy that crane-scheduler ships."""
    names = [(f"{resource}_usage_{window}", window) for resource in ("cpu", "mem") for window in PERIODS]
    limits = {"avg_5m": 0.65, "max_avg_1h": 0.75}
    weights = {"avg_5m": 0.2, "max_avg_1h": 0.3, "max_avg_1d": 0.5}
    return {
        "apiVersion": crane.API_VERSION,
        "kind": crane.KIND,
        "spec": {
            "syncPolicy": [{"name": name, "period": PERIODS[window]} for name, window in names],
            "predicate": [
                {"name": name, "maxLimitPecent": limits[window]} for name, window in names if window in limits
            ],
            "priority": [{"name": name, "weight": weights[window]} for name, window in names],
            "hotValue": [{"timeRange": "5m", "count": 5}, {"timeRange": "1m", "count": 2}],
        },
    }


def imported(**spec: object) -> converting.ImportedPolicy:
    """What becomes of crane's default policy with some lists of its spec replaced."""
    tree = crane_default()
    return crane.convert(tree | {"spec": tree["spec"] | spec})


def remarks(import_result: converting.ImportedPolicy) -> dict[str, str]:
    """The remarks by path, without the one about periods."""
    return {remark.path: remark.message for remark in import_result.remarks if remark.path != "spec.syncPolicy"}


def wrong(tree: object) -> dict[str, str]:
    """What is wrong with a tree, by path."""
    with pytest.raises(converting.ImportRefused) as error:
        crane.convert(tree)
    return {problem.path: problem.message for problem in error.value.problems}


def test_cranes_own_policy_becomes_the_crane_preset() -> None:
    preset = loader.load(PRESET.read_text(), "crane.yaml")
    assert load_policy.LoadPolicy.of(imported().sections).as_file() == preset.as_file()


def test_cranes_own_policy_has_no_equal_only_for_its_many_periods() -> None:
    import_result = imported()
    assert [remark.path for remark in import_result.remarks] == ["spec.syncPolicy"]
    assert "all are read every 3m" in import_result.remarks[0].message


def test_a_value_is_used_for_its_period_and_five_minutes_but_never_less_than_two_periods() -> None:
    one_hour = [{"name": "cpu_usage_avg_5m", "period": "1h0m0s"}]
    assert imported().sections["sync"] == {"period": "3m", "staleAfter": "8m"}
    assert imported(syncPolicy=one_hour).sections["sync"] == {"period": "1h", "staleAfter": "2h"}


def test_a_limit_of_0_is_off_and_the_lowest_of_several_holds() -> None:
    rows = [
        {"name": "cpu_usage_avg_5m", "maxLimitPecent": 0},
        {"name": "mem_usage_avg_5m", "maxLimitPecent": 0.8},
        {"name": "mem_usage_avg_5m", "maxLimitPecent": 0.7},
    ]
    assert imported(predicate=rows).sections["filter"] == {"thresholds": {"memory_avg_5m": 0.7}, **WAITS}


def test_a_limit_in_percent_could_never_hold_and_is_left_out() -> None:
    import_result = imported(predicate=[{"name": "cpu_usage_avg_5m", "maxLimitPecent": 65}])
    assert import_result.sections["filter"] == {"thresholds": {}, **WAITS}
    assert remarks(import_result) == {
        "spec.predicate[0]": "65 is over 1, the full node: the rule could never hold and is left out"
    }


def test_a_metric_that_is_no_share_of_cpu_or_memory_is_left_out_by_name() -> None:
    import_result = imported(predicate=[{"name": "load1_usage_avg_3m", "maxLimitPecent": 0.5}])
    assert import_result.sections["filter"] == {"thresholds": {}, **WAITS}
    assert '"load1_usage_avg_3m" has no equal' in remarks(import_result)["spec.predicate[0]"]


def test_another_window_becomes_an_extra_metric_once() -> None:
    name = "mem_usage_max_avg_2d"
    import_result = imported(
        syncPolicy=[{"name": name, "period": "3m"}],
        predicate=[{"name": name, "maxLimitPecent": 0.5}],
        priority=[{"name": name, "weight": 1}],
    )
    extra = {"name": "memory_max_2d", "resource": "memory", "statistic": "max", "window": "48h"}
    assert import_result.sections["metrics"] == [extra]
    assert import_result.sections["filter"] == {"thresholds": {"memory_max_2d": 0.5}, **WAITS}
    assert import_result.sections["score"] == {"weights": {"memory_max_2d": 1}, **ONE_MEAN}
    assert list(remarks(import_result)) == ["spec.predicate[0]"]


def test_a_rule_without_a_sync_period_is_said_to_have_been_dead() -> None:
    import_result = imported(syncPolicy=[{"name": "cpu_usage_avg_5m", "period": "3m"}])
    assert "never applied this" in remarks(import_result)["spec.predicate[1]"]


def test_weights_of_one_metric_add_up() -> None:
    rows = [{"name": "cpu_usage_avg_5m", "weight": 0.1}, {"name": "cpu_usage_avg_5m", "weight": 0.2}]
    assert imported(priority=rows).sections["score"] == {"weights": {"cpu_avg_5m": 0.3}, **ONE_MEAN}


def test_without_weights_ours_hold_and_it_says_so() -> None:
    import_result = imported(priority=[])
    assert "score" not in import_result.sections
    assert "default weights hold" in remarks(import_result)["spec.priority"]


def test_no_hot_values_are_no_hot_spots() -> None:
    assert imported(hotValue=None).sections["hotSpots"] == []


def test_of_two_penalties_for_one_time_range_the_lower_count_is_kept() -> None:
    rows = [{"timeRange": "5m", "count": 5}, {"timeRange": "300s", "count": 3}]
    import_result = imported(hotValue=rows)
    assert import_result.sections["hotSpots"] == [{"window": "5m", "pods": 3, "penalty": 1}]
    assert list(remarks(import_result)) == ["spec.hotValue[1]"]


def test_a_penalty_without_a_time_range_is_left_out_and_named() -> None:
    import_result = imported(hotValue=[{"count": 5}])
    assert import_result.sections["hotSpots"] == []
    assert list(remarks(import_result)) == ["spec.hotValue[0]"]


def test_a_key_that_crane_does_not_read_is_named_with_the_one_that_was_meant() -> None:
    import_result = imported(predicate=[{"name": "cpu_usage_avg_5m", "maxLimitPercent": 0.5}])
    assert 'did you mean "maxLimitPecent"' in remarks(import_result)["spec.predicate[0].maxLimitPercent"]


@pytest.mark.parametrize("tree", [None, [], "text", 3], ids=repr)
def test_what_is_no_mapping_is_refused(tree: object) -> None:
    assert list(wrong(tree)) == ["file"]


def test_another_kind_is_refused_by_what_was_expected() -> None:
    import_result = wrong(crane_default() | {"kind": "LoadPolicy", "apiVersion": "evenload.io/v1alpha1"})
    assert import_result == {
        "apiVersion": 'scheduler.policy.crane.io/v1alpha1 expected, got "evenload.io/v1alpha1"',
        "kind": 'DynamicSchedulerPolicy expected, got "LoadPolicy"',
    }


def test_everything_wrong_is_said_at_once() -> None:
    tree = crane_default()
    tree["spec"] |= {
        "syncPolicy": [{"name": "cpu_usage_avg_5m", "period": 3}],
        "predicate": [{"name": "cpu_usage_avg_5m", "maxLimitPecent": "65%"}, "cpu"],
        "priority": {"cpu_usage_avg_5m": 1},
        "hotValue": [{"timeRange": "5m", "count": 0}, {"timeRange": "5m", "count": True}],
    }
    assert list(wrong(tree)) == [
        "spec.predicate[1]",
        "spec.priority",
        "spec.syncPolicy[0].period",
        "spec.predicate[0].maxLimitPecent",
        "spec.hotValue[0].count",
        "spec.hotValue[1].count",
    ]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, True, [1]], ids=repr)
def test_a_weight_that_is_no_weight_is_refused(value: object) -> None:
    tree = crane_default()
    tree["spec"]["priority"] = [{"name": "cpu_usage_avg_5m", "weight": value}]
    assert list(wrong(tree)) == ["spec.priority[0].weight"]
