"""Queries -> what is held of every node: the last good value of each metric and when it was last confirmed.

`ask` is the effect (one query per metric); `fold` is pure and joins the answers with the book before. The rules of
honesty live here, `annotator.publish.write_plan` only writes what is held:

* a value is confirmed only by a successful query that returned it; refused values (NaN, infinite, negative, over 1.5,
  doubles) and absent ones confirm nothing;
* a value that is not confirmed stands as it was, with its old confirmation, until that is `keep_seconds` old: a hot
  node that misses a scrape is not idle. So do all values of a metric whose query failed, or was answered in part or
  without any series at all: a partial answer's values may be sums that lack some of their series;
* a node without its average of a resource loses all metrics of that resource: a 1d maximum of a machine whose exporter
  died says nothing of now. And a maximum of averages is at least the current average, which a subquery's last step may
  not have seen yet.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from annotator.collect.last_good_values import Flags, Floats, LastGoodValues, NodeSet
from annotator.collect.node_windows import ConfirmedReading
from kube.errors import MetricsServerError
from kube.objects import Node
from policy import metrics as load_metrics
from policy.contract import load_annotation
from policy.contract.load_annotation import Windows
from policy.metrics import Metric
from promql import errors, readings
from promql.door import Answer
from promql.queries import identity, node_queries

LoadError = errors.PromqlError | MetricsServerError


class MetricAnswer(NamedTuple):
    """One metric with its answer, or with the error that kept it from having one."""

    metric: Metric
    answer: readings.NodeValues | None
    error: LoadError | None = None


class Source(Protocol):
    """Where load comes from, by itself one whose windows are in another process. Asked in every sync, by one thread."""

    def resume(self, fleet: NodeSet, metrics: Sequence[Metric], carried: Mapping[str, ConfirmedReading]) -> None:
        """Begins again, from what stands on the nodes."""
        return

    def read(
        self, fleet: NodeSet, directory: identity.Directory, metrics: Sequence[Metric], held: LastGoodValues
    ) -> tuple[MetricAnswer, ...]:
        """Returns every metric in the order given, each with its values by node or the error why there are none;
        `held` are the last good values.
        """
        ...

    def extent(self, node: str) -> Windows | None:
        """Since when the node is observed, where windows are kept in this process."""
        return None

    def absence(self, node: Node) -> str:
        """Why a node without refused values has none; "" where only the answers say it."""
        return ""

    def shortage(self, metrics: Sequence[Metric]) -> str:
        """Returns the sentence on metrics that are absent or young here; "" for none, or where it is not known."""
        return ""


def ask(
    query: Callable[[str, str], Answer],
    metrics: Sequence[Metric],
    directory: identity.Directory,
    labels: identity.SeriesLabels,
    *,
    failed_before: Collection[str] = (),
) -> tuple[MetricAnswer, ...]:
    """Ask for every metric in turn through `query(name, expression)`; a failure costs that metric only.

    Metrics that failed the last time (`failed_before`, by name) are asked last: several of them in a row open the
    circuit, and that must not keep those behind them from being asked for ever. The result is in the order given.

    When the server cannot be reached at all the rest is not tried: six time limits in a row would outlast the period.
    One query that is not answered right after another that was is only slow (a 1d window on a busy server).
    """
    answers: list[MetricAnswer] = []
    unreachable: errors.PromqlError | None = None
    for metric in sorted(metrics, key=lambda metric: metric.name in failed_before):
        if unreachable is not None:
            answers.append(MetricAnswer(metric, None, unreachable))
            continue
        try:
            selector, label = labels.node_selector, labels.node_label
            answer = query(metric.name, node_queries.of_metric(metric, selector=selector, node_label=label))
        except errors.PromqlError as error:
            answers.append(MetricAnswer(metric, None, error))
            answering = len(answers) > 1 and answers[-2].answer is not None
            unreachable = error if isinstance(error, errors.Unreachable) and not answering else None
        else:
            values = readings.by_node(answer, directory, label=label, judge=load_annotation.invalid_reason)
            answers.append(MetricAnswer(metric, values))
    places = {metric.name: place for place, metric in enumerate(metrics)}
    return tuple(sorted(answers, key=lambda one: places[one.metric.name]))


def doubted(answers: Sequence[MetricAnswer], book: LastGoodValues) -> tuple[MetricAnswer, ...]:
    """The answers, but one without a single series of a metric that is held counts as no answer.

    A Prometheus restarted empty, or a selector gone wrong, answers so with a good conscience; all exporters at once do
    not vanish. So the values held go the way they go when the query fails: they stand, age and are dropped.
    """
    held = book.oldest_by_metric()
    return tuple(_unanswered(one) if one.metric.name in held and _is_empty(one.answer) else one for one in answers)


class PrometheusSource(Source):
    """Windows by one query each. `query` takes a metric's name and its expression, and raises PromqlError."""

    def __init__(self, query: Callable[[str, str], Answer], labels: identity.SeriesLabels) -> None:
        self._query = query
        self._labels = labels
        self._failed: Collection[str] = ()  # the metrics whose queries failed in the last sync

    def read(
        self, fleet: NodeSet, directory: identity.Directory, metrics: Sequence[Metric], held: LastGoodValues
    ) -> tuple[MetricAnswer, ...]:
        """See Source."""
        del fleet
        answers = ask(self._query, metrics, directory, self._labels, failed_before=self._failed)
        answers = doubted(answers, held)
        self._failed = {one.metric.name for one in answers if one.error is not None}
        return answers


def _is_empty(answer: readings.NodeValues | None) -> bool:
    return answer is not None and not (answer.values or answer.refused or answer.unmatched)


def _unanswered(answer: MetricAnswer) -> MetricAnswer:
    reason = (
        f"{answer.metric.name} was answered without a single series, although nodes had values; "
        "check whether Prometheus lost its data, and the selector"
    )
    return MetricAnswer(answer.metric, None, errors.Unavailable(reason))


def keep_seconds(period_seconds: float, stale_after_seconds: float) -> float:
    """How long an unconfirmed value is kept: two periods less than staleAfter, at least half of it.

    It has to go before it turns stale, because the oldest value presented sets the age of the whole reading.
    """
    return max(stale_after_seconds / 2, stale_after_seconds - 2 * period_seconds)


def fold(
    book: LastGoodValues,
    answers: Sequence[MetricAnswer],
    nodes: tuple[str, ...],
    *,
    now_seconds: float,
    keep_seconds: float,
) -> LastGoodValues:
    """Merges answers into the last good values, for the nodes that exist, metrics in the order asked."""
    before = book.aligned(nodes, tuple([one.metric.name for one in answers]))
    young = now_seconds - before.confirmed_seconds < keep_seconds
    ratios = np.where(young, before.ratios, np.nan)
    confirmed_seconds = before.confirmed_seconds.copy()
    for column, (_, answer, _) in enumerate(answers):
        if answer is not None:
            current = answer.of(nodes)
            good = ~np.isnan(current)
            ratios[good, column] = current[good]
            confirmed_seconds[good, column] = answer.confirmed_seconds(nodes, now_seconds)[good]
    _make_consistent(ratios, answers)
    return LastGoodValues(nodes, before.metrics, ratios, np.where(np.isnan(ratios), np.nan, confirmed_seconds))


def lagging(book: LastGoodValues, answers: Sequence[MetricAnswer]) -> Flags:
    """Marks the nodes of which a value stands that the answers to its query lack [nodes]; `book` is their fold."""
    marked = np.zeros(len(book.nodes), np.bool_)
    for column, (_, answer, _) in enumerate(answers):
        if answer is not None:
            marked |= ~np.isnan(book.ratios[:, column]) & np.isnan(answer.of(book.nodes))
    return marked


def _make_consistent(ratios: Floats, answers: Sequence[MetricAnswer]) -> None:
    """In place: no metric of a resource without its first average, and no maximum under it."""
    columns = list(enumerate(one.metric for one in answers))
    averages = {one.resource: column for column, one in reversed(columns) if one.statistic == load_metrics.AVERAGE}
    for column, metric in columns:
        average = averages.get(metric.resource)
        if average is None:
            continue
        current = ratios[:, average]
        if answers[average].answer is not None:
            ratios[np.isnan(current), column] = np.nan
        if metric.statistic == load_metrics.MAXIMUM:
            ratios[:, column] = np.where(ratios[:, column] < current, current, ratios[:, column])
