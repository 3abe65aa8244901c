"""Node utilisation minus terminating pods and minus the decaying load of pods that went, evicted or ended otherwise.

`planning.planner` begins with these ratios, so that no pod is evicted for the load of another that has gone already.

    projected_m = u_m - usage of terminating pods / capacity - sum of usage * (1 - age / W) / capacity of the gone

with W the averaging window behind the metric and age the time from when the pod went to the end of the node's windows;
for a maximum, the time since the pod left the window of the maximum, which shows all of it until then. A terminating
pod that its kubelet does not end (`overdue_seconds`) keeps its load: nothing says when it goes. A pod that its
controller moves (the annotation of an eviction in progress, where its namespace may opt out) leaves, too: the live
migration of a virtual machine takes minutes. As the annotation has no time, it does so in the first MOVING_SECONDS of
an overload only.

An eviction is stored with the load that it is expected to leave on its node, which `ledger.prediction_errors` compares
with measurements:

    expected(t) = projected + (reading - projected) * shown(t)

with shown(t) how much of a load that went t ago a metric still shows (`usage.shown_ratio`).
"""

import collections.abc
import dataclasses
from typing import Final, NamedTuple

from descheduler.planning.overload import Overload, bridged_seconds
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import HOUR_SECONDS, EvictedPod, History, PodUse
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import PodUsage
from kube.objects import Node, Pod
from policy import metrics
from policy.schema.load_policy import LoadPolicy

MOVING_SECONDS: Final = 1800.0
MARGIN_SECONDS: Final = 60.0  # for a kubelet to kill and report what has not ended by itself

# The columns with a node's load after an eviction, and how many seconds after the start of its run. Averages over five
# minutes leave no gap.
LOOK_BACKS: Final = {f"load_{minutes}m_ratio": 60.0 * minutes for minutes in range(5, 31, 5)}


def overdue_seconds(pod: Pod, now_seconds: float) -> float:
    """For how long a terminating pod has outlived its grace period and a margin; 0 for any other pod."""
    ends_at_seconds = pod.grace_ends_at_seconds
    return 0.0 if ends_at_seconds is None else max(0.0, now_seconds - ends_at_seconds - MARGIN_SECONDS)


class Departures(NamedTuple):
    """Pods of nodes over a line with what they used, by uid, at a run, and those that had gone by the next: ended by
    a kubelet, a controller or a person. They count from that one on, so that no load is taken for one that stays.
    A pod of which containers were killed and started again counts with what it lost.
    """

    known: collections.abc.Mapping[str, EvictedPod] = {}
    gone: collections.abc.Mapping[str, EvictedPod] = {}

    def after(self, taken: Snapshot, policy: LoadPolicy) -> "Departures":
        """Compares with a later run; after a longer gap than readings bridge the time of a departure is not known."""
        now_seconds, present = taken.at_seconds, {pod.uid: pod for pod in taken.pods} if self.known else {}
        longest_seconds = bridged_seconds(policy)
        gone = {uid: one for uid, one in self.gone.items() if now_seconds - one.gone_at_seconds < HOUR_SECONDS}
        for uid, one in self.known.items():
            if now_seconds - one.gone_at_seconds > longest_seconds:
                continue
            lost = one.used if uid not in present else _lost(one, present[uid], taken, policy)
            key = uid if uid not in present else f"{uid} until {now_seconds}"
            if any(lost[:2]):
                gone[key] = one._replace(uid=key, gone_at_seconds=now_seconds, used=lost)
        known = {
            pod.uid: EvictedPod(pod.node_name, pod.uid, now_seconds, PodUse(used.cpu_millicores, used.memory_bytes))
            for pod in (taken.pods if taken.pod_usage else ())
            if (used := taken.pod_usage.get(pod.key)) is not None
        }
        return Departures(known, gone)

    def beside(self, history: History) -> History:
        """Adds those that have gone to the evicted pods; the ledger knows better when one of these went."""
        departed = {**self.gone, **{one.uid: one for one in history.departed}}
        return dataclasses.replace(history, departed=tuple(departed.values()))


def _lost(before: EvictedPod, pod: Pod, taken: Snapshot, policy: LoadPolicy) -> PodUse:
    """The use that ended with a container of a pod that is still there: usage is of living containers, and the average
    of a steady one falls by no more than the share of its window that has passed, here with a margin. A pod that has
    been Ready ever since lost no container: a peak has left its average, and its node's.
    """
    used, windows, ready_seconds = taken.pod_usage.get(pod.key), usage.pod_windows(policy), pod.ready_since_seconds
    if used is None:
        return before.used if pod.failing else PodUse(0.0, 0.0)
    if ready_seconds is not None and ready_seconds < before.gone_at_seconds - MARGIN_SECONDS:
        return PodUse(0.0, 0.0)
    passed_seconds = taken.at_seconds - before.gone_at_seconds + MARGIN_SECONDS
    now_used, spans = (used.cpu_millicores, used.memory_bytes), [windows[one] for one in metrics.RESOURCES]
    pairs = zip(before.used[:2], now_used, spans, strict=True)
    cpu, memory = (was - now if now < was * (1.0 - passed_seconds / span) else 0.0 for was, now, span in pairs)
    return PodUse(cpu, memory)


class DepartedLoad:
    """Load of departed pods that the windows of all nodes still show."""

    def __init__(self, taken: Snapshot, policy: LoadPolicy, departed: collections.abc.Iterable[EvictedPod]) -> None:
        self._taken = taken
        self._policy = policy
        self._resources = usage.resources_of(policy)
        self._departed: dict[str, list[EvictedPod]] = {}
        for one in departed:
            self._departed.setdefault(one.node, []).append(one)

    def without_the_gone(
        self, node: Node, overloads: collections.abc.Collection[Overload], here: collections.abc.Sequence[Pod]
    ) -> dict[str, float]:
        """The node's ratios by overloaded metric; `here` are its pods."""
        projected = {overload.metric: overload.value_ratio for overload in overloads}
        known = self._taken.pod_usage
        now_seconds = self._taken.at_seconds
        ending = [pod for pod in here if pod.deleting and not overdue_seconds(pod, now_seconds)]
        leaving = [used for pod in ending if (used := known.get(pod.key)) is not None]
        present = {pod.uid for pod in here}
        gone = [one for one in self._departed.get(node.name, []) if one.uid not in present]
        moving = [used for pod in here if self._is_moved(pod) and (used := known.get(pod.key)) is not None]
        for overload in overloads:
            metric, resource = overload.metric, self._resources[overload.metric]
            recent = overload.since_seconds is not None and now_seconds - overload.since_seconds < MOVING_SECONDS
            away = [*leaving, *moving] if recent else leaving
            projected[metric] -= sum(usage.share(used, node.capacity, resource) for used in away)
            ages = ((one, self._taken.windows_end_seconds(node.name) - one.gone_at_seconds) for one in gone)
            projected[metric] -= sum(
                usage.shown_ratio(self._policy, metric, age_seconds)
                * usage.share(self._used(one), node.capacity, resource)
                for one, age_seconds in ages
            )
        return projected

    def _is_moved(self, pod: Pod) -> bool:
        protect = self._policy.descheduler.protect
        annotated = pod_annotations.EVICTION_IN_PROGRESS in pod.annotations
        return annotated and not pod.deleting and protect.opt_out.allowed_in(pod.namespace)

    def _used(self, evicted: EvictedPod) -> PodUsage:
        """The ledger has the share of the one resource that the pod was evicted for."""
        used = evicted.used
        shares = {self._resources[used.metric]: used.share_ratio} if used.metric in self._resources else {}
        return PodUsage("", used.cpu_millicores, used.memory_bytes, evicted.gone_at_seconds, shares)


def expected(
    policy: LoadPolicy, metric: str, *, value_ratio: float, projected_ratio: float
) -> tuple[float | None, float | None]:
    """The prediction of an eviction whose node reads `value_ratio` and is projected to come down so far: the metric on
    it 5 and 30 minutes later, None where its window shows none of the relief by then, as an hour's maximum does not.
    """

    def after(seconds: float) -> float | None:
        shown_ratio = usage.shown_ratio(policy, metric, seconds)
        if shown_ratio >= 1.0:
            return None
        return max(0.0, projected_ratio + (value_ratio - projected_ratio) * shown_ratio)

    return after(LOOK_BACKS["load_5m_ratio"]), after(LOOK_BACKS["load_30m_ratio"])
