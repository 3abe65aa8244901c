"""Recording rules that compute the node windows inside Prometheus: cheap on fleets where subqueries are not.

`evenload recording-rules` prints them, deploy/monitoring holds its output for the six built-in windows, and a policy
names them as the `query` of its metrics. The average is the text of `node_queries` itself, so no formula exists twice.
A maximum is taken over what was recorded; a long one over the next shorter maximum, not over every average again:

    max over w = max over (w - s) of the maxima over s      for s the longest shorter window, in steps of at most s

With the shipped windows that is 277 samples per node for the day instead of 288 evaluations of a 5m rate over every
CPU. Each rule ends in `and <the average>`, so a node whose exporter died leaves with its average. Rules know only what
was recorded since they were loaded: docs/reference/promql.md says how to back-fill.
"""

from collections.abc import Mapping
from typing import Any

from promql.queries import node_queries
from promql.queries.node_queries import Window

PREFIX = "evenload:"
LONGEST_AVERAGE_INTERVAL_SECONDS = 30.0
LONGEST_INTERVAL_SECONDS = 120.0  # a recorded sample must not be older than Prometheus looks back (5m), late ones too
AVERAGES_PER_WINDOW = 10
MAXIMA_PER_WINDOW = 60


def record(metric: str) -> str:
    """The recorded series of a metric: evenload:cpu_avg_5m."""
    return PREFIX + metric


def document(windows: Mapping[str, Window], *, selector: str = "") -> dict[str, list[dict[str, Any]]]:
    """The rules of these windows by metric name, grouped by interval, the quickest first: as a Prometheus rule file, or
    the `spec` of a PrometheusRule, says them.

    `selector` is further matchers for node-exporter's series, and for what is recorded of them, which keeps their
    labels: rules of several clusters in one ruler do not take each other's series. ValueError for a resource or
    statistic that is unknown.
    """
    by_interval: dict[float, list[dict[str, str]]] = {}
    for name, window in windows.items():
        rule = {"record": record(name), "expr": _expression(window, windows, selector)}
        by_interval.setdefault(_interval_seconds(window), []).append(rule)
    named = ((node_queries.duration(seconds), by_interval[seconds]) for seconds in sorted(by_interval))
    return {"groups": [{"name": f"evenload-{every}", "interval": every, "rules": rules} for every, rules in named]}


def _expression(window: Window, windows: Mapping[str, Window], selector: str) -> str:
    behind, braces = _average_behind(window, windows), f"{{{selector}}}" if selector else ""
    if window.statistic == "avg" or behind is None:
        return node_queries.expression(window, selector=selector)
    shorter = _shorter_maximum(window, windows)
    if shorter is None:
        over = f"{record(behind)}{braces}[{node_queries.duration(window.window_seconds)}]"
    else:
        name, span_seconds = shorter
        rest, step = window.window_seconds - span_seconds, min(span_seconds, node_queries.step_seconds(window))
        over = f"{record(name)}{braces}[{node_queries.duration(rest)}:{node_queries.duration(step)}]"
    return f"{node_queries.over_time(window.statistic, over)} and {record(behind)}{braces}"


def _average_behind(window: Window, windows: Mapping[str, Window]) -> str | None:
    """The recorded average that a maximum or percentile is taken over; None when it is not among the rules."""
    wanted = Window(window.resource, "avg", window.averaging_seconds, window.averaging_seconds)
    return next((name for name, other in windows.items() if other == wanted), None)


def _shorter_maximum(window: Window, windows: Mapping[str, Window]) -> tuple[str, float] | None:
    """The longest shorter maximum of the same averages, with its span; None for other statistics, or without one."""
    if window.statistic != "max":
        return None
    shorter = {
        other.window_seconds: name
        for name, other in windows.items()
        if other == window._replace(window_seconds=other.window_seconds)
        and other.window_seconds < window.window_seconds
    }
    return (shorter[max(shorter)], max(shorter)) if shorter else None


def _interval_seconds(window: Window) -> float:
    if window.statistic == "avg":
        return min(LONGEST_AVERAGE_INTERVAL_SECONDS, window.window_seconds / AVERAGES_PER_WINDOW)
    return min(LONGEST_INTERVAL_SECONDS, window.window_seconds / MAXIMA_PER_WINDOW)
