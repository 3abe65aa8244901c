"""Everything an answer is made from, joined for one request: fresh readings, placements, and the policy in force.

The watches keep `state.node_cache` and `placements` up to date; `service` hands over a new policy. `verbs` and
`verbs.explain` ask for `state.candidates.Candidates`; `state.score_cache` asks for what stands for every row.

Time stands still within a second here: a request or an event at 04:00:00.7 counts as at 04:00:00. The apiserver's own
times (bindings, annotations) and windows are whole seconds, so that comparisons with them come out as before. Expected
load decays in steps of a second, and what was judged once holds for all requests of that second.
"""

import collections.abc
import math
from typing import Final, NamedTuple

import numpy as np

from extender import deadline
from extender.state import expected_load_table, node_cache, placements, usage_estimates
from extender.state.candidates import Candidates
from extender.state.compiled_policy import CompiledPolicy, compiled
from kube import objects
from kube.api import identifiers
from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.contract import freshness, owner_usage
from policy.rules import expected_load
from policy.schema import load_policy

AWAITED_SECONDS: Final = 5.0  # a watch event under load
WINNERS_KEPT: Final = 1024  # 200 pods a second for AWAITED_SECONDS
REFUSALS_KEPT: Final = 1024  # of nominated nodes: between two requests of a cycle, some milliseconds
LONGEST_KEY: Final = identifiers.LONGEST_LABEL + len("/") + identifiers.LONGEST_NAME  # no uid, no name is longer


class Winner(NamedTuple):
    """The node that an answer named, for which pod ("namespace/name"), and when (Unix)."""

    pod_key: str
    node: str
    at_seconds: float


class UnboundPods:
    """Pods without a node by uid, and winners by the uid of a pod that the watch has not brought.

    A request is not proof: any client that reaches the port may make up a pod of 100,000 cores. So a winner is assumed
    only for a pod that the watch has without a node, and with what the apiserver says that it requests. kube-scheduler
    has a watch of its own and may ask first; the winner of such an answer is kept for AWAITED_SECONDS and takes effect
    when the watch brings a pod of the same uid, namespace and name that still waits. Not thread-safe: the view has the
    lock.
    """

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._winners: dict[str, Winner] = {}

    def awaited(self, now_seconds: float) -> int:
        """How many pods of answers of the last AWAITED_SECONDS the watch has not brought."""
        return sum(_is_recent(one, now_seconds) for one in self._winners.values())

    def find(self, pod: PodView) -> PodView | None:
        """The watch's own version of a question's pod, if it waits for a node there; uid, namespace and name agree."""
        watched = self._pods.get(pod.uid)
        return watched if watched is not None and watched.key == pod.key else None

    def expect(self, pod: PodView, node: str, at_seconds: float) -> None:
        """Keep a winner until the watch brings its pod ("": none won); the oldest goes when there are too many."""
        if max(map(len, (pod.uid, pod.key, node))) > LONGEST_KEY:
            return
        self._winners.pop(pod.uid, None)
        if not node:
            return
        self._winners[pod.uid] = Winner(pod.key, node, at_seconds)
        if len(self._winners) > WINNERS_KEPT:
            del self._winners[next(iter(self._winners))]

    def changed(self, old: PodView | None, new: PodView | None, now_seconds: float) -> Winner | None:
        """Follow a change from the Pod watch. The winner of an answer about the pod, if it came a moment ago."""
        if old is not None and (new is None or new.uid != old.uid):
            self._pods.pop(old.uid, None)
        if new is None:
            return None
        winner = self._winners.pop(new.uid, None)
        if new.node_name or new.deleting or new.finished:
            self._pods.pop(new.uid, None)
            return None
        self._pods[new.uid] = new
        if winner is None or winner.pod_key != new.key or not _is_recent(winner, now_seconds):
            return None
        return winner


class NominatedRefusals:
    """The pods whose nominated node was refused in their last answer, by uid; the oldest goes when there are too many.

    kube-scheduler asks about the nominated node alone, and about all nodes if that fails. For a pod that can run on
    that node only the second request is the first one again: it passes. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = deadline.Lock()
        self._refused: dict[str, None] = {}

    def refuse(self, uid: str) -> bool:
        """Returns whether the node is to be refused: not where it just was, nor where that cannot be remembered."""
        with self._lock:
            if self._refused.pop(uid, uid) is None or not 0 < len(uid) <= LONGEST_KEY:
                return False
            self._refused[uid] = None
            if len(self._refused) > REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]
            return True

    def forget(self, uid: str) -> None:
        """The pod had another answer since."""
        with self._lock:
            self._refused.pop(uid, None)


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
        self.in_force = compiled(policy, content_hash)  # the policy that answers are made with
        self._coming: placements.PlacementTable | None = None
        self.nodes = table(self.in_force.metric_names, policy.pools)
        self._usage = owner_usage.NOTHING
        self.placements = placements.PlacementTable(policy, moment(now_seconds), largest_node=self._largest_node)
        self._unbound = UnboundPods()
        self.nominated = NominatedRefusals()
        self.usage_problem = usage_estimates.NONE_SEEN
        self.stale_watches: collections.abc.Callable[[], tuple[str, ...]] = tuple

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
            coming = placements.PlacementTable(
                policy, at_seconds, published=self._usage, aside=True, largest_node=self._largest_node
            )
            self._coming = coming
        coming.count_anew(pods(), at_seconds)
        layout = self.nodes.laid_out(in_force.metric_names, policy.pools)
        with self._lock:
            self.nodes.use(layout)
            coming.succeed(self.placements, at_seconds)
            self.placements, self._coming, self.in_force = coming, None, in_force

    def pod_changed(self, old: PodView | None, new: PodView | None, now_seconds: float) -> None:
        """A change from the Pod watch."""
        at_seconds = moment(now_seconds)
        with self._lock:
            tables, winner = self._tables(), self._unbound.changed(old, new, at_seconds)
        for table in tables:
            table.pod_changed(old, new, at_seconds)
        if new is not None and winner is not None:
            self.assume(new, winner.node, winner.at_seconds)
        elif new is not None and is_nominated(old, new):
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
        published, self.usage_problem = usage_estimates.read(data)
        with self._lock:  # a table that is made aside from now on begins with it
            self._usage, tables = published, self._tables()
        for table in tables:
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
            in_force, loads = self.in_force, self.nodes.loads()
            rows = loads.rows(names)
            crowded = self.placements.crowding(loads, rows, at_seconds, besides=besides)
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
            in_force, loads = self.in_force, self.nodes.loads()
            moved = before is None or before.now_seconds != at_seconds
            requested_rows = None if moved else requested_rows
            touched = self.placements.touched(loads, at_seconds, aging=moved, rows=requested_rows)
            if before is None or not _same(before, in_force, loads, at_seconds):
                rows = np.arange(len(loads.names))
            elif len(touched) or moved:
                rows = touched
            else:
                return before
            crowded = self.placements.crowding(loads, rows, at_seconds, besides="")
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
            if loads is not standing.loads or not self.in_force.includes(standing.in_force):
                return None
            row = loads.index.get(self.placements.node_of(uid))
            rows = np.array([] if row is None else [row], dtype=np.intp)
            crowded = self.placements.crowding(loads, rows, at_seconds, besides=uid)
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

    def _largest_node(self) -> expected_load.Load:
        return self.nodes.loads().largest_node()

    def _tables(self) -> list[placements.PlacementTable]:
        return [table for table in (self.placements, self._coming) if table is not None]


def is_nominated(old: PodView | None, new: PodView) -> bool:
    """Returns whether the scheduler has just nominated a node for a pod that waits."""
    if new.node_name or not new.nominated_node:
        return False
    return old is None or (old.uid, old.nominated_node) != (new.uid, new.nominated_node)


def _is_recent(winner: Winner, now_seconds: float) -> bool:
    return now_seconds - winner.at_seconds < AWAITED_SECONDS


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
    if not fresh.all():
        values[~fresh] = np.nan
    expected = crowded.amounts * _shares(in_force, loads, rows)
    return Candidates(in_force, at_seconds, names, loads, rows, fresh, values, expected, crowded.counts)


def _shares(in_force: CompiledPolicy, loads: node_cache.NodeLoads, rows: node_cache.Rows) -> node_cache.Floats:
    """Returns the ratio of one unit of each metric's resource on each node [nodes, metrics]."""
    return loads.per_allocatable.take(rows, axis=0).take(in_force.resources, axis=1)
