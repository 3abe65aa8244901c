"""Which pods may leave a node at all: the policy's `protect` section, one verdict per pod, in a fixed order.

`planning.planner` asks for every pod of an overloaded node before it weighs any. Order matters for the reader only: of
all that the RULES find the first one is named. No annotation of a pod overrides a protection but that of local storage,
which its author may declare safe to lose; `evictable: "false"` adds one. What only says that it is a placeholder, a
static pod or a DaemonSet's is believed here, and only here: that keeps a pod where it is, and hides it from no count
(`kube.api.pods`, `kube.pods.pod_view`).

| here | the peers |
|---|---|
| an `evict` annotation never bypasses a check | descheduler and koordinator let any pod author bypass all of them |
| `safe-to-evict` lifts local storage, nothing else | descheduler does not read it: pods of a mesh stay |
| the policy says in which namespaces annotations keep a pod | every pod author may have neighbours evicted instead |
| an emptyDir in memory may move | any emptyDir keeps a pod for ever |
| ready pods are counted without terminating ones | minReplicas counts terminating and unready pods |
"""

import collections
import collections.abc
import math
from typing import Final, NamedTuple

from descheduler.planning import candidate_order, departed_load, disruption_budgets, flow_rules, limits
from descheduler.planning.verdicts import Cause, Verdict, Verdicts
from descheduler.snapshot import groups, pod_annotations, usage, workloads
from descheduler.snapshot.groups import Group
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.workloads import Workload, WorkloadStatus
from kube.objects import Pod
from kube.pods import pod_view
from policy.schema import units
from policy.schema.load_policy import LoadPolicy

FEW: Final = (Cause.FEW_REPLICAS, Cause.FEW_READY)  # with another pod first none is missing
PROTECTED_LABEL = "evenload.io/protected"  # what deploy/guard makes the apiserver refuse; any value but "false"


class CandidateContext(NamedTuple):
    """A pod before its judges: its workload's standing (None: unknown owner), the snapshot that knows of the things
    around it, whether a budget is over it, and its group with those of the group that its workload replaces.
    """

    pod: Pod
    standing: WorkloadStatus | None
    policy: LoadPolicy
    now_seconds: float
    taken: Snapshot
    has_budget: bool
    group: Group
    replaced: collections.abc.Sequence[Pod]


class CandidateContexts:
    """Makes cases out of one snapshot, whose standings, claims and budgets are counted once for all pods."""

    def __init__(self, taken: Snapshot, policy: LoadPolicy) -> None:
        self.standings = taken.standings()
        self.headroom = disruption_budgets.Headroom(taken.budgets)
        self._taken = taken
        self._policy = policy
        self._mates: dict[str, dict[str, list[Pod]]] = collections.defaultdict(lambda: collections.defaultdict(list))

    def standing(self, pod: Pod) -> WorkloadStatus | None:
        """How the pod's workload stands, None where the workload is not known."""
        workload = self._taken.workload_of(pod)
        return self.standings(workload.uid) if workload is not None else None

    def group(self, pod: Pod) -> Group:
        """The pods that leave with this one: itself, or all of its group where the policy lets groups go."""
        alone = self._policy.descheduler.protect.groups or not groups.references(pod)
        return Group("", (pod,)) if alone else self._taken.groups.of(pod)

    def of(self, pod: Pod, now_seconds: float) -> CandidateContext:
        """The case of a pod of the snapshot, or of the same pod as it was read later."""
        group, standing = self.group(pod), self.standing(pod)
        return CandidateContext(
            pod=pod,
            standing=standing,
            policy=self._policy,
            now_seconds=now_seconds,
            taken=self._taken,
            has_budget=bool(self.headroom.over(pod)),
            group=group,
            replaced=self._replaced(pod, group, standing),
        )

    def _replaced(self, pod: Pod, group: Group, standing: WorkloadStatus | None) -> collections.abc.Sequence[Pod]:
        """The pods of its group that its workload replaces, sorted out once: each of thousands asks."""
        if standing is None or len(group.pods) < 2:
            return (pod,)
        by_workload = self._mates[group.pods[0].uid]
        for one in () if by_workload else group.pods:
            if (workload := self._taken.workload_of(one)) is not None:
                by_workload[workload.uid].append(one)
        return by_workload[standing.workload.uid] or (pod,)


def comes_last(pod: Pod, policy: LoadPolicy) -> bool:
    """Whether the pod is to leave only where no other one helps; the presence of the marker counts, not its value."""
    protect = policy.descheduler.protect
    wished = protect.markers.prefer_no_eviction and pod_annotations.PREFER_NO_EVICTION in pod.annotations
    return wished and protect.opt_out.allowed_in(pod.namespace)


def verdict(case: CandidateContext) -> Verdict | None:
    """The first protection that keeps the pod where it is; None if it may be considered."""
    return next((reason for rule in RULES for reason in rule(case)), None)


def _state(case: CandidateContext) -> Verdicts:
    pod = case.pod
    if pod.undecodable:
        yield Verdict(Cause.UNDECODABLE, f"{pod.undecodable}: not all of it can be read, a protection neither")
    if pod_view.claims_placeholder(pod):
        yield Verdict(Cause.PLACEHOLDER)
    if pod.finished:
        yield Verdict(Cause.FINISHED, pod.phase)
    if pod.deleting:
        overdue_seconds = departed_load.overdue_seconds(pod, case.now_seconds)
        longer = f"{overdue_seconds:.0f} s longer than it was granted: its load counts" if overdue_seconds else ""
        yield Verdict(Cause.TERMINATING, longer)
    if pod.left_out:
        yield Verdict(Cause.OVERSIZED, f"{pod.left_out}: more than is taken in of a pod, so its rules are not known")
    if pod.is_mirror or pod.is_static:
        yield Verdict(Cause.MIRROR, "the kubelet runs it, not the apiserver")
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        yield Verdict(Cause.DAEMON_SET)
    if pod.phase not in ("Pending", "Running"):
        yield Verdict(Cause.UNRECOGNISED, f"phase {pod.phase}")
    for name in (volume.name for volume in pod.spec.volumes if not volume.is_known):
        yield Verdict(Cause.UNRECOGNISED, f"volume {name} is of a kind that this version does not know")


def _author(case: CandidateContext) -> Verdicts:
    """The label that the guard knows, too, and the annotations by which a pod's author keeps it."""
    protect, annotations = case.policy.descheduler.protect, case.pod.annotations
    if (label := case.pod.labels.get(PROTECTED_LABEL, "false")) != "false":
        yield Verdict(Cause.OPTED_OUT, f'{PROTECTED_LABEL}: "{label}"')
    if not protect.opt_out.allowed_in(case.pod.namespace):
        return
    for key in (key for key in pod_annotations.EVICTABLE if annotations.get(key, "").lower() == "false"):
        yield Verdict(Cause.OPTED_OUT, f'{key}: "false"')
    if pod_annotations.EVICTION_IN_PROGRESS in annotations:
        yield Verdict(Cause.EVICTION_IN_PROGRESS, f"{pod_annotations.EVICTION_IN_PROGRESS}: its controller moves it")
    markers = protect.markers
    if markers.safe_to_evict and annotations.get(pod_annotations.SAFE_TO_EVICT, "").lower() == "false":
        yield Verdict(Cause.NOT_SAFE_TO_EVICT, f'{pod_annotations.SAFE_TO_EVICT}: "false"')
    value = annotations.get(pod_annotations.DO_NOT_DISRUPT)
    if markers.do_not_disrupt and value is not None and _not_to_be_disrupted(value, case):
        yield Verdict(Cause.DO_NOT_DISRUPT, f'{pod_annotations.DO_NOT_DISRUPT}: "{value}"')
    cost = candidate_order.cost(case.pod, pod_annotations.EVICTION_COST)
    if markers.eviction_cost and cost >= pod_annotations.NEVER_EVICTED:
        yield Verdict(Cause.EVICTION_COST, f'{pod_annotations.EVICTION_COST}: "{cost}"')


def _not_to_be_disrupted(value: str, case: CandidateContext) -> bool:
    """Returns whether it is a Go duration not passed since the pod started (kubernetes-sigs/karpenter#2874), or any
    other text than "false": Karpenter reads "true" only, but what cannot be read protects.
    """
    try:
        lasts_seconds = units.duration_seconds(value)
    except ValueError:
        return value.lower() != "false"
    started_at_seconds = case.pod.started_at_seconds
    return lasts_seconds > 0 and (started_at_seconds is None or case.now_seconds - started_at_seconds < lasts_seconds)


def _group(case: CandidateContext) -> Verdicts:
    """A pod that is scheduled, started or restarted with others: the loss of one may end them all."""
    group, standing, reference = case.group, case.standing, next(iter(groups.references(case.pod)), "")
    if not reference:
        return
    if case.policy.descheduler.protect.groups:
        yield Verdict(Cause.GROUP, f"{reference}: its group may start and end as a whole")
    if group.unclear or (standing is not None and standing.workload.api_version):
        yield Verdict(Cause.GROUP, f"{reference}: {group.unclear or 'what its owner does then is not known'}")
    if standing is not None and standing.unavailable:
        yield Verdict(Cause.IN_FLIGHT, f"{reference}: it waits until all of its pods are Ready")


def _kind(case: CandidateContext) -> Verdicts:
    """The namespaces, labels, owners, priorities and ages whose pods the policy has stay."""
    pod, section = case.pod, case.policy.descheduler
    protect, selector, labels = section.protect, section.protect.namespace_selector, case.taken.namespaces
    if pod.namespace in protect.namespaces:
        yield Verdict(Cause.NAMESPACE, pod.namespace)
    if selector is not None and pod.namespace not in labels:
        yield Verdict(Cause.NAMESPACE_SELECTOR, f"the labels of {pod.namespace} are not known")
    if selector is not None and selector.matches(labels.get(pod.namespace, {})):
        yield Verdict(Cause.NAMESPACE_SELECTOR, f"namespaceSelector matches {pod.namespace}")
    if not protect.label_selector.matches(pod.labels):
        yield Verdict(Cause.LABEL, "labelSelector does not match")
    rule = flow_rules.deciding(section.flow, pod, case.standing)
    if rule is not None and rule.allow.mode == "Never":
        yield Verdict(Cause.FLOW_NEVER, flow_rules.named(section.flow, rule))
    if pod.owner is None and protect.bare:
        yield Verdict(Cause.BARE, "no controller would replace it")
    if pod.priority >= protect.priority_at_least:
        yield Verdict(Cause.PRIORITY, f"{pod.priority} >= {protect.priority_at_least}")
    agreed = any(pod.annotations.get(key, "").lower() == "true" for key in pod_annotations.EVICTABLE)
    if protect.opt_in and not agreed:
        yield Verdict(Cause.NOT_OPTED_IN, f'needs {pod_annotations.EVICTABLE[0]}: "true"')
    age_seconds = case.now_seconds - (pod.started_at_seconds or pod.created_at_seconds)
    if age_seconds < protect.min_pod_age_seconds:
        yield Verdict(Cause.YOUNG, f"{age_seconds:.0f} s of {protect.min_pod_age_seconds:.0f} s")


def _local_storage(case: CandidateContext) -> Verdicts:
    """Scratch volumes and directories of the node, but for those that the pod's author declares safe to lose."""
    protected, annotations = case.policy.descheduler.protect.local_storage, case.pod.annotations
    safe: frozenset[str] = frozenset()
    if case.policy.descheduler.protect.markers.safe_to_evict:
        if annotations.get(pod_annotations.SAFE_TO_EVICT, "").lower() == "true":
            return
        safe = frozenset(map(str.strip, annotations.get(pod_annotations.SAFE_VOLUMES, "").split(",")))
    for volume in (one for one in case.pod.spec.volumes if one.name not in safe):
        in_memory = volume.empty_dir and volume.medium == "Memory"
        local = volume.host_path or volume.empty_dir
        if (protected == "all" and local) or (protected == "disk" and local and not in_memory):
            yield Verdict(Cause.LOCAL_STORAGE, f"volume {volume.name}")


def _node_bound(case: CandidateContext) -> Verdicts:
    for volume in case.pod.spec.volumes if case.policy.descheduler.protect.node_bound_volumes else ():
        if volume.ephemeral:
            yield Verdict(Cause.NODE_BOUND_VOLUME, f"ephemeral volume {volume.name} goes with the pod")
        if volume.claim and f"{case.pod.namespace}/{volume.claim}" not in case.taken.movable_claims:
            yield Verdict(Cause.NODE_BOUND_VOLUME, f"claim {volume.claim} is not known to be movable")


def _storage_class(case: CandidateContext) -> Verdicts:
    """A class that is not known is taken for one of those that are protected."""
    classes = case.policy.descheduler.protect.storage_classes
    for volume in case.pod.spec.volumes if classes else ():
        bound = case.taken.volumes.get(f"{case.pod.namespace}/{volume.claim}") if volume.claim else None
        if bound is not None and bound.spec.storage_class_name in classes:
            yield Verdict(Cause.STORAGE_CLASS, f"claim {volume.claim} is of {bound.spec.storage_class_name}")
        if bound is None and (volume.claim or volume.ephemeral):
            yield Verdict(Cause.STORAGE_CLASS, f"volume {volume.name}: its storage class is not known")


def _rollout(case: CandidateContext) -> Verdicts:
    """A rollout tests a revision: who moves pods meanwhile takes part in it, or rolls out what waits for a person."""
    if case.standing is None:
        return
    workload, revisions = case.standing.workload, case.standing.revisions
    if workload.rollout:
        yield Verdict(Cause.ROLLOUT, f"{workload} has {workload.rollout}")
    if revisions > 1:
        yield Verdict(Cause.ROLLOUT, f"{workload} has pods of {revisions} revisions")
    if workload.next_revision not in ("", case.pod.labels.get(workloads.REVISIONS[0])):
        yield Verdict(Cause.ROLLOUT, f"{workload} would replace it by revision {workload.next_revision}")


def _job(case: CandidateContext) -> Verdicts:
    """An eviction is a failed pod to a Job, and its work is done again: it takes neither the last retry nor the time
    until the deadline.
    """
    of_set = groups.JOB_SET in case.pod.labels  # its failed Job ends or restarts all of it
    if case.standing is None or not (case.policy.descheduler.protect.jobs_without_retry or of_set):
        return
    workload, left = case.standing.workload, case.standing.workload.failures_left
    if left is not None and left - case.standing.failing <= len(case.replaced):
        words = f"{workload} has {max(0, left - case.standing.failing)} failures left (backoffLimit, podFailurePolicy)"
        yield from _restart(case, workload, f"{words}, and an eviction is one")
    if workload.failures_per_index is not None and (why := _index(case.pod, workload, workload.failures_per_index)):
        yield Verdict(Cause.JOB_WITHOUT_RETRY, why)
    ran_seconds = case.now_seconds - (case.pod.started_at_seconds or case.pod.created_at_seconds)
    left_seconds = math.inf if workload.ends_at_seconds is None else workload.ends_at_seconds - case.now_seconds
    if ran_seconds > left_seconds:
        ran = f"it has run for {ran_seconds:.0f} s"
        words = f"{ran}, and {workload} ends in {left_seconds:.0f} s (activeDeadlineSeconds)"
        yield Verdict(Cause.JOB_WITHOUT_RETRY, words)


def _restart(case: CandidateContext, workload: Workload, words: str) -> Verdicts:
    """Keeps a pod whose Job would fail, unless a JobSet restarts then; not in a cool-down that grows with each restart:
    the Jobs are others then, so the ledger knows of no return.
    """
    of_set = groups.JOB_SET in case.pod.labels
    restarts = case.taken.restarts.get(workload.uid, groups.Restarts("no JobSet that owns it is known"))
    if restarts.refusal or not of_set:
        yield Verdict(Cause.JOB_WITHOUT_RETRY, f"{words}; {restarts.refusal}" if of_set else words)
    rest_seconds = limits.workload_cooldown_seconds(case.policy.descheduler, restarts.times) if restarts.times else 0.0
    left_seconds = restarts.made_at_seconds + rest_seconds - case.now_seconds
    if left_seconds > 0:
        yield Verdict(Cause.WORKLOAD_COOLDOWN, f"{left_seconds:.0f} s left, JobSet restarted {restarts.times} times")


def _index(pod: Pod, workload: Workload, allowed: int) -> str:
    """Why the pod's index of an indexed Job cannot bear another failure, "" if it can."""
    key = pod_annotations.INDEX_FAILURES
    count = pod.annotations.get(key, "")
    if not count.isdecimal():
        return f"how often its index of {workload} has failed is not known ({key})"
    left = max(0, allowed - int(count))
    named = f"its index of {workload} has {left} failures left (backoffLimitPerIndex), and an eviction is one"
    return named if left <= 1 else ""


def _replicas(case: CandidateContext) -> Verdicts:
    pod, standing, protect = case.pod, case.standing, case.policy.descheduler.protect
    if protect.without_budget and not case.has_budget:
        yield Verdict(Cause.WITHOUT_BUDGET, "no PodDisruptionBudget selects it")
    if standing is None:
        if pod.owner is None:  # a bare pod that `bare: false` lets go: there are no replicas to count
            return
        if failure := case.taken.owner_failure(pod):
            yield Verdict(Cause.OWNER_LOOKUP_FAILED, failure)
        yield Verdict(Cause.UNKNOWN_OWNER, f"{pod.owner.kind} {pod.owner.name}: its replicas cannot be counted")
        return
    workload, wanted, replaced = standing.workload, standing.workload.replicas, case.replaced
    if len(case.group.pods) > 1 and len(replaced) >= wanted and pod.labels.get(groups.LWS_WORKER) != "0":
        return  # it goes as a whole, but for the workload of leaders, whose replicas are groups
    surge, ended = case.taken.open_surges.get(workload.uid), case.taken.ended_surges.get(workload.uid)
    if surge is not None:
        if case.taken.replacement(pod) is None:
            yield Verdict(Cause.SURGE, f"another pod of {workload} first, in place of {surge.pod}")
        wanted = surge.replicas
    elif ended is not None:
        why = f"the last was {ended.state} just now: its replicas may be others than those that are known"
        yield Verdict(Cause.SURGE, why)
    elif wanted < protect.min_replicas:
        yield Verdict(Cause.FEW_REPLICAS, f"{workload} wants {wanted}, at least {protect.min_replicas} needed")
    left = standing.ready - sum(1 for one in replaced if one.ready)
    needed = wanted if surge is not None else math.ceil(protect.min_ready_ratio * wanted - usage.ROUNDING)
    if left < needed:
        yield Verdict(Cause.FEW_READY, f"{workload} would keep {left} ready of {wanted}, needs {needed}")


RULES = (
    _state,
    _author,
    _group,
    _kind,
    _local_storage,
    _node_bound,
    _storage_class,
    _job,
    _rollout,
    _replicas,
)
