"""Everything an answer is made from, joined for one request: fresh readings, placements, and the policy in force.

The watches keep `state.node_cache` and `placements` up to date; `service` hands over a new policy. `verbs` and
`verbs.explain` ask for `Candidates`, which do not change any more, and pass their arrays to the policy's pure
functions; `state.score_cache` asks for what stands for every row.

Time stands still within a second here: a request or an event at 04:00:00.7 counts as at 04:00:00. The apiserver's own
times (bindings, annotations) and windows are whole seconds, so that comparisons with them come out as before. Expected
load decays in steps of a second, and what was judged once holds for all requests of that second.
"""

import collections.abc
import itertools
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from extender import deadline
from extender.state import expected_load_table, node_cache, pending_pods, placements, usage_estimates
from extender.state.compiled_policy import CompiledPolicy, compiled
from kube import objects
from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.contract import freshness, owner_usage
from policy.rules import expected_load, filtering, hotspots, scoring
from policy.schema import load_policy, node_pools

Mask = npt.NDArray[np.bool_]


class Candidates(NamedTuple):
    """The nodes of one request at one moment; every array's first axis is `names`.

    `values[nodes, metrics]` are ratios, NaN where unusable now; `expected[nodes, metrics]` ratios of recent pods' load;
    `counts[nodes, hot spots]` placements per window; `rows` where the nodes stand in `loads`; `stale_watches` the
    causes for which all of it may be old.
    """

    in_force: CompiledPolicy
    now_seconds: float
    names: tuple[str, ...]
    loads: node_cache.NodeLoads
    rows: node_cache.Rows
    fresh: Mask
    values: node_cache.Floats
    expected: node_cache.Floats
    counts: npt.NDArray[np.int64]
    stale_watches: tuple[str, ...] = ()

    @property
    def every(self) -> "Candidates":
        """This one, as `CandidateRows.every`."""
        return self

    def name(self, at: int) -> str:
        """Returns the name of a candidate."""
        return self.names[at]

    def only(self, keep: Mask) -> "Candidates":
        """Returns the table with only the marked nodes."""
        (places,) = keep.nonzero()
        if len(places) == len(keep):
            return self
        names = tuple(itertools.compress(self.names, keep.tolist()))
        read = self.rows.take(places), self.fresh.take(places), self.values.take(places, axis=0)
        placed = self.expected.take(places, axis=0), self.counts.take(places, axis=0)
        return Candidates(self.in_force, self.now_seconds, names, self.loads, *read, *placed, self.stale_watches)

    def repaired(self, changed: "Candidates") -> "Candidates":
        """Returns the table with the placements of some nodes replaced by those in `changed`, at its moment; the rows
        are places in this one, which holds all nodes.
        """
        expected, counts = self.expected.copy(), self.counts.copy()
        expected[changed.rows], counts[changed.rows] = changed.expected, changed.counts
        kept = self.names, self.loads, self.rows, self.fresh, self.values
        return Candidates(self.in_force, changed.now_seconds, *kept, expected, counts, changed.stale_watches)

    @property
    def limits(self) -> node_cache.Floats | None:
        """The filter thresholds that nodes have instead of the policy's [nodes, metrics], NaN for none; None when no
        node has any.
        """
        return _limits(self.in_force, self.loads, self.rows)

    @property
    def score_places(self) -> node_cache.Rows | None:
        """The places of the nodes' pools [nodes], where these make a difference to the score."""
        places = self.loads.pools if self.in_force.weighing.of_pools else None
        return None if places is None else places[self.rows]

    def verdicts(self, *, each_alone: bool = False) -> filtering.Verdicts:
        """Returns the filter's verdict of each node for any pod; `each_alone`: as if no other node was asked about, so
        that `coolest` keeps none.
        """
        rules = self.in_force.rules_alone if each_alone else self.in_force.rules
        return filtering.verdicts(self.values, self.expected, rules, self.limits)

    @property
    def penalty(self) -> node_cache.Floats:
        """Hot-spot points [nodes] on the 0..10 scale."""
        return hotspots.penalty(self.counts, self.in_force.pricing)

    def score(self, pod: objects.Pod | None, mean: owner_usage.Mean | None = None) -> scoring.Breakdown:
        """Returns every factor of the scores for a pod, or as any pod would find them (None); `mean` is what the
        replicas of its owner are known to use.
        """
        return scoring.scores(*self._scored, incoming=self.incoming(pod, mean), places=self.score_places)

    def ranking(self, pod: objects.Pod, mean: owner_usage.Mean | None = None) -> scoring.Ranking:
        """Returns the ranking of `score` without the factors behind it."""
        return scoring.ranking(*self._scored, incoming=self.incoming(pod, mean), places=self.score_places)

    @property
    def _scored(self) -> tuple[node_cache.Floats, node_cache.Floats, node_cache.Floats, scoring.Weighing]:
        return self.values, self.expected, self.penalty, self.in_force.weighing

    def incoming(self, pod: objects.Pod | None, mean: owner_usage.Mean | None) -> node_cache.Floats | None:
        """The pod's own expected load [nodes, metrics], if the policy adds it to the score; `mean` is its owner's."""
        if pod is None or not self.in_force.weighing.incoming_pod:
            return None
        per_allocatable = self.loads.per_allocatable.take(self.rows, axis=0)
        return self.in_force.incoming(self.estimate(pod, mean).load, per_allocatable)

    def estimate(self, pod: objects.Pod, mean: owner_usage.Mean | None) -> expected_load.Estimate:
        """Returns the expected load of a pod; `mean` is its owner's."""
        return expected_load.estimate(usage_estimates.request_of(pod), self.in_force.policy.recent_pods, mean)

    def place(self, at: int) -> int:
        """Returns the place of a candidate's pool in the policy, `node_pools.NO_POOL` without one."""
        return node_pools.NO_POOL if self.loads.pools is None else int(self.loads.pools[self.rows[at]])

    def degradations(self) -> tuple[str, ...]:
        """Why the data behind this decision is less than whole, in words fit for a metric label; empty when it is
        whole.
        """
        if _all(self.fresh) and not np.isnan(self.values).any():
            return self.stale_watches
        return tuple(cause for cause, nodes_hit in self.lacking().items() if nodes_hit.any()) + self.stale_watches

    def lacking(self) -> dict[str, Mask]:
        """Which nodes [nodes] lack what, by the words of `degradations`."""
        unknown = self.rows == node_cache.UNKNOWN
        unread = np.isnan(self.loads.effective_seconds[self.rows]) & ~unknown
        return {
            "unknown_node": unknown,
            "missing_reading": unread,
            "stale_reading": ~(self.fresh | unknown | unread),
            "missing_metric": (np.isnan(self.values) & self._needed()).any(axis=1) & self.fresh,
        }

    def _needed(self) -> Mask:
        """The metrics that have a weight or a threshold: [metrics], or [nodes, metrics] with thresholds of nodes."""
        ruled = np.zeros(len(self.in_force.metric_names), dtype=np.bool_)
        ruled[[rule.column for rule in self.in_force.rules.rules]] = True
        limits = self.limits
        if limits is not None:
            ruled = np.where(np.isnan(limits), ruled, limits > 0)
        weighing, places = self.in_force.weighing, self.score_places
        if places is None:
            needed: Mask = ruled | (weighing.weights > 0)
            return needed
        weighted = np.zeros((len(self.rows), len(weighing.weights)), dtype=np.bool_)
        for own, rows in weighing.parts(places):
            weighted[rows] = own.weights > 0
        return ruled | weighted


class CandidateRows(NamedTuple):
    """Some rows of what stood for all nodes at one moment: the candidates of a request before they are looked up. The
    node on which its pod counts already stands without it: `own`, one row whose number is its place among these.
    """

    every: Candidates
    rows: node_cache.Rows
    own: Candidates | None = None

    def name(self, at: int) -> str:
        """Returns the name of a candidate."""
        return self.every.loads.names[int(self.rows[at])]

    def verdicts(self) -> filtering.Verdicts:
        """Returns the filter's verdicts, as `Candidates.verdicts`."""
        every, rows = self.every, self.rows
        limits, expected = _limits(every.in_force, every.loads, rows), every.expected[rows]
        if self.own is not None:
            expected[self.own.rows] = self.own.expected
        return filtering.verdicts(every.values[rows], expected, every.in_force.rules, limits)

    def candidates(self) -> Candidates:
        """Returns the candidates with arrays and names of their own."""
        every, rows = self.every, self.rows
        names = tuple(map(every.loads.names.__getitem__, rows.tolist()))
        arrays = every.fresh[rows], every.values[rows], every.expected[rows], every.counts[rows]
        seen = Candidates(every.in_force, every.now_seconds, names, every.loads, rows, *arrays, every.stale_watches)
        return seen if self.own is None else seen.repaired(self.own)


AnyCandidates = Candidates | CandidateRows


class ClusterView:
    """The extender's picture of the cluster. Every method may be called from any thread. `table` makes the source of
    the nodes. `stale_watches` is asked for each answer: causes, fit for a metric label, for which it may be old.
    """

    def __init__(
        self,
        policy: load_policy.LoadPolicy,
        content_hash: str,
        now_seconds: float,
        *,
        table: node_cache.NodeSourceFactory = node_cache.NodeTable,
    ) -> None:
        self._lock = deadline.Lock()
        self._in_force = compiled(policy, content_hash)
        self._coming: placements.PlacementTable | None = None
        self.nodes = table(self._in_force.metric_names, policy.pools)
        self._usage = owner_usage.NOTHING
        self.placements = placements.PlacementTable(policy, moment(now_seconds))
        self._unbound = pending_pods.UnboundPods()
        self.nominated = pending_pods.NominatedRefusals()
        self.usage_problem = usage_estimates.NONE_SEEN
        self.stale_watches: collections.abc.Callable[[], tuple[str, ...]] = tuple

    @property
    def in_force(self) -> CompiledPolicy:
        """The policy that answers are made with."""
        return self._in_force

    def use_policy(
        self,
        policy: load_policy.LoadPolicy,
        content_hash: str,
        pods: collections.abc.Callable[[], collections.abc.Iterable[PodView]],
        now_seconds: float,
    ) -> None:
        """Answer by another policy from the next request on; `pods` gives the watched pods, to be counted again.

        Columns and counts are made aside while requests are answered by the policy before, and swapped in at once. The
        watch tells both tables meanwhile. One caller at a time: the policy loop.
        """
        in_force, at_seconds = compiled(policy, content_hash), moment(now_seconds)
        with self._lock:
            coming = placements.PlacementTable(policy, at_seconds, published=self._usage, aside=True)
            self._coming = coming
        coming.count_anew(pods(), at_seconds)
        layout = self.nodes.laid_out(in_force.metric_names, policy.pools)
        with self._lock:
            self.nodes.use(layout)
            coming.succeed(self.placements, at_seconds)
            self.placements, self._coming, self._in_force = coming, None, in_force

    def pod_changed(self, old: PodView | None, new: PodView | None, now_seconds: float) -> None:
        """A change from the Pod watch."""
        at_seconds = moment(now_seconds)
        with self._lock:
            told, winner = self._tables(), self._unbound.changed(old, new, at_seconds)
        for table in told:
            table.pod_changed(old, new, at_seconds)
        if new is not None and winner is not None:
            self.assume(new, winner.node, winner.at_seconds)
        elif new is not None and pending_pods.is_nominated(old, new):
            self.assume(new, new.nominated_node, at_seconds)

    def assume(self, pod: PodView, node: str, now_seconds: float) -> None:
        """Take `node` ("": none) for the pod's until the watch knows better: at once if the watch has the pod unbound,
        else when it comes. What the question says of the pod is not used."""
        at_seconds = moment(now_seconds)
        with self._lock:
            waiting, loads = self._unbound.find(pod), self.nodes.loads()
            if waiting is None:  # not yet there, or bound since the answer was sent
                if pod_view.counts_as_load(pod) and not self.placements.knows(pod.uid):
                    self._unbound.expect(pod, node, at_seconds)
            elif node in loads.index or (node and node == waiting.nominated_node):  # a new node, not yet watched
                row = loads.index.get(node, node_cache.UNKNOWN)
                per_allocatable = expected_load.Load(*loads.per_allocatable[row].tolist())
                self.placements.assume(waiting, node, at_seconds, per_allocatable=per_allocatable)
            else:
                self.placements.withdraw(pod.uid, at_seconds)

    def awaited(self, now_seconds: float) -> int:
        """Returns how many pods of recent answers the watch has not brought."""
        with self._lock:
            return self._unbound.awaited(moment(now_seconds))

    def usage_changed(self, data: collections.abc.Mapping[str, str] | None, now_seconds: float) -> None:
        """A change of the ConfigMap of owners' usage; without a usable one pods are estimated by their requests."""
        self.usage_published(usage_estimates.read(data), now_seconds)

    def usage_published(self, read: usage_estimates.UsageState, now_seconds: float) -> None:
        """The means of owners, as they were read."""
        published, self.usage_problem = read
        with self._lock:  # a table that is made aside from now on begins with it
            self._usage, told = published, self._tables()
        for table in told:
            table.use_published(published, moment(now_seconds))

    def mean(self, pod: objects.Pod, now_seconds: float) -> owner_usage.Mean | None:
        """Returns the mean use of the replicas of the pod's owner, if it is known at this moment."""
        return self.placements.estimates.mean(usage_estimates.owner_of(pod), moment(now_seconds))

    def candidates(self, names: tuple[str, ...], now_seconds: float, pod: objects.Pod | None = None) -> Candidates:
        """The nodes asked for as they stand now, with unknown names as nodes without a reading.

        For a pod under the policy of its class, and what is assumed or known of its own placement does not count.
        """
        at_seconds, besides = moment(now_seconds), "" if pod is None else pod.uid
        with self._lock:
            in_force, loads = self._in_force, self.nodes.loads()
            rows = loads.rows(names)
            crowded = self.placements.crowding(loads.index, len(loads.names), rows, at_seconds, besides=besides)
        joined = _joined(in_force, at_seconds, names, loads, rows=rows, crowded=crowded)
        in_force = in_force if pod is None else in_force.for_pod(pod)
        return joined._replace(in_force=in_force, stale_watches=self.stale_watches())

    def standing(
        self, before: Candidates | None, now_seconds: float, requested_rows: node_cache.Rows | None = None
    ) -> Candidates:
        """Every row, as `candidates` would find it; only the rows that differ, if all else is as it was in `before`,
        and `before` itself if none does. With `requested_rows`, a few others may stay as they were in `before`. For one
        caller: a row that changed is returned once.
        """
        at_seconds = moment(now_seconds)
        with self._lock:
            in_force, loads = self._in_force, self.nodes.loads()
            moved = before is None or before.now_seconds != at_seconds
            requested_rows = None if moved else requested_rows
            touched = self.placements.touched(
                loads.index, len(loads.names), at_seconds, aging=moved, requested_rows=requested_rows
            )
            if before is None or not _same(before, in_force, loads, at_seconds):
                rows = np.arange(len(loads.names))
            elif len(touched) or moved:
                rows = touched
            else:
                return before
            crowded = self.placements.crowding(loads.index, len(loads.names), rows, at_seconds, besides="")
        if before is None or len(rows) == len(loads.names):
            joined = _joined(in_force, at_seconds, loads.names, loads, rows=rows, crowded=crowded)
            return joined._replace(stale_watches=self.stale_watches())
        return self._placed_anew(before, at_seconds, rows, crowded)

    def row_of(self, uid: str) -> int | None:
        """Returns the row of the node on which a pod counts; None if it counts on none."""
        with self._lock:
            return self.nodes.loads().index.get(self.placements.node_of(uid))

    def besides(self, standing: Candidates, uid: str) -> Candidates | None:
        """The row of the node on which a pod counts, as it is without the pod, at the moment of `standing`; no row if
        it counts on none. None if the nodes or the policy are others than in `standing`.
        """
        with self._lock:
            loads, at_seconds = self.nodes.loads(), standing.now_seconds
            if loads is not standing.loads or not self._in_force.includes(standing.in_force):
                return None
            row = loads.index.get(self.placements.node_of(uid))
            rows = np.array([] if row is None else [row], dtype=np.intp)
            crowded = self.placements.crowding(loads.index, len(loads.names), rows, at_seconds, besides=uid)
        return self._placed_anew(standing, at_seconds, rows, crowded)

    def _placed_anew(
        self,
        old: Candidates,
        at_seconds: float,
        rows: node_cache.Rows,
        crowded: expected_load_table.ExpectedLoadColumns,
    ) -> Candidates:
        """Some rows with the placements of a moment, and the readings of `old`, as fresh as they were."""
        names, read = tuple(map(old.loads.names.__getitem__, rows.tolist())), (old.fresh[rows], old.values[rows])
        expected, stale = crowded.amounts * _shares(old.in_force, old.loads, rows), self.stale_watches()
        return Candidates(old.in_force, at_seconds, names, old.loads, rows, *read, expected, crowded.counts, stale)

    def all_nodes(self, now_seconds: float) -> Candidates:
        """Every known node by name, as an average pod would find it."""
        return self.candidates(tuple(sorted(self.nodes.loads().index)), now_seconds)

    def _tables(self) -> list[placements.PlacementTable]:
        return [table for table in (self.placements, self._coming) if table is not None]


def _same(before: Candidates, in_force: CompiledPolicy, loads: node_cache.NodeLoads, at_seconds: float) -> bool:
    """Whether only placements can make a difference: the same readings, as fresh as they were, by the same policy."""
    if before.in_force is not in_force or before.loads is not loads:
        return False
    if before.now_seconds == at_seconds:
        return True
    fresh = freshness.mask(loads.effective_seconds, at_seconds, in_force.policy.sync.stale_after_seconds)
    return bool((fresh == before.fresh).all())


def moment(now_seconds: float) -> float:
    """The second that a time lies in."""
    return float(math.floor(now_seconds))


def _joined(
    in_force: CompiledPolicy,
    at_seconds: float,
    names: tuple[str, ...],
    loads: node_cache.NodeLoads,
    *,
    rows: node_cache.Rows,
    crowded: expected_load_table.ExpectedLoadColumns,
) -> Candidates:
    fresh = freshness.mask(loads.effective_seconds.take(rows), at_seconds, in_force.policy.sync.stale_after_seconds)
    values = loads.values.take(rows, axis=0)
    if not _all(fresh):
        values[~fresh] = np.nan
    expected = crowded.amounts * _shares(in_force, loads, rows)
    return Candidates(in_force, at_seconds, names, loads, rows, fresh, values, expected, crowded.counts)


def _limits(in_force: CompiledPolicy, loads: node_cache.NodeLoads, rows: node_cache.Rows) -> node_cache.Floats | None:
    """Returns the node's own threshold, else its pool's, else NaN [nodes, metrics]; None when no node has either."""
    own = None if loads.own_limits is None else loads.own_limits[rows]
    if loads.pools is None:
        return own
    of_pool = in_force.pool_limits[loads.pools[rows]]
    return of_pool if own is None else np.where(np.isnan(own), of_pool, own)


def _shares(in_force: CompiledPolicy, loads: node_cache.NodeLoads, rows: node_cache.Rows) -> node_cache.Floats:
    """Returns the ratio of one unit of each metric's resource on each node [nodes, metrics]."""
    return loads.per_allocatable.take(rows, axis=0).take(in_force.resources, axis=1)


def _all(marked: Mask) -> bool:
    return bool(np.count_nonzero(marked) == len(marked))
