"""What an eviction is expected to leave on its node: as far as each window can show it by then."""

import pytest

from descheduler import predictions
from descheduler.predictions import Expected
from policy.schema import LoadPolicy
from tests.unit.descheduler import scenes

HOUR_AVERAGE = {"name": "cpu_avg_1h", "resource": "cpu", "statistic": "avg", "window": "1h"}
POLICY = LoadPolicy.of({"metrics": [HOUR_AVERAGE]})


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        pytest.param("cpu_avg_5m", (0.6, 0.6), id="five minutes later a five-minute average has forgotten the pod"),
        pytest.param("cpu_avg_1h", (0.6 + 0.3 * 55 / 60, 0.75), id="an hour's average forgets it in an hour"),
        pytest.param("cpu_max_1h", (None, None), id="an hour's maximum shows nothing of it within half an hour"),
    ],
)
def test_the_expected_load_is_what_the_window_can_show(
    metric: str, expected: tuple[float | None, float | None]
) -> None:
    assert predictions.expected(POLICY, metric, value_ratio=0.9, projected_ratio=0.6) == pytest.approx(expected)


def test_no_node_is_expected_under_nothing() -> None:
    found = predictions.expected(POLICY, "cpu_avg_5m", value_ratio=0.1, projected_ratio=-0.05)
    assert found == Expected(0.0, 0.0)


def test_every_eviction_of_a_plan_carries_its_prediction() -> None:
    scene = scenes.hot_and_cool()
    (chosen,) = scene.plan().evictions
    assert chosen.expected == pytest.approx((0.775, 0.775)), "90 % without a pod of 4 of 32 GiB"
