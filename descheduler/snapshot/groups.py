"""Groups: pods that are scheduled, started or restarted together, by what each of them says of itself.

`planning.protections` keeps their pods, or lets `planning.planner` take a whole group for one candidate. Labels and
annotations alone say who belongs to it, not its own object of another API.

An eviction that is one failure too many fails a Job, and a JobSet makes all of its Jobs anew then, as long as its
failurePolicy lets it. Sources: KEP-262 of JobSet, and the controller of v0.10.1, which takes the first rule that
matches any failed Job.
"""

import collections
import collections.abc
import functools
from typing import Final, NamedTuple

from descheduler.snapshot import pod_annotations
from kube.objects import Job, JobSet, OwnerReference, Pod

LWS: Final = "leaderworkerset.sigs.k8s.io/name"
LWS_INDEX: Final = "leaderworkerset.sigs.k8s.io/group-index"
LWS_WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"  # "0": the leader
JOB_SET: Final = "jobset.sigs.k8s.io/jobset-name"
LABELS: Final = (
    LWS,
    JOB_SET,
    "kueue.x-k8s.io/pod-group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "grove.io/podgang",
    "ray.io/cluster",
)
Sharing = dict[tuple[str, str], list[Pod]]
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"  # a label of a JobSet's Jobs
RESTART, RESTART_FREE = "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"
NOT_UNIQUE: Final = pod_annotations.GROUPS[-1]  # applications of one namespace have task groups of equal names


class Group(NamedTuple):
    """The pods that leave together, by name: one pod alone has no `name`. `unclear` says why it is not known who they
    are; `restarts`: where one of them goes, the controller makes all of them anew.
    """

    name: str
    pods: tuple[Pod, ...]
    unclear: str = ""
    restarts: bool = False


class Restarts(NamedTuple):
    """How many times the JobSet of a Job has restarted, and when it made this Job (Unix seconds); why it would not
    restart once more, "" if it would.
    """

    refusal: str
    times: int = 0
    made_at_seconds: float = 0.0


class Groups:
    """The groups of all pods of a snapshot."""

    def __init__(self, pods: collections.abc.Iterable[Pod]) -> None:
        self._sharing: Sharing = collections.defaultdict(list)
        for pod in pods:
            for reference in references(pod):
                self._sharing[pod.namespace, reference].append(pod)
        self._shared = functools.cache(functools.partial(_shared, self._sharing))  # each of thousands asks

    def of(self, pod: Pod) -> Group:
        """The group of a pod that has references. Those that share one of them must share all."""
        own = references(pod)
        pods, alike = self._shared(pod.namespace, own)
        restarts = LWS in pod.labels  # whatever its restartPolicy, which no pod tells: each of it bears the loss of one
        name = f"{own[0]}, {len(pods)} pods{', one eviction restarts it' if restarts else ''}"
        size = pod.annotations.get(pod_annotations.LWS_SIZE, "unknown")
        unclear = ""
        if pod.scheduling_group or NOT_UNIQUE in pod.annotations or (restarts and LWS_INDEX not in pod.labels):
            unclear = "which pods are of it is not known"
        elif not alike:
            unclear = "its pods are of several groups"
        elif restarts and size != str(len(pods)):
            unclear = f"its size is {size}"
        return Group(name, pods, unclear, restarts)


def references(pod: Pod) -> tuple[str, ...]:
    """Names the groups of a pod, as "key: value", or a field of its spec that has one."""
    keys = ((pod.labels, LABELS), (pod.annotations, pod_annotations.GROUPS))
    named = [f"{key}: {source[key]}" for source, known in keys for key in known if key in source]
    if LWS in pod.labels and LWS_INDEX in pod.labels:
        named[0] += f", group {pod.labels[LWS_INDEX]}"
    return (*([pod.scheduling_group] if pod.scheduling_group else []), *named)


def with_mates(leaving: collections.abc.Sequence[Pod], pods: collections.abc.Iterable[Pod]) -> list[Pod]:
    """These pods and all others of their groups."""
    grouped = [pod for pod in leaving if references(pod)]
    groups = Groups(pods if grouped else ())
    mates = {one.uid: one for pod in grouped for one in groups.of(pod).pods}
    return list({**{pod.uid: pod for pod in leaving}, **mates}.values())


def _shared(sharing: Sharing, namespace: str, own: tuple[str, ...]) -> tuple[tuple[Pod, ...], bool]:
    """The pods that share the first of these references, by name, and whether they share all."""
    pods = [{one.uid: one for one in sharing[namespace, reference]} for reference in own]
    alike = all(one.keys() == pods[0].keys() for one in pods)
    return tuple(sorted(pods[0].values(), key=lambda one: (one.name, one.uid))), alike


def restarts(job: Job, owner: OwnerReference, job_set: JobSet | str) -> Restarts:
    """Returns how the JobSet that owns the Job restarts, or could not be read, why."""
    if isinstance(job_set, str) or job_set.uid != owner.uid:
        return Restarts(job_set if isinstance(job_set, str) else f"JobSet {owner.name}: another object has its name")
    return Restarts(_why_no_restart(job, job_set), job_set.status.restarts, job.created_at_seconds)


def _why_no_restart(job: Job, job_set: JobSet) -> str:
    """Why it would not restart once the Job fails. Whether a rule about the message matches is not known."""
    reason, policy, status = job.failure_reason, job_set.spec.failure_policy, job_set.status
    if not reason:
        return f"{job.name} would fail for a reason that is not known"
    for rule in policy.rules:
        if rule.on_job_failure_reasons and reason not in rule.on_job_failure_reasons:
            continue
        if rule.target_replicated_jobs and job.labels.get(REPLICATED_JOB) not in rule.target_replicated_jobs:
            continue
        if rule.action not in (RESTART, RESTART_FREE):
            return f"a rule of JobSet {job_set.name} has the action {rule.action}"
        if not rule.on_job_failure_message_patterns:
            if rule.action == RESTART_FREE:
                return ""
            break
    left = policy.max_restarts - (status.restarts_count_towards_max or status.restarts)
    words = f"JobSet {job_set.name} has {max(0, left)} of {policy.max_restarts} restarts left (maxRestarts)"
    return words if left < 2 else ""  # an eviction does not take the last one
