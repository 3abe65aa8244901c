"""Followed pods and what each of them uses -> the mean use of every owner's replicas, pure.

`annotator.usage_sync` hands in the answers of the two pod queries. A replica counts when its whole window
shows it at work: Ready for as long as the queries look back. A mean counts when SEVERAL replicas or SETTLED_SECONDS of
one are behind it. Pods whose like the scheduler never places (DaemonSet, static, placeholder) and pods that end do not
count (`annotator.placements.pod_index`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from annotator.collect.last_good_values import Floats
from annotator.placements.pod_index import Numbers, PodIndex
from policy.contract import owner_usage

SEVERAL: Final = 3
SETTLED_SECONDS: Final = 3600.0  # Ready for so long, one replica has had work if there is any


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
