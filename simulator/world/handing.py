"""Readings and owners' means go from the annotator to the extender as they are, without becoming texts on the way.

`world.world` and `services` use this unless a run goes through all doors. What is held and which nodes are worth a
write says the annotator's own code; what it would write is not encoded, patched, watched and decoded, but shown to the
extender's table of nodes at the end of the sync. There is no heartbeat either: here every write succeeds, so that each
sync confirms all nodes. tests/unit/simulator/test_handing.py holds whole runs equal to those through all doors.
"""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from annotator import node_sync, usage_sync
from annotator.collect import collector
from annotator.collect.last_good_values import LastGoodValues, NodeSet
from annotator.publish import write_plan
from annotator.publish.node_annotations import AnnotationColumns
from extender.state import node_cache
from policy.contract import load_annotation, owner_usage
from policy.contract.load_annotation import Reading
from policy.metrics import Metric
from promql import readings
from promql.queries import identity
from simulator.prometheus import pod_amounts
from simulator.prometheus.columns import Column, MetricColumns
from simulator.usage.node_usage import Floats
from simulator.world import told_pods


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PublishedReadings:
    """The readings that all nodes would carry: `ratios` [nodes, metrics] as they are written, `at_seconds` [nodes] of
    the last write (NaN: none yet), and when the last sync confirmed all of it.
    """

    names: tuple[str, ...]
    uids: tuple[str, ...]
    metrics: tuple[str, ...]
    ratios: Floats
    at_seconds: Floats
    confirmed_seconds: float

    def aligned(self, fleet: NodeSet, metrics: tuple[str, ...]) -> "PublishedReadings":
        """Returns the readings of these machines; nothing of new machines, even where they reuse a name. Metrics stay
        as they are in a run: only before the first sync there are none.
        """
        if (fleet.uids, metrics) == (self.uids, self.metrics):
            return self
        places = {uid: place for place, uid in enumerate(self.uids)}
        nothing = len(places)  # a row behind all others
        rows = np.array([places.get(uid, nothing) for uid in fleet.uids], np.int64)
        ratios = np.vstack((self.ratios.reshape(nothing, len(metrics)), np.full((1, len(metrics)), np.nan)))[rows]
        at_seconds = np.append(self.at_seconds, np.nan)[rows]
        return PublishedReadings(fleet.names, fleet.uids, metrics, ratios, at_seconds, self.confirmed_seconds)

    def carried(self) -> AnnotationColumns:
        """As the nodes would show it."""
        written = ~np.isnan(self.at_seconds)
        names = [name for name, there in zip(self.names, written.tolist(), strict=True) if there]
        return AnnotationColumns(dict.fromkeys(names, ""), self.at_seconds, self.ratios, written)

    def written(self, weighed: write_plan.WriteSet, confirmed_seconds: float) -> "PublishedReadings":
        """Returns the readings after the selected nodes were written."""
        held, worth, _ = weighed
        ratios = np.where(worth[:, None], held.ratios, self.ratios)
        at_seconds = np.where(worth, np.floor(held.at_seconds), self.at_seconds)
        return dataclasses.replace(
            self, ratios=ratios, at_seconds=at_seconds, confirmed_seconds=math.floor(confirmed_seconds)
        )


NOTHING = PublishedReadings((), (), (), np.empty((0, 0)), np.empty(0), -math.inf)


class AnnotatorInput(Protocol):
    """The annotator's input in place of Prometheus' answers (`windows`); None: query it."""

    def ratios(self, metric: Metric) -> Column | None:
        """Of all nodes."""
        ...

    def pods(self, resource: str, window_seconds: float) -> pod_amounts.Amounts | None:
        """Of all pods."""
        ...


class HandoverPoints(NamedTuple):
    """Where the annotator's readings come from and who tells it of pods, and to whom it shows what it would write."""

    told: AnnotatorInput
    pods: told_pods.Pods
    readings: Callable[[PublishedReadings, bool], None]  # of all nodes, and whether some node would have been written
    usage: Callable[[owner_usage.Published], None]  # of owners, as it would be read


class Annotator(node_sync.Annotator):
    """The annotator with other ends: it is told what nodes show, and what it would write is shown."""

    def __init__(self, *parts: Any, ends: HandoverPoints, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._told, _, self._show, self._show_usage = ends
        self._said = NOTHING
        self._again = ""

    def ask(self, metrics: Sequence[Metric], known: identity.Directory) -> tuple[collector.MetricAnswer, ...]:
        """Returns the windows of nodes; queries Prometheus where one of them is no good value, which the query path
        judges.
        """
        told = [self._told.ratios(metric) for metric in metrics]
        columns = [column for column in told if column is not None]
        if len(columns) < len(told) or not _all_good(columns):
            return super().ask(metrics, known)
        return tuple(
            [
                collector.MetricAnswer(metric, MetricColumns(column))
                for metric, column in zip(metrics, columns, strict=True)
            ]
        )

    def ask_pods(self, resource: str, window_seconds: float) -> usage_sync.UsageAnswer:
        """Returns the use of pods; queries Prometheus where a series is ambiguous or an amount is no good one."""
        told = self._told.pods(resource, window_seconds)
        if told is None or not _can_be(told.known, functools.partial(usage_sync.invalid_reason, resource)):
            return super().ask_pods(resource, window_seconds)
        return usage_sync.UsageAnswer(told, not len(told.known))

    def publish(
        self, book: LastGoodValues, fleet: NodeSet, rules: node_sync.Rulebook, now_seconds: float
    ) -> node_sync.Published:
        """Show what is held to the extender."""
        before = self._said.aligned(fleet, book.metrics)
        weighed = write_plan.weigh(
            fleet,
            book,
            carried=before.carried(),
            rules=self.fleets.rules(rules.policy),
            now_seconds=now_seconds,
            again=self._again,
        )
        self._said = before.written(weighed, write_plan.confirmed_seconds(book, now_seconds=now_seconds))
        self._again = weighed.cooled
        written = int(np.count_nonzero(weighed.worth))
        self._show(self._said, written > 0)
        return node_sync.Published(Counter({write_plan.WRITTEN: written}), None, None)

    def publish_usage(self, published: owner_usage.Published) -> None:
        """Show owners' means to the extender."""
        self._show_usage(owner_usage.written(published))


class Table(node_cache.NodeTable):
    """The extender's nodes with readings that are shown to it; all else is from their objects, as ever."""

    def __init__(self, metric_names: tuple[str, ...]) -> None:
        super().__init__(metric_names)
        self._said = NOTHING
        self._both: tuple[node_cache.NodeLoads, node_cache.NodeLoads] | None = (
            None  # without the readings, and with them
        )

    def show(self, published_readings: PublishedReadings) -> None:
        """These are the readings from now on."""
        self._said, self._both = published_readings, None

    def loads(self) -> node_cache.NodeLoads:
        """The current view; the same object until something changes."""
        own = super().loads()
        if self._both is None or self._both[0] is not own:
            self._both = own, _with_readings(own, self._said)
        return self._both[1]

    def facts(self) -> dict[str, node_cache.NodeFacts]:
        """Returns facts of each node's object, for people, and its reading."""
        said, found = self._said, super().facts()
        for name, at_seconds, ratios in zip(said.names, said.at_seconds.tolist(), said.ratios.tolist(), strict=True):
            if name in found and not math.isnan(at_seconds):
                values = {metric: ratio for metric, ratio in zip(said.metrics, ratios, strict=True) if ratio == ratio}
                found[name] = found[name]._replace(reading=Reading(at_seconds, values), problem="")
        return found


def _all_good(columns: Sequence[Column]) -> bool:
    ratios = np.array([column.ratios for column in columns])
    return not np.count_nonzero((ratios < 0.0) | (ratios > load_annotation.MAX_RATIO))


def _can_be(amounts: Floats, judge: readings.Judge) -> bool:
    return not len(amounts) or (judge(float(amounts.min())) is None and judge(float(amounts.max())) is None)


def _with_readings(own: node_cache.NodeLoads, published_readings: PublishedReadings) -> node_cache.NodeLoads:
    if published_readings is NOTHING:
        return own
    rows = own.rows(published_readings.names)
    known = rows != node_cache.UNKNOWN
    values, effective_seconds = np.full_like(own.values, np.nan), np.full_like(own.effective_seconds, np.nan)
    values[rows[known]] = published_readings.ratios[known]
    effective_seconds[rows[known]] = np.maximum(published_readings.at_seconds, published_readings.confirmed_seconds)[
        known
    ]
    return dataclasses.replace(own, values=values, effective_seconds=effective_seconds)
