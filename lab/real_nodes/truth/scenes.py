"""The workloads of the run: two nodes that become hot, one by memory and one by CPU, once for each policy.

Pods are spread by hand at the start (a closed node takes none) and by kube-scheduler with the extender afterwards. A
step is a bare pod, which nothing evicts. The part with the shortest windows evicts pods of its own label alone, and
they are deleted after it; meanwhile the others become old enough for the shipped policy.
"""

from typing import NamedTuple

from lab.real_nodes import images
from lab.tests.real_nodes.nodes import Document

SHORTEST, SHIPPED = "shortest", "shipped"
PART = "part"  # the label with the part whose pods these are
SHORTEST_SECONDS, SHIPPED_SECONDS = 60.0, 300.0
YOUNG = "30s"  # the least age of pods in the part with the shortest windows, also for the guard


class Workload(NamedTuple):
    """Pods that use so much, first on these nodes, and the part of the run in which they may leave."""

    name: str
    part: str
    millicores: int
    mebibytes: int
    nodes: tuple[str, ...]


class Case(NamedTuple):
    """A node that becomes hot by a resource in a part of the run, and the pod that makes it so."""

    part: str
    resource: str
    node: str
    step: Workload
    line_ratio: float = 0.80
    until_ratio: float = 0.60

    @property
    def window_seconds(self) -> float:
        """The window of the metric by which the node is judged."""
        return SHORTEST_SECONDS if self.part == SHORTEST else SHIPPED_SECONDS

    @property
    def metric(self) -> str:
        """The metric by which the node is judged."""
        return f"{self.resource}_avg_{'1m' if self.part == SHORTEST else '5m'}"


WORKLOADS = (
    Workload("quick", SHORTEST, 80, 10, ("rn1",) * 3),
    Workload("small", SHORTEST, 5, 180, ("rn2",) * 3),
    Workload("web", SHIPPED, 5, 600, ("rn1", "rn2")),
    Workload("api", SHIPPED, 300, 10, ("rn1", "rn2")),
)
# Bare pods that are there from the beginning.
STANDING = (
    Workload("cache", SHIPPED, 5, 480, ("rn1",)),
    Workload("batch", SHIPPED, 340, 10, ("rn2",)),
)
CASES = (
    Case(SHORTEST, "memory", "rn2", Workload("step-memory", SHORTEST, 5, 360, ("rn2",))),
    Case(SHORTEST, "cpu", "rn1", Workload("step-cpu", SHORTEST, 200, 10, ("rn1",)), 0.72, 0.62),
    Case(SHIPPED, "memory", "rn1", Workload("step-memory", SHIPPED, 5, 320, ("rn1",))),
    Case(SHIPPED, "cpu", "rn2", Workload("step-cpu", SHIPPED, 180, 10, ("rn2",))),
)


def shipped_policy(policy: Document) -> Document:
    """The policy of the page, which is the shipped one, with evictions."""
    return {**policy, "descheduler": {**policy["descheduler"], "mode": "Enforce"}}


def shortest_policy(policy: Document) -> Document:
    """The policy of the page with the shortest windows to which `evenload policy validate` has no objection."""
    metrics = [
        {"name": f"{resource}_avg_1m", "resource": resource, "statistic": "avg", "window": "1m"}
        for resource in ("cpu", "memory")
    ]
    lines = {
        case.metric: {"evictAbove": case.line_ratio, "evictUntil": case.until_ratio}
        for case in CASES
        if case.part == SHORTEST
    }
    before = policy["descheduler"]
    descheduler = {
        **before,
        "mode": "Enforce",
        "interval": "5s",
        "overloadedFor": "0s",
        "thresholds": lines,
        "protect": {
            **before["protect"],
            "minPodAge": YOUNG,
            "labelSelector": {"matchLabels": {PART: SHORTEST}},
        },
        "cooldown": {**before["cooldown"], "workload": "0s", "node": "30s"},
    }
    thresholds = policy["filter"]["thresholds"] | {"memory_avg_1m": 0.60, "cpu_avg_1m": 0.62}
    return {
        **policy,
        "metrics": metrics,
        "sync": {**policy["sync"], "period": "5s"},
        "filter": {**policy["filter"], "thresholds": thresholds},
        "descheduler": descheduler,
    }


def deployment(workload: Workload, replicas: int) -> Document:
    """A Deployment of so many replicas."""
    labels = {"app": workload.name, PART: workload.part}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": workload.name}},
            "template": {"metadata": {"labels": labels}, "spec": _spec(workload)},
        },
    }


def pod(workload: Workload) -> Document:
    """A bare pod on its node."""
    metadata = {"name": workload.name, "namespace": "default", "labels": {PART: workload.part}}
    spec = {**_spec(workload), "nodeName": workload.nodes[0]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _spec(workload: Workload) -> Document:
    requests = {"cpu": f"{workload.millicores // 2}m", "memory": f"{workload.mebibytes // 2}Mi"}
    container = {
        "name": "main",
        "image": images.BURNER,
        "args": [str(workload.millicores), str(workload.mebibytes)],
        "resources": {"requests": requests},
    }
    return {"containers": [container], "terminationGracePeriodSeconds": 10}
