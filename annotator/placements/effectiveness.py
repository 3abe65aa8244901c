"""How good placements were, at the moment they were made and over the hour that followed, pure but for what is
remembered: the figures of docs/contract.md, effectiveness.

`annotator.node_sync` hands in every new binding with the node levels known at that moment; `annotator.metrics` exports
the figures under the names fixed there. A chosen node counts 0.5 for CPU and 0.5 for memory when it was strictly under
the median of all nodes. Bindings on nodes without data are counted apart, never as good or bad.

Herding can raise the ratio of the moment: many pods at once find the same cool node, and it is hot afterwards. So every
judged placement is followed for an hour. Each look compares what its node uses without the pod with the median of all
nodes; at the end 0.5 counts for each resource in which it was under the median on average. A pod that has gone uses
nothing. `annotator.placements.tally` hands in placements, and the looks as often as owners' usage is read. A new
process, or one that leads again, begins without the placements of the hour before.
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from annotator.placements.pod_index import PodUsage
from kube.objects import Node
from kube.pods.pod_view import PodView
from policy.rules.hotspots import Binding

SPAN_SECONDS: Final = 3600.0  # of the look-back
MOST: Final = 20_000  # placements followed at a time; further ones are not
ENOUGH_RATIO: Final = 0.5  # of the looks of an hour


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
