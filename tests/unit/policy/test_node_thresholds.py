"""A node's own thresholds: what is read, and what is left out and why."""

import pytest

from policy.contract import node_thresholds

IN_FORCE = ("cpu_avg_5m", "memory_avg_5m")


def test_a_node_without_the_annotation_has_none_of_its_own() -> None:
    assert node_thresholds.decode(None) is None


def test_values_are_written_as_in_the_policy_file() -> None:
    own = node_thresholds.decode('{"cpu_avg_5m": 0.9, "memory_avg_5m": "80%", "cpu_max_1h": 0}')
    assert own == node_thresholds.Own({"cpu_avg_5m": 0.9, "memory_avg_5m": 0.8, "cpu_max_1h": 0.0})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '{"cpu_avg_5m": 65}', 'cpu_avg_5m: 65 is not a ratio from 0 to 1; did you mean "65%"', id="percent"
        ),
        pytest.param('{"cpu_avg_5m": NaN}', 'cpu_avg_5m: a ratio such as 0.65 or "65%" expected, got nan', id="NaN"),
        pytest.param('{"cpu_avg_5m": true}', 'cpu_avg_5m: a ratio such as 0.65 or "65%" expected, got true', id="flag"),
        pytest.param('{"CPU": 0.5}', "'CPU': no name of a metric", id="no metric's name"),
        pytest.param('{"cpu_avg_5m": 0.5, "cpu_avg_5m": 0.9}', "no JSON: a metric is named twice", id="named twice"),
        pytest.param("cpu_avg_5m=0.9", "no JSON: Expecting value: line 1 column 1 (char 0)", id="no JSON"),
        pytest.param("[]", 'a JSON object of at most 64 metrics such as {"cpu_avg_5m": 0.9} expected', id="a list"),
        pytest.param(
            r'{"cpu_avg_5m": "\ud800"}',
            'cpu_avg_5m: a ratio such as 0.65 or "65%" expected, got "\\ud800"',
            id="half a surrogate pair",
        ),
        pytest.param("x" * 5000, "longer than 4096 characters", id="too long"),
    ],
)
def test_what_cannot_be_read_is_left_out_with_its_reason(text: str, problem: str) -> None:
    assert node_thresholds.decode(text) == node_thresholds.Own({}, (problem,))


def test_one_bad_value_does_not_cost_the_others() -> None:
    own = node_thresholds.decode('{"cpu_avg_5m": 65, "memory_avg_5m": 0.5}')
    assert own is not None
    assert own.limits == {"memory_avg_5m": 0.5}


def test_a_metric_the_policy_does_not_have_is_named_when_it_is_asked_for() -> None:
    own = node_thresholds.decode('{"cpu_avg_5m": 0.9, "disk_busy": 0.5, "memory_avg_5m": 2}')
    assert own is not None
    assert own.ignored(IN_FORCE) == (
        "memory_avg_5m: 2 is out of range: a ratio from 0 to 1 expected; disk_busy: no metric of this name"
    )
    assert node_thresholds.Own({"cpu_avg_5m": 0.9}).ignored(IN_FORCE) == ""


@pytest.mark.parametrize("text", ["[" * 4000, '{"a":' * 800, '{"cpu_avg_5m":' + "[" * 900 + "]" * 900 + "}"])
def test_deep_nesting_is_a_reason_like_any_other(text: str) -> None:
    own = node_thresholds.decode(text)
    assert own is not None
    assert own.problems
