"""Recognises an expression by building the services' own ones, with the durations that it holds.

No parser of PromQL: `Book.meaning` tries the functions of `promql.queries.node_queries` and
`promql.queries.pod_queries` and compares texts, once for each text. So a change of a query there is either understood
here or refused, never misread.
"""

import enum
import itertools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from policy import metrics as load_metrics
from policy.schema.load_policy import LoadPolicy
from promql import errors
from promql.queries import node_queries, pod_queries
from promql.queries.node_queries import Window


class Subject(enum.Enum):
    """The subject of a question that is no `Window`, by the function that builds its text."""

    NODE_TIME = enum.auto()  # node_queries.data_time
    SCRAPES = enum.auto()  # node_queries.scrapes
    KNOWN_SHARE = enum.auto()  # node_queries.known_share
    POD_MEAN = enum.auto()  # pod_queries.cpu_cores or memory_bytes
    POD_TIME = enum.auto()  # pod_queries.data_time
    NOTHING = enum.auto()  # the policy's own, of what is not played: its author's statistic, another resource


class Question(NamedTuple):
    """A subject, and where its text has them the resource and a duration."""

    subject: Subject
    resource: str = ""
    seconds: float = 0.0


NOTHING = Question(Subject.NOTHING)
SHORTEST_SECONDS = 0.001  # that PromQL can say
_DURATION = re.compile(r"([0-9]+)(ms|s)\b")
_QUANTILE = re.compile(r"quantile_over_time\((0\.[0-9]+), ")
_PER_SECOND = {"s": 1, "ms": 1000}
_PODS_MEAN = {load_metrics.CPU: pod_queries.cpu_cores, load_metrics.MEMORY: pod_queries.memory_bytes}


def own(policy: LoadPolicy) -> dict[str, Window | Question]:
    """The policy's own `query` texts, each taken for what its metric says it measures, the recording rules' among them.

    What such a query really measures is unknown without its Prometheus. One of a statistic that only its author knows,
    or of another resource than CPU and memory, has no series.
    """
    own_queries = ((metric.query, metric) for metric in policy.metrics_in_force)
    return {text: window(metric) or NOTHING for text, metric in own_queries if text is not None}


def window(metric: load_metrics.Metric) -> Window | None:
    """Returns the window that a metric measures; None for a query of the user's own, or of a resource of the user's."""
    if metric.resource not in load_metrics.RESOURCES or not _is_built(metric.statistic):
        return None
    return Window(metric.resource, metric.statistic, metric.window_seconds, metric.averaging_seconds)


def unknown(policy: LoadPolicy) -> tuple[str, ...]:
    """The names of the metrics that have no readings here: own queries of which no window is known."""
    return tuple(
        metric.name for metric in policy.metrics_in_force if metric.query is not None and window(metric) is None
    )


def _is_built(statistic: str) -> bool:
    try:
        return statistic == load_metrics.AVERAGE or bool(node_queries.over_time(statistic, ""))
    except ValueError:
        return False


class Book:
    """Meanings by text; `own` are further texts and what they mean."""

    def __init__(self, own: Mapping[str, Window | Question] | None = None) -> None:
        self._meanings = dict(own or {})

    def meaning(self, expression: str) -> Window | Question:
        """Returns the parsed question; BadQuery for an expression that no service builds."""
        meaning = self._meanings.get(expression)
        if meaning is None:
            meaning = next((question for question, text in self._candidates(expression) if text == expression), None)
            if meaning is None:
                raise errors.BadQuery(_unknown(expression))
            self._meanings[expression] = meaning
        return meaning

    def _candidates(self, expression: str) -> Iterator[tuple[Window | Question, str]]:
        seconds = {int(digits) / _PER_SECOND[unit] for digits, unit in _DURATION.findall(expression)} - {0.0}
        for resource in load_metrics.RESOURCES:
            yield Question(Subject.NODE_TIME, resource), node_queries.data_time(resource)
            yield Question(Subject.POD_TIME, resource), pod_queries.data_time(resource)
            for span in seconds:
                yield Question(Subject.POD_MEAN, resource, span), _PODS_MEAN[resource](span)
                text = node_queries.scrapes(resource, span)
                yield Question(Subject.SCRAPES, seconds=span), text
        for span in seconds:
            yield Question(Subject.KNOWN_SHARE, seconds=span), node_queries.known_share(span)
        for window in _windows(expression, seconds):
            yield window, node_queries.expression(window)


def _windows(expression: str, seconds: set[float]) -> Iterator[Window]:
    for resource in load_metrics.RESOURCES:
        for span in seconds:
            yield Window(resource, load_metrics.AVERAGE, span, span)
        for statistic, span, averaging in itertools.product(_statistics(expression), seconds, seconds):
            window = Window(resource, statistic, span, averaging)
            if node_queries.step_seconds(window) >= SHORTEST_SECONDS:
                yield window


def _statistics(expression: str) -> list[str]:
    """The maximum, and the percentile that the text names: 0.5 is p50, 0.05 is p5, 0.999 is p999."""
    match = _QUANTILE.search(expression)
    digits = match[1].removeprefix("0.") if match else ""
    percentiles = (
        [f"p{digits.lstrip('0')}" if digits.startswith("0") else f"p{digits:0<2}"] if digits.strip("0") else []
    )
    return [load_metrics.MAXIMUM, *percentiles]


def _unknown(expression: str) -> str:
    text = " ".join(expression.split())
    return (
        f"the simulated Prometheus does not know `{text[:100]}{'…' if len(text) > 100 else ''}`; expected what the "
        f"services build: windows, data times, scrape counts and known shares of node windows, "
        "windows and data times of promql.queries.pod_queries, or the `query` of a metric of the policy"
    )
