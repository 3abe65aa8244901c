"""The load expected of nodes from what is expected of their pods' owners."""

import numpy as np
import pytest

from annotator.forecast import expectation, node_forecasts
from annotator.forecast.node_forecasts import PodRows
from annotator.placements import pod_index
from policy import metrics
from policy.contract.load_annotation import Peak
from policy.contract.owner_usage import Mean
from runtime import clock
from tests import builders

HOUR = 490_000
SCHEDULED = clock.from_rfc3339(builders.SCHEDULED)
CPU = metrics.Metric("cpu_forecast_2h", "cpu", metrics.FORECAST, 7200.0, 300.0)
MEMORY = metrics.Metric("memory_forecast_2h", "memory", metrics.FORECAST, 7200.0, 300.0)
ALLOCATABLE = np.array([[8000.0, 2.0**35], [8000.0, 2.0**35]])


def owners(*cpu_by_hour: list[float], error: float = np.nan) -> expectation.Expected:
    """Owners' expected CPU in each hour; nothing is known of their memory."""
    use = np.full((len(cpu_by_hour), 2, 3), np.nan)
    use[:, 0] = cpu_by_hour
    return expectation.Expected(use, np.full((len(cpu_by_hour), 2), error))


def changes(rows: PodRows, expected: expectation.Expected, present: list[float]) -> node_forecasts.Changes:
    now = np.array([[amount, np.nan] for amount in present])
    return node_forecasts.changes(rows, 2, expected, now, HOUR)


def rows(*pods: tuple[int, int, float]) -> PodRows:
    """(node, owner, share that the average shows) of each pod."""
    node, owner, shown = zip(*pods, strict=True) if pods else ((), (), ())
    return PodRows(np.array(node, dtype=np.int64), np.array(owner, dtype=np.int64), np.array(shown, dtype=np.float64))


def test_a_node_is_expected_to_rise_by_what_its_pods_will_use_more() -> None:
    made = changes(rows((0, 0, 1.0), (0, 0, 1.0)), owners([400.0, 800.0, 200.0]), present=[400.0])
    peaks = made.peaks(CPU, np.array([0.30, 0.30]), ALLOCATABLE)
    assert peaks.ratio.tolist() == pytest.approx([0.30 + 2 * 400 / 8000, 0.30])
    assert [int(hour) for hour in peaks.hour] == [HOUR + 1, HOUR]


def test_a_pod_that_the_average_does_not_show_yet_counts_as_far_as_it_does() -> None:
    made = changes(rows((0, 0, 0.25)), owners([400.0, 800.0, 400.0]), present=[400.0])
    assert made.peaks(CPU, np.zeros(2), ALLOCATABLE).ratio[0] == pytest.approx(0.25 * 400 / 8000)


def test_what_is_not_known_stays_as_it_is() -> None:
    made = changes(rows((0, 0, 1.0)), owners([np.nan] * 3), present=[np.nan])
    assert made.peaks(CPU, np.array([0.3, 0.2]), ALLOCATABLE).ratio.tolist() == [0.3, 0.2]
    assert made.peaks(MEMORY, np.array([0.5, np.nan]), ALLOCATABLE).ratio.tolist() == pytest.approx(
        [0.5, np.nan], nan_ok=True
    )


def test_a_metric_looks_no_further_than_its_window() -> None:
    made = changes(rows((0, 0, 1.0)), owners([400.0, 400.0, 8000.0]), present=[400.0])
    near = metrics.Metric("cpu_forecast_1h", "cpu", metrics.FORECAST, 3600.0, 300.0)
    assert made.peaks(near, np.zeros(2), ALLOCATABLE).ratio[0] == 0.0
    assert made.peaks(CPU, np.zeros(2), ALLOCATABLE).ratio[0] == pytest.approx(0.95)


def test_no_load_falls_under_zero_and_a_node_without_the_resource_stays() -> None:
    made = changes(rows((0, 0, 1.0), (1, 0, 1.0)), owners([0.0, 0.0, 0.0]), present=[4000.0])
    none = np.array([[8000.0, 1.0], [0.0, 1.0]])
    assert made.peaks(CPU, np.array([0.1, 0.1]), none).ratio.tolist() == [0.0, 0.1]


def test_replicas_err_together_and_owners_apart() -> None:
    pods = rows((0, 0, 1.0), (0, 0, 1.0), (0, 1, 1.0))
    made = changes(pods, owners([1.0] * 3, [1.0] * 3, error=300.0), present=[1.0, 1.0])
    peaks = made.peaks(CPU, np.zeros(2), ALLOCATABLE)
    assert peaks.of(0).error_ratio == pytest.approx(np.hypot(600.0, 300.0) / 8000)
    assert peaks.of(1) == Peak(HOUR * 3600.0, None)


def test_pods_without_an_owner_on_no_node_or_on_one_that_is_not_there_do_not_count() -> None:
    pods = pod_index.PodIndex()
    made = [
        builders.lean_pod("a", node="node-1"),
        builders.lean_pod("b", node="node-1", owner=None),
        builders.lean_pod("c", node="gone"),
        builders.lean_pod("d"),
    ]
    pods.follow({pod.key: pod for pod in made})
    found = node_forecasts.pod_rows(pods, ["node-0", "node-1"], window_seconds=300.0, now_seconds=SCHEDULED + 150)
    assert found.node.tolist() == [1]
    assert pods.owners[int(found.owner[0])] == "default/ReplicaSet/web"
    assert found.shown_ratio.tolist() == [0.5]


def test_a_pod_that_started_late_is_in_the_average_since_then() -> None:
    since = {"startedAt": clock.to_rfc3339(SCHEDULED + 600)}

    def late(body: builders.Body) -> None:
        body["status"]["containerStatuses"] = [{"restartCount": 0, "state": {"running": since}}]

    pods = pod_index.PodIndex()
    pods.follow({"default/a": builders.lean_pod("a", node="node-0", mutate=late)})
    found = node_forecasts.pod_rows(pods, ["node-0"], window_seconds=300.0, now_seconds=SCHEDULED + 675)
    assert found.shown_ratio.tolist() == [0.25]


def test_the_present_use_of_an_owner_without_a_mean_is_not_known() -> None:
    found = node_forecasts.present_use(["a", "b"], {"b": Mean(100.0, None, 3)})
    assert np.isnan(found).tolist() == [[True, True], [False, True]]


def test_a_forecast_looks_a_day_ahead_at_most() -> None:
    assert node_forecasts.hours_ahead(CPU) == 2
    assert node_forecasts.hours_ahead(metrics.Metric("far", "cpu", metrics.FORECAST, 1e6, 300.0)) == 24
