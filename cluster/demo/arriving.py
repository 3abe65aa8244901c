"""Plays an arrival plan: creates each batch in one step when its time has come, and removes owners that leave.

`phases` calls `play` several times a second with the time since the start; the plan is
`simulator.workloads.demo_plan`'s, the same object for both phases.
"""

from typing import Any

from cluster import workload_objects
from kube import door, errors, kinds
from simulator.workloads import demo_plan

KINDS: dict[str, kinds.Kind[Any]] = {"Deployment": kinds.DEPLOYMENTS, "PodDisruptionBudget": kinds.BUDGETS}


class Player:
    """Which steps of a plan are done."""

    def __init__(self, kube: door.KubeDoor, plan: demo_plan.Plan, namespace: str) -> None:
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

    def _create(self, owner: demo_plan.Owner) -> None:
        for body in workload_objects.manifests(owner, self._namespace):
            self._kube.create(KINDS[str(body["kind"])], body, namespace=self._namespace)

    def _delete(self, owner: demo_plan.Owner) -> None:
        """The budget first: an owner that leaves on purpose violates nothing."""
        for body in workload_objects.manifests(owner, self._namespace):
            try:
                self._kube.delete(KINDS[str(body["kind"])], owner.name, namespace=self._namespace)
            except errors.NotFound:
                continue
