"""Watched pods and what each of them uses -> the mean use of every owner's replicas, pure.

`annotator.usage` hands in the answers of the two pod queries. A replica counts when its whole window shows it at work:
Ready for as long as the queries look back. Pods whose like the scheduler never places (DaemonSet, static, placeholder)
and pods that end do not count.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from annotator import bindings
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


def means(pods: Iterable[Pod], usage: PodUsage, *, now_seconds: float) -> dict[str, owner_usage.Mean]:
    """The mean of each owner with at least one replica that is measured, each resource over those that have it."""
    measured: dict[str, list[tuple[float | None, float | None]]] = {}
    since_seconds = now_seconds - usage.window_seconds
    for pod in pods:
        if not _at_work(pod, since_seconds):
            continue
        name = pod.key
        amounts = usage.cpu_millicores.get(name), usage.memory_bytes.get(name)
        if amounts != (None, None) and (owner := key(pod)):
            measured.setdefault(owner, []).append(amounts)
    return {owner: _mean(rows) for owner, rows in measured.items()}


def placed_lately(pods: Iterable[Pod], *, now_seconds: float) -> frozenset[str]:
    """The owners that had a pod placed within the last hour."""
    since_seconds = now_seconds - RECENT_SECONDS
    return frozenset(key(pod) for pod in pods if (pod.status.scheduled_at_seconds or 0.0) > since_seconds)


def _at_work(pod: Pod, since_seconds: float) -> bool:
    ready_since_seconds = pod.ready_since_seconds
    ended = pod.finished or pod.deleting
    return not ended and ready_since_seconds is not None and ready_since_seconds <= since_seconds


def _mean(rows: list[tuple[float | None, float | None]]) -> owner_usage.Mean:
    cpu = [amount for amount, _ in rows if amount is not None]
    memory = [amount for _, amount in rows if amount is not None]
    return owner_usage.Mean(_average(cpu), _average(memory), len(rows))


def _average(amounts: list[float]) -> float | None:
    return sum(amounts) / len(amounts) if amounts else None
