"""From a pod to the workload that replaces it: ReplicaSets stand for their Deployments, the rest for themselves.

`reading.py` builds the index from the owners it listed and those that `owners.py` found by their scale;
`protections.py` and `limits.py` ask it how many replicas a workload wants and how many stand ready. Other owners are
not in the index, so their pods stay protected: nobody knows what replaces them.
"""

import collections
import collections.abc
import dataclasses
from typing import NamedTuple, Protocol

from kube.objects import OwnerReference, Pod


class Controller(Protocol):
    """What the index needs of a ReplicaSet, Deployment, StatefulSet, ReplicationController or Job."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def uid(self) -> str: ...
    @property
    def owner(self) -> OwnerReference | None: ...
    @property
    def spec_replicas(self) -> int: ...
    @property
    def ready_replicas(self) -> int: ...


class Workload(NamedTuple):
    """The object whose controller will replace an evicted pod; `replicas` wanted, `ready` by its own status."""

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: int
    ready: int

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """How a workload stands now: ready pods that are not terminating, and how many of its replicas are missing."""

    workload: Workload
    ready: int

    @property
    def unavailable(self) -> int:
        """Replicas that do not serve at this moment."""
        return max(0, self.workload.replicas - self.ready)


def index(
    controllers: collections.abc.Mapping[str, collections.abc.Iterable[Controller]],
    custom: collections.abc.Mapping[str, Workload] | None = None,
) -> dict[str, Workload]:
    """Workloads by the uid of the controller a pod names: `controllers` is kind -> objects, `custom` by their own uid.

    A ReplicaSet leads to the Deployment or the custom owner above it, and is left out where that is not known: it is
    one version of something. Any other controller replaces its pods itself, whoever made it (an operator, a CronJob).
    """
    every = {one.uid: (kind, one) for kind, several in controllers.items() for one in several}
    found = dict(custom or {})
    for uid, (kind, one) in every.items():
        workload = _above(one, every, found) if kind == "ReplicaSet" and one.owner is not None else _workload(kind, one)
        if workload is not None:
            found[uid] = workload
    return found


def _above(
    replica_set: Controller,
    every: collections.abc.Mapping[str, tuple[str, Controller]],
    custom: collections.abc.Mapping[str, Workload],
) -> Workload | None:
    above = replica_set.owner
    if above is None:
        return None
    if above.uid in every and every[above.uid][0] == "Deployment":
        return _workload(*every[above.uid])
    return custom.get(above.uid)


def standings(
    pods: collections.abc.Iterable[Pod], workloads: collections.abc.Mapping[str, Workload]
) -> dict[str, Standing]:
    """Every workload's standing by workload uid.

    The smaller of the status's count and our own is believed: a pod that is terminating still counts as ready in many
    a status.
    """
    counted: collections.Counter[str] = collections.Counter()
    for pod in pods:
        owner = pod.owner
        workload = workloads.get(owner.uid) if owner is not None else None
        if workload is not None and pod.ready and not pod.deleting and not pod.finished:
            counted[workload.uid] += 1
    unique = {workload.uid: workload for workload in workloads.values()}
    return {uid: Standing(workload, min(workload.ready, counted[uid])) for uid, workload in unique.items()}


def _workload(kind: str, one: Controller) -> Workload:
    return Workload(kind, one.namespace, one.name, one.uid, one.spec_replicas, one.ready_replicas)
