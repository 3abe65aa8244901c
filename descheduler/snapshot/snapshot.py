"""One immutable picture of the cluster per run: what `planning.planner` decides by, and nothing else.

`snapshot.cluster_reader` makes it; tests build it by hand. It is of one moment (`at_seconds`), usage carries its own
times, and a node or pod without a trustworthy value is absent from it. How long its watches had heard nothing is part
of it: by objects that may have changed long ago nothing is planned (`stale`).
"""

import collections
import collections.abc
import dataclasses
import functools

from descheduler.snapshot import workloads as workload_index
from descheduler.snapshot.groups import LWS, LWS_WORKER, Groups, Restarts
from descheduler.snapshot.scaled_owners import Custom, Failure
from descheduler.snapshot.usage import NodeUsage, PodUsage
from descheduler.snapshot.workloads import Workload
from descheduler.surges import ABANDONED, FINISHED, OPEN, UNDONE, WAITING, Surge
from kube.cache import watch_status
from kube.objects import DisruptionBudget, Node, PersistentVolume, Pod
from kube_scheduler import volumes


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """Nodes, pods, budgets, owners and usage at one moment.

    `pod_usage` is of pods on nodes over a line only, also before that is confirmed: others are in no plan.
    `workloads` is by the uid of the pods' controlling owner, `namespaces` maps a namespace to its labels, `volumes` a
    claim ("namespace/name") to the volume it is bound to, `attach_limits` a node to how many volumes of a CSI driver it
    can hold. `absences` says by pod why its usage is not known, `windows_end_at_readings` whether nodes' windows end at
    the times of their readings. `owner_failures` are the owners of other kinds that could not be looked up,
    `silent_seconds` says for how long each watch (by the plural of its kind) had heard nothing. `surges` are those that
    are open or ended lately, `surge_refusals` say by the uid of Deployments that opt in why none begins.
    `restarts` are by the uid of Jobs of JobSets.
    """

    at_seconds: float
    nodes: tuple[Node, ...] = ()
    node_usage: collections.abc.Mapping[str, NodeUsage] = dataclasses.field(default_factory=dict)
    pods: tuple[Pod, ...] = ()
    budgets: tuple[DisruptionBudget, ...] = ()
    workloads: workload_index.Index = dataclasses.field(default_factory=workload_index.Index)
    namespaces: collections.abc.Mapping[str, collections.abc.Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )
    pod_usage: collections.abc.Mapping[str, PodUsage] = dataclasses.field(default_factory=dict)
    absences: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    windows_end_at_readings: bool = False
    volumes: collections.abc.Mapping[str, PersistentVolume] = dataclasses.field(default_factory=dict)
    attach_limits: collections.abc.Mapping[str, collections.abc.Mapping[str, int]] = dataclasses.field(
        default_factory=dict
    )
    owner_failures: collections.abc.Mapping[Custom, Failure] = dataclasses.field(default_factory=dict)
    silent_seconds: collections.abc.Mapping[str, float] = dataclasses.field(default_factory=dict)
    surges: tuple[Surge, ...] = ()
    surge_refusals: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    restarts: collections.abc.Mapping[str, Restarts] = dataclasses.field(default_factory=dict)

    def in_mode(self, mode: str) -> "Snapshot":
        """Returns it without the surges that another mode only tried: they hold nothing back, as in the history."""
        surges = tuple(one for one in self.surges if one.mode in (mode, "Enforce"))
        return self if surges == self.surges else dataclasses.replace(self, surges=surges)

    def stale(self) -> str:
        """Names the watch that has heard nothing for too long, and for how long; "" if none has."""
        silent_seconds, plural = max(((age, name) for name, age in self.silent_seconds.items()), default=(0.0, ""))
        if silent_seconds <= watch_status.STALE_SECONDS:
            return ""
        limit = f"{watch_status.STALE_SECONDS:.0f} s"
        return f"the watch of {plural} has heard nothing for {silent_seconds:.0f} s, over {limit}"

    def windows_end_seconds(self, node: str) -> float:
        """When the windows of a node end: by this time a load has come or gone for them."""
        reading = self.node_usage.get(node) if self.windows_end_at_readings else None
        return self.at_seconds if reading is None else min(reading.at_seconds, self.at_seconds)

    def owner_failure(self, pod: Pod) -> str:
        """Why the pod's owner could not be looked up, "" if it could."""
        if pod.owner is None or not self.owner_failures:
            return ""
        failure = self.owner_failures.get(Custom(pod.namespace, self.workloads.leading(pod.owner)))
        return failure.text if failure is not None else ""

    def workload_of(self, pod: Pod) -> Workload | None:
        """Returns the workload that would replace the pod, if it is in the index."""
        workload = self.workloads.get(pod.owner.uid) if pod.owner is not None else None
        return workload if workload is not None and workload.namespace == pod.namespace else None

    @functools.cached_property
    def on_nodes(self) -> collections.abc.Mapping[str, collections.abc.Sequence[Pod]]:
        """The pods by the node they are bound to, "" for none."""
        by_node: dict[str, list[Pod]] = collections.defaultdict(list)
        for pod in self.pods:
            by_node[pod.spec.node_name].append(pod)
        return dict(by_node)

    @functools.cached_property
    def owned(self) -> collections.abc.Mapping[tuple[str, str], collections.abc.Sequence[Pod]]:
        """The pods by namespace and uid of their controlling owner, without those that have none."""
        by_owner: dict[tuple[str, str], list[Pod]] = collections.defaultdict(list)
        for pod in self.pods:
            owner = pod.owner
            if owner is not None:
                by_owner[pod.namespace, owner.uid].append(pod)
        return dict(by_owner)

    @functools.cached_property
    def groups(self) -> Groups:
        """The groups that pods say they are of."""
        return Groups(self.pods)

    @functools.cached_property
    def open_surges(self) -> collections.abc.Mapping[str, Surge]:
        """The surges that are open, by the uid of their Deployment."""
        return {one.workload_uid: one for one in self.surges if one.state in OPEN}

    @functools.cached_property
    def ended_surges(self) -> collections.abc.Mapping[str, Surge]:
        """Those that ended so lately that a watch may show the replicas of before, by the uid of their Deployment."""
        since_seconds = self.at_seconds - watch_status.STALE_SECONDS
        ended = (one for one in self.surges if one.state in (FINISHED, UNDONE, ABANDONED))
        return {one.workload_uid: one for one in ended if one.changed_at_seconds > since_seconds}

    @functools.cached_property
    def surging(self) -> tuple[Pod, ...]:
        """The pods that are to leave, by a surge, once another one is Ready."""
        uids = {one.pod_uid for one in self.open_surges.values()}
        pods = (pod for pod in self.pods if pod.uid in uids) if uids else ()
        return tuple(pod for pod in pods if self.replacement(pod) is None)

    def replacement(self, pod: Pod) -> Pod | None:
        """The pod that a surge made for this one, Ready on another node; None without such a surge or pod."""
        surge = next((one for one in self.open_surges.values() if one.pod_uid == pod.uid), None)
        if surge is None or surge.state != WAITING:
            return None
        new = surge.new_pods(self.owned.get((surge.namespace, surge.owner_uid), ()))
        ready = (one for one in new if one.ready and one.node_name != surge.node)
        return min(ready, key=lambda one: (one.created_at_seconds, one.uid), default=None)

    def standings(self) -> workload_index.Standings:
        """Returns what tells how a workload stands, by its uid."""
        return workload_index.standings(self.owned, self.workloads, self._serves)

    def _serves(self, pod: Pod) -> bool:
        """Whether a Ready pod serves: a LeaderWorkerSet's leader does only while all pods of its group are Ready."""
        if LWS not in pod.labels or pod.labels.get(LWS_WORKER) != "0":
            return True
        group = self.groups.of(pod)
        return not group.unclear and all(one.ready and not one.deleting for one in group.pods)

    @functools.cached_property
    def movable_claims(self) -> frozenset[str]:
        """The claims whose volume can be mounted on at least two of the nodes, with the same data, and need not stay
        with another pod.
        """
        held = self._held_claims()
        return frozenset(
            claim
            for claim, volume in self.volumes.items()
            if not (volume.is_anywhere or (volume.one_node_at_a_time and claim in held))
            and sum(1 for node in self.nodes if volumes.mountable(volume, node)) >= 2
        )

    def _held_claims(self) -> frozenset[str]:
        """The claims of several pods that are not seen to be Ready on two nodes at a time: where the volume is attached
        to one node only, the other pods keep it there.
        """
        users: dict[str, list[Pod]] = collections.defaultdict(list)
        for pod in self.pods if self.volumes else ():
            for name in {volume.claim for volume in pod.spec.volumes if volume.claim and pod.spec.node_name}:
                users[f"{pod.namespace}/{name}"].append(pod)
        return frozenset(
            claim
            for claim, pods in users.items()
            if len(pods) > 1 and len({pod.spec.node_name for pod in pods if pod.ready}) < 2
        )
