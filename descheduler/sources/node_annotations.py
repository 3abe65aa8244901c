"""Usage of nodes as the annotator wrote it on them: the load annotations, each as old as it or a heartbeat says.

`sources.metrics_server` reads them for every sample and every run. The annotator keeps the windows of nodes, so they
are kept nowhere else; only the readings of the last minutes are, for moments gone by (`at`).
"""

import collections
from collections.abc import Collection, Mapping
from typing import Final

from descheduler.snapshot import usage
from descheduler.snapshot.usage import NodeUsage
from kube.objects import Node
from policy.contract import heartbeat, load_annotation
from policy.contract.load_annotation import Reading
from policy.schema.load_policy import LoadPolicy
from runtime import logs

log = logs.get(__name__)

KEPT_SECONDS: Final = 600.0  # a run asks for moments since the run before it, and after a gap for `overloadedFor`
APART_SECONDS: Final = 10.0  # as far as metrics-server's samples: what is read sooner says the same


class NodeAnnotations:
    """The readings of all nodes, now and in the last minutes. Used by one thread at a time."""

    def __init__(self) -> None:
        self._times = heartbeat.EffectiveTimes()
        self._decoded: dict[str, tuple[str, Reading | None]] = {}  # by node: of which text
        self._past: collections.deque[tuple[float, Mapping[str, NodeUsage]]] = collections.deque()

    def read(
        self, nodes: Collection[Node], beat: Mapping[str, str] | None, policy: LoadPolicy, *, now_seconds: float
    ) -> dict[str, NodeUsage]:
        """The readings of these nodes; `beat` is the heartbeat ConfigMap's data, None where there is none."""
        self._take(nodes)
        if beat is not None:
            try:
                self._times.accept(heartbeat.decode(beat), now_seconds)
            except heartbeat.HeartbeatError as error:
                log.warning("heartbeat not used, readings age", error=str(error))
        self._times.settle()
        names = {metric.name for metric in usage.metrics_read(policy, nodes)}
        usages: dict[str, NodeUsage] = {}
        for node, (_, reading) in self._decoded.items():
            ratios = {name: reading.values[name] for name in names if name in reading.values} if reading else {}
            if reading is not None and ratios:
                usages[node] = NodeUsage(node, ratios, self._times.effective_seconds(node, reading.at_seconds))
        self._remember(now_seconds, usages)
        return usages

    def at(self, moment_seconds: float) -> dict[str, NodeUsage]:
        """The newest reading of each node that was no younger than that; of moments long gone by there is none."""
        usages: dict[str, NodeUsage] = {}
        for _, earlier in reversed(self._past):
            for node, reading in earlier.items():
                if node not in usages and reading.at_seconds <= moment_seconds:
                    usages[node] = reading
        return usages

    def known_until_seconds(self) -> float:
        """When the newest of all readings was (Unix seconds); 0 before the first."""
        newest = self._past[-1][1].values() if self._past else ()
        return max((reading.at_seconds for reading in newest), default=0.0)

    def _take(self, nodes: Collection[Node]) -> None:
        """Decodes the texts that have changed."""
        texts = {node.name: node.annotations.get(load_annotation.KEY) for node in nodes}
        for gone in self._decoded.keys() - texts.keys():
            texts[gone] = None
        for node, text in texts.items():
            self._times.put(node, text)
            if text is None:
                self._decoded.pop(node, None)
            elif node not in self._decoded or self._decoded[node][0] != text:
                self._decoded[node] = text, _reading(text, node)

    def _remember(self, now_seconds: float, usages: Mapping[str, NodeUsage]) -> None:
        past = self._past
        while past and not 0 <= now_seconds - past[0][0] <= KEPT_SECONDS:
            past.popleft()
        if len(past) > 1 and now_seconds - past[-2][0] < APART_SECONDS:
            past.pop()
        past.append((now_seconds, usages))


def _reading(text: str, node: str) -> Reading | None:
    try:
        return load_annotation.decode(text)
    except load_annotation.AnnotationError as error:
        log.warning("load annotation not used", node=node, error=str(error))
        return None
