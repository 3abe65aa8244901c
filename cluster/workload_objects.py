"""An owner of the arrival plan as Kubernetes objects: its Deployment and, where it has one, its PodDisruptionBudget.

Pure; `cluster.demo.arriving` creates and deletes them. The load of the pods goes along in the annotation that the
exporter reads (`simulator.contention`).
"""

import msgspec

from simulator import contention
from simulator.workloads import demo_plan

MIB = 2**20
IMAGE = "registry.k8s.io/pause:3.10"


def manifests(owner: demo_plan.Owner, namespace: str) -> list[dict[str, object]]:
    """The Deployment of an owner and, where it has one, its PodDisruptionBudget."""
    metadata = {"name": owner.name, "namespace": namespace, "labels": {"app": owner.name}}
    selector = {"matchLabels": {"app": owner.name}}
    deployment: dict[str, object] = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {"replicas": owner.replicas, "selector": selector, "template": _template(owner)},
    }
    if owner.min_available is None:
        return [deployment]
    budget: dict[str, object] = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"minAvailable": owner.min_available, "selector": selector},
    }
    return [budget, deployment]


def _template(owner: demo_plan.Owner) -> dict[str, object]:
    cpu, memory = f"{owner.requests.cpu_millicores:.0f}m", f"{owner.requests.memory_bytes / MIB:.0f}Mi"
    usage = msgspec.json.encode(owner.profile).decode()
    container = {"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {"labels": {"app": owner.name}, "annotations": {contention.USAGE_KEY: usage}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
