"""A control plane whose nodes read what a test says, the extender beside it, and kube-scheduler asking that."""

import collections
import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kube import config, kinds, objects
from lab import cluster
from lab.cluster import extender_stanza
from policy.contract import load_annotation
from runtime import clock, reloading
from tests.e2e import services, waiting
from tests.e2e.lent import lent

NODES = ("node-0", "node-1", "node-2")
METRICS = ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d", "memory_avg_5m", "memory_max_1h", "memory_max_1d")
POLICY = """
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
sync: {staleAfter: 1h}  # longer than the slowest test: no annotator renews these readings
"""
PENDING = POLICY + "filter: {whenAllRejected: pending}\n"


W = TypeVar("W", bound="World")


class World:
    """A control plane whose nodes read what the test says, and the extender beside it."""

    def __init__(self, running: cluster.Cluster, directory: pathlib.Path, host: str = "127.0.0.1") -> None:
        self.cluster = running
        self.door = config.connect(str(running.kubeconfig), None)
        self.policy = directory / "policy.yaml"
        self.policy.write_text(POLICY, encoding="utf-8")
        self.arguments = ["--policy", str(self.policy), "--kubeconfig", str(running.kubeconfig), "--deadline", "90s"]
        self.extender = services.Service("tests.e2e.patient_extender", self.arguments, directory, host=host)

    def obey(self, policy: str) -> None:
        """Put a policy in force and wait until the extender answers by it."""
        self.policy.write_text(policy, encoding="utf-8")
        wanted = reloading.content_hash(policy.encode())
        waiting.until(lambda: self.extender.json("/nodes")["policy"] == wanted, "the policy to be in force")

    def use_extender(self, **changes: object) -> None:
        """Restarts the scheduler with the stanza we ship and waits: a pod placed without us would say nothing."""
        stanza = extender_stanza.at(self.extender.url)
        self.cluster.start_scheduler(extenders=[{**stanza, "httpTimeout": "60s", **changes}])

    def load(self, **cpu_ratio: float) -> None:
        """Annotate nodes (node_0=0.9) and wait until the extender's view has them."""
        for key, ratio in cpu_ratio.items():
            values = {**dict.fromkeys(METRICS, 0.1), "cpu_avg_5m": ratio}
            text = load_annotation.encode(load_annotation.Reading(clock.WallClock().now(), values))
            body = {"metadata": {"annotations": {load_annotation.KEY: text}}}
            self.door.merge_patch(kinds.NODES, key.replace("_", "-"), body)
        waiting.until(lambda: self._shows(cpu_ratio), f"the extender to see {cpu_ratio}", self.nodes)

    def _shows(self, cpu_ratio: dict[str, float]) -> bool:
        rows = {row["name"]: row for row in self.nodes()}
        return all(rows[k.replace("_", "-")]["values"].get("cpu_avg_5m") == ratio for k, ratio in cpu_ratio.items())

    def _counts_nothing(self) -> bool:
        """Returns True when no placement of an earlier test counts in any window."""
        return not any(count for row in self.nodes() for count in row["hot"].values())

    def counted(self, window: str) -> collections.Counter[str]:
        """How many placements count on each node in a window; no node without any."""
        return +collections.Counter({row["name"]: row["hot"][window] for row in self.nodes()})

    def nodes(self) -> list[dict[str, Any]]:
        """The rows of GET /nodes."""
        return self.extender.rows("/nodes")

    def create(self, prefix: str, count: int = 1, *, cpu: str = "10m", priority_class: str = "") -> None:
        """Create bare pods at once."""
        for at in range(count):
            requests = {"cpu": cpu, "memory": "16Mi"}
            spec: dict[str, object] = {
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
            }
            if priority_class:
                spec["priorityClassName"] = priority_class
            self.door.create(kinds.PODS, {"metadata": {"name": f"{prefix}-{at}"}, "spec": spec}, namespace="default")

    def pods(self, prefix: str = "") -> list[objects.Pod]:
        """The pods there are."""
        return [pod for pod in self.door.list(kinds.PODS, namespace="default").items if pod.name.startswith(prefix)]

    def placed(self, prefix: str, count: int) -> collections.Counter[str]:
        """Wait until so many are bound; how many each node got."""

        def bound() -> list[objects.Pod]:
            found = [pod for pod in self.pods(prefix) if pod.node_name]
            return found if len(found) == count else []

        return collections.Counter(pod.node_name for pod in waiting.until(bound, f"{count} pods {prefix}* to be bound"))

    def failure(self, pod: str) -> str:
        """The note of the newest FailedScheduling event about a pod, "" without one."""
        events = self.cluster.api.items("apis/events.k8s.io/v1/namespaces/default/events")
        notes = [
            event["note"]
            for event in events
            if event["regarding"]["name"] == pod and event["reason"] == "FailedScheduling"
        ]
        return notes[-1] if notes else ""

    def reset(self) -> None:
        """No pods, cool nodes, the extender running, the scheduler asking it."""
        self.cluster.api.delete("api/v1/namespaces/default/pods")
        waiting.until(lambda: not self.pods(), "all pods to go")
        waiting.until(self._counts_nothing, "the extender to count no pod", self.nodes)
        self.load(node_0=0.1, node_1=0.1, node_2=0.1)


@contextlib.contextmanager
def extending(control_plane: cluster.Cluster, make: Callable[[cluster.Cluster], W]) -> Iterator[W]:
    """Lends a control plane with three nodes and puts the extender in charge of them."""
    with lent(control_plane) as running:
        world = make(running)
        try:
            world.extender.start()
            world.use_extender()
            yield world
        finally:
            world.extender.stop()
            world.door.close()
