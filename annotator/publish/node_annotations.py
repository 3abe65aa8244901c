"""Annotations in the cluster: the watch's, overlaid with the annotator's own writes, as columns.

`annotator.publish.write_plan` compares them with what is held, `annotator.node_sync` digests the texts. Without the
overlay a sync that follows a write at once would compare with, and digest, texts that are already gone. A text is
decoded when it is first seen, and one that the annotator wrote itself never: its content is known.

After a restart or a change of leader `annotator.node_sync` takes over what stands on the nodes, each value as old as
its reading's effective time, by the rule the extender reads it with: the later of its own `at` and the last heartbeat
that matched. So a restart neither loses a value nor makes one look fresher, whatever the first answers lack.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from annotator.collect.last_good_values import Flags, Floats, GoodValue, LastGoodValues, NodeSet
from annotator.collect.node_windows import ConfirmedReading
from kube import errors, kinds
from kube.door import KubeReader
from policy.contract import freshness, heartbeat, load_annotation
from runtime import logs

log = logs.get(__name__)

PENDING_SECONDS: Final = 30.0  # after so long the watch is believed instead of the write


class Row(NamedTuple):
    """A decoded annotation: its time (Unix seconds, NaN when it cannot be read), ratios in the order of the metrics
    (NaN where there is none), and whether all of it can be compared: it can be read, and every metric in it is one of
    these and valid.
    """

    text: str
    at_seconds: float
    ratios: tuple[float, ...]
    comparable: bool


class AnnotationColumns(NamedTuple):
    """The annotations of a fleet, in its order; `texts` raw by node name, only of the nodes that carry one, `ratios` as
    they are written.
    """

    texts: Mapping[str, str]
    at_seconds: Floats  # [nodes]
    ratios: Floats  # [nodes, metrics]
    comparable: Flags  # [nodes]


class _Pending(NamedTuple):
    old_text: str | None
    uid: str
    row: Row
    at_seconds: float


class NodeAnnotationCache:
    """The annotator's own writes that the watch has not shown yet, and the decoded texts. Used by one thread."""

    def __init__(self) -> None:
        self._pending: dict[str, _Pending] = {}
        self._metrics: tuple[str, ...] = ()  # of the rows
        self._rows: dict[str, Row] = {}

    def texts(self, fleet: NodeSet, *, now_seconds: float) -> dict[str, str]:
        """Raw text by node name, only nodes that carry the annotation."""
        values = [node.metadata.annotations.get(load_annotation.KEY) for node in fleet.nodes]
        by_node = {name: text for name, text in zip(fleet.names, values, strict=True) if text is not None}
        if self._pending:
            uids = dict(zip(fleet.names, fleet.uids, strict=True))
            self._pending = {
                name: ours
                for name, ours in self._pending.items()
                if uids.get(name) == ours.uid
                and by_node.get(name) == ours.old_text
                and now_seconds - ours.at_seconds < PENDING_SECONDS
            }
            by_node |= {name: ours.row.text for name, ours in self._pending.items()}
        return by_node

    def carried(self, fleet: NodeSet, metrics: tuple[str, ...], *, now_seconds: float) -> AnnotationColumns:
        """Returns the annotations of a set of nodes, each metric a column."""
        texts = self.texts(fleet, now_seconds=now_seconds)
        if metrics != self._metrics:
            self._metrics, self._rows = metrics, {}
        rows = self._rows
        for name in [name for name, text in texts.items() if name not in rows or rows[name].text != text]:
            rows[name] = row(texts[name], metrics)
        if len(rows) > len(texts):
            self._rows = rows = {name: rows[name] for name in texts}
        nothing = Row("", math.nan, (math.nan,) * len(metrics), False)
        every = [rows.get(name, nothing) for name in fleet.names]
        ratios = np.array([one.ratios for one in every], dtype=np.float64).reshape(len(every), len(metrics))
        at_seconds = np.array([one.at_seconds for one in every], dtype=np.float64)
        comparable = np.array([one.comparable for one in every], dtype=np.bool_)
        return AnnotationColumns(texts, at_seconds, load_annotation.written(ratios), comparable)

    def wrote(self, node: str, uid: str, written: Row, old_text: str | None, *, now_seconds: float) -> None:
        """Note a write that the apiserver accepted."""
        self._pending[node] = _Pending(old_text, uid, written, now_seconds)
        self._rows[node] = written


def row(text: str, metrics: Sequence[str]) -> Row:
    """Returns the row of a text for these metrics."""
    try:
        reading = load_annotation.decode(text)
    except load_annotation.AnnotationError:
        return Row(text, math.nan, (math.nan,) * len(metrics), False)
    ratios = tuple([reading.values.get(name, math.nan) for name in metrics])
    comparable = not reading.invalid and reading.values.keys() <= set(metrics)
    return Row(text, reading.at_seconds, ratios, comparable)


def last_heartbeat(door: KubeReader, namespace: str) -> heartbeat.Heartbeat | None:
    """The heartbeat as it stands; None when there is none or it cannot be read, and then only young readings count."""
    try:
        return heartbeat.decode(door.get(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, namespace=namespace).data)
    except errors.NotFound:
        return None
    except (errors.KubeError, heartbeat.HeartbeatError) as error:
        log.warning("last heartbeat unread, only young readings are taken over", error=str(error))
        return None


def readings(
    texts: Mapping[str, str], beat: heartbeat.Heartbeat | None, *, now_seconds: float
) -> dict[str, ConfirmedReading]:
    """The readings in the nodes' texts (raw by node name); what cannot be read or is from the future is left out."""
    times = heartbeat.EffectiveTimes()
    for node, text in texts.items():
        times.put(node, text)
    if beat is not None:
        times.accept(beat, now_seconds)
        times.settle()
    usable: dict[str, ConfirmedReading] = {}
    for node, text in texts.items():
        with contextlib.suppress(load_annotation.AnnotationError):
            reading = load_annotation.decode(text)
            confirmed_seconds = times.effective_seconds(node, reading.at_seconds)
            if confirmed_seconds <= now_seconds + freshness.MAX_AHEAD_SECONDS:
                usable[node] = ConfirmedReading(reading, min(confirmed_seconds, now_seconds))
    return usable


def book(carried: Mapping[str, ConfirmedReading], metrics: Sequence[str]) -> LastGoodValues:
    """The last good values in these readings."""
    held = {
        node: {name: GoodValue(ratio, one.confirmed_seconds) for name, ratio in one.reading.values.items()}
        for node, one in carried.items()
    }
    return LastGoodValues.of(held, metrics)
