"""Recent pods of each node and their expected load, from the Pod watch and from the extender's own winners.

The Pod watch confirms placements; `verbs` adds an assumed one when an answer settles on a winner, so that the next
pod of a burst sees it before the watch does. It stays while the binding waits (a volume, the rest of a gang), and ends
when the watch shows the pod bound, gone or refused by the scheduler, when the pod is judged again, and after
ASSUMED_SECONDS. What a request needs is kept ready per node in rows (`state.expected_load_table`), which are written
when a placement comes, goes, begins to age or leaves a window; a heap of moments tells when the next one does. Pods
that ended, are being deleted, wait for a reason of failure, belong to a DaemonSet, are static (the kubelet made them,
no scheduler placed them) or hold room as placeholders do not count.

A placement is of the second that its pod's condition names, also where this machine's clock is a little behind:
replicas hold the same placements then, and `state.digests` finds them alike. Only ages are never less than 0.
"""

import collections.abc
import dataclasses
import heapq
import math
from typing import Final

from extender import deadline
from extender.state import expected_load_table, node_cache, usage_estimates
from extender.state.expected_load_table import Placement
from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.contract import freshness, owner_usage
from policy.rules import expected_load, hotspots
from policy.schema import load_policy

ASSUMED_SECONDS: Final = expected_load.LONGEST_WAIT_SECONDS
# Threads read the clock at slightly different moments; going back by more means that it was set.
SET_BACK_SECONDS: Final = 1.0
_ROUNDING: Final = 1e-9  # 1 / allocatable times allocatable may be a little over 1


class Placements:
    """The placements that count, by pod and by node, and the rows of their nodes, from moment to moment. Not
    thread-safe: `PlacementTable` has the lock.
    """

    def __init__(self, policy: load_policy.LoadPolicy, now_seconds: float) -> None:
        self.rows = expected_load_table.ExpectedLoadTable(policy, now_seconds)
        self.latest_seconds = now_seconds
        self.by_pod: dict[str, Placement] = {}
        self.by_node: dict[str, dict[str, Placement]] = {}
        self._ends: list[float] = []  # a heap of the moments in `_ending`
        self._ending: dict[float, set[str]] = {}  # by moment the nodes whose rows are to be written again then

    def advance(self, loads: node_cache.NodeLoads, now_seconds: float) -> None:
        """Follow the nodes that came or went, and bring the rows up to this moment."""
        moved = self.rows.follow(loads.index, len(loads.names))
        for node in moved & self.by_node.keys() if moved else ():
            self._write_row(node, self.latest_seconds)
        self.expire(now_seconds)

    def fits(self, placement: Placement, per_allocatable: expected_load.Load) -> bool:
        """Whether a scheduler that minds requests could bind it there; what counts is never more than what runs."""
        here = self.by_node.get(placement.binding.node, {})
        requests = [other.key.request for uid, other in here.items() if uid != placement.binding.uid]
        amounts = zip(*requests, placement.key.request, strict=True)
        return all(
            math.fsum(each) * share <= 1.0 + _ROUNDING for each, share in zip(amounts, per_allocatable, strict=True)
        )

    def estimate_anew(self, node: str, estimates: usage_estimates.Estimates, now_seconds: float) -> None:
        """Estimate the pods of a node again."""
        here, shows = self.by_node.get(node, {}), False
        for uid, placement in here.items():
            load = estimates.of(placement.key, now_seconds).load
            if load != placement.load:
                self.by_pod[uid] = here[uid] = placement._replace(load=load)
                shows |= now_seconds - placement.began_at_seconds < self.rows.expecting_seconds
        if shows:
            self._write_row(node, now_seconds)

    def add(self, placement: Placement, now_seconds: float) -> None:
        """Count a placement in place of what counts of its pod, if it is in some window yet."""
        binding, known = placement.binding, self.by_pod.get(placement.binding.uid)
        if known == placement:
            return
        as_assumed = known is not None and known._replace(until_seconds=placement.until_seconds) == placement
        if not as_assumed:
            self.remove(binding.uid, now_seconds)
        if self.rows.end_seconds(binding.at_seconds, placement.began_at_seconds) <= now_seconds:
            return
        self.by_pod[binding.uid] = placement
        self.by_node.setdefault(binding.node, {})[binding.uid] = placement
        for turn_seconds in {min(turn, placement.until_seconds) for turn in self.rows.turns(placement)}:
            if turn_seconds > now_seconds:
                self._write_at(turn_seconds, binding.node)
        if not as_assumed:  # most confirmations: the pod was bound where and in the assumed second
            self._write_row(binding.node, now_seconds)

    def remove(self, uid: str, now_seconds: float) -> None:
        """Count a pod on no node."""
        placement = self.by_pod.get(uid)
        if placement is not None:
            self._forget(placement)
            self._write_row(placement.binding.node, now_seconds)

    def _forget(self, placement: Placement) -> None:
        """Take it out of both maps; a node without any leaves its map, or names of gone nodes would pile up."""
        uid, node = placement.binding.uid, placement.binding.node
        del self.by_pod[uid], self.by_node[node][uid]
        if not self.by_node[node]:
            del self.by_node[node]

    def expire(self, now_seconds: float) -> None:
        """Bring the rows up to this moment: pods leave a window, the longest one, or an assumption ends."""
        if now_seconds < self.latest_seconds - SET_BACK_SECONDS:
            self._set_back(now_seconds)
        self.latest_seconds = max(self.latest_seconds, now_seconds)
        due: set[str] = set()
        while self._ends and self._ends[0] <= now_seconds:
            due |= self._ending.pop(heapq.heappop(self._ends))
        if due:
            self._end_on(due, now_seconds)

    def _end_on(self, due: set[str], now_seconds: float) -> None:
        """Forget what does not count on these nodes any more. Hundreds may be due at the turn of a second, when a
        request waits for it, and most have nothing left.
        """
        there = [placement for node in due & self.by_node.keys() for placement in self.by_node[node].values()]
        for placement in there:
            binding, until_seconds = placement.binding, placement.until_seconds
            end_seconds = self.rows.end_seconds(binding.at_seconds, placement.began_at_seconds)
            if min(until_seconds, end_seconds) <= now_seconds:
                self._forget(placement)
        empty = due - self.by_node.keys()
        self.rows.clear(empty)
        for node in due - empty:
            self._write_row(node, now_seconds)

    def _write_at(self, end_seconds: float, node: str) -> None:
        if end_seconds not in self._ending:
            self._ending[end_seconds] = set()
            heapq.heappush(self._ends, end_seconds)
        self._ending[end_seconds].add(node)

    def _set_back(self, now_seconds: float) -> None:
        """The clock was set back: assumed placements begin now, and so do those that would wait long for their second;
        the rest is new until then.
        """
        self.latest_seconds = now_seconds
        for placement in list(self.by_pod.values()):
            assumed, at_seconds = placement.is_assumption, placement.binding.at_seconds
            if at_seconds > now_seconds + (0.0 if assumed else freshness.MAX_AHEAD_SECONDS):
                at_seconds = now_seconds
            until_seconds = now_seconds + ASSUMED_SECONDS if assumed else math.inf
            binding = placement.binding._replace(at_seconds=at_seconds)
            waited_seconds = placement.began_at_seconds - placement.binding.at_seconds
            moved = placement._replace(
                binding=binding,
                began_at_seconds=at_seconds + waited_seconds,
                until_seconds=min(placement.until_seconds, until_seconds),
            )
            self.remove(binding.uid, now_seconds)
            self.add(moved, now_seconds)

    def read(
        self, rows: node_cache.Rows, now_seconds: float, *, besides: str
    ) -> expected_load_table.ExpectedLoadColumns:
        """The columns of some rows; that of a pod's node is written without the pod and then put back as it was."""
        placement = self.by_pod.get(besides) if besides else None
        if placement is None:
            return self.rows.read(rows, now_seconds)
        with self.rows.put_back(placement.binding.node):
            self._write_row(placement.binding.node, now_seconds, besides=besides)
            return self.rows.read(rows, now_seconds)

    def _write_row(self, node: str, now_seconds: float, *, besides: str = "") -> None:
        here = [placement for uid, placement in self.by_node.get(node, {}).items() if uid != besides]
        # work after a reply knows the moment of its request
        self.rows.write(node, here, max(now_seconds, self.latest_seconds))


class PlacementTable:
    """Keeps counts and lines in step with the Pod watch. Every method may be called from any thread.

    A new policy gets a new table, made `aside` while the one in use answers and both hear the watch: `count_anew` fills
    it from what the watch has, leaving alone the pods of which it heard more since, and `succeed` ends that.
    """

    def __init__(
        self,
        policy: load_policy.LoadPolicy,
        now_seconds: float,
        *,
        published: owner_usage.PublishedUsage = owner_usage.NOTHING,
        aside: bool = False,
        largest_node: collections.abc.Callable[[], expected_load.Load] = lambda: expected_load.UNBOUNDED,
    ) -> None:
        self._lock = deadline.Lock()
        self._changed_uids: set[str] | None = set() if aside else None
        self.estimates = usage_estimates.Estimates(policy.recent_pods, policy.sync, published, largest_node)  # now
        self._placements = Placements(policy, now_seconds)

    def count_anew(self, pods: collections.abc.Iterable[PodView], now_seconds: float) -> None:
        """Count what the watch has. The lock is held for one pod at a time, no request waits for all."""
        for pod in pods:
            with self._lock:
                if self._changed_uids is None or pod.uid not in self._changed_uids:
                    self._put(pod, now_seconds)

    def succeed(self, other: "PlacementTable", now_seconds: float) -> None:
        """Take over what another table assumes."""
        assumptions = other.assumptions(now_seconds)
        with self._lock:
            self._changed_uids = None
            for placement in assumptions:
                if placement.binding.uid not in self._placements.by_pod:
                    self._placements.add(placement, now_seconds)

    def use_published(self, published: owner_usage.PublishedUsage, now_seconds: float) -> None:
        """Estimate by other means of owners from now on; the pods that count are estimated again, so that replicas of
        the extender agree whenever each of them saw the ConfigMap. The lock is held for one node at a time: requests
        do not wait for all of them.
        """
        with self._lock:
            self.estimates = dataclasses.replace(self.estimates, published=published)
            nodes = list(self._placements.by_node)
        for node in nodes:
            with self._lock:
                self._placements.estimate_anew(node, self.estimates, now_seconds)

    def pod_changed(self, old: PodView | None, new: PodView | None, now_seconds: float) -> None:
        """A change from the Pod watch; it confirms, moves or denies what was assumed. `new` None: the pod is gone."""
        with self._lock:
            if self._changed_uids is not None:
                self._changed_uids.update(pod.uid for pod in (old, new) if pod is not None)
            self._placements.expire(now_seconds)
            if old is not None and (new is None or new.uid != old.uid):
                self._placements.remove(old.uid, now_seconds)
            if new is not None and _goes_nowhere(old, new):
                self._withdraw(new.uid, now_seconds)
            if new is not None:
                self._put(new, now_seconds)

    def assume(self, pod: PodView, node: str, now_seconds: float, *, per_allocatable: expected_load.Load) -> None:
        """Take `node` for the pod's for ASSUMED_SECONDS or until the watch knows better, if its requests and those of
        what counts there fit: `per_allocatable` is 1 / allocatable, 0 where that is unknown. It counts in full.
        """
        if not pod_view.counts_as_load(pod):
            return
        with self._lock:
            known = self._placements.by_pod.get(pod.uid)
            if known is None or known.is_assumption:
                at_seconds = known.binding.at_seconds if known and known.binding.node == node else now_seconds
                until_seconds = now_seconds + ASSUMED_SECONDS
                placement = self._placement(pod, hotspots.Binding(node, pod.uid, at_seconds), until_seconds)
                if self._placements.fits(placement, per_allocatable):
                    self._placements.add(placement._replace(until_seconds=until_seconds), now_seconds)
                else:
                    self._placements.remove(pod.uid, now_seconds)

    def withdraw(self, uid: str, now_seconds: float) -> None:
        """Take a pod for no node's any more, if it was assumed."""
        with self._lock:
            self._withdraw(uid, now_seconds)

    def crowding(
        self, loads: node_cache.NodeLoads, rows: node_cache.Rows, now_seconds: float, *, besides: str
    ) -> expected_load_table.ExpectedLoadColumns:
        """The columns for some rows of `loads` at this moment, without the pod of the uid `besides`."""
        with self._lock:
            self._placements.advance(loads, now_seconds)
            return self._placements.read(rows, now_seconds, besides=besides)

    def touched(
        self, loads: node_cache.NodeLoads, now_seconds: float, *, aging: bool, rows: node_cache.Rows | None = None
    ) -> node_cache.Rows:
        """The rows of `loads` written since this last gave them, brought up to this moment. With `aging` also those
        that time alone changes. With `rows` requested, a few others may wait.

        For one caller, who keeps the others: `state.score_cache`.
        """
        with self._lock:
            self._placements.advance(loads, now_seconds)
            return self._placements.rows.touched(rows, aging=aging)

    def node_of(self, uid: str) -> str:
        """The node on which a pod counts, "" if on none."""
        placement = self._placements.by_pod.get(uid)
        return placement.binding.node if placement is not None else ""

    def knows(self, uid: str) -> bool:
        """Whether a pod counts on some node, assumed or confirmed."""
        return uid in self._placements.by_pod

    def current(self, now_seconds: float) -> list[Placement]:
        """Every placement that still counts in some window, assumed or confirmed."""
        with self._lock:
            self._placements.expire(now_seconds)
            return list(self._placements.by_pod.values())

    def assumptions(self, now_seconds: float) -> list[Placement]:
        """The placements that are assumed and not confirmed."""
        return [placement for placement in self.current(now_seconds) if placement.is_assumption]

    def assumed(self, now_seconds: float) -> int:
        """How many placements are assumed and not yet confirmed."""
        return len(self.assumptions(now_seconds))

    def _put(self, pod: PodView, now_seconds: float) -> None:
        if not pod.node_name:
            if pod.deleting or pod.finished:
                self._placements.remove(pod.uid, now_seconds)
            return
        at_seconds = self._bound_at_seconds(pod, now_seconds)
        began_at_seconds = expected_load.began_at_seconds(pod, at_seconds, now_seconds)
        # Most pods are past every window: nothing more is read of them.
        past = self._placements.rows.end_seconds(at_seconds, began_at_seconds) <= now_seconds
        if past or not pod_view.counts_as_load(pod):
            self._placements.remove(pod.uid, now_seconds)
        else:
            binding = hotspots.Binding(pod.node_name, pod.uid, at_seconds)
            self._placements.add(self._placement(pod, binding, began_at_seconds), now_seconds)

    def _placement(self, pod: PodView, binding: hotspots.Binding, began_at_seconds: float) -> Placement:
        key = usage_estimates.estimate_key(pod)
        return Placement(binding, self.estimates.of(key, self._placements.latest_seconds).load, key, began_at_seconds)

    def _bound_at_seconds(self, pod: PodView, now_seconds: float) -> float:
        """When it was bound, if its moments say so, else when we first saw it there, so that it ages all the same."""
        at_seconds = expected_load.bound_at_seconds(pod, now_seconds)
        if at_seconds is not None:
            return at_seconds
        known = self._placements.by_pod.get(pod.uid)
        return known.binding.at_seconds if known is not None and known.binding.node == pod.node_name else now_seconds

    def _withdraw(self, uid: str, now_seconds: float) -> None:
        placement = self._placements.by_pod.get(uid)
        if placement is not None and placement.is_assumption:
            self._placements.remove(uid, now_seconds)


def _goes_nowhere(old: PodView | None, new: PodView) -> bool:
    """Whether the scheduler took back where a pod without a node was to go: it refused it, or nominates no node now."""
    if old is None or old.uid != new.uid or new.node_name or new.nominated_node:
        return False
    return bool(old.nominated_node) or old.scheduling_failure != new.scheduling_failure
