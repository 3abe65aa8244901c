"""The answers of this second, row by row: verdict, reason, base, raw score and the bytes each node adds to a reply.

`http.fast_path` takes a `ScoreTable` per request and picks rows from it; where the policy adds the incoming pod's own
load, that is added to what stands ready in these rows. Pods of a class (policy, `podClasses`) have a table of their
own. A table never changes; `ScoreCache` makes the next one when a placement, a reading, the policy or the second has
changed since: from the rows that changed where only placements did (or grew older), from all rows otherwise. Every
number comes from the functions that `verbs` answers with, so both give the same replies
(tests/unit/extender/test_fast_path.py holds them to it).

One lock makes one table at a time: requests that meet while it is made would all make the same one. It takes some
milliseconds at 5,000 nodes, the view's and tables' locks are taken inside it and never the other way round, and a watch
waits for those alone.
"""

import dataclasses
import functools
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender import deadline, protocol
from extender.state import cluster_view, name_table, node_cache
from extender.state.candidates import CandidateRows, Candidates, Mask
from extender.state.compiled_policy import CompiledPolicy
from extender.state.name_table import Bytes, NodeLabels
from kube import objects
from policy.rules import expected_load, filtering, scoring
from policy.schema import pod_classes

CAUSES: Final = ("unknown_node", "missing_reading", "stale_reading", "missing_metric")  # bit i of `lacking`
CHANGES_MOST: Final = 32  # of a table's rows, before all of them are made again


class _Numbers(NamedTuple):
    """The numbers of some rows, or of all: base and penalty of each, and the score before and after rounding."""

    base: node_cache.Floats
    penalty: node_cache.Floats
    raw: node_cache.Floats
    scores: npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class ScoreTable:
    """Everything by row. `standing` holds the arrays it follows from.

    `allowed` and `reasons` are the filter's verdict on any pod that is not exempt, `refusals` the bytes of
    `"name":"reason"` where it is not allowed; `lacking` has a bit for each of CAUSES, and `sound` is that no node
    lacks anything; `whole` is where no weighted metric is missing. Of the `numbers`, `base` is the node's own, NaN
    without one; `raw` and `scores` hold where it is whole, has a base, neither `stretch` nor a penalty of all makes
    them depend on the others, and no pod's load is added.
    """

    standing: Candidates
    labels: NodeLabels
    allowed: Mask
    reasons: npt.NDArray[np.object_]
    refusals: Bytes
    lacking: npt.NDArray[np.uint8]
    sound: bool
    whole: Mask
    numbers: _Numbers

    def causes(self, rows: node_cache.Rows) -> tuple[str, ...]:
        """Returns the data that some of the rows lack, as `Candidates.degradations`."""
        stale_watches = self.standing.stale_watches
        if self.sound:
            return stale_watches
        bits = int(np.bitwise_or.reduce(self.lacking[rows], initial=np.uint8(0)))
        return tuple(cause for at, cause in enumerate(CAUSES) if bits >> at & 1) + stale_watches


@dataclasses.dataclass(frozen=True)
class OwnNode:
    """The node on which the pod of a request counts already, as it is `without` the pod (one row), and its place among
    the candidates. Filter needs the verdict alone, prioritize the numbers: each is made when it is asked for.
    """

    place: int
    without: Candidates

    @functools.cached_property
    def verdicts(self) -> filtering.Verdicts:
        """The filter's verdict, judged alone."""
        return self.without.verdicts(each_alone=True)

    @functools.cached_property
    def numbers(self) -> _Numbers:
        """The scores, and what they were rounded from."""
        return _numbers(self.without)


class CandidateScores(NamedTuple):
    """The candidates of one request: rows of a table, one of which may stand without the pod (`own`)."""

    table: ScoreTable
    rows: node_cache.Rows
    own: OwnNode | None = None

    def allowed(self) -> Mask:
        """Returns the filter's verdict on each candidate, each judged alone."""
        allowed = self.table.allowed[self.rows]
        if self.own is not None:
            allowed[self.own.place] = self.own.verdicts.allowed[0]
        return allowed

    def refused(self, allowed: Mask) -> tuple[list[bytes], list[str]]:
        """Returns the parts of a reply, and the reasons, of the candidates that are not allowed."""
        hot = self.rows[~allowed]
        parts, reasons = self.table.refusals[hot].tolist(), self.table.reasons[hot].tolist()
        if self.own is not None and not allowed[self.own.place]:
            ((_, reason),) = self.own.verdicts.refusals()
            at = int(np.count_nonzero(~allowed[: self.own.place]))
            parts[at] = protocol.refusal(self.table.labels.quoted[self.rows[self.own.place]], reason)
            reasons[at] = reason
        return parts, reasons

    def ranking(self, load: expected_load.Load | None = None) -> scoring.Ranking:
        """Returns the ranking of the candidates: for a pod that brings this load, or for any (None)."""
        table, rows = self.table, self.rows
        weighing = table.standing.in_force.weighing
        base = self._column("base") if load is None else self._bases_with(load)
        crowded = self._column("penalty")
        whole = None if table.sound else table.whole[rows]
        if weighing.stretch or not weighing.weighted or not (whole is None or whole.all()):
            return scoring.rank(base, crowded, whole=whole, stretch=weighing.stretch)
        penalty = scoring.beyond_least(crowded)
        none = np.zeros(len(rows), dtype=np.bool_)  # each node's numbers are its own, and without a load stand ready
        if load is not None or not np.array_equal(penalty, crowded):
            return scoring.Ranking(base, none, none, penalty, *scoring.clamped(base, penalty))
        return scoring.Ranking(base, none, none, penalty, self._column("raw"), self._column("scores"))

    def only(self, keep: Mask) -> "CandidateScores":
        """Returns the marked candidates."""
        own = self.own
        if own is not None:
            place = int(np.count_nonzero(keep[: own.place]))
            own = OwnNode(place, own.without) if keep[own.place] else None
        return CandidateScores(self.table, self.rows[keep], own)

    def as_candidates(self) -> CandidateRows:
        """Returns the candidates as they stood."""
        candidates = CandidateRows(self.table.standing, self.rows)
        if self.own is None:
            return candidates
        return candidates._replace(own=self.own.without._replace(rows=np.array([self.own.place], dtype=np.intp)))

    def _column(self, name: str) -> npt.NDArray[Any]:
        picked: npt.NDArray[Any] = getattr(self.table.numbers, name)[self.rows]
        if self.own is not None:
            picked[self.own.place] = getattr(self.own.numbers, name)[0]
        return picked

    def _bases_with(self, load: expected_load.Load) -> node_cache.Floats:
        """The bases of these nodes with a pod's load on each."""
        every, rows = self.table.standing, self.rows
        expected = every.expected.take(rows, axis=0)
        if self.own is not None:
            expected[self.own.place] = self.own.without.expected[0]
        predicted = every.values.take(rows, axis=0)
        predicted += expected
        predicted += every.in_force.incoming(load, every.loads.per_allocatable.take(rows, axis=0))
        columns, places = np.ascontiguousarray(predicted.T), every.score_places
        return scoring.bases(columns.T, every.in_force.weighing, None if places is None else places[rows])


@dataclasses.dataclass(slots=True)
class _StoredTable:
    """The score table of one class of pods, and the rows that changed since it was made, oldest first; None: all."""

    table: ScoreTable | None = None
    changes: list[Candidates] | None = None
    requested: bool = False  # since `ScoreCache.ahead` was last called

    def mark(self, changed: Candidates | None) -> None:
        """Note rows that changed (None: all); from some number on all are made again, which takes as long."""
        if changed is None or self.changes is None or len(self.changes) == CHANGES_MOST:
            self.changes = None
        else:
            self.changes.append(changed)


class ScoreCache:
    """The current score tables of a view, one for the pods of each class; from any thread.

    The rows are kept current by one standing view of all nodes; a table takes over what changed when a pod of its class
    is asked about. A class that is not asked about costs nothing.
    """

    def __init__(self, view: cluster_view.ClusterView) -> None:
        self._view = view
        self._lock = deadline.Lock()
        self._standing: Candidates | None = None
        self._labels: NodeLabels | None = None
        self._tables: dict[str | None, _StoredTable] = {}  # by the class, None for pods that no class matches

    def labels(self, now_seconds: float) -> NodeLabels:
        """The labels of the nodes there are."""
        labels = self._labels
        if labels is None or labels.names is not self._view.nodes.loads().names:
            labels = self.current(now_seconds).labels
        return labels

    def current(
        self,
        now_seconds: float,
        rows: node_cache.Rows | None = None,
        pod: pod_classes.ClassifiedPod | None = None,
    ) -> ScoreTable:
        """The table of this moment for pods like this one (None: pods that no class matches). With rows `rows` for, a
        few others may be of a moment ago: repairing a row costs as much as repairing several, and the next pod is
        mostly asked about on other nodes.
        """
        with self._lock:
            standing = self._advance(now_seconds, rows)
            in_force = standing.in_force if pod is None else standing.in_force.for_pod(pod)
            table = self._table(standing, in_force)
            self._tables[in_force.class_name].requested = True
            return table

    def ahead(self, now_seconds: float) -> None:
        """Makes the tables of this moment for the pods that no class matches, and for the classes that were asked
        about since the last call. Of the others those of which all rows are out of date are dropped.
        """
        with self._lock:
            self._advance(now_seconds, None)
            wanted = {None, *(name for name, stored in self._tables.items() if stored.requested)}
            every = self._tables.items()
            self._tables = {name: one for name, one in every if name in wanted or one.changes is not None}
            for stored in self._tables.values():
                stored.requested = False
        for name in wanted:
            with self._lock:  # for each anew: a request waits for one of them at most
                standing = self._advance(now_seconds, None)
                for in_force in (standing.in_force, *standing.in_force.of_classes):
                    if in_force.class_name == name:
                        self._table(standing, in_force)

    def candidates(self, now_seconds: float, rows: node_cache.Rows, pod: objects.Pod) -> CandidateScores | None:
        """Some rows for a pod, as if it counted on no node; None if the nodes or the policy changed meanwhile.

        One row differs, if the pod's node is asked about at all, and the columns of all nodes would be slow to copy.
        """
        table, uid = self.current(now_seconds, rows, pod), pod.uid
        row = self._view.row_of(uid) if self._view.placements.knows(uid) else None
        places = [] if row is None else (rows == row).nonzero()[0].tolist()
        if not places:
            return CandidateScores(table, rows)
        changed = self._view.besides(table.standing, uid)
        if changed is None or changed.rows.tolist() != [row]:
            return None
        return CandidateScores(table, rows, OwnNode(places[0], changed))

    def _advance(self, now_seconds: float, rows: node_cache.Rows | None) -> Candidates:
        """Brings the standing view to this moment and marks in every table what changed."""
        before, self._standing = self._standing, None  # a failure half-way has cleared the dirty flags: all rows again
        standing = self._view.standing(before, now_seconds, rows)
        if standing is not before:
            partly = before is not None and len(standing.rows) < len(standing.loads.names)
            for stored in self._tables.values():
                stored.mark(standing if partly else None)
            if before is not None and partly:
                standing = before.repaired(standing)
        self._standing = standing
        return standing

    def _table(self, standing: Candidates, in_force: CompiledPolicy) -> ScoreTable:
        """The table of a class, repaired where rows changed since it was made."""
        stored = self._tables.setdefault(in_force.class_name, _StoredTable())
        before, changes = stored.table, stored.changes
        if before is not None and changes == []:
            return before
        every = standing if in_force is standing.in_force else standing._replace(in_force=in_force)
        if before is None or changes is None:
            self._labels = name_table.labels_of(standing.loads.names, self._labels)
            table = _build(every, before, self._labels)
        else:
            table = _repaired(before, every, _changed_rows(every, changes))
        stored.table, stored.changes = table, []
        return table


def _changed_rows(every: Candidates, changes: list[Candidates]) -> Candidates:
    """The rows that differ, as they stand now."""
    if len(changes) == 1:
        return changes[0]._replace(in_force=every.in_force)
    rows = np.unique(np.concatenate([changed.rows for changed in changes]))
    return CandidateRows(every, rows).candidates()


def _build(standing: Candidates, before: ScoreTable | None, labels: NodeLabels) -> ScoreTable:
    """A table of all rows; texts of nodes that are as before are taken over."""
    same = before if before is not None and before.labels is labels else None
    size, lacking = len(labels.names), _bits(list(standing.lacking().values()))
    verdicts = standing.verdicts(each_alone=True)
    table = ScoreTable(
        standing,
        labels,
        allowed=verdicts.allowed,
        reasons=np.full(size, "", dtype=np.object_) if same is None else same.reasons.copy(),
        refusals=np.full(size, b"", dtype=np.object_) if same is None else same.refusals.copy(),
        lacking=lacking,
        sound=not lacking[labels.named].any(),
        whole=scoring.whole(standing.values, standing.in_force.weighing, standing.score_places),
        numbers=_numbers(standing),
    )
    _write_refusals(table, standing.rows, verdicts)
    return table


def _repaired(before: ScoreTable, standing: Candidates, changed: Candidates) -> ScoreTable:
    """The next table, where only the placements of some rows changed; `standing` is all rows as they are now."""
    rows, verdicts = changed.rows, changed.verdicts(each_alone=True)
    allowed, numbers = before.allowed.copy(), _Numbers._make([column.copy() for column in before.numbers])
    allowed[rows] = verdicts.allowed
    for column, of_rows in zip(numbers, _numbers(changed), strict=True):
        column[rows] = of_rows
    table = dataclasses.replace(before, standing=standing, allowed=allowed, numbers=numbers)
    if not verdicts.allowed.all():  # texts are slow to copy
        table = dataclasses.replace(table, reasons=before.reasons.copy(), refusals=before.refusals.copy())
        _write_refusals(table, rows, verdicts)
    return table


def _numbers(changed: Candidates) -> _Numbers:
    """Score some rows. Without a base there is no raw score, and the score 0 is not read."""
    base = scoring.bases(changed.values + changed.expected, changed.in_force.weighing, changed.score_places)
    penalty = changed.penalty
    has_base = ~np.isnan(base)
    if np.count_nonzero(has_base) == len(base):
        return _Numbers(base, penalty, *scoring.clamped(base, penalty))
    raw, scores = np.full(len(base), np.nan), np.zeros(len(base), dtype=np.int64)
    raw[has_base], scores[has_base] = scoring.clamped(base[has_base], penalty[has_base])
    return _Numbers(base, penalty, raw, scores)


def _write_refusals(table: ScoreTable, rows: node_cache.Rows, verdicts: filtering.Verdicts) -> None:
    """Writes the texts of some rows into the columns of a table that no other thread has yet."""
    for at, reason in verdicts.refusals():
        row = rows[at]
        if table.reasons[row] != reason:
            table.reasons[row] = reason
            table.refusals[row] = protocol.refusal(table.labels.quoted[row], reason)


def _bits(masks: list[Mask]) -> npt.NDArray[np.uint8]:
    packed: npt.NDArray[np.uint8] = np.packbits(np.array(masks), axis=0, bitorder="little")[0]
    return packed
