"""Selects the fewest merge-patches of nodes, and builds the heartbeats that renew all the quiet ones.

`weigh` is pure: it compares what is held of all nodes with what they carry (`annotator.publish.node_annotations`) and
leaves out every change too small to be worth a write; `WriteSet.patches` makes texts of what is left. `write` carries
these out in parallel. How nothing is presented fresher than it is:

* a reading's `at` is the oldest confirmation among its values, and the heartbeat's `at` the oldest among all nodes';
* a node whose patch is on its way or failed, or of which a value was not answered and stands (`lagging`), is named in
  the heartbeat as not vouched for: its text ages in the extender, and the texts of all others are renewed;
* nothing at all is written by a sync in which no query succeeded (`annotator.node_sync`).
"""

import concurrent.futures
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from annotator.collect.last_good_values import Flags, Floats, LastGoodValues, NodeSet
from annotator.placements.hot_counts import Hot
from annotator.publish import crane_keys, node_writer
from annotator.publish.node_annotations import AnnotationColumns, Row
from kube import errors, kinds
from kube.door import KubeWriter
from kube.objects import Node
from policy.contract import freshness, heartbeat, load_annotation, node_thresholds
from policy.contract.load_annotation import Reading, Windows
from policy.schema import node_pools
from policy.schema.load_policy import LoadPolicy

WRITERS: Final = 8  # enough to write 5,000 nodes in seconds, few enough not to crowd out other clients' fair share
MOST_IN_A_ROW: Final = 2 * WRITERS  # failures: the connections of all writers may be dead, and new ones be answered
UNTAKEN: Final = (errors.Unreachable, errors.Unauthorized, errors.TooManyRequests, errors.ServerError)  # of any node
WRITTEN, GONE, FAILED, SKIPPED = "written", "gone", "failed", "skipped"


class Patch(NamedTuple):
    """One node's new annotation and what it says; `extra` are further annotations, None removes one."""

    node: str
    uid: str
    row: Row
    extra: Mapping[str, str | None]

    @property
    def body(self) -> dict[str, object]:
        """The merge-patch. The uid is a precondition: a new machine must not inherit its namesake's load."""
        return {"metadata": {"uid": self.uid, "annotations": {load_annotation.KEY: self.row.text, **self.extra}}}


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """When a change is worth a write: minChange, the limits whose crossing always is, and crane's keys or not.

    `limits` are those of filter and descheduler, `hot_above` ([1 + classes, metrics]) the filter's alone, for pods
    without a class and of each class: these are refused by nodes over one of them. NaN where there is none. Both have
    one more axis in front, the nodes, where some have values of a pool, or filter thresholds of their own
    (`policy.contract.node_thresholds`).
    """

    min_change_ratio: float
    limits: Floats
    hot_above: Floats
    crane: bool = False

    @classmethod
    def of(cls, policy: LoadPolicy, nodes: Sequence[Node], *, crane: bool) -> "Rules":
        """The rules of a policy for these nodes."""
        limits, hot_above = _lines(policy, {})
        marked = [row for row, node in enumerate(nodes) if node_thresholds.KEY in node.metadata.annotations]
        if marked or policy.pools:
            limits, hot_above = (np.repeat(each[None], len(nodes), axis=0) for each in (limits, hot_above))
        if policy.pools:
            places = np.array([node_pools.place(policy.pools, node.labels) for node in nodes], dtype=np.intp)
            for place, of_pool in enumerate(policy.of_pools):
                limits[places == place], hot_above[places == place] = _lines(of_pool, {})
        for row in marked:
            own = node_thresholds.decode(nodes[row].annotations[node_thresholds.KEY])
            if own is not None and own.limits:
                limits[row], hot_above[row] = _lines(policy.on_node(nodes[row].labels), own.limits)
        return cls(policy.sync.min_change_ratio, limits, hot_above, crane)


MOST_LIMITS: Final = 3  # of a metric: the filter's, evictAbove and evictUntil; a class of pods may have another


def _lines(policy: LoadPolicy, own: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Limits [metrics, 3 + classes] and hot_above [1 + classes, metrics] of a node with these thresholds of its own."""
    names = [metric.name for metric in policy.metrics_in_force]
    limits = load_annotation.limits(policy.crossings(own), names)
    most = MOST_LIMITS + len(policy.pod_classes)
    padded = np.pad(limits, ((0, 0), (0, most - limits.shape[1])), constant_values=np.nan)
    every = [{**one.filter.thresholds, **own} for one in (policy, *policy.of_classes)]
    return padded, np.array([[thresholds.get(name) or np.nan for name in names] for thresholds in every])


class Publication(NamedTuple):
    """Values to publish: those held of these nodes, the placements on them, when a change is worth a write, the
    content hash of the policy, the time (Unix seconds), the extent of a node's windows, by name, the nodes of which a
    value stands that was not answered [nodes], and for how long patches may begin.
    """

    book: LastGoodValues
    fleet: NodeSet
    hot: Hot
    rules: Rules
    content_hash: str
    now_seconds: float
    extent: Callable[[str], Windows | None]
    lagging: Flags
    patching_seconds: float = math.inf

    @property
    def lagging_names(self) -> list[str]:
        """The names of the lagging nodes, those of the oldest values first."""
        rows = np.flatnonzero(self.lagging)
        order = np.argsort(self.book.oldest_seconds()[rows], kind="stable")
        return [self.book.nodes[row] for row in rows[order].tolist()]


class WriteSet(NamedTuple):
    """A publication with the values of all its nodes as text, the nodes worth a write, the turns in which they are
    written, lowest first [nodes], and the node that the next sync is to write again ("" for none).
    """

    publication: Publication
    readings: "Readings"
    worth: Flags
    turns: Floats
    cooled: str

    @property
    def patches(self) -> tuple[Patch, ...]:
        """The patches that bring what the nodes carry to what is held, and no more than that."""
        fleet, hot, extent = self.publication.fleet, self.publication.hot, self.publication.extent
        patches = []
        places = np.flatnonzero(self.worth)
        for place in places[np.argsort(self.turns[places], kind="stable")].tolist():
            name = fleet.names[place]
            extra = self.readings.cranes(place) if self.publication.rules.crane else {}
            row = self.readings.row(place, hot.of(name), extent(name))
            patches.append(Patch(name, fleet.uids[place], row, extra))
        return tuple(patches)


def weigh(
    publication: Publication, carried: AnnotationColumns, *, again: str = "", unwritten: Mapping[str, str] = {}
) -> WriteSet:
    """Which nodes are to be written.

    `again` names a node that is written even if nothing moved: `WriteSet.cooled` of the sync before, the first node
    that its patches took from over some filter threshold to under all of them. Such a patch wakes the pods that were
    refused, but kube-scheduler may ask the extender again before the extender's own watch has shown it the patch, and
    the pod would then wait for the next write anywhere. So the sync after writes this node once more: one patch, after
    every watch has caught up, and none after that, as nothing crossed.

    First come nodes that cross a line, or get or lose a metric: what they carry decides otherwise than it should. Then
    those that the last sync skipped, the others, and those that failed in it (`unwritten`: the result by node).

    A node that never had a value gets no annotation; one that lost its values gets an empty reading, because its old
    one would otherwise be renewed by every heartbeat. A quiet node that begins to lag is written with the time of its
    values: the one it carries may be hours old, and an extender that starts now has no other.
    """
    names, book, rules = publication.fleet.names, publication.book, publication.rules
    readings = Readings.of(book, publication.now_seconds)
    worth = _worth_writing(readings, carried, rules, publication.now_seconds)
    worth |= publication.lagging & (carried.at_seconds < np.floor(readings.at_seconds))
    if again in names:
        worth[names.index(again)] = True
    worth &= np.array([name in carried.texts for name in names], np.bool_) | ~np.isnan(book.ratios).all(axis=1)
    cooled = worth & (_is_over(carried.ratios, rules) & ~_is_over(readings.ratios, rules)).any(axis=1)
    crossing = load_annotation.must_write(carried.ratios, readings.ratios, math.inf, rules.limits)
    last = np.array([unwritten.get(name, "") for name in names], np.str_)
    turns = np.select([last == FAILED, crossing, last == SKIPPED], [3.0, 0.0, 1.0], 2.0)
    return WriteSet(publication, readings, worth, turns, names[int(cooled.argmax())] if cooled.any() else "")


class Readings(NamedTuple):
    """Annotation content held for all nodes: `ratios` [nodes, metrics], NaN where there is none;
    `at_seconds` [nodes] is the oldest confirmation of each.
    """

    book: LastGoodValues
    ratios: Floats
    at_seconds: Floats

    @classmethod
    def of(cls, book: LastGoodValues, now_seconds: float) -> "Readings":
        """Of a node without values: as of now."""
        oldest_seconds = book.oldest_seconds()
        at_seconds = np.where(np.isnan(oldest_seconds), now_seconds, oldest_seconds)
        return cls(book, load_annotation.written(book.ratios), at_seconds)

    def row(self, place: int, hot: Mapping[str, int], windows: Windows | None = None) -> Row:
        """The text of one node with these hot counts and windows, and what it says."""
        ratios, at_seconds = self.ratios[place].tolist(), float(self.at_seconds[place])
        values = {name: ratio for name, ratio in zip(self.book.metrics, ratios, strict=True) if ratio == ratio}
        text = load_annotation.text(at_seconds, values, hot, windows)
        return Row(text, math.floor(at_seconds), tuple(ratios), True)

    def cranes(self, place: int) -> dict[str, str | None]:
        """crane's keys of one node."""
        held = zip(self.book.metrics, self.book.ratios[place].tolist(), strict=True)
        return crane_keys.annotations(
            Reading(float(self.at_seconds[place]), {name: ratio for name, ratio in held if ratio == ratio})
        )


def _worth_writing(readings: Readings, carried: AnnotationColumns, rules: Rules, now_seconds: float) -> Flags:
    # Stamped by a clock ahead of this machine's: unusable until replaced, whatever its values are.
    ahead = carried.at_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS
    worth = load_annotation.must_write(carried.ratios, readings.ratios, rules.min_change_ratio, rules.limits) | ahead
    if rules.crane:
        worth |= readings.at_seconds - carried.at_seconds >= crane_keys.REFRESH_SECONDS
    return worth | ~carried.comparable


def _is_over(ratios: Floats, rules: Rules) -> Flags:
    """Marks the nodes over one of their filter thresholds, for pods without a class and of each class [nodes, 1 +
    classes].
    """
    return np.asarray((ratios[:, None] > rules.hot_above).any(axis=2))


class WriteResult(NamedTuple):
    """How one patch went: written, gone, failed or skipped, and why, of a failed one and where time was over."""

    result: str
    error: errors.KubeError | None = None


LATE: Final = WriteResult(SKIPPED, errors.KubeError("no time left in this sync; the next one begins with the rest"))


def write(
    door: KubeWriter, patches: Sequence[Patch], *, writers: int = WRITERS, late: Callable[[], bool] = lambda: False
) -> dict[str, WriteResult]:
    """Carry a plan out, at most `writers` at a time (1: in its order, on the caller's thread); how each went, by node.

    A node that vanished or was replaced meanwhile is `gone`, which is fine. Once MOST_IN_A_ROW writes in a row were not
    taken for a reason that is no node's (the apiserver is out of reach or in trouble, does not know the credentials, or
    wants fewer requests than even a patient writer sends), once it is `late`, and once this replica must not write any
    more, the rest is `skipped`: five thousand time limits in a row would outlast any period.
    """
    if not patches:
        return {}
    threads, lock, in_a_row, ended = min(writers, len(patches)), threading.Lock(), 0, False

    def attempt(patch: Patch) -> WriteResult:
        nonlocal in_a_row, ended
        if ended or late():
            return WriteResult(SKIPPED) if ended else LATE
        result = _write_one(door, patch)
        with lock:
            in_a_row = in_a_row + 1 if isinstance(result.error, UNTAKEN) else 0
            ended |= in_a_row >= MOST_IN_A_ROW or isinstance(result.error, node_writer.NotAllowedError)
        return result

    if threads == 1:
        return {patch.node: attempt(patch) for patch in patches}
    with concurrent.futures.ThreadPoolExecutor(threads, thread_name_prefix="patch") as pool:
        return {patch.node: result for patch, result in zip(patches, pool.map(attempt, patches), strict=True)}


def _write_one(door: KubeWriter, patch: Patch) -> WriteResult:
    try:
        door.merge_patch(kinds.NODES, patch.node, patch.body)
    except errors.NotFound:
        return WriteResult(GONE)
    except errors.Conflict as error:
        replaced = "uid in precondition" in error.message.lower()  # the apiserver's words; another conflict is a race
        return WriteResult(GONE) if replaced else WriteResult(FAILED, error)
    except errors.KubeError as error:
        return WriteResult(FAILED, error)
    return WriteResult(WRITTEN)


def vouched(
    standing: Mapping[str, str],
    patches: Sequence[Patch],
    results: Mapping[str, WriteResult],
    lagging: Sequence[str] = (),
) -> tuple[Mapping[str, str], frozenset[str]]:
    """The texts that the heartbeat digests, and the nodes left out: as they stand, without the `lagging` nodes, nor
    those whose patch did not succeed, or has no result yet.

    What such a node carries is out of date, or (after a broken connection) not known, so nothing may renew it; and the
    other nodes of its bucket must not age with it. Beyond the most that a heartbeat names, a node stands with the text
    it should carry: its bucket matches once that has arrived, which is as safe and less precise. A lagging node beyond
    it holds back the time of the heartbeat (`confirmed_seconds`), so these are named first.
    """
    texts = {**standing, **{patch.node: patch.row.text for patch in patches}}
    written = {node for node, one in results.items() if one.result == WRITTEN}
    unwritten = [patch.node for patch in patches if patch.node not in written]
    behind = dict.fromkeys([node for node in (*lagging, *unwritten) if node in texts])
    excluded = frozenset([*behind][: heartbeat.EXCLUDED_MOST])
    return {node: text for node, text in texts.items() if node not in excluded}, excluded


def confirmed_seconds(book: LastGoodValues, excluded: Collection[str] = (), *, now_seconds: float) -> float:
    """The heartbeat's `at`: the oldest confirmation of any value of a node that is not excluded, or now when there is
    none.
    """
    confirmed = book.without(tuple(excluded)) if excluded else book
    return min(confirmed.oldest_by_metric().values(), default=now_seconds)


def beat(door: KubeWriter, namespace: str, data: Mapping[str, str]) -> None:
    """Write the heartbeat ConfigMap, creating it the first time; raises KubeError."""
    try:
        door.merge_patch(kinds.CONFIG_MAPS, heartbeat.CONFIG_MAP, {"data": dict(data)}, namespace=namespace)
    except errors.NotFound:
        labels = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": "annotator"}
        metadata = {"name": heartbeat.CONFIG_MAP, "labels": labels}
        door.create(kinds.CONFIG_MAPS, {"metadata": metadata, "data": dict(data)}, namespace=namespace)
