"""Readings go from the annotator to the extender as they are, without becoming texts on the way.

`world.world` and `services` use this unless a run goes through all doors. What is held and which nodes are worth a
write says the annotator's own code; what it would write is not encoded, patched, watched and decoded, but shown to the
extender's table of nodes at the end of the sync. There is no heartbeat either: here every write succeeds, so that each
sync confirms all nodes. tests/unit/simulator/test_handing.py holds whole runs equal to those through all doors.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np

from annotator.collect.last_good_values import NodeSet
from annotator.publish import write_plan
from annotator.publish.node_annotations import AnnotationColumns
from annotator.publish.node_publisher import Publication, Result
from extender.state import node_cache
from policy.contract.load_annotation import Reading
from policy.schema import node_pools
from simulator.usage.node_usage import Floats


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class PublishedReadings:
    """The readings that all nodes would carry: `ratios` [nodes, metrics] as they are written, `at_seconds` [nodes] of
    the last write (NaN: none yet), and when the last sync confirmed it [nodes] (-inf: of a lagging node it did not).
    """

    names: tuple[str, ...]
    uids: tuple[str, ...]
    metrics: tuple[str, ...]
    ratios: Floats
    at_seconds: Floats
    confirmed_seconds: Floats

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
        confirmed_seconds = np.append(self.confirmed_seconds, -np.inf)[rows]
        return PublishedReadings(fleet.names, fleet.uids, metrics, ratios, at_seconds, confirmed_seconds)

    def carried(self) -> AnnotationColumns:
        """As the nodes would show it."""
        written = ~np.isnan(self.at_seconds)
        names = [name for name, there in zip(self.names, written.tolist(), strict=True) if there]
        return AnnotationColumns(dict.fromkeys(names, ""), self.at_seconds, self.ratios, written)

    def written(self, weighed: write_plan.WriteSet, confirmed_seconds: Floats) -> "PublishedReadings":
        """Returns the readings after the selected nodes were written."""
        readings = weighed.readings
        ratios = np.where(weighed.worth[:, None], readings.ratios, self.ratios)
        at_seconds = np.where(weighed.worth, np.floor(readings.at_seconds), self.at_seconds)
        return dataclasses.replace(
            self, ratios=ratios, at_seconds=at_seconds, confirmed_seconds=np.floor(confirmed_seconds)
        )


NOTHING = PublishedReadings((), (), (), np.empty((0, 0)), np.empty(0), np.empty(0))


class HandoverPublisher:
    """A `Publisher` that shows readings instead of writing them: of all nodes, and whether some node would have been
    written.
    """

    def __init__(self, show: Callable[[PublishedReadings, bool], None]) -> None:
        self._show = show
        self._readings = NOTHING
        self._again = ""

    def texts(self, fleet: NodeSet, *, now_seconds: float) -> Mapping[str, str]:
        """No node carries an annotation."""
        del fleet, now_seconds
        return {}

    def publish(self, publication: Publication) -> Result:
        """Shows the values."""
        book, fleet = publication.book, publication.fleet
        before = self._readings.aligned(fleet, book.metrics)
        weighed = write_plan.weigh(
            fleet,
            book,
            carried=before.carried(),
            rules=publication.rules,
            now_seconds=publication.now_seconds,
            again=self._again,
            lagging=publication.lagging,
        )
        behind = publication.lagging_names
        at_seconds = write_plan.confirmed_seconds(book, behind, now_seconds=publication.now_seconds)
        confirmed = np.where(np.isin(fleet.names, behind), -np.inf, at_seconds)
        self._readings = before.written(weighed, confirmed)
        self._again = weighed.cooled
        written = int(np.count_nonzero(weighed.worth))
        self._show(self._readings, written > 0)
        return Result(Counter({write_plan.WRITTEN: written}), None, None)


class HandoverTable:
    """A `NodeSource` over the nodes' objects, with the readings that were shown instead of annotations."""

    def __init__(self, metric_names: tuple[str, ...], pools: tuple[node_pools.Pool, ...]) -> None:
        self._nodes = node_cache.NodeTable(metric_names, pools)
        self.laid_out, self.use = self._nodes.laid_out, self._nodes.use
        self.node_changed, self.heartbeat_changed = self._nodes.node_changed, self._nodes.heartbeat_changed
        self.heartbeat_state = self._nodes.heartbeat_state
        self._readings = NOTHING
        self._loads: tuple[node_cache.NodeLoads, node_cache.NodeLoads] | None = None  # without the readings, and with

    def show(self, readings: PublishedReadings) -> None:
        """Takes the readings in force from now on."""
        self._readings, self._loads = readings, None

    def loads(self) -> node_cache.NodeLoads:
        """Returns the current view; the same object until something changes."""
        own = self._nodes.loads()
        if self._loads is None or self._loads[0] is not own:
            self._loads = own, _with_readings(own, self._readings)
        return self._loads[1]

    def facts(self) -> dict[str, node_cache.NodeFacts]:
        """Returns facts of each node's object, for people, and its reading."""
        readings, facts = self._readings, self._nodes.facts()
        rows = zip(readings.names, readings.at_seconds.tolist(), readings.ratios.tolist(), strict=True)
        for name, at_seconds, ratios in rows:
            if name in facts and not math.isnan(at_seconds):
                pairs = zip(readings.metrics, ratios, strict=True)
                values = {metric: ratio for metric, ratio in pairs if ratio == ratio}
                facts[name] = facts[name]._replace(reading=Reading(at_seconds, values), problem="")
        return facts


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
