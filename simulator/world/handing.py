"""Readings and owners' means go from the annotator to the extender as they are, without becoming texts on the way.

`world.world` and `services` use this unless a run goes through all doors. What is held and which nodes are worth a
write says the annotator's own code; what it would write is not encoded, patched, watched and decoded, but shown to the
extender's table of nodes at the end of the sync. There is no heartbeat either: here every write succeeds, so that each
sync confirms all nodes. tests/unit/simulator/test_handing.py holds whole runs equal to those through all doors.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from annotator import node_sync
from annotator.collect.last_good_values import LastGoodValues, NodeSet
from annotator.publish import write_plan
from annotator.publish.node_annotations import AnnotationColumns
from extender.state import node_cache
from policy.contract.load_annotation import Reading
from simulator.usage.node_usage import Floats


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


class Annotator(node_sync.Annotator):
    """The annotator with another end: its readings go to the extender's table instead of into patches."""

    def __init__(self, *parts: Any, show: Callable[[PublishedReadings, bool], None], **named: Any) -> None:
        super().__init__(*parts, **named)
        self._show = show  # of all nodes, and whether some node would have been written
        self._said = NOTHING
        self._again = ""

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
