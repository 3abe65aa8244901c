"""Makes the snapshot of one run: the cluster as `snapshot.cluster_watch` has it, and its usage, asked of a source.

`service.py` takes a view, asks the source for the nodes' usage, and completes the snapshot when it knows which nodes
are over a line: only of pods on these is the usage asked for, and only their owners of custom kinds are looked up. A
node or pod without a trustworthy value is simply absent.
"""

import collections.abc
import functools

from descheduler.snapshot import groups, scaled_owners, usage, workloads
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.groups import Restarts
from descheduler.snapshot.scaled_owners import Custom
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import NodeUsage, PodUsage, UsageSource
from descheduler.surges import Surge, refusals
from kube import kinds, lookups
from kube.door import ScalesDoor
from kube.objects import Job, JobSet, Node, Pod
from policy import metrics
from policy.contract import load_annotation
from policy.schema.load_policy import LoadPolicy


class Reader:
    """The view of the cluster, the door for owners of custom kinds, and the source of usage."""

    def __init__(
        self, view: collections.abc.Callable[[], ClusterView], scales: ScalesDoor, source: UsageSource
    ) -> None:
        self.view = view  # raises KubeError where there is none yet
        self.source = source
        self._scales = scales

    def snapshot(
        self,
        view: ClusterView,
        node_usage: collections.abc.Mapping[str, NodeUsage],
        policy: LoadPolicy,
        over_a_line: collections.abc.Collection[str],
        *,
        now_seconds: float,
        surges: tuple[Surge, ...] = (),
    ) -> Snapshot:
        """The view and its usage; of pods on nodes `over_a_line` and of their groups. Raises as the source does."""
        hot = [pod for pod in view.pods if pod.spec.node_name in over_a_line] if over_a_line else []
        leaving = hot if policy.descheduler.protect.groups else groups.with_mates(hot, view.pods)
        controllers: list[workloads.Controller] = [*view.replica_sets, *view.deployments, *view.stateful_sets]
        controllers += [*view.replication_controllers, *view.jobs]
        named = {volume.name: volume for volume in view.volumes}
        volumes = {one.key: named[one.spec.volume_name] for one in view.claims if one.spec.volume_name in named}
        owned = self._custom(controllers, leaving)
        measured = self.source.pod_usage(policy, leaving, of_all=len(view.pods))
        absences = {pod.key: self.source.absence(pod) for pod in leaving if pod.key not in measured}
        absences |= _over_their_node(leaving, measured, view.nodes)
        index = workloads.Index(controllers, owned.workloads)
        of_sets = {pod.owner.uid for pod in leaving if pod.owner is not None and groups.JOB_SET in pod.labels}
        may_restart = [] if policy.descheduler.protect.groups else [job for job in view.jobs if job.uid in of_sets]
        surging = leaving if policy.descheduler.surge.enabled else []
        by_owner = {index.leading(pod.owner).uid: pod for pod in surging if pod.owner is not None}
        return Snapshot(
            at_seconds=now_seconds,
            nodes=view.nodes,
            node_usage=node_usage,
            pods=view.pods,
            budgets=view.budgets,
            workloads=index,
            namespaces={one.name: one.labels for one in view.namespaces},
            pod_usage={key: used for key, used in measured.items() if key not in absences},
            absences=absences,
            windows_end_at_readings=self.source.windows_end_at_readings,
            volumes=volumes,
            attach_limits={one.name: one.limits for one in view.csi_nodes} if volumes else {},
            owner_failures=owned.failures,
            silent_seconds=view.silent_seconds,
            surges=surges,
            restarts=job_set_restarts(self._scales, may_restart),
            surge_refusals=refusals(self._scales, view.deployments, by_owner, volumes),
        )

    def _custom(
        self, controllers: collections.abc.Iterable[workloads.Controller], pods: collections.abc.Iterable[Pod]
    ) -> scaled_owners.ScaledOwner:
        """Owners of other kinds, directly or above a ReplicaSet, of these pods: each costs a request."""
        listed = workloads.Index(controllers)
        owned = ((pod.namespace, pod.owner) for pod in pods)
        above = {Custom(namespace, listed.leading(owner)) for namespace, owner in owned if owner is not None}
        custom = [one for one in above if one.reference.api_version not in scaled_owners.KNOWN_VERSIONS]
        return scaled_owners.workloads(self._scales, custom)


def job_set_restarts(door: ScalesDoor, jobs: collections.abc.Iterable[Job]) -> dict[str, Restarts]:
    """Returns by uid how the JobSets of these Jobs restart: a request for each JobSet. Raises no KubeError."""
    kind = kinds.JOB_SETS
    owners = ((job, job.owner) for job in jobs)
    owned = [(job, one) for job, one in owners if one and (one.api_version, one.kind) == (kind.api_version, kind.name)]
    questions: dict[tuple[str, str], collections.abc.Callable[[], JobSet | str]] = {
        (job.namespace, owner.name): functools.partial(door.get, kind, owner.name, namespace=job.namespace)
        for job, owner in owned
    }
    answers = lookups.answers(questions, str)
    return {job.uid: groups.restarts(job, owner, answers[job.namespace, owner.name]) for job, owner in owned}


def _over_their_node(
    pods: collections.abc.Iterable[Pod], measured: collections.abc.Mapping[str, PodUsage], nodes: tuple[Node, ...]
) -> dict[str, str]:
    """The pods whose use is more than a node can have, as after a jump of a counter, and the resource in words. Those
    of a node that is gone, or cannot be read, are not judged by it.
    """
    capacities = {node.name: node.capacity for node in nodes}
    return {
        pod.key: f"it uses {times:.0f} times the {resource} of its node"
        for pod in pods
        for resource in metrics.RESOURCES
        if pod.key in measured and pod.node_name in capacities
        if (times := usage.share(measured[pod.key], capacities[pod.node_name], resource)) > load_annotation.MAX_RATIO
    }
