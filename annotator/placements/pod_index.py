"""The pods of the cluster, followed from sync to sync, and the mean use of every owner's replicas.

`annotator.node_sync` shows every snapshot to `PodIndex.follow`. A hundred thousand pods are there and a few change
between two syncs, so that each is looked at when it comes or changes, and what counting asks for is kept in columns, a
row a pod: `means` are taken over them, and `annotator.placements.hot_counts` counts the few placements that are picked
here. Nothing can drift: a row says what its pod says, and a process that begins makes all of them from its first
snapshot.

`annotator.usage_sync` hands in the answers of the two pod queries. A replica counts when its whole window shows it at
work: Ready for as long as the queries look back. A mean counts when SEVERAL replicas or SETTLED_SECONDS of one are
behind it. Pods whose like the scheduler never places (DaemonSet, static, placeholder) and pods that end do not count.
"""

import itertools
import operator
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from annotator.collect.last_good_values import Floats
from annotator.placements import hot_counts
from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.contract import owner_usage

Numbers = npt.NDArray[np.int64]
NOBODY: Final = -1  # the owner of a pod that counts for none
SPARE_ROWS: Final = 1024
SEVERAL: Final = 3
SETTLED_SECONDS: Final = 3600.0  # Ready for so long, one replica has had work if there is any


def owner_key(pod: PodView) -> str:
    """The key of the pod's owner; "" for a pod whose like is never placed, and for a bare one."""
    owner = pod.owner
    if owner is None or not pod_view.is_placed_by_load(pod):
        return ""
    return owner_usage.owner_key(pod.namespace, owner.kind, owner.name)


class PodIndex:
    """The pods of the last snapshot, by "namespace/name".

    The pods handed in never change: a changed one is another object in its place, in another mapping.
    """

    def __init__(self) -> None:
        self.pods: Mapping[str, PodView] = {}
        self._begin_anew({})

    def _begin_anew(self, pods: Mapping[str, PodView]) -> None:
        """Rows for these pods and for as many more: rows and owners of pods that are gone are forgotten here only."""
        room = 2 * len(pods) + SPARE_ROWS
        self.names: list[str] = []  # by row
        self.owners: list[str] = []  # by number
        self.owner = np.full(room, NOBODY)  # by row: the number, or NOBODY
        self._nodes: list[str] = []  # by row
        self._scheduled_seconds = np.full(room, -np.inf)
        self._placed_seconds = np.full(room, -np.inf)  # of those that are placements, `hot_counts.binding`
        self._ready_since_seconds = np.full(room, np.inf)  # of those with an owner that neither end nor have
        self._numbers: dict[str, int] = {}
        self._rows: dict[str, int] = {}
        self.by_uid: dict[str, PodView] = {}
        self.placeholders: dict[str, PodView] = {}  # those that hold room for others, or wait for it
        self.unbound: dict[str, PodView] = {}  # those that have no node
        for name, pod in pods.items():
            self._note(name, pod)

    def follow(self, pods: Mapping[str, PodView]) -> None:
        """Take over what changed since the last mapping."""
        before, self.pods = self.pods, pods
        changed = itertools.compress(pods, map(operator.is_not, pods.values(), map(before.get, pods)))
        news = {name: pods[name] for name in changed}
        if len(self.names) + len(news) > len(self.owner):
            self._begin_anew(pods)
            return
        held = [name for name in news if name in before]
        if len(before) + len(news) - len(held) > len(pods):
            held.extend(before.keys() - pods.keys())
        for name in held:
            self._forget(name, before[name])
        for name, pod in news.items():
            self._note(name, pod)

    def placed_since(self, seconds: float) -> list[tuple[str, float]]:
        """The node and the time of each placement (`hot_counts.binding`) later than that (Unix seconds)."""
        rows = np.flatnonzero(self._placed_seconds > seconds)
        return list(zip([self._nodes[row] for row in rows.tolist()], self._placed_seconds[rows].tolist(), strict=True))

    def owners_placed_since(self, seconds: float) -> frozenset[str]:
        """The owners that had a pod scheduled later than that, also one that is over (Unix seconds)."""
        numbers = self.owner[self._scheduled_seconds > seconds]
        return frozenset([self.owners[number] for number in set(numbers.tolist()) if number != NOBODY])

    def at_work_since(self, seconds: float) -> Numbers:
        """The rows of those that have been Ready since then at the latest, have an owner and do not end."""
        return np.flatnonzero(self._ready_since_seconds <= seconds)

    def running_owners(self) -> frozenset[str]:
        """The owners that have a pod which neither has ended nor is ending."""
        return frozenset([owner_key(pod) for pod in self.pods.values() if not (pod.finished or pod.deleting)]) - {""}

    def _note(self, name: str, pod: PodView) -> None:
        row, owner, scheduled_seconds = len(self.names), owner_key(pod), pod.scheduled_at_seconds
        self.names.append(name)
        self._nodes.append(pod.node_name)
        self._rows[name], self.by_uid[pod.uid] = row, pod
        if scheduled_seconds is not None:
            self._scheduled_seconds[row] = scheduled_seconds
            if hot_counts.binding(pod) is not None:
                self._placed_seconds[row] = scheduled_seconds
        if owner:
            self.owner[row] = self._number(owner)
            if not (pod.finished or pod.deleting):
                ready_since_seconds = pod.ready_since_seconds
                self._ready_since_seconds[row] = np.inf if ready_since_seconds is None else ready_since_seconds
        if pod_view.is_placeholder(pod):
            self.placeholders[name] = pod
        if not pod.node_name:
            self.unbound[name] = pod

    def _number(self, owner: str) -> int:
        number = self._numbers.setdefault(owner, len(self.owners))
        if number == len(self.owners):
            self.owners.append(owner)
        return number

    def _forget(self, name: str, pod: PodView) -> None:
        row = self._rows.pop(name)
        self.owner[row], self._ready_since_seconds[row] = NOBODY, np.inf
        self._scheduled_seconds[row], self._placed_seconds[row] = -np.inf, -np.inf
        self.by_uid.pop(pod.uid, None)
        self.placeholders.pop(name, None)
        self.unbound.pop(name, None)


class PodUsage(NamedTuple):
    """Use of pods ("namespace/name") over the last `window_seconds`."""

    cpu_cores: Mapping[str, float]
    memory_bytes: Mapping[str, float]
    window_seconds: float

    def of(self, pods: Sequence[str]) -> tuple[Floats, Floats]:
        """Millicores and bytes, in the order of these pods, NaN where one is not measured."""
        return _in_order(self.cpu_cores, pods) * 1000.0, _in_order(self.memory_bytes, pods)


def _in_order(known: Mapping[str, float], pods: Sequence[str]) -> Floats:
    return np.array([known[name] if name in known else np.nan for name in pods], dtype=np.float64)  # noqa: SIM401 - half the time of .get(), for 100,000


def means(pods: PodIndex, usage: PodUsage, *, now_seconds: float) -> dict[str, owner_usage.Mean]:
    """The mean of each owner with enough replicas that are measured, each resource over those that have it."""
    working = pods.at_work_since(now_seconds - usage.window_seconds)
    names, owners, count = pods.names, pods.owner[working], len(pods.owners)
    amounts = usage.of([names[row] for row in working.tolist()])
    measured = ~np.isnan(amounts).all(axis=0)
    settled = measured & np.isin(working, pods.at_work_since(now_seconds - SETTLED_SECONDS), assume_unique=True)
    replicas, settled_ones = (np.bincount(owners[some], minlength=count) for some in (measured, settled))
    counts = (replicas >= SEVERAL) | (settled_ones > 0)
    cpu, memory = (_averages(owners, each, count) for each in amounts)
    return {
        owner: owner_usage.Mean(millicores, size_bytes, number)
        for owner, millicores, size_bytes, number, enough in zip(
            pods.owners, cpu, memory, replicas.tolist(), counts.tolist(), strict=True
        )
        if enough
    }


def _averages(rows: Numbers, amounts: Floats, count: int) -> list[float | None]:
    """The mean amount of each row, over those that are known."""
    known = ~np.isnan(amounts)
    sums, counts = (np.bincount(rows[known], each, count) for each in (amounts[known], None))
    return [total / number if number else None for total, number in zip(sums.tolist(), counts.tolist(), strict=True)]
