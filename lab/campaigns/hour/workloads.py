"""The policy, the nodes and the workloads of the hour.

Three groups of nodes: `main` spreads and has lines over the mean, `packed` is filled up to a target, `disks` is closed
and relieved by a resource of the policy's own, which stands for a disk: twice the share of memory of the pods named
disk-. Production (web-) is judged by what production uses. `main` is heated from outside, one node after the other.
"""

import collections.abc
import json
import random
from typing import Any, Final, NamedTuple

GROUP: Final = "hour.evenload.io/group"
FIRST_DISK: Final = "hour.evenload.io/first"  # on one node until all pods of disk-hot stand there
GROUPS: Final = {"main": 8, "packed": 6, "disks": 4}  # nodes of 8 cores and 32 GiB
CLASS: Final = "production"
CORES, NODE_BYTES = 8, 32 * 2**30
GIB: Final = 2.0**30
AVAILABLE: Final = 4  # of the six replicas of each web-
_DISK: Final = NODE_BYTES // 2
_CONTAINERS: Final = 'container!="",container!="POD"'
_CPU: Final = f'container_cpu_usage_seconds_total{{pod=~"web-.*",{_CONTAINERS}}}'
_MEMORY: Final = f'container_memory_working_set_bytes{{pod=~"disk-.*",{_CONTAINERS}}}'
_ALL: Final = 'container_memory_working_set_bytes{id="/"}'
METRICS: Final = [
    {
        "name": "production_cpu",
        "resource": "production-cpu",
        "statistic": "avg",
        "window": "5m",
        "query": f"(sum by (instance) (rate({_CPU}[5m])) or 0 * sum by (instance) ({_ALL})) / {CORES}",
    },
    {
        "name": "disk_avg_5m",
        "resource": "disk",
        "statistic": "avg",
        "window": "5m",
        "query": f"(sum by (instance) (avg_over_time({_MEMORY}[5m])) or 0 * sum by (instance) ({_ALL})) / {_DISK}",
        "podQuery": f"sum by (namespace, pod) (avg_over_time({_MEMORY}[5m])) / {_DISK}",
    },
]
LINES: Final = {
    "cpu_avg_5m": {
        "evictAbove": 0.8,
        "evictUntil": 0.6,
        "overMean": {"evictAbove": 0.25, "evictUntil": 0.1, "floor": 0.4},
    },
    "disk_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6},
}
POLICY: Final[dict[str, Any]] = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "metrics": METRICS,
    "descheduler": {"mode": "Enforce", "thresholds": LINES},
    "pools": [
        {
            "name": "packed",
            "nodeSelector": {"matchLabels": {GROUP: "packed"}},
            "score": {"goal": "pack", "target": 0.6},
        },
        {
            "name": "disks",
            "nodeSelector": {"matchLabels": {GROUP: "disks"}},
            "filter": {"thresholds": {"disk_avg_5m": 0.65}},
            "score": {"weights": {"disk_avg_5m": 1}},
        },
    ],
    "podClasses": [
        {
            "name": CLASS,
            "match": {"priorityClassNames": [CLASS]},
            "filter": {"thresholds": {"production_cpu": 0.5, "cpu_avg_5m": 0.9, "cpu_max_1h": 0}},
            "score": {"weights": {"production_cpu": 1, "cpu_avg_5m": 0.3}},
        }
    ],
}
# The same without what only Prometheus measures: production's own use, and the disk.
POLICY_WITHOUT_PROMETHEUS: Final[dict[str, Any]] = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "descheduler": {"mode": "Enforce", "thresholds": {"cpu_avg_5m": LINES["cpu_avg_5m"]}},
    # without the pool, nodes that only wait for a disk would lower the mean of the others
    "pools": [POLICY["pools"][0], {"name": "disks", "nodeSelector": POLICY["pools"][1]["nodeSelector"]}],
    "podClasses": [
        {
            "name": CLASS,
            "match": {"priorityClassNames": [CLASS]},
            "filter": {"thresholds": {"cpu_avg_5m": 0.9, "cpu_max_1h": 0}},
        }
    ],
}
# What a team would try beside it: the policy as it is shipped.
SHADOW_POLICY: Final[dict[str, Any]] = {
    "apiVersion": "evenload.io/v1alpha1",
    "kind": "LoadPolicy",
    "extender": {"mode": "Shadow"},
}


class Workload(NamedTuple):
    """A Deployment: its group of nodes, its replicas, and what each of them uses."""

    name: str
    group: str
    replicas: int
    millicores: float
    memory_bytes: float
    series: str = "flat"
    node_selector: str = GROUP

    @property
    def production(self) -> bool:
        """True if its pods are of the class of production."""
        return self.name.startswith("web-")


def standing(rng: random.Random) -> list[Workload]:
    """The workloads that are there from the beginning."""
    web = [Workload(f"web-{at}", "main", 6, rng.uniform(250, 550), GIB) for at in range(6)]
    batch = [Workload(f"batch-{at}", "main", 8, rng.uniform(200, 450), GIB, "google") for at in range(5)]
    packed = [Workload(f"packed-{at}", "packed", 6, rng.uniform(250, 500), GIB, "google") for at in range(5)]
    disks = [Workload("disk-cool", "disks", 4, 200, 1.2 * GIB)]
    return [*web, *batch, *packed, *disks, Workload("disk-hot", "disks", 6, 200, 2.4 * GIB, node_selector=FIRST_DISK)]


def body(workload: Workload, seed: int) -> dict[str, Any]:
    """The Deployment; its pods request half of what they use."""
    usage = {
        "cpu_millicores": round(workload.millicores),
        "memory_bytes": round(workload.memory_bytes),
        "series": workload.series,
        "seed": seed,
    }
    requests = {"cpu": f"{workload.millicores / 2:.0f}m", "memory": f"{workload.memory_bytes / 2:.0f}"}
    selector = {GROUP: workload.group} if workload.node_selector == GROUP else {workload.node_selector: "yes"}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": 5,
        "nodeSelector": selector,
        "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}],
    }
    if workload.production:
        spec["priorityClassName"] = CLASS
    labels = {"app": workload.name}
    template = {
        "metadata": {"labels": labels, "annotations": {"load.evenload.io/usage": json.dumps(usage)}},
        "spec": spec,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": workload.name},
        "spec": {"replicas": workload.replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def names(groups: collections.abc.Mapping[str, int] = GROUPS) -> dict[str, str]:
    """The group of each node, by the names that lab/cluster/ gives them."""
    found = [group for group, count in groups.items() for _ in range(count)]
    return {f"node-{at}": group for at, group in enumerate(found)}
