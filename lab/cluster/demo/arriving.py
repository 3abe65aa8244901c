"""Plays an arrival plan: creates each batch in one step when its time has come, and removes owners that leave.

`phases` calls `play` several times a second with the time since the start; the plan is
`lab.cluster.demo.arrival_plan`'s, the same object for both phases. The load of the pods goes along in the annotation
that the exporter reads (`cluster.exporter_load`).
"""

from typing import Any, Final

import msgspec

from kube import door, errors, kinds
from lab.cluster import exporter_load
from lab.cluster.demo import arrival_plan

MIB: Final = 2**20
IMAGE: Final = "registry.k8s.io/pause:3.10"
KINDS: Final[dict[str, kinds.Kind[Any]]] = {"Deployment": kinds.DEPLOYMENTS, "PodDisruptionBudget": kinds.BUDGETS}


class Player:
    """Which steps of a plan are done."""

    def __init__(self, kube: door.KubeDoor, plan: arrival_plan.Plan, namespace: str) -> None:
        self._kube = kube
        self._plan = plan
        self._namespace = namespace
        self._arrived = 0
        self._departed = 0

    def play(self, elapsed_seconds: float) -> int:
        """Does what is due; returns how many owners have arrived so far."""
        while self._arrived < len(self._plan.arrivals):
            arrival = self._plan.arrivals[self._arrived]
            if arrival.at_seconds > elapsed_seconds:
                break
            self._arrived += 1
            for owner in arrival.owners:
                self._create(owner)
        while self._departed < len(self._plan.departures):
            departure = self._plan.departures[self._departed]
            if departure.at_seconds > elapsed_seconds:
                break
            self._departed += 1
            self._delete(departure.owner)
        return sum(len(arrival.owners) for arrival in self._plan.arrivals[: self._arrived])

    def _create(self, owner: arrival_plan.Owner) -> None:
        for body in manifests(owner, self._namespace):
            self._kube.create(KINDS[str(body["kind"])], body, namespace=self._namespace)

    def _delete(self, owner: arrival_plan.Owner) -> None:
        """The budget first: an owner that leaves on purpose violates nothing."""
        for body in manifests(owner, self._namespace):
            try:
                self._kube.delete(KINDS[str(body["kind"])], owner.name, namespace=self._namespace)
            except errors.NotFound:
                continue


def manifests(owner: arrival_plan.Owner, namespace: str) -> list[dict[str, object]]:
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


def _template(owner: arrival_plan.Owner) -> dict[str, object]:
    cpu, memory = f"{owner.requests.cpu_millicores:.0f}m", f"{owner.requests.memory_bytes / MIB:.0f}Mi"
    usage = msgspec.json.encode(owner.profile).decode()
    container = {"name": "app", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "metadata": {"labels": {"app": owner.name}, "annotations": {exporter_load.USAGE_KEY: usage}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
    }
