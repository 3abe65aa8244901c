"""From a pod to the workload that replaces it: ReplicaSets stand for their Deployments, the rest for themselves.

`reading.py` builds the index from the owners it listed and those that `owners.py` found by their scale;
`protections.py` and `limits.py` ask it how many replicas a workload wants and how many stand ready. Other owners are
not in the index, so their pods stay protected: nobody knows what replaces them.
"""

import collections.abc
import dataclasses
from typing import NamedTuple, Protocol

from kube.objects import OwnerReference, Pod, StatefulSet


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
    """The object whose controller will replace an evicted pod; `replicas` wanted, `ready` by its own status.

    `ordered`: none of its pods is replaced while one of lower ordinal is not Ready.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: int
    ready: int
    ordered: bool = False

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
    replica_sets = controllers.get("ReplicaSet", ())
    others = {kind: several for kind, several in controllers.items() if kind != "ReplicaSet"}
    found = {**(custom or {}), **{one.uid: _workload(kind, one) for kind, several in others.items() for one in several}}
    deployments = {uid: found[uid] for uid in (one.uid for one in others.get("Deployment", ()))}
    above = {**(custom or {}), **deployments}
    for one in replica_sets:
        owner = one.owner
        workload = _workload("ReplicaSet", one) if owner is None else above.get(owner.uid)
        if workload is not None:
            found[one.uid] = workload
    return found


class Standings(collections.abc.Mapping[str, Standing]):
    """Every workload's standing by workload uid, counted when it is asked for: a plan is about few of them.

    The smaller of the status's count and our own is believed: a pod that is terminating still counts as ready in many
    a status. `owned` are pods by the uid of their controlling owner, `workloads` as `index` gives them.
    """

    def __init__(
        self,
        owned: collections.abc.Mapping[str, collections.abc.Sequence[Pod]],
        workloads: collections.abc.Mapping[str, Workload],
    ) -> None:
        self._owned = owned
        self._workloads = {workload.uid: workload for workload in workloads.values()}
        self._owners: dict[str, list[str]] = {uid: [] for uid in self._workloads}
        for owner, workload in workloads.items():
            self._owners[workload.uid].append(owner)
        self._counted: dict[str, Standing] = {}

    def __getitem__(self, uid: str) -> Standing:
        if uid not in self._counted:
            workload = self._workloads[uid]
            pods = (pod for owner in self._owners[uid] for pod in self._owned.get(owner, ()))
            ready = sum(1 for pod in pods if pod.ready and not pod.deleting and not pod.finished)
            self._counted[uid] = Standing(workload, min(workload.ready, ready))
        return self._counted[uid]

    def __iter__(self) -> collections.abc.Iterator[str]:
        return iter(self._workloads)

    def __len__(self) -> int:
        return len(self._workloads)


def _workload(kind: str, one: Controller) -> Workload:
    ordered = isinstance(one, StatefulSet) and one.ordered
    return Workload(kind, one.namespace, one.name, one.uid, one.spec_replicas, one.ready_replicas, ordered)
