"""Whether another node would really take a pod, and which: by requests, by rules, and by what the node measurably uses.

`planning.py` asks for one destination per pod it would choose and commits the room of the chosen only. A node
qualifies if it is open, the pod fits beside what is there (placeholders of lower priority make way), `placement.py`
and `neighbours.py` agree, and for every metric with a descheduler line

    max(u_m, u_max_1h of the resource) + committed + expected of recent pods + pod / allocatable  <=  evictUntil_m

Coolest first, so that the load spreads as the scheduler would spread it. A node without a fresh reading of every such
metric never qualifies.
"""

import collections.abc
import dataclasses

from descheduler import neighbours, placement, snapshot, usage
from descheduler.snapshot import Snapshot
from descheduler.usage import PodUsage
from kube.objects import Node, Pod, Resources
from policy import recent
from policy.schema import LoadPolicy

ROUNDING = 1e-9


@dataclasses.dataclass(slots=True)
class Room:
    """One node's room while a plan is made: projected ratios, free requests, ports, and what placeholders hold."""

    node: Node
    ratios: dict[str, float]
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    pods: int = 0
    extended: dict[str, float] = dataclasses.field(default_factory=dict)
    ports: set[tuple[str, str, int]] = dataclasses.field(default_factory=set)
    placeholders: list[Pod] = dataclasses.field(default_factory=list)

    def take(self, requests: Resources) -> None:
        """Counts a pod's requests as taken."""
        self.cpu_millicores += requests.cpu_millicores
        self.memory_bytes += requests.memory_bytes
        self.pods += 1
        for name, value in requests.extended.items():
            self.extended[name] = self.extended.get(name, 0.0) + value

    def fits(self, pod: Pod) -> bool:
        """Whether the pod's requests and host ports fit beside those taken; placeholders below its priority do not
        count.
        """
        staying = [one.requests for one in self.placeholders if one.priority >= pod.priority]
        have, want = self.node.allocatable, pod.requests
        cpu = self.cpu_millicores + sum(one.cpu_millicores for one in staying) + want.cpu_millicores
        memory = self.memory_bytes + sum(one.memory_bytes for one in staying) + want.memory_bytes
        return (
            (want.cpu_millicores == 0 or cpu <= have.cpu_millicores)
            and (want.memory_bytes == 0 or memory <= have.memory_bytes)
            and self.pods + len(staying) + 1 <= have.pods
            and all(self.extended.get(name, 0.0) + value <= have.get(name) for name, value in want.extended.items())
            and not any(_clash(port, taken) for port in pod.host_ports for taken in self.ports)
        )


class Destinations:
    """The nodes that could take pods, with the room that this plan has not given away yet."""

    def __init__(self, taken: Snapshot, policy: LoadPolicy, *, excluded: collections.abc.Collection[str]) -> None:
        self._bands = policy.descheduler.thresholds
        self._resources = usage.resources_of(policy)
        self._neighbours = neighbours.Neighbours(taken)
        open_nodes = (node for node in taken.nodes if node.name not in excluded and placement.open_to_pods(node))
        rooms = {node.name: Room(node, judged_ratios(taken, node.name, policy)) for node in open_nodes}
        self._rooms = {name: room for name, room in rooms.items() if set(room.ratios) >= set(self._bands)}
        self._volumes = taken.volumes
        self._ranking: list[tuple[Room, tuple[float, ...]]] | None = None
        for pod in taken.pods:
            self._settle(pod, policy, taken.at_seconds)

    def find(self, pod: Pod, used: PodUsage) -> str | None:
        """The coolest node that would take the pod and stay at or under every target line; None if there is none."""
        amounts = tuple(usage.amount(used, self._resources[metric]) for metric in self._bands)
        for room, slack in self._coolest_first():
            if any(amount > left for amount, left in zip(amounts, slack, strict=True)):
                continue
            if room.node.name != pod.node_name and self._takes(room, pod):
                return room.node.name
        return None

    def commit(self, pod: Pod, used: PodUsage, name: str) -> None:
        """Gives the chosen pod's room away."""
        room = self._rooms[name]
        room.take(pod.requests)
        room.ports.update(pod.host_ports)
        for metric in self._bands:
            room.ratios[metric] += usage.share(used, room.node.allocatable, self._resources[metric])
        self._neighbours.move(pod, name)
        self._ranking = None

    def projected_ratios(self, name: str) -> dict[str, float]:
        """What a destination would show with everything committed so far, by metric with a descheduler line."""
        return dict(self._rooms[name].ratios)

    def _settle(self, pod: Pod, policy: LoadPolicy, now_seconds: float) -> None:
        room = self._rooms.get(pod.node_name)
        if room is None or pod.finished:
            return
        if snapshot.is_placeholder(pod):
            room.placeholders.append(pod)
            return
        room.take(pod.requests)
        room.ports.update(pod.host_ports)
        if policy.recent_pods.enabled and not pod.is_daemonset and pod.scheduled_at_seconds is not None:
            self._expect(room, pod, policy, now_seconds - pod.scheduled_at_seconds)

    def _expect(self, room: Room, pod: Pod, policy: LoadPolicy, age_seconds: float) -> None:
        request = recent.Load(pod.requests.cpu_millicores, pod.requests.memory_bytes)
        cpu_millicores, memory_bytes = recent.estimate(request, policy.recent_pods).load
        expected = PodUsage(pod.key, cpu_millicores, memory_bytes, 0.0)
        for metric in self._bands:
            left = recent.decay(age_seconds, usage.window_of(policy, metric))
            if left > 0:
                room.ratios[metric] += left * usage.share(expected, room.node.allocatable, self._resources[metric])

    def _coolest_first(self) -> list[tuple[Room, tuple[float, ...]]]:
        """The rooms by their distance to the nearest line, with what fits under each line in millicores or bytes."""
        if self._ranking is None:
            ordered = sorted(self._rooms.values(), key=self._coolness)
            self._ranking = [(room, tuple(self._slack(room, metric) for metric in self._bands)) for room in ordered]
        return self._ranking

    def _coolness(self, room: Room) -> tuple[float, str]:
        return max(room.ratios[name] - band.evict_until_ratio for name, band in self._bands.items()), room.node.name

    def _slack(self, room: Room, metric: str) -> float:
        whole = usage.size(room.node.allocatable, self._resources[metric])
        return (self._bands[metric].evict_until_ratio + ROUNDING - room.ratios[metric]) * whole

    def _takes(self, room: Room, pod: Pod) -> bool:
        return (
            room.fits(pod)
            and placement.allows(room.node, pod)
            and self._mounts(room.node, pod)
            and self._neighbours.allow(pod, room.node)
        )

    def _mounts(self, node: Node, pod: Pod) -> bool:
        claims = (f"{pod.namespace}/{volume.claim}" for volume in pod.volumes if volume.claim)
        known = (self._volumes[claim] for claim in claims if claim in self._volumes)
        return all(snapshot.mountable(volume, node) for volume in known)


def judged_ratios(taken: Snapshot, node: str, policy: LoadPolicy) -> dict[str, float]:
    """The ratios a destination is judged by: for every metric with a line the higher of it and its resource's hourly
    maximum.

    Metrics without a fresh, valid reading are absent.
    """
    seen = taken.node_usage.get(node)
    if seen is None or not usage.fresh(seen.at_seconds, taken.at_seconds, policy.sync.stale_after_seconds):
        return {}
    valid = {name: value for name, value in seen.ratios.items() if usage.usable_ratio(value)}
    resources = usage.resources_of(policy)
    found = {}
    for metric in policy.descheduler.thresholds:
        if metric in valid:
            peak = usage.peak_metric(policy, resources[metric])
            found[metric] = max(valid[metric], valid.get(peak, 0.0) if peak is not None else 0.0)
    return found


def _clash(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    """Same protocol and port, on the same address or with one of them on all addresses."""
    everywhere = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, never bound
    same_address = one[1] == other[1] or one[1] in everywhere or other[1] in everywhere
    return one[0] == other[0] and one[2] == other[2] and same_address
