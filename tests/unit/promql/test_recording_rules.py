"""Recording rules: averages are the queries' own text, maxima rest on what was recorded."""

import pytest

from promql.queries import node_queries, recording_rules
from promql.queries.node_queries import Window

MINUTES, HOUR, DAY = 300.0, 3600.0, 86400.0
SHIPPED = {
    "cpu_avg_5m": Window("cpu", "avg", MINUTES, MINUTES),
    "cpu_max_1h": Window("cpu", "max", HOUR, MINUTES),
    "cpu_max_1d": Window("cpu", "max", DAY, MINUTES),
    "memory_avg_5m": Window("memory", "avg", MINUTES, MINUTES),
}
LOOKBACK_SECONDS = 300.0  # Prometheus' --query.lookback-delta


def expressions(windows: dict[str, Window], **options: str) -> dict[str, str]:
    """Every rule's expression by what it records."""
    made = recording_rules.document(windows, **options)["groups"]
    return {rule["record"]: rule["expr"] for group in made for rule in group["rules"]}


@pytest.mark.parametrize("selector", ["", 'job="node-exporter"'])
def test_an_average_is_recorded_by_the_query_itself(selector: str) -> None:
    made = expressions(SHIPPED, selector=selector)
    for name in ("cpu_avg_5m", "memory_avg_5m"):
        assert made[f"evenload:{name}"] == node_queries.expression(SHIPPED[name], selector=selector)


def test_a_maximum_is_taken_over_the_recorded_averages() -> None:
    assert expressions(SHIPPED)["evenload:cpu_max_1h"] == (
        "max_over_time(evenload:cpu_avg_5m[3600s]) and evenload:cpu_avg_5m"
    )


def test_rules_of_one_cluster_look_at_nothing_that_was_recorded_of_another() -> None:
    made = expressions(SHIPPED, selector='cluster="a"')
    assert made["evenload:cpu_max_1d"] == (
        'max_over_time(evenload:cpu_max_1h{cluster="a"}[82800s:300s]) and evenload:cpu_avg_5m{cluster="a"}'
    )


def test_the_day_is_taken_over_the_hours_so_that_together_they_cover_it() -> None:
    assert expressions(SHIPPED)["evenload:cpu_max_1d"] == (
        "max_over_time(evenload:cpu_max_1h[82800s:300s]) and evenload:cpu_avg_5m"
    )


def test_steps_leave_no_gap_between_the_shorter_maxima() -> None:
    windows = {
        "average": Window("cpu", "avg", 10.0, 10.0),
        "short": Window("cpu", "max", 20.0, 10.0),
        "long": Window("cpu", "max", 100 * DAY, 10.0),
    }
    assert "[8639980s:20s]" in expressions(windows)["evenload:long"]


def test_a_percentile_is_taken_over_the_averages_whatever_maxima_there_are() -> None:
    made = expressions(SHIPPED | {"cpu_p95_1d": Window("cpu", "p95", DAY, MINUTES)})
    assert made["evenload:cpu_p95_1d"] == (
        "quantile_over_time(0.95, evenload:cpu_avg_5m[86400s]) and evenload:cpu_avg_5m"
    )


def test_a_maximum_whose_average_is_not_recorded_is_computed_whole() -> None:
    alone = {"cpu_max_1h": SHIPPED["cpu_max_1h"]}
    assert expressions(alone)["evenload:cpu_max_1h"] == node_queries.expression(alone["cpu_max_1h"])


def test_resources_do_not_mix() -> None:
    made = expressions({"cpu_avg_5m": SHIPPED["cpu_avg_5m"], "memory_max_1h": Window("memory", "max", HOUR, MINUTES)})
    assert "cpu" not in made["evenload:memory_max_1h"]


def test_groups_are_evaluated_often_enough_to_be_seen() -> None:
    made = recording_rules.document(SHIPPED | {"month": Window("cpu", "max", 30 * DAY, MINUTES)})["groups"]
    assert [group["interval"] for group in made] == ["30s", "60s", "120s"]
    assert LOOKBACK_SECONDS / 2 > recording_rules.LONGEST_INTERVAL_SECONDS == 120


def test_the_document_is_what_prometheus_reads() -> None:
    windows = {"cpu_avg_5m": SHIPPED["cpu_avg_5m"]}
    rule = {"record": "evenload:cpu_avg_5m", "expr": node_queries.expression(windows["cpu_avg_5m"])}
    written = {"name": "evenload-30s", "interval": "30s", "rules": [rule]}
    assert recording_rules.document(windows) == {"groups": [written]}


def test_an_unknown_statistic_is_refused() -> None:
    with pytest.raises(ValueError, match="statistic 'median'"):
        recording_rules.document(SHIPPED | {"odd": Window("cpu", "median", HOUR, MINUTES)})
