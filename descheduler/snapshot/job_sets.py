"""JobSets: what the failure of one of their Jobs does to them, asked for those of pods on nodes that may be relieved.

An eviction that is one failure too many fails its Job, and its JobSet makes all of its Jobs anew, as long as
`failurePolicy` lets it. Sources: KEP-262 of JobSet, and the controller of v0.10.1, which takes the first rule that
matches any failed Job.
"""

import collections.abc
import functools
from typing import Final, NamedTuple

from kube import kinds, lookups
from kube.door import KubeReader
from kube.objects import Job, JobSet, OwnerReference

JOB_SETS: Final = (kinds.JOB_SETS.api_version, kinds.JOB_SETS.name)
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"  # a label of its Jobs
RESTART, RESTART_FREE = "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts"
LEAST_LEFT: Final = 2  # an eviction does not take the last one


class Restarts(NamedTuple):
    """How many times the JobSet of a Job has restarted, and when it made this Job (Unix seconds); why it would not
    restart once more, "" if it would.
    """

    refusal: str
    times: int = 0
    made_at_seconds: float = 0.0


def restarts(door: KubeReader, jobs: collections.abc.Iterable[Job]) -> dict[str, Restarts]:
    """Returns this by the uid of those Jobs that a JobSet owns: a request for each JobSet. Raises no KubeError."""
    read = functools.cache(functools.partial(_read, door))
    questions = {
        job.uid: functools.partial(_restarts, job, owner, read)
        for job in jobs
        if (owner := job.owner) is not None and (owner.api_version, owner.kind) == JOB_SETS
    }
    return lookups.answers(questions, Restarts)


def _read(door: KubeReader, namespace: str, name: str) -> JobSet:
    return door.get(kinds.JOB_SETS, name, namespace=namespace)


def _restarts(job: Job, owner: OwnerReference, read: collections.abc.Callable[[str, str], JobSet]) -> Restarts:
    job_set = read(job.namespace, owner.name)
    if owner.uid != job_set.uid:
        return Restarts(f"JobSet {owner.name}: another object has its name")
    return Restarts(_refusal(job, job_set), job_set.status.restarts, job.created_at_seconds)


def _refusal(job: Job, job_set: JobSet) -> str:
    """Why the JobSet would not restart. Whether a rule about the Job's message matches is not known."""
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
    return words if left < LEAST_LEFT else ""
