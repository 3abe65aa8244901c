"""Readings go from the annotator to the extender as they are, without becoming texts on the way.

`world.world` and `services` use this unless a run goes through all doors. The annotator's own code selects the nodes
worth a write, but nothing is encoded, patched, watched and decoded: the extender's table takes the readings of the last
sync from the publisher. There is no heartbeat either: here every write succeeds, so that each sync confirms all nodes.
tests/unit/simulator/test_handing.py holds whole runs equal to those through all doors.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from annotator.collect.last_good_values import NodeSet
from annotator.publish import write_plan
from annotator.publish.node_annotations import AnnotationColumns
from annotator.publish.node_publisher import Result
from extender.state import node_cache
from policy.contract.load_annotation import Reading
from policy.schema import node_pools


class NodeReading(NamedTuple):
    """The reading that a node would carry: `ratios` by metric as they are written (NaN: none), `at_seconds` of the last
    write, and when the last sync confirmed it (-inf: of a lagging node it did not).
    """

    name: str
    ratios: Mapping[str, float]
    at_seconds: float
    confirmed_seconds: float


class HandoverPublisher:
    """A `Publisher` that keeps `readings` by uid of the nodes instead of writing them, and calls `on_write` after a
    sync that would have written some.
    """

    def __init__(self, on_write: Callable[[], None]) -> None:
        self.readings: Mapping[str, NodeReading] = {}
        self._on_write = on_write
        self._again = ""

    def texts(self, fleet: NodeSet, *, now_seconds: float) -> Mapping[str, str]:
        """No node carries an annotation."""
        del fleet, now_seconds
        return {}

    def publish(self, publication: write_plan.Publication) -> Result:
        """Replaces the readings."""
        book, fleet = publication.book, publication.fleet
        chosen = write_plan.weigh(publication, self._carried(fleet, book.metrics), again=self._again)
        values, worth, self._again = chosen.readings, chosen.worth, chosen.cooled
        behind = publication.lagging_names
        confirmed_seconds = math.floor(write_plan.confirmed_seconds(book, behind, now_seconds=publication.now_seconds))
        readings = {uid: self.readings[uid] for uid in fleet.uids if uid in self.readings}
        for place in np.flatnonzero(worth).tolist():
            ratios = dict(zip(book.metrics, values.ratios[place].tolist(), strict=True))
            at_seconds = math.floor(values.at_seconds[place])
            readings[fleet.uids[place]] = NodeReading(fleet.names[place], ratios, at_seconds, -math.inf)
        self.readings = {
            uid: one._replace(confirmed_seconds=-math.inf if one.name in behind else confirmed_seconds)
            for uid, one in readings.items()
        }
        written = int(np.count_nonzero(worth))
        if written:
            self._on_write()
        return Result(Counter({write_plan.WRITTEN: written}), None, None)

    def _carried(self, fleet: NodeSet, metrics: tuple[str, ...]) -> AnnotationColumns:
        """Returns the readings as the nodes would carry them; of a new machine none, even where it reuses a name."""
        nothing = NodeReading("", dict.fromkeys(metrics, math.nan), math.nan, -math.inf)
        readings = [self.readings.get(uid, nothing) for uid in fleet.uids]
        ratios = np.array([[*one.ratios.values()] for one in readings]).reshape(len(readings), len(metrics))
        at_seconds = np.array([one.at_seconds for one in readings])
        texts = {one.name: "" for one in readings if one is not nothing}
        return AnnotationColumns(texts, at_seconds, ratios, ~np.isnan(at_seconds))


class HandoverTable:
    """A `NodeSource` over the nodes' objects, with a publisher's readings instead of annotations."""

    def __init__(
        self, publisher: HandoverPublisher, metric_names: tuple[str, ...], pools: tuple[node_pools.Pool, ...]
    ) -> None:
        self._publisher = publisher
        self._nodes = node_cache.NodeTable(metric_names, pools)
        self.laid_out, self.use = self._nodes.laid_out, self._nodes.use
        self.node_changed, self.heartbeat_changed = self._nodes.node_changed, self._nodes.heartbeat_changed
        self.heartbeat_state = self._nodes.heartbeat_state
        self._readings = publisher.readings
        self._loads = self._without_readings = self._nodes.loads()

    def loads(self) -> node_cache.NodeLoads:
        """Returns the current view; the same object until something changes."""
        loads, readings = self._nodes.loads(), self._publisher.readings
        if loads is not self._without_readings or readings is not self._readings:
            self._without_readings, self._readings = loads, readings
            self._loads = _with_readings(loads, [*readings.values()])
        return self._loads

    def facts(self) -> dict[str, node_cache.NodeFacts]:
        """Returns facts of each node's object, for people, and its reading."""
        facts = self._nodes.facts()
        for one in self._publisher.readings.values():
            if one.name in facts:
                values = {metric: ratio for metric, ratio in one.ratios.items() if ratio == ratio}
                facts[one.name] = facts[one.name]._replace(reading=Reading(one.at_seconds, values), problem="")
        return facts


def _with_readings(loads: node_cache.NodeLoads, readings: list[NodeReading]) -> node_cache.NodeLoads:
    known = [one for one in readings if one.name in loads.index]
    if not known:
        return loads
    rows = loads.rows([one.name for one in known])
    values, effective_seconds = np.full_like(loads.values, np.nan), np.full_like(loads.effective_seconds, np.nan)
    values[rows] = [[*one.ratios.values()] for one in known]
    effective_seconds[rows] = [max(one.at_seconds, one.confirmed_seconds) for one in known]
    return dataclasses.replace(loads, values=values, effective_seconds=effective_seconds)
