"""The look-back: did the nodes that pods were placed on stay under the median over the hour that followed?

Herding can raise the ratio of the moment: many pods at once find the same cool node, and it is hot afterwards. So every
judged placement is followed for an hour. Each look compares what its node uses without the pod with the median of all
nodes; at the end 0.5 counts for each resource in which it was under the median on average. A pod that has gone uses
nothing. `annotator.placements.tally` hands in placements, and the looks as often as owners' usage is read; pure but for
what it remembers. A new process, or one that leads again, begins without the placements of the hour before.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from annotator.placements.effectiveness import Levels
from annotator.placements.owner_means import PodUsage
from kube.objects import Node
from kube.pods.pod_view import PodView
from policy.rules.hotspots import Binding

SPAN_SECONDS: Final = 3600.0
MOST: Final = 20_000  # placements followed at a time; further ones are not
ENOUGH_RATIO: Final = 0.5  # of the looks of an hour


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


@dataclasses.dataclass(slots=True)
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

    def forget(self) -> None:
        """Drops all followed placements."""
        self._followed = []

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
