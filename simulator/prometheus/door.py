"""The simulated door: texts in, samples out, on the virtual clock.

`world` gives it to the services in place of `promql.http.client.Client`. Every query first lets the book of real use
catch up with the clock, so that the scrapes due until now are taken. Tests make it fail for a span of time: `away`.
"""

import statistics
from collections.abc import Mapping

import numpy as np

from policy import metrics as load_metrics
from promql import door, errors
from promql.queries import pod_queries
from promql.queries.node_queries import Window
from runtime.clock import Clock
from simulator.prometheus import expressions, pod_windows
from simulator.prometheus.expressions import Question, Subject
from simulator.prometheus.node_windows import LOOKBACK_SECONDS, NodeWindows
from simulator.prometheus.pod_windows import PodValues, PodWindows
from simulator.usage import node_usage
from simulator.usage.node_usage import Floats
from simulator.usage.ring_table import RowExpired

JOB = "node-exporter"
MOST_POINTS = 11_000  # of a series in one answer, as Prometheus has it
NOTHING: Mapping[str, str] = {}


class SimulatedPrometheus:
    """A `promql.door.PrometheusDoor` over a book of use. `own` are texts of the policy's own
    (`expressions.own`), `away` from when until when (Unix seconds) it cannot be reached.
    """

    def __init__(
        self,
        book: node_usage.UsageBook,
        clock: Clock,
        *,
        own: Mapping[str, Window | Question] | None = None,
    ) -> None:
        self._book = book
        self._clock = clock
        self._questions = expressions.Book(own)
        self._nodes, self._pods = NodeWindows(book), PodWindows(book)
        self._labels = tuple({"instance": machine.name, "job": JOB} for machine in book.scenario.machines)
        self.away: list[tuple[float, float]] = []

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """See promql.door; BadQuery for what no service asks."""
        self._begin()
        at_seconds = self._clock.now() if at_seconds is None else at_seconds
        question = pod_queries.named(expression)
        answer = self._answered(self._questions.meaning(question.expression), at_seconds)
        return answer if question.names is None else _of_named(answer, question.names)

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        """See promql.door; BadQuery also for a range that Prometheus refuses."""
        self._begin()
        _check(start_seconds, end_seconds, step_seconds)
        question = self._questions.meaning(expression)
        points: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        for number in range(int((end_seconds - start_seconds) / step_seconds + 1e-9) + 1):
            at_seconds = start_seconds + number * step_seconds
            for labels, value, _ in self._answered(question, at_seconds).samples:
                points.setdefault(tuple(labels.items()), []).append((at_seconds, value))
        return door.RangeAnswer(tuple(door.Series(dict(key), tuple(each)) for key, each in points.items()))

    def _begin(self) -> None:
        """Catch up with the clock."""
        now_seconds = self._clock.now()
        for begin, end in self.away:
            if begin <= now_seconds < end:
                raise errors.Unreachable(f"the simulated Prometheus fails from {begin:g} to {end:g}")
        self._book.advance(now_seconds)

    def _answered(self, question: Window | Question, at_seconds: float) -> door.Answer:
        try:
            return self._vector(question, at_seconds)
        except RowExpired as error:
            raise errors.BadQuery(
                f"the simulated Prometheus cannot answer for {at_seconds:.3f}: {error}; give the book a longer "
                "kept_seconds, or ask while it is not so long ago"
            ) from error

    def _vector(self, question: Window | Question, at_seconds: float) -> door.Answer:
        if isinstance(question, Window):
            return self._of_nodes(self._nodes.value(question, at_seconds), at_seconds)
        last = self._nodes.last_scrape(at_seconds)
        match question.subject:
            case Subject.NOTHING:
                return door.Answer()
            case Subject.NODE_TIME:
                present = self._nodes.present(at_seconds)
                return self._of_nodes(np.where(present, self._book.scraping.seconds(last), np.nan), at_seconds)
            case Subject.SCRAPES:
                counts = self._nodes.counts(question.seconds, at_seconds)
                return _single(statistics.median(counts[counts > 0].tolist()) if counts.any() else np.nan, at_seconds)
            case Subject.KNOWN_SHARE:
                now, then = self._nodes.present(at_seconds), self._nodes.present(at_seconds - question.seconds)
                return _single((now & then).sum() / now.sum() if (now & then).any() else np.nan, at_seconds)
        values, labels = self._pod_values(question, at_seconds, last), self._book.pods.labels
        return door.Answer([labels[place] for place in values.places.tolist()], values.values, at_seconds)

    def _pod_values(self, question: Question, at_seconds: float, last: int) -> PodValues:
        if question.subject is Subject.POD_MEAN and question.resource == load_metrics.CPU:
            return self._pods.cpu_cores(question.seconds, at_seconds, last)
        scraped_seconds = self._book.scraping.seconds(last)
        if at_seconds - scraped_seconds >= LOOKBACK_SECONDS:
            return pod_windows.NONE
        if question.subject is Subject.POD_MEAN:
            return self._pods.memory_bytes(question.seconds, at_seconds, last)
        places = self._pods.present(last)
        return PodValues(places, np.full(len(places), scraped_seconds))

    def _of_nodes(self, values: Floats, at_seconds: float) -> door.Answer:
        """Without the nodes that have none: a series that is absent is no NaN."""
        there = np.flatnonzero(values == values)
        if len(there) == len(values):
            return door.Answer(self._labels, values.copy(), at_seconds)
        return door.Answer([self._labels[number] for number in there], values[there], at_seconds)


def _of_named(answer: door.Answer, names: frozenset[str]) -> door.Answer:
    """The series of the pods with these names."""
    rows = [row for row, labels in enumerate(answer.labels) if labels["pod"] in names]
    return door.Answer([answer.labels[row] for row in rows], answer.values[rows], answer.at_seconds)


def _single(value: float, at_seconds: float) -> door.Answer:
    return door.Answer() if np.isnan(value) else door.Answer((NOTHING,), np.array([float(value)]), at_seconds)


def _check(start_seconds: float, end_seconds: float, step_seconds: float) -> None:
    """Refuses a range that Prometheus refuses."""
    if not step_seconds > 0:
        raise errors.BadQuery(f"a range with a step of {step_seconds:g} s; expected more than 0")
    if end_seconds < start_seconds:
        raise errors.BadQuery(
            f"a range from {start_seconds:.3f} to {end_seconds:.3f}; expected its end after its start"
        )
    finest_seconds = (end_seconds - start_seconds) / MOST_POINTS
    if step_seconds < finest_seconds:
        raise errors.BadQuery(f"a range of more than {MOST_POINTS} points; expected a step of {finest_seconds:g} s")
