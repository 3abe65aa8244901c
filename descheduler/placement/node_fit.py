"""One node's room while a plan is made: what its pods request, which host ports they hold, what placeholders keep free.

`placement.destinations` keeps a `NodeFit` per node that could take pods and commits the requests of chosen pods to it.
The rules are kube-scheduler's (NodeResourcesFit, NodePorts); pods for which it makes room by preemption count as there
already.
"""

import dataclasses

from kube.api import pods
from kube.objects import Node, Pod, Resources
from kube.pods import pod_view


@dataclasses.dataclass(slots=True)
class NodeFit:
    """Projected ratios by metric with a line, requests and ports taken, and placeholders that may make way."""

    node: Node
    ratios: dict[str, float]
    cpu_millicores: float = 0.0
    memory_bytes: float = 0.0
    pods: int = 0
    extended: dict[str, float] = dataclasses.field(default_factory=dict)
    ports: set[tuple[str, str, int]] = dataclasses.field(default_factory=set)
    placeholders: list[Pod] = dataclasses.field(default_factory=list)

    def settle(self, pod: Pod) -> None:
        """Counts a pod that is there: a placeholder apart, any other with its requests and ports."""
        if pod_view.is_placeholder(pod):
            self.placeholders.append(pod)
        else:
            self.take(pod)

    def take(self, pod: Pod) -> None:
        """Counts a pod's requests and ports as taken."""
        requests = pod.requests
        self.cpu_millicores += requests.cpu_millicores
        self.memory_bytes += requests.memory_bytes
        self.pods += 1
        if requests.extended:
            for name, value in requests.extended.items():
                self.extended[name] = self.extended.get(name, 0.0) + value
        if ports := pod.host_ports:
            self.ports.update(ports)

    def why_not(self, pod: Pod) -> str:
        """Returns the reason that keeps the pod out ("requests", "pod slots", "host port"), "" if it fits beside the
        others.

        Placeholders count only if they outrank the pod, or if it never preempts.
        """
        staying = [one for one in self.placeholders if one.priority >= pod.priority or not pod.preempts]
        if self.pods + len(staying) + 1 > self.node.allocatable.pods:
            return "pod slots"
        if not self._offers(pod.requests, [one.requests for one in staying]):
            return "requests"
        taken = self.ports.union(*(one.host_ports for one in staying)) if pod.host_ports else ()
        return "host port" if any(pods.ports_clash(port, other) for port in pod.host_ports for other in taken) else ""

    def _offers(self, want: Resources, staying: list[Resources]) -> bool:
        have = self.node.allocatable
        cpu = self.cpu_millicores + sum(one.cpu_millicores for one in staying) + want.cpu_millicores
        memory = self.memory_bytes + sum(one.memory_bytes for one in staying) + want.memory_bytes
        return (
            (want.cpu_millicores == 0 or cpu <= have.cpu_millicores)
            and (want.memory_bytes == 0 or memory <= have.memory_bytes)
            and all(self._extended(name, staying) + value <= have.get(name) for name, value in want.extended.items())
        )

    def _extended(self, name: str, staying: list[Resources]) -> float:
        return self.extended.get(name, 0.0) + sum(one.extended.get(name, 0.0) for one in staying)
