"""State of the screen at a moment: nodes with windows, hot counts and scores, pods, decisions, evictions.

Read once a second by `phases` from where users would read it: Node annotations and pods from the apiserver, scores and
decisions from the extender, evictions from the descheduler. In the plain phase there is no extender: no score then.
"""

import collections
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from kube import door, kinds, objects
from lab.cluster.demo import measuring, services
from policy.contract import load_annotation

LINES_SHOWN = 8


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: window values by metric name (ratios), pods, hot counts by window, score 0..10 where there is one."""

    name: str
    values: Mapping[str, float]
    hot: Mapping[str, int]
    pods: int
    score: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """One moment of a phase."""

    phase: str
    elapsed_seconds: float
    total_seconds: float
    nodes: tuple[NodeRow, ...] = ()
    bound: int = 0
    pending: int = 0
    decisions: tuple[str, ...] = ()
    evictions: tuple[str, ...] = ()
    eviction_count: int = 0
    violations: tuple[str, ...] = field(default=())

    def over(self, metric: str, ratio: float) -> int:
        """How many nodes have a metric over a ratio."""
        return sum(node.values.get(metric, -math.inf) > ratio for node in self.nodes)


class Watcher:
    """Reads views of one running phase."""

    def __init__(self, kube: door.KubeDoor, running: services.Services, namespace: str) -> None:
        self._kube, self._services, self._namespace = kube, running, namespace

    def pods(self) -> tuple[objects.Pod, ...]:
        """The living pods of the workload."""
        pods = self._kube.list(kinds.PODS, namespace=self._namespace).items
        return tuple(pod for pod in pods if not pod.finished and not pod.deleting)

    def view(self, phase: str, elapsed_seconds: float, total_seconds: float, violations: tuple[str, ...]) -> View:
        """Everything as it is now."""
        pods = self.pods()
        bound = collections.Counter(pod.node_name for pod in pods if pod.node_name)
        evicted = self._evicted()
        return View(
            phase,
            elapsed_seconds,
            total_seconds,
            nodes=self._nodes(bound),
            bound=bound.total(),
            pending=len(pods) - bound.total(),
            decisions=self._decisions(),
            evictions=tuple(eviction_line(row) for row in evicted[:LINES_SHOWN]),
            eviction_count=len(evicted),
            violations=violations,
        )

    def readings(self) -> dict[str, load_annotation.Reading]:
        """Returns the reading on each node; a node without a usable annotation is absent."""
        readings: dict[str, load_annotation.Reading] = {}
        for node in self._kube.list(kinds.NODES).items:
            text = node.annotations.get(load_annotation.KEY)
            if text is not None:
                try:
                    readings[node.name] = load_annotation.decode(text)
                except load_annotation.AnnotationError:
                    continue
        return readings

    def _nodes(self, bound: Mapping[str, int]) -> tuple[NodeRow, ...]:
        readings = self.readings()
        rows = {row.get("name"): row for row in self._rows("extender", "/nodes", "nodes")}
        return tuple(
            node_row(node.name, readings.get(node.name), rows.get(node.name, {}), bound.get(node.name, 0))
            for node in self._kube.list(kinds.NODES).items
        )

    def _decisions(self) -> tuple[str, ...]:
        rows = self._rows("extender", f"/decisions?limit={4 * LINES_SHOWN}", "decisions")
        return tuple(decision_line(row) for row in rows if row.get("verb") == "prioritize")[:LINES_SHOWN]

    def _evicted(self) -> list[dict[str, object]]:
        if "descheduler" not in self._services.by_name:
            return []
        try:
            return measuring.evictions(self._services.by_name["descheduler"])
        except services.ServiceError:
            return []  # the screen shows what it can; whether the service lives is checked apart

    def _rows(self, name: str, path: str, key: str) -> list[dict[str, object]]:
        if name not in self._services.by_name:
            return []
        try:
            answered = self._services.by_name[name].json(path).get(key)
        except services.ServiceError:
            return []
        return [row for row in answered if isinstance(row, dict)] if isinstance(answered, list) else []


def node_row(name: str, reading: load_annotation.Reading | None, row: Mapping[str, object], pods: int) -> NodeRow:
    """A node from its annotation and, where there is one, its row of the extender's GET /nodes."""
    score, hot = row.get("score"), row.get("hot")
    return NodeRow(
        name,
        reading.values if reading else {},
        hot if isinstance(hot, dict) else (reading.hot if reading else {}),
        pods,
        score if isinstance(score, int) else None,
        str(row.get("rejected") or row.get("reason") or ""),
    )


def decision_line(row: Mapping[str, object]) -> str:
    """One row of GET /decisions: the pod, the best nodes with their scores, what was rejected."""
    best = row.get("best")
    ranked = [f"{each.get('node')} {each.get('score')}" for each in best[:3]] if isinstance(best, list) else []
    of = f"{row.get('passed')}/{row.get('candidates')}"
    return f"{row.get('pod')}: {', '.join(ranked) or 'no node'} (of {of})"


def eviction_line(row: Mapping[str, object]) -> str:
    """One row of GET /evictions: the pod, from where, why, to where."""
    value, limit = row.get("value_ratio"), row.get("threshold_ratio")
    why = (
        f"{row.get('metric')} {value:.2f} > {limit:.2f}"
        if isinstance(value, float) and isinstance(limit, float)
        else ""
    )
    landed = row.get("landed_node") or row.get("destination") or "?"
    return f"{row.get('pod')}: {row.get('node')} -> {landed} {why}".rstrip()
