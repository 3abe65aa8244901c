"""Kinds that own pods: ReplicaSet, Deployment, StatefulSet, ReplicationController, Job; JobSet, which owns Jobs.

Decoded by `kube.http.client`; the descheduler counts a workload's replicas by them. All give spec_replicas
and available_replicas. Read through `kube.objects`.
"""

import sys
from typing import Final

import msgspec

from kube.api import pods
from kube.api.metadata import Condition, Moment, Object, holding, seconds
from kube.api.selectors import LabelSelector

FAIL_JOB: Final = "FailJob"
COUNTED: Final = ("", "Count")  # towards backoffLimit
BACKOFF_LIMIT: Final = 6  # where the spec has none
IGNORE: Final = "Ignore"
TERMINATED: Final = (143, 137)  # exit codes after SIGTERM and SIGKILL: 128 + the signal


class RollingUpdate(msgspec.Struct, frozen=True, gc=False):
    """rollingUpdate of a StatefulSet: pods of ordinals under the partition keep their revision."""

    partition: int = 0


class UpdateStrategy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """updateStrategy of a StatefulSet, strategy of a Deployment."""

    type: str = ""
    rolling_update: RollingUpdate = RollingUpdate()


class WorkloadSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a ReplicaSet, Deployment (which alone has a strategy) or StatefulSet (a policy and an updateStrategy)."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    strategy: UpdateStrategy = UpdateStrategy()
    pod_management_policy: str = ""
    update_strategy: UpdateStrategy = UpdateStrategy()


class WorkloadStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """status of the same."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0
    current_revision: str = ""
    update_revision: str = ""


class _ReplicatedObject(Object, frozen=True, kw_only=True):
    status: WorkloadStatus = WorkloadStatus()

    @property
    def available_replicas(self) -> int:
        """Replicas that have been Ready for minReadySeconds."""
        return self.status.available_replicas


class _Selecting(_ReplicatedObject, frozen=True, kw_only=True):
    spec: WorkloadSpec = WorkloadSpec()

    @property
    def spec_replicas(self) -> int:
        """Replicas wanted; absent means 1, as the API defaults it."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def selector(self) -> LabelSelector | None:
        """Which pods are its own."""
        return self.spec.selector

    @property
    def unobserved(self) -> str:
        """The generation that its controller has not looked at yet, "" for none."""
        latest, observed = self.metadata.generation, self.status.observed_generation
        return f"generation {latest}, its status is of {observed}" if observed < latest else ""


class ReplicaSet(_Selecting, frozen=True, kw_only=True):
    """A ReplicaSet; its owner is usually a Deployment."""


class Deployment(_Selecting, frozen=True, kw_only=True):
    """A Deployment; one that is paused with a new template is in a rollout."""

    @property
    def rollout(self) -> str:
        """The state of a rollout in progress, "" for none."""
        older = self.status.replicas - self.status.updated_replicas
        return self.unobserved or (f"{older} pod{'s' * (older > 1)} of an older revision" if older > 0 else "")


class StatefulSet(_Selecting, frozen=True, kw_only=True):
    """A StatefulSet."""

    @property
    def rollout(self) -> str:
        """The state of a rollout in progress, "" for none: of pods under a partition, or of OnDelete, there is none."""
        status, updated = self.status, self.status.updated_replicas
        wanted = self.spec_replicas - self.spec.update_strategy.rolling_update.partition
        rolling = status.update_revision != status.current_revision and updated < wanted and not self.next_revision
        return self.unobserved or (f"{updated} of {wanted} pods updated" if rolling else "")

    @property
    def next_revision(self) -> str:
        """The revision by which its controller replaces any lost pod: of OnDelete, and of strategies that are not
        known. "" where it rolls out by itself.
        """
        own = self.spec.update_strategy.type
        return "" if own in ("", "RollingUpdate") else self.status.update_revision or "unknown"

    @property
    def ordered(self) -> bool:
        """Whether its controller makes a pod only while all pods of lower ordinals are Ready: OrderedReady, which is
        the default. With Parallel it does not wait.
        """
        return self.spec.pod_management_policy != "Parallel"


class ControllerSpec(msgspec.Struct, frozen=True, gc=False):
    """spec of a ReplicationController: its selector is a plain label map."""

    replicas: int | None = None
    selector: dict[str, str] = {}


class ReplicationController(_ReplicatedObject, frozen=True, kw_only=True):
    """A ReplicationController."""

    spec: ControllerSpec = ControllerSpec()

    @property
    def spec_replicas(self) -> int:
        """Replicas wanted; absent means 1."""
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def selector(self) -> LabelSelector:
        """Which pods are its own."""
        return LabelSelector(match_labels=self.spec.selector)


class ExitCodes(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """onExitCodes of a rule of a podFailurePolicy."""

    operator: str = ""
    values: tuple[int, ...] = ()


class PodCondition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """One of the onPodConditions of such a rule."""

    type: str = ""
    status: str = "True"


class FailureRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A rule of a podFailurePolicy: FailJob, FailIndex, Ignore or Count a failed pod that it matches."""

    action: str = ""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodCondition, ...] | None = None

    @property
    def about_evictions(self) -> bool:
        """The rule matches the condition DisruptionTarget=True, which the Eviction API sets."""
        wanted = PodCondition(pods.DISRUPTION)
        return wanted in (self.on_pod_conditions or ())

    @property
    def minds_termination(self) -> bool:
        """The rule does not ignore exit code 143 or 137, which SIGTERM and SIGKILL leave."""
        codes = self.on_exit_codes
        if codes is None or self.action == IGNORE:
            return False
        listed = [code in codes.values for code in TERMINATED]
        return any(listed) if codes.operator == "In" else not all(listed)


class FailurePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """podFailurePolicy of a Job: the first rule that matches decides."""

    rules: tuple[FailureRule, ...] = ()

    def of_evicted(self) -> str:
        """The action for an evicted pod, "" where no rule is about it (it counts towards the limit)."""
        for rule in self.rules:
            if rule.about_evictions or rule.minds_termination:
                return rule.action
        return ""


class JobSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a Job."""

    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: FailurePolicy | None = None


class UncountedPods(msgspec.Struct, frozen=True, gc=False):
    """Pods by uid that have ended and are in no count yet."""

    failed: tuple[str, ...] = ()


class JobStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """status of a Job."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: Moment = None
    uncounted_terminated_pods: UncountedPods | None = None
    ready: int | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Object, frozen=True, kw_only=True):
    """A Job; its replicas are its parallelism, as long as so many are left to complete."""

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def spec_replicas(self) -> int:
        """Pods wanted now: none of a Job that is complete, failed or suspended. Without `completions` its pods end it:
        once one has succeeded, no other is made.
        """
        if any(holding(self.status.conditions, kind) for kind in ("Complete", "Failed", "Suspended")):
            return 0
        at_a_time, done = 1 if self.spec.parallelism is None else self.spec.parallelism, self.status.succeeded
        if self.spec.completions is not None:
            return min(at_a_time, max(0, self.spec.completions - done))
        return self.status.active if done else at_a_time

    @property
    def failures_left(self) -> int | None:
        """The failed pods that it can bear: backoffLimit less those there were, 0 if one fails it by podFailurePolicy;
        None where an evicted pod is no failure.
        """
        if self._of_evicted not in COUNTED:
            return None if self._of_evicted == IGNORE else 0
        limit, per_index = self.spec.backoff_limit, self.spec.backoff_limit_per_index
        if limit is None:
            limit = BACKOFF_LIMIT if per_index is None else sys.maxsize
        uncounted = self.status.uncounted_terminated_pods
        return max(0, limit - self.status.failed - len(uncounted.failed if uncounted is not None else ()))

    @property
    def failures_per_index(self) -> int | None:
        """Failures that each index can bear (backoffLimitPerIndex); None where an evicted pod is none."""
        return None if self._of_evicted == IGNORE else self.spec.backoff_limit_per_index

    @property
    def ends_at_seconds(self) -> float | None:
        """When it fails by activeDeadlineSeconds; None without such a deadline, or before its start."""
        started_at_seconds, allowed_seconds = seconds(self.status.start_time), self.spec.active_deadline_seconds
        if started_at_seconds is None or allowed_seconds is None:
            return None
        return started_at_seconds + allowed_seconds

    @property
    def failure_reason(self) -> str:
        """The reason of its condition Failed once an evicted pod is too many, "" where it is not known."""
        of_limit = "BackoffLimitExceeded" if self._of_evicted in COUNTED else ""
        return "PodFailurePolicy" if self._of_evicted == FAIL_JOB else of_limit

    @property
    def _of_evicted(self) -> str:
        return self.spec.pod_failure_policy.of_evicted() if self.spec.pod_failure_policy is not None else ""

    @property
    def available_replicas(self) -> int:
        """Pods Ready now: a Job has no other notion."""
        return self.status.ready or 0


class JobFailureRule(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A rule of a JobSet's failurePolicy; empty lists match every Job."""

    action: str = ""
    on_job_failure_reasons: tuple[str, ...] = ()
    on_job_failure_message_patterns: tuple[str, ...] = ()
    target_replicated_jobs: tuple[str, ...] = ()


class JobSetFailurePolicy(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """failurePolicy of a JobSet."""

    max_restarts: int = 0
    rules: tuple[JobFailureRule, ...] = ()


class JobSetSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """spec of a JobSet; without a failurePolicy the first failed Job fails it."""

    failure_policy: JobSetFailurePolicy = JobSetFailurePolicy()


class JobSetStatus(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """status of a JobSet; some restarts do not count, and before v0.6 it did not say which."""

    restarts: int = 0
    restarts_count_towards_max: int = 0


class JobSet(Object, frozen=True, kw_only=True):
    """A JobSet (jobset.x-k8s.io)."""

    spec: JobSetSpec = JobSetSpec()
    status: JobSetStatus = JobSetStatus()
