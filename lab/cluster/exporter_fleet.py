"""The state behind the exported series: nodes, the pods that really run on them, and counters that only grow.

The watch (`cluster.exporter_watch`) tells it what the apiserver says, the controls (`cluster.exporter_http`) what a
test wants, and `cluster.exporter_text` writes it down at a scrape. Load is constant between two events (a step of the
trace, a pod that comes or goes, a control), so every change first brings the node's counters up to its own time: they
hold the exact integral of the load, however rarely anybody scrapes.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import numpy as np

from lab.cluster import exporter_load
from simulator import contention, load_curves

NOTHING = contention.Load()
MAX_STEPS_PER_ADVANCE = 600  # after a long pause the oldest steps are merged: a scrape must not take minutes


class Control(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Controls of a node for a test; a key that is absent stays as it is, an explicit null returns to the default."""

    cpu_ratio: float | msgspec.UnsetType | None = msgspec.UNSET
    memory_ratio: float | msgspec.UnsetType | None = msgspec.UNSET
    hidden: bool | msgspec.UnsetType | None = msgspec.UNSET
    hidden_pods: bool | msgspec.UnsetType | None = msgspec.UNSET
    frozen: bool | msgspec.UnsetType | None = msgspec.UNSET
    garbage: str | msgspec.UnsetType | None = msgspec.UNSET

    def over(self, earlier: "Control") -> "Control":
        """This control laid over an earlier one."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return msgspec.structs.replace(
            earlier, **{name: value for name, value in values.items() if value is not msgspec.UNSET}
        )


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as the watch sees it; `instance` is what a scrape of it would be labelled."""

    name: str
    address: str
    capacity: contention.Load
    system: contention.SystemLoad


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A running pod as the watch sees it; `owner` groups replicas, `containers` are (name, image)."""

    namespace: str
    name: str
    uid: str
    owner: str
    node: str
    profile: exporter_load.Profile
    containers: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(slots=True)
class PodState:
    """A pod and what it has used: `cpu_seconds` grows, `now` is what it gets at the moment."""

    facts: PodFacts
    ordinal: int
    curve: load_curves.Curve
    which: exporter_load.Replica
    cpu_seconds: float = 0.0
    now: contention.Load = NOTHING


@dataclass(slots=True)
class NodeState:
    """A node with its counters: seconds seen, the integral of r and of r(1-r), r = CPU ratio; `now` is its load."""

    facts: NodeFacts
    updated_at_seconds: float
    pods: dict[str, PodState]
    seen_seconds: float = 0.0
    busy_seconds: float = 0.0
    skew_seconds: float = 0.0
    now: contention.Load = NOTHING
    control: Control = field(default_factory=Control)

    @property
    def cpu_ratio(self) -> float:
        """The share of its CPU in use now."""
        capacity = self.facts.capacity.cpu_millicores
        return self.now.cpu_millicores / capacity if capacity > 0 else 0.0

    @property
    def memory_ratio(self) -> float:
        """The share of its memory in use now."""
        capacity = self.facts.capacity.memory_bytes
        return self.now.memory_bytes / capacity if capacity > 0 else 0.0

    def system(self) -> contention.Load:
        """The node's own load: what a control says, else the node itself."""
        cpu, memory = self.control.cpu_ratio, self.control.memory_ratio
        own, capacity = self.facts.system, self.facts.capacity
        return contention.Load(
            (cpu if isinstance(cpu, float | int) else own.cpu_ratio) * capacity.cpu_millicores,
            (memory if isinstance(memory, float | int) else own.memory_ratio) * capacity.memory_bytes,
        )


class Fleet:
    """All nodes and pods. Not thread-safe: threads that share it hold a lock around each call."""

    def __init__(self, clock: exporter_load.Clock, curves: exporter_load.Curves) -> None:
        self.clock = clock
        self._curves = curves
        self._nodes: dict[str, NodeState] = {}
        self._pods_by_node: dict[str, dict[str, PodState]] = {}
        self._pods: dict[str, PodState] = {}
        self._ordinals: dict[str, set[int]] = {}
        self._controls: dict[str, Control] = {}

    def nodes(self) -> Iterator[NodeState]:
        """The nodes, by name."""
        return (self._nodes[name] for name in sorted(self._nodes))

    def set_node(self, facts: NodeFacts, now_seconds: float) -> None:
        """Adds a node, or takes note of what changed about it; its counters go on."""
        known = self._nodes.get(facts.name)
        if known is not None:
            self._advance(known, now_seconds)
            known.facts = facts
            self._measure(known, now_seconds)
            return
        pods = self._pods_by_node.setdefault(facts.name, {})
        node = NodeState(facts, now_seconds, pods, control=self._controls.get(facts.name, Control()))
        self._nodes[facts.name] = node
        self._measure(node, now_seconds)

    def remove_node(self, name: str) -> None:
        """Forgets a node and its counters; its pods stay until the apiserver says that they are gone."""
        self._nodes.pop(name, None)

    def place(self, facts: PodFacts, now_seconds: float) -> None:
        """Starts a pod's load on its node; a pod known there keeps its counters and its place among siblings."""
        known = self._pods.get(facts.key)
        if known is not None and (known.facts.uid, known.facts.node) == (facts.uid, facts.node):
            self._settle(facts.node, now_seconds)
            known.facts, known.curve = facts, self._curves(facts.profile)
            self._remeasure(facts.node, now_seconds)
            return
        self.remove_pod(facts.key, now_seconds)
        self._settle(facts.node, now_seconds)
        ordinal = self._take_ordinal(facts.owner)
        which = exporter_load.replica(facts.profile.seed, ordinal) if facts.profile.spreads else exporter_load.Replica()
        pod = PodState(facts, ordinal, self._curves(facts.profile), which)
        self._pods[facts.key] = pod
        self._pods_by_node.setdefault(facts.node, {})[facts.key] = pod
        self._remeasure(facts.node, now_seconds)

    def remove_pod(self, key: str, now_seconds: float) -> None:
        """Ends a pod's load; its series are gone from the next scrape on."""
        pod = self._pods.pop(key, None)
        if pod is None:
            return
        self._settle(pod.facts.node, now_seconds)
        del self._pods_by_node[pod.facts.node][key]
        self._ordinals[pod.facts.owner].discard(pod.ordinal)
        self._remeasure(pod.facts.node, now_seconds)

    def control(self, name: str, control: Control, now_seconds: float) -> Control:
        """Lays a control over what holds for a node, also for one still to come; returns what is in force now."""
        merged = control.over(self._controls.get(name, Control()))
        self._controls[name] = merged
        if node := self._nodes.get(name):
            self._advance(node, now_seconds)
            node.control = merged
            self._measure(node, now_seconds)
        return merged

    def restart_clock(self, trace_seconds: float, now_seconds: float) -> None:
        """Sets the trace's clock: two runs that must see the same load both begin by setting it."""
        self.advance(now_seconds)
        self.clock = exporter_load.Clock(now_seconds - trace_seconds / self.clock.speed, self.clock.speed)
        for node in self._nodes.values():
            self._measure(node, now_seconds)

    def advance(self, now_seconds: float) -> None:
        """Brings every counter up to a time."""
        for node in self._nodes.values():
            self._advance(node, now_seconds)

    def _take_ordinal(self, owner: str) -> int:
        """The lowest free place among an owner's replicas.

        Places, not pod names, decide level and lag: a replacement takes over its predecessor's load, and the same
        workload weighs the same in two runs although pod names differ.
        """
        taken = self._ordinals.setdefault(owner, set())
        ordinal = next(place for place in range(len(taken) + 1) if place not in taken)
        taken.add(ordinal)
        return ordinal

    def _settle(self, name: str, now_seconds: float) -> None:
        if node := self._nodes.get(name):
            self._advance(node, now_seconds)

    def _remeasure(self, name: str, now_seconds: float) -> None:
        if node := self._nodes.get(name):
            self._measure(node, now_seconds)

    def _advance(self, node: NodeState, now_seconds: float) -> None:
        """Adds the load in force to the counters, step of the trace by step, up to now."""
        for _ in range(MAX_STEPS_PER_ADVANCE):
            end = min(now_seconds, self._next_change(node))
            if end <= node.updated_at_seconds:
                return
            self._integrate(node, end)
            self._measure(node, end)
        self._integrate(node, now_seconds)
        self._measure(node, now_seconds)

    def _next_change(self, node: NodeState) -> float:
        steps = {pod.curve.step_seconds for pod in node.pods.values() if len(pod.curve.cpu) > 1}
        ends = (self.clock.next_step(node.updated_at_seconds, step_seconds) for step_seconds in steps)
        return min(ends, default=float("inf"))

    def _integrate(self, node: NodeState, until_seconds: float) -> None:
        span = max(0.0, until_seconds - node.updated_at_seconds)
        node.updated_at_seconds = max(until_seconds, node.updated_at_seconds)
        if node.control.frozen is True:
            return
        ratio = node.cpu_ratio
        node.seen_seconds += span
        node.busy_seconds += ratio * span
        node.skew_seconds += ratio * (1 - ratio) * span
        for pod in node.pods.values():
            pod.cpu_seconds += pod.now.cpu_millicores / 1000 * span

    def _measure(self, node: NodeState, now_seconds: float) -> None:
        """Sets what node and pods use from now on: every pod's demand, then the node's share of it."""
        if node.control.frozen is True:
            return
        at = self.clock.at(now_seconds)
        wishes = [(pod, exporter_load.usage(pod.facts.profile, pod.curve, pod.which, at)) for pod in node.pods.values()]
        wanted = contention.Load(sum(w.cpu_millicores for _, w in wishes), sum(w.memory_bytes for _, w in wishes))
        whole = node.facts.capacity
        usable = contention.Load(whole.cpu_millicores, whole.memory_bytes * contention.MEMORY_CEILING_RATIO)
        used, factors = contention.shares(
            *(np.array(msgspec.structs.astuple(one)) for one in (usable, node.system(), wanted))
        )
        node.now, (cpu_factor, memory_factor) = contention.Load(*used.tolist()), factors.tolist()
        for pod, wish in wishes:
            pod.now = contention.Load(wish.cpu_millicores * cpu_factor, wish.memory_bytes * memory_factor)
