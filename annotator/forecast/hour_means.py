"""The use of all pods in one hour -> the mean use of each owner's replicas, pure.

A pod that is there counts if it was at work for the whole hour. Of an hour long ago most pods are gone: these count for
the owner that their name says, by the way the controllers make names, if it still has pods.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

import numpy as np

from annotator.placements.pod_index import PodIndex
from policy.contract import owner_usage

_SAFE: Final = "[bcdfghjklmnpqrstvwxz2456789]"  # the letters of k8s.io/apimachinery's generated names
_BY_NAME: Final = (
    ("ReplicaSet", re.compile(rf"(.+)-{_SAFE}{{8,10}}-{_SAFE}{{5}}")),
    ("StatefulSet", re.compile(r"(.+)-[0-9]+")),
)


class HourUse(NamedTuple):
    """Pods' mean use in an hour by "namespace/name", in cores and bytes."""

    cpu_cores: Mapping[str, float]
    memory_bytes: Mapping[str, float]


def means(use: HourUse, pods: PodIndex, since_seconds: float) -> dict[str, owner_usage.Mean]:
    """The mean of each owner that has pods now; `since_seconds` is when the hour began (Unix)."""
    owners = _Owners(pods, since_seconds)
    cpu, memory = (owners.amounts(each) for each in use)
    return {
        owner: owner_usage.Mean(
            1000.0 * float(np.mean(cpu[owner])) if owner in cpu else None,
            float(np.mean(memory[owner])) if owner in memory else None,
            max(len(cpu.get(owner, ())), len(memory.get(owner, ()))),
        )
        for owner in cpu.keys() | memory.keys()
    }


class _Owners:
    """The owners of pods of an hour."""

    def __init__(self, pods: PodIndex, since_seconds: float) -> None:
        self._pods = pods
        self._running = pods.running_owners()
        self._whole: Collection[int] = set(pods.at_work_since(since_seconds).tolist())

    def amounts(self, by_pod: Mapping[str, float]) -> dict[str, list[float]]:
        """The amounts of the pods that count, by owner."""
        found: dict[str, list[float]] = {}
        for name, amount in by_pod.items():
            owner = self._owner(name)
            if owner:
                found.setdefault(owner, []).append(amount)
        return found

    def _owner(self, name: str) -> str:
        """The key of a pod's owner, "" for a pod that does not count."""
        row = self._pods.row(name)
        if row is not None:
            return self._pods.owner_of(row) if row in self._whole else ""
        namespace, _, pod = name.partition("/")
        named = ((kind, pattern.fullmatch(pod)) for kind, pattern in _BY_NAME)
        keys = (f"{namespace}/{kind}/{found[1]}" for kind, found in named if found)
        return next((key for key in keys if key in self._running), "")
