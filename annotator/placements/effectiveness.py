"""How good placements were, at the moment they were made and over the hour that followed, pure but for what is
remembered: the figures of docs/contract.md, effectiveness.

`annotator.service` hands in every new binding with the node levels known at that moment; `annotator.metrics` exports
the figures under the names fixed there. A chosen node counts 0.5 for CPU and 0.5 for memory when it was strictly under
the median of all nodes. Bindings on nodes without data are counted apart, never as good or bad.

Herding can raise the ratio of the moment: many pods at once find the same cool node, and it is hot afterwards. So every
judged placement is followed for an hour. Each look compares what its node uses without the pod with the median of all
nodes; at the end 0.5 counts for each resource in which it was under the median on average. A pod that has gone uses
nothing. The looks come as often as owners' usage is read. A new process, or one that leads again, begins without the
placements of the hour before.
"""

import math
import statistics
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from annotator.placements import hot_counts
from annotator.placements.pod_index import PodUsage
from kube.objects import Node
from kube.pods.pod_view import PodView
from policy.rules.hotspots import Binding

SPAN_SECONDS: Final = 3600.0  # of the look-back
MOST: Final = 20_000  # placements followed at a time; further ones are not
ENOUGH_RATIO: Final = 0.5  # of the looks of an hour
# Averages over five minutes that were read so long after a placement show at most a tenth of what the pod uses.
LATE_SECONDS: Final = 30.0
REMEMBERED_SECONDS: Final = 60.0  # longer than a leader may act after its last renewal
LONGEST_GAP_SECONDS: Final = 3600.0  # what was placed longer ago belongs to a time without an annotator


@dataclass(frozen=True, slots=True)
class Levels:
    """The 5m averages (ratios) of all nodes that have them, their medians, and when they were read (Unix seconds)."""

    at_seconds: float
    cpu: Mapping[str, float]
    memory: Mapping[str, float]
    cpu_median: float
    memory_median: float


def levels(at_seconds: float, cpu: Mapping[str, float], memory: Mapping[str, float]) -> Levels | None:
    """The levels, or None when no node has one of the two: there is no median then."""
    if not cpu or not memory:
        return None
    return Levels(at_seconds, cpu, memory, statistics.median(cpu.values()), statistics.median(memory.values()))


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over the scheduling results seen so far; `schedule_results_left_out` are those on nodes without data."""

    total_schedule_count: int = 0
    effective_dynamic_schedule_count: float = 0.0
    cpu_ratio_sum: float = 0.0
    memory_ratio_sum: float = 0.0
    schedule_results_left_out: int = 0

    @property
    def cpu_utilization_total_avg(self) -> float:
        """Mean 5m CPU utilisation (ratio) of the chosen nodes; 0 before the first placement."""
        return self._mean(self.cpu_ratio_sum)

    @property
    def memory_utilization_total_avg(self) -> float:
        """Mean 5m memory utilisation (ratio) of the chosen nodes; 0 before the first placement."""
        return self._mean(self.memory_ratio_sum)

    @property
    def effective_schedule_ratio(self) -> float:
        """effective_dynamic_schedule_count / total_schedule_count; 0 before the first placement."""
        return self._mean(self.effective_dynamic_schedule_count)

    def with_placement(self, node: str, levels_then: Levels | None) -> "Tally":
        """The tally after one more scheduling result on `node`, judged by the levels seen at that moment."""
        if levels_then is None or node not in levels_then.cpu or node not in levels_then.memory:
            return replace(self, schedule_results_left_out=self.schedule_results_left_out + 1)
        cpu, memory = levels_then.cpu[node], levels_then.memory[node]
        effective = 0.5 * (cpu < levels_then.cpu_median) + 0.5 * (memory < levels_then.memory_median)
        return replace(
            self,
            total_schedule_count=self.total_schedule_count + 1,
            effective_dynamic_schedule_count=self.effective_dynamic_schedule_count + effective,
            cpu_ratio_sum=self.cpu_ratio_sum + cpu,
            memory_ratio_sum=self.memory_ratio_sum + memory,
        )

    def _mean(self, total: float) -> float:
        return total / self.total_schedule_count if self.total_schedule_count else 0.0


class Look(NamedTuple):
    """Knowledge at one moment: the nodes' levels, and each pod's use of its node."""

    levels: Levels
    usage: PodUsage
    pods: Mapping[str, PodView]  # by uid
    nodes: Mapping[str, Node]


class LookbackTally(NamedTuple):
    """Placements whose hour is over: how many could be looked at, 0.5 per resource of those that stayed, the others."""

    looked_back: int = 0
    stayed: float = 0.0
    left_out: int = 0

    def plus(self, other: "LookbackTally") -> "LookbackTally":
        """Both together."""
        return LookbackTally(
            self.looked_back + other.looked_back, self.stayed + other.stayed, self.left_out + other.left_out
        )


@dataclass(slots=True)
class _Placement:
    placed: Binding
    looks: int = 0
    cpu_over: float = 0.0  # sums of the differences to the median
    memory_over: float = 0.0


class LookBack:
    """The placements of the last hour. Not thread-safe: one owner."""

    def __init__(self) -> None:
        self._followed: list[_Placement] = []

    def follow(self, placed: Binding) -> LookbackTally:
        """Begin with a placement; one too many is left out at once."""
        if len(self._followed) >= MOST:
            return LookbackTally(left_out=1)
        self._followed.append(_Placement(placed))
        return LookbackTally()

    def look(self, sample: Look) -> None:
        """Compare every followed placement's node with the median."""
        levels = sample.levels
        known = levels.cpu.keys() & levels.memory.keys() & sample.nodes.keys()
        pods = [sample.pods.get(one.placed.uid) for one in self._followed]
        cpu, memory = sample.usage.of(["" if pod is None else pod.key for pod in pods])
        for one, pod, *amounts in zip(self._followed, pods, cpu.tolist(), memory.tolist(), strict=True):
            node = one.placed.node
            used = _used(pod, sample.nodes[node], *amounts) if node in known else None
            if used is not None:
                one.looks += 1
                one.cpu_over += levels.cpu[node] - used[0] - levels.cpu_median
                one.memory_over += levels.memory[node] - used[1] - levels.memory_median

    def over(self, *, now_seconds: float, looks_per_hour: float) -> LookbackTally:
        """The placements whose hour is over; they are followed no longer."""
        ended = [one for one in self._followed if now_seconds - one.placed.at_seconds >= SPAN_SECONDS]
        if not ended:
            return LookbackTally()
        self._followed = [one for one in self._followed if now_seconds - one.placed.at_seconds < SPAN_SECONDS]
        known = [one for one in ended if one.looks >= max(1.0, ENOUGH_RATIO * looks_per_hour)]
        stayed = sum(0.5 * (one.cpu_over < 0) + 0.5 * (one.memory_over < 0) for one in known)
        return LookbackTally(len(known), stayed, len(ended) - len(known))


def _used(pod: PodView | None, node: Node, cpu_millicores: float, memory_bytes: float) -> tuple[float, float] | None:
    """Returns a pod's use of its node, ratios of CPU and memory; None where one of the amounts is not known."""
    if pod is None or pod.finished:
        return 0.0, 0.0
    capacity = node.capacity
    if math.isnan(cpu_millicores + memory_bytes) or not capacity.cpu_millicores or not capacity.memory_bytes:
        return None
    return cpu_millicores / capacity.cpu_millicores, memory_bytes / capacity.memory_bytes


class Results:
    """The tally and what waits to be judged. Every result is judged once: at its moment, or a little later where that
    moment had no leader.

    The service hands in the changes of its Pod watch, and calls `begin` and `settle` around each sync: two threads, so
    there is a lock. Placements without a leader are found in the cluster: the pods bound since the last renewal of the
    previous Lease. Such results, and those of a process that has not read anything yet, wait for the first levels and
    are judged by them if they were read soon enough; else they are counted as left out. After regaining the Lease a
    replica skips the placements that it judged after its last renewal.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._judging = False
        self._taken: frozenset[str] = frozenset()  # uids that `begin` found: the watch may still tell of them
        self._waiting: list[Binding] = []
        self._judged: dict[str, float] = {}  # uids of the last minute's results with their times, about in order
        self._look_back = LookBack()
        self.tally = Tally()
        self.stayed = LookbackTally()

    def begin(self, pods: Callable[[], Iterable[PodView]], *, since_seconds: float, now_seconds: float) -> None:
        """Judge from now on, and take up what was placed since a moment; nothing if that has begun already.

        `pods` is asked while the watch has to wait: a pod is either in its answer or will be told of after it.
        """
        with self._lock:
            if self._judging:
                return
            since_seconds = max(since_seconds, now_seconds - LONGEST_GAP_SECONDS)
            every = (hot_counts.scheduling_result(None, pod, since_seconds=since_seconds) for pod in pods())
            self._waiting = [placed for placed in every if placed is not None and placed.uid not in self._judged]
            self._taken = frozenset(placed.uid for placed in self._waiting)
            self._judging = True

    def end(self) -> None:
        """Another judges from now on: what waited is its business."""
        with self._lock:
            self._judging, self._waiting = False, []
            self._look_back = LookBack()

    def add(self, placed: Binding, levels: Levels | None) -> None:
        """Judge a result by the levels of this moment; without any it waits for the next ones."""
        with self._lock:
            if not self._judging or placed.uid in self._taken:
                return
            if levels is None:
                self._waiting.append(placed)
            else:
                self._judge(placed, levels)

    def settle(self, levels: Levels | None, *, now_seconds: float) -> None:
        """Judge what waited by new levels, leave out what waited for too long."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for placed in waiting:
                if levels is not None and abs(levels.at_seconds - placed.at_seconds) <= LATE_SECONDS:
                    self._judge(placed, levels)
                elif now_seconds - placed.at_seconds > LATE_SECONDS:
                    self._judge(placed, None)
                else:
                    self._waiting.append(placed)

    def look_back(self, sample: Look | None, *, now_seconds: float, looks_per_hour: float) -> None:
        """Follow the placements of the last hour, with a look where there is one to be had."""
        with self._lock:
            if sample is not None:
                self._look_back.look(sample)
            self.stayed = self.stayed.plus(self._look_back.over(now_seconds=now_seconds, looks_per_hour=looks_per_hour))

    def _judge(self, placed: Binding, levels: Levels | None) -> None:
        self._judged[placed.uid] = placed.at_seconds
        while next(iter(self._judged.values())) < placed.at_seconds - REMEMBERED_SECONDS:
            del self._judged[next(iter(self._judged))]
        before = self.tally.total_schedule_count
        self.tally = self.tally.with_placement(placed.node, levels)
        if self.tally.total_schedule_count > before:
            self.stayed = self.stayed.plus(self._look_back.follow(placed))
