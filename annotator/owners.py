"""Watched pods and what each of them uses -> the mean use of every owner's replicas, pure.

`annotator.usage` hands in the answers of the two pod queries. A replica counts when its whole window shows it at work:
Ready for as long as the queries look back. Pods whose like the scheduler never places (DaemonSet, static, placeholder)
and pods that end do not count. Whose a pod is and since when it works is asked once of each pod as it is (`Replicas`):
a hundred thousand are there, and a few change between two looks.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from annotator import bindings
from annotator.book import Floats
from kube.lean_pods import Pod
from policy import owner_usage

RECENT_SECONDS = 3600.0  # an owner that had a pod placed so lately is kept first when not all fit


class PodUsage(NamedTuple):
    """Valid amounts by "namespace/name" over the last `window_seconds`."""

    cpu_millicores: Mapping[str, float]
    memory_bytes: Mapping[str, float]
    window_seconds: float


def key(pod: Pod) -> str:
    """The key of the pod's owner; "" for a pod whose like is never placed, and for a bare one."""
    owner = pod.owner
    if owner is None or not bindings.is_placed_by_load(pod):
        return ""
    return owner_usage.owner_key(pod.namespace, owner.kind, owner.name)


class Replicas:
    """Which pods, by "namespace/name", count for which owner, followed from snapshot to snapshot.

    The pods handed in never change: whoever changes one puts another object in its place, in another mapping.
    """

    def __init__(self) -> None:
        self._pods: Mapping[str, Pod] = {}
        self.owners: dict[str, str] = {}  # of the pods that have one and are placed by load
        self.ready_since_seconds: dict[str, float] = {}  # of those of them that are Ready and neither end nor have

    def follow(self, pods: Mapping[str, Pod]) -> None:
        """Take over what changed since the last mapping."""
        before = self._pods
        for name in [name for name, pod in pods.items() if name not in before or before[name] is not pod]:
            self._forget(name)
            self._note(name, pods[name])
        for name in before.keys() - pods.keys():
            self._forget(name)
        self._pods = pods

    def at_work(self, since_seconds: float) -> list[str]:
        """Those that have been Ready since a moment, in the order of the pods."""
        ready = self.ready_since_seconds
        return [name for name in self._pods if name in ready and ready[name] <= since_seconds]

    def running(self) -> frozenset[str]:
        """The owners that have a pod which neither has ended nor is ending."""
        living = [name for name, pod in self._pods.items() if not (pod.finished or pod.deleting)]
        return frozenset([self.owners[name] for name in living if name in self.owners])

    def placed_lately(self, *, now_seconds: float) -> frozenset[str]:
        """The owners that had a pod placed within the last hour."""
        since_seconds = now_seconds - RECENT_SECONDS
        lately = [name for name, pod in self._pods.items() if (pod.status.scheduled_at_seconds or 0.0) > since_seconds]
        return frozenset([self.owners[name] for name in lately if name in self.owners])

    def _note(self, name: str, pod: Pod) -> None:
        owner = key(pod)
        if not owner:
            return
        self.owners[name] = owner
        if pod.ready_since_seconds is not None and not (pod.finished or pod.deleting):
            self.ready_since_seconds[name] = pod.ready_since_seconds

    def _forget(self, name: str) -> None:
        self.owners.pop(name, None)
        self.ready_since_seconds.pop(name, None)


def means(replicas: Replicas, usage: PodUsage, *, now_seconds: float) -> dict[str, owner_usage.Mean]:
    """The mean of each owner with at least one replica that is measured, each resource over those that have it."""
    working = replicas.at_work(now_seconds - usage.window_seconds)
    pods = [name for name in working if name in usage.cpu_millicores or name in usage.memory_bytes]
    every = [replicas.owners[name] for name in pods]
    places = {owner: place for place, owner in enumerate(dict.fromkeys(every))}
    rows = np.array([places[owner] for owner in every], dtype=np.int64)
    cpu, memory = (_averages(rows, _amounts(pods, each), len(places)) for each in usage[:2])
    counts = np.bincount(rows, minlength=len(places)).tolist()
    return {owner: owner_usage.Mean(*mean) for owner, *mean in zip(places, cpu, memory, counts, strict=True)}


def _amounts(pods: list[str], amounts: Mapping[str, float]) -> Floats:
    """In the order of the pods, NaN where a pod is not measured."""
    return np.array([amounts[name] if name in amounts else np.nan for name in pods], dtype=np.float64)  # noqa: SIM401 - half the time of .get(), for 100,000


def _averages(rows: npt.NDArray[np.int64], amounts: Floats, count: int) -> list[float | None]:
    """The mean amount of each row, over those that are known."""
    known = ~np.isnan(amounts)
    sums, counts = (np.bincount(rows[known], each, count) for each in (amounts[known], None))
    return [total / number if number else None for total, number in zip(sums.tolist(), counts.tolist(), strict=True)]
