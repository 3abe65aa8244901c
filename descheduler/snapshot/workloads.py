"""From a pod to the workload that replaces it: ReplicaSets stand for their Deployments, the rest for themselves.

`snapshot.cluster_reader` builds the index from the owners it listed and those that `snapshot.scaled_owners` found by
their scale; `planning.protections` and `planning.limits` ask it how many replicas a workload wants and how many stand
ready. Other owners are not in the index, so their pods stay protected: their replacement is unknown.
"""

import collections
import collections.abc
import dataclasses
import functools
from types import MappingProxyType
from typing import Final, NamedTuple

from kube.objects import Deployment, Job, OwnerReference, Pod, ReplicaSet, ReplicationController, StatefulSet

# By which controllers mark the revision of a pod: StatefulSet and CloneSet, ReplicaSet, Rollout.
REVISIONS: Final = ("controller-revision-hash", "pod-template-hash", "rollouts-pod-template-hash")
LISTED: Final = ("ReplicaSet", "Deployment", "StatefulSet", "ReplicationController", "Job")

Controller = ReplicaSet | Deployment | StatefulSet | ReplicationController | Job


class Workload(NamedTuple):
    """The object whose controller will replace an evicted pod; `replicas` wanted, `ready` by its own status: those that
    have been Ready for minReadySeconds.

    `ordered`: none of its pods is replaced while one of lower ordinal is not Ready. `failures_left` and
    `failures_per_index` are those that a Job and an index of it can bear (None: an eviction is none), `ends_at_seconds`
    its deadline. `api_version` is that of an owner of another kind, "" of Kubernetes' own. `rollout` is the state
    of one in progress, `next_revision` that of any replacement while pods are not updated otherwise.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    replicas: int
    ready: int
    ordered: bool = False
    failures_left: int | None = None
    failures_per_index: int | None = None
    ends_at_seconds: float | None = None
    api_version: str = ""
    rollout: str = ""
    next_revision: str = ""

    def __str__(self) -> str:
        """Kind/name; Kind.group/name where the kind alone would be taken for one of Kubernetes' own."""
        group = self.api_version.partition("/")[0] if self.kind in LISTED else ""
        return f"{self.kind}.{group}/{self.name}" if group else f"{self.kind}/{self.name}"


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """How a workload stands now: ready pods that are not terminating, and how many of its replicas are missing; of a
    Job the failures that its status does not count yet, evictions in flight and restarts; of an owner of another kind,
    whose status is not read, the number of revisions that its pods are of.
    """

    workload: Workload
    ready: int
    revisions: int = 0
    failing: int = 0

    @property
    def unavailable(self) -> int:
        """Replicas that do not serve at this moment."""
        return max(0, self.workload.replicas - self.ready)


Standings = collections.abc.Callable[[str], WorkloadStatus | None]  # by the workload's uid, None: it is not known
Serves = collections.abc.Callable[[Pod], bool]  # whether a Ready pod is of use: a leader without its workers is not


class Index(collections.abc.Mapping[str, Workload]):
    """Workloads by the uid of the controller a pod names, made when they are asked for: a plan is about few of them.

    `custom` has owners of other kinds by their own uid. A ReplicaSet leads to the Deployment or the custom owner above
    it, and is left out where that is not known: it is one version of something. Any other controller replaces its pods
    itself, whatever made it (an operator, a CronJob).
    """

    def __init__(
        self,
        controllers: collections.abc.Iterable[Controller] = (),
        custom: collections.abc.Mapping[str, Workload] = MappingProxyType({}),
    ) -> None:
        self._listed = {one.uid: one for one in controllers}
        self._custom = custom
        self._workloads: dict[str, Workload | None] = {}

    def __getitem__(self, uid: str) -> Workload:
        if uid not in self._workloads:
            self._workloads[uid] = self._workload(uid)
        workload = self._workloads[uid]
        if workload is None:
            raise KeyError(uid)
        return workload

    def __iter__(self) -> collections.abc.Iterator[str]:
        return (uid for uid in {**self._custom, **self._listed} if uid in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def leading(self, owner: OwnerReference) -> OwnerReference:
        """The reference to follow from a pod's owner: of a ReplicaSet the one above it, if it has one."""
        one = self._listed.get(owner.uid)
        return (one.owner if isinstance(one, ReplicaSet) else None) or owner

    @functools.cached_property
    def versions(self) -> collections.abc.Mapping[str, collections.abc.Sequence[str]]:
        """The uids of the ReplicaSets by that of the object above them."""
        versions: dict[str, list[str]] = collections.defaultdict(list)
        for uid, one in self._listed.items():
            if isinstance(one, ReplicaSet) and one.owner is not None:
                versions[one.owner.uid].append(uid)
        return dict(versions)

    def _workload(self, uid: str) -> Workload | None:
        one = self._listed.get(uid)
        if one is None:
            return self._custom.get(uid)
        owner = one.owner if isinstance(one, ReplicaSet) else None
        if owner is None:
            replicas = one.spec_replicas, one.available_replicas
            plain = Workload(type(one).__name__, one.namespace, one.name, uid, *replicas)
            if isinstance(one, StatefulSet):
                return plain._replace(ordered=one.ordered, rollout=one.rollout, next_revision=one.next_revision)
            if isinstance(one, Deployment):
                return plain._replace(rollout=one.rollout)
            if isinstance(one, Job):
                left, per_index, end_seconds = one.failures_left, one.failures_per_index, one.ends_at_seconds
                return plain._replace(failures_left=left, failures_per_index=per_index, ends_at_seconds=end_seconds)
            return plain
        leads = owner.uid in self._custom or isinstance(self._listed.get(owner.uid), Deployment)
        return self.get(owner.uid) if leads else None


def standings(
    owned: collections.abc.Mapping[tuple[str, str], collections.abc.Sequence[Pod]], workloads: Index, serves: Serves
) -> Standings:
    """Returns what tells how a workload stands, counted when it is asked for: a plan is about few of them.

    The smaller of the status's count and the index's own is believed: a pod that is terminating still counts as ready
    in many a status. `owned` are pods by namespace and uid of their controlling owner: who names an owner of another
    namespace is no replica of it.
    """

    @functools.cache
    def standing(uid: str) -> WorkloadStatus | None:
        workload = workloads.get(uid)
        if workload is None or workload.uid != uid:
            return None
        ready, failing, revisions = 0, 0, set()
        for owner in (uid, *workloads.versions.get(uid, ())):
            # a list is faster than nested generators, and many pods are counted
            pods = owned.get((workload.namespace, owner), ())
            ready += len([1 for pod in pods if pod.ready and not pod.deleting and not pod.finished and serves(pod)])
            if workload.failures_left is not None:
                failing += sum(1 if pod.deleting else pod.restarts for pod in pods)
            if workload.api_version:
                revisions |= {tuple(map(pod.labels.get, REVISIONS)) for pod in pods}
        return WorkloadStatus(workload, min(workload.ready, ready), len(revisions), failing)

    return standing
