"""The built-in metrics, and how a policy's own join them."""

from policy import metrics


def test_the_six_built_in_metrics_keep_their_public_names_and_order() -> None:
    assert metrics.names(metrics.BUILT_IN) == (
        "cpu_avg_5m",
        "cpu_max_1h",
        "cpu_max_1d",
        "memory_avg_5m",
        "memory_max_1h",
        "memory_max_1d",
    )


def test_every_built_in_metric_rests_on_five_minute_averages() -> None:
    assert {metric.averaging_seconds for metric in metrics.BUILT_IN} == {300.0}
    assert [metric.window_seconds for metric in metrics.BUILT_IN] == [300.0, 3600.0, 86400.0] * 2


def test_an_overriding_entry_takes_the_place_of_the_built_in_one() -> None:
    short = metrics.Metric("cpu_avg_5m", "cpu", "avg", 20.0, 20.0)
    merged = metrics.in_force([short])
    assert merged[0] == short
    assert metrics.names(merged) == metrics.names(metrics.BUILT_IN)


def test_an_overridden_average_sets_the_averaging_window_of_its_resource_only() -> None:
    merged = {
        metric.name: metric for metric in metrics.in_force([metrics.Metric("cpu_avg_5m", "cpu", "avg", 20.0, 20.0)])
    }
    assert merged["cpu_max_1h"].averaging_seconds == 20.0
    assert merged["cpu_max_1d"].averaging_seconds == 20.0
    assert merged["memory_max_1h"].averaging_seconds == 300.0


def test_new_metrics_follow_in_their_order_and_averages_keep_their_own_window() -> None:
    extra = [
        metrics.Metric("memory_p95_30m", "memory", "p95", 1800.0, 1800.0),
        metrics.Metric("cpu_avg_1h", "cpu", "avg", 3600.0, 3600.0),
    ]
    merged = metrics.in_force(extra)
    assert metrics.names(merged[6:]) == ("memory_p95_30m", "cpu_avg_1h")
    assert [metric.averaging_seconds for metric in merged[6:]] == [300.0, 3600.0]
