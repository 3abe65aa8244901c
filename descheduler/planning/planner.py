"""The plan of one run: which pods leave which overloaded nodes, in which order, and for every other candidate why not.

`service.py` calls `plan` with a snapshot, the confirmed overloads and the ledger's history; `eviction.evictor` carries
the `EvictionPlan` out, the Events, the ledger, the metrics and GET /plan repeat it. It is a pure function: no clock, no
chance, no call, and the order in which anything was listed changes nothing. Observe, DryRun and Enforce get the same
plan.

Per node, the metric listed first in the policy is relieved first, and every chosen pod's usage is deducted from all
metrics:

    projected_m = u_m - sum of usage / capacity, over pods chosen, terminating, or just gone (fading with the window)

until projected_m <= evictUntil_m; `planning.departed_load` has what is deducted before the first choice. On a
node that is not left alone a pod is chosen if nothing objects, in this order: its protections, a usage that is unknown,
the target that is reached, a usage that is too small, what blocks the whole run, caps and cool-downs, flow rules,
budgets, the lack of a destination. What comes out is in `planning.plans`.

A group that may leave is one candidate with the use of its pods on the node, wherever the others are: each is asked as
a pod is, with those before it counted. One refusal keeps them all, and what was counted is given back.
"""

import collections.abc
import dataclasses
import functools
import itertools

from descheduler import surges
from descheduler.placement import destinations, open_nodes
from descheduler.planning import candidate_order, departed_load, flow_rules, limits, protections
from descheduler.planning.overload import Overload
from descheduler.planning.plans import NO_HEADROOM, ConsideredPod, Eviction, EvictionPlan, Headroom, NodePlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.groups import Group
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube.objects import Node, Pod
from policy.rules import expected_load
from policy.schema.load_policy import LoadPolicy


def plan(
    taken: Snapshot,
    overloads: tuple[Overload, ...],
    policies: NodePolicies,
    history: History,
    *,
    headroom: bool = True,
    elsewhere: frozenset[str] = frozenset(),
    early: bool = False,
) -> EvictionPlan:
    """The plan for these overloads, largest excess first. What it leaves is counted where `headroom` is asked for.

    `elsewhere` are overloaded nodes of another plan of the run, for pools of another mode: they take no pods. In an
    `early` run, which comes for an open surge, the pod of that alone leaves.

    Invariants, held by tests: no budget, cap, protection or target line of a destination is ever exceeded, every
    candidate has one verdict, and equal inputs in any order give equal plans.
    """
    if not (overloads or headroom):  # most runs of most clusters
        blocked = _blocked(taken, policies, frozenset())
        return EvictionPlan(taken.at_seconds, blocked=blocked.detail if blocked else "")
    draft = PlanDraft(taken, policies, history, elsewhere.union(overload.node for overload in overloads))
    draft.early = early
    by_node: dict[str, list[Overload]] = {}
    for overload in overloads:
        by_node.setdefault(overload.node, []).append(overload)
    nodes = {node.name: node for node in taken.nodes}
    resources = usage.resources_of(policies.whole)
    known = (name for name in by_node if name in nodes)
    excess = {
        name: max(_relative_excess(nodes[name], one, resources[one.metric]) for one in by_node[name]) for name in known
    }
    ordered = sorted(excess, key=lambda name: (-excess[name], name))
    plans = tuple(draft.relieve(nodes[name], tuple(by_node[name])) for name in ordered)
    left = draft.headroom() if headroom else NO_HEADROOM
    evictions = tuple(draft.evictions)
    words = draft.blocked.detail if draft.blocked else ""
    planned = EvictionPlan(taken.at_seconds, plans, evictions, words, left, draft.unreplaced, tuple(draft.surges))
    return planned.with_verdicts(draft.chosen)  # pods of a group leave nodes that were planned for before, too


@dataclasses.dataclass(slots=True)
class NodeDraft:
    """One node in the making: its projected ratios, the verdicts so far, and the pods in question, by uid."""

    node: Node
    projected: dict[str, float]
    verdicts: dict[str, Verdict] = dataclasses.field(default_factory=dict)
    open_pods: dict[str, Pod] = dataclasses.field(default_factory=dict)

    def deduct(self, used: usage.PodUsage, resources: collections.abc.Mapping[str, str]) -> None:
        """Takes the use of a pod that leaves off the node."""
        for metric in self.projected:
            self.projected[metric] -= usage.share(used, self.node.capacity, resources[metric])


class Counts:
    """Caps, flow rules and budgets as a plan leaves them; `few` are the verdicts that keep pods alone, which may get
    another one first, by uid.
    """

    def __init__(
        self, cases: protections.CandidateContexts, caps: limits.Caps, gate: flow_rules.Gate, *, surges: int, most: int
    ) -> None:
        self._cases, self._caps, self._gate, self._budgets = cases, caps, gate, cases.headroom
        self._surges, self._most_surges = surges, most
        self.few: dict[str, Verdict] = {}

    def refusal(self, pod: Pod, metric: str, before: list[Pod]) -> Verdict | None:
        """Why the pod may not leave with those of its group that were counted `before` it."""
        standing, few = self._cases.standing(pod), self.few.get(pod.uid)
        beside = sum(1 for one in before if self._cases.standing(one) is standing)
        waits = self._caps.verdict(pod, standing, metric, beside=beside) or self._gate.verdict(pod, standing)
        budgets = self._budgets.verdict if few is None else self._budgets.with_another
        refusal = waits or budgets(pod)
        if refusal is not None or few is None or self._surges < self._most_surges:
            return refusal
        return few._replace(detail=f"{few.detail}; no surge: {self._surges} of {self._most_surges} at once")

    def count(self, pod: Pod, *, number: int) -> tuple[str, str]:
        """Counts a pod, -1 takes it back, 0 neither; the budget and flow rule that it is counted by."""
        standing, another = self._cases.standing(pod), pod.uid in self.few
        self._caps.count(pod, standing, number=number)
        self._surges += number if another else 0
        budget = "" if another else self._budgets.reserve(pod, number=number)
        return budget, self._gate.count(pod, standing, number=number)


class PlanDraft:
    """The evictions that one plan has chosen, and their reservations."""

    def __init__(self, taken: Snapshot, policies: NodePolicies, history: History, overloaded: frozenset[str]) -> None:
        policy = policies.whole
        self.evictions: list[Eviction] = []
        self.surges: list[Eviction] = []
        self.chosen: dict[str, Verdict] = {}  # by uid
        self._own_verdicts: dict[str, Verdict | None] = {}  # the same
        self._taken = taken
        self._policies, self._policy = policies, policy
        self._departed = departed_load.DepartedLoad(taken, policy, history.departed)
        self._cases = protections.CandidateContexts(taken, policy)
        standings = self._cases.standings
        self._caps = limits.Caps(policies, history, standings, now_seconds=taken.at_seconds)
        gate = flow_rules.Gate(policy.descheduler.flow, history.flow, standings, now_seconds=taken.at_seconds)
        self._counts = Counts(
            self._cases, self._caps, gate, surges=len(taken.open_surges), most=policy.descheduler.surge.at_once
        )
        for pod in taken.surging:  # each is as an eviction that this run has chosen
            self._caps.count(pod, self._cases.standing(pod), number=1)
        self.unreplaced = self._caps.unreplaced
        self.blocked = _blocked(taken, policies, overloaded) or self._caps.brake
        self._overloaded = overloaded
        self.early = False
        since_seconds = taken.at_seconds - expected_load.LONGEST_WAIT_SECONDS
        self._coming = [(one.destination, one.used) for one in self.unreplaced if one.at_seconds > since_seconds]
        self._landed = history.landed
        self._resources = usage.resources_of(policy)

    @functools.cached_property
    def _destinations(self) -> destinations.Destinations:
        """Where pods could go, looked at when the first pod passed everything else: in most runs none does."""
        return destinations.Destinations(
            self._taken, self._policies, excluded=self._overloaded, landed=self._landed, coming=self._coming
        )

    def headroom(self) -> Headroom:
        """Returns the caps and budgets that the plan leaves so far."""
        return Headroom(*self._caps.left(), self._cases.headroom.left(), tuple(self._destinations.headroom().items()))

    def relieve(self, node: Node, overloads: tuple[Overload, ...]) -> NodePlan:
        """Chooses pods of one node, metric by metric, and gives every pod a verdict, unless the node is left alone."""
        here = self._taken.on_nodes.get(node.name, ())
        projected = self._departed.without_the_gone(node, overloads, here)
        pool = self._policies.pool_name(node.name)
        sized = all(usage.size(node.capacity, self._resources[overload.metric]) > 0 for overload in overloads)
        unfit = "it is not ready" if not node.ready else "" if sized else "its capacity is not known"
        left_alone = open_nodes.leaving(node) or unfit
        if left_alone:
            return NodePlan(node, overloads, projected, (), left_alone, pool)
        draft = self._sorted_out(node, projected)
        for pod in self._taken.surging:
            if pod.node_name == node.name and (used := self._taken.pod_usage.get(pod.key)) is not None:
                draft.deduct(used, self._resources)
        for overload in overloads:
            self._relieve_metric(draft, overload)
        last = f": {pod_annotations.PREFER_NO_EVICTION} has it come last"
        for pod in draft.open_pods.values():
            why_last = last if protections.comes_last(pod, self._policy) else ""
            draft.verdicts.setdefault(pod.uid, Verdict(Cause.NOT_NEEDED, f"the target is reached without it{why_last}"))
        candidates = tuple(
            ConsideredPod(
                one, self._taken.workload_of(one), draft.verdicts[one.uid], self._taken.pod_usage.get(one.key)
            )
            for one in sorted(here, key=lambda pod: (pod.key, pod.uid))
        )
        return NodePlan(node, overloads, projected, candidates, pool=pool)

    def _relieve_metric(self, draft: NodeDraft, overload: Overload) -> None:
        waiting = self._last_first(draft, overload, draft.open_pods.values())
        while waiting and usage.over(draft.projected[overload.metric], overload.evict_until_ratio):
            group = self._cases.group(waiting.pop())
            verdict = self._verdict(draft, overload, group)
            if verdict.cause in (Cause.CHOSEN, Cause.SURGE):  # the excess is another one now, and with it the order
                waiting = self._last_first(draft, overload, waiting)
            here = {pod.uid for pod in group.pods if pod.node_name == draft.node.name}
            waiting = [pod for pod in waiting if pod.uid not in here]
            for uid in here:
                draft.verdicts[uid] = verdict
                if verdict.cause is not Cause.TOO_SMALL:  # too small for this resource, it may still help the next one
                    del draft.open_pods[uid]

    def _last_first(self, draft: NodeDraft, overload: Overload, pods: collections.abc.Iterable[Pod]) -> list[Pod]:
        def key(pod: Pod) -> candidate_order.Key:
            return candidate_order.key(
                pod, self._use(draft, overload, pod), last=protections.comes_last(pod, self._policy)
            )

        ordered = candidate_order.ordered(pods, key)[::-1]
        return sorted(ordered, key=lambda pod: self._taken.replacement(pod) is not None)

    def _verdict(self, draft: NodeDraft, overload: Overload, group: Group) -> Verdict:
        """Chooses the pods of a group, or says why not; their headroom, caps, room and relief are taken at once."""
        if not candidate_order.worthwhile(self._use(draft, overload, group.pods[0])):
            return Verdict(Cause.TOO_SMALL, f"it uses too little {self._resources[overload.metric]} to help")
        if len({self._policies.pool_name(pod.node_name) for pod in group.pods}) > 1:
            return Verdict(Cause.GROUP, f"{group.name}: its pods are on nodes of several pools")
        if self.blocked:
            return self.blocked
        if self.early and self._taken.replacement(group.pods[0]) is None:
            return Verdict(Cause.RUN_CAP, "a surge is open: others leave in the next run after `interval`")
        refusal, counted = None, list[Pod]()
        for pod in group.pods:
            if refusal := self._counts.refusal(pod, overload.metric, counted):
                break
            self._counts.count(pod, number=1)
            counted.append(pod)
        else:
            if (replacement := self._taken.replacement(group.pods[0])) is not None:
                return self._choose(draft, overload, group, [replacement.node_name])
            used = [(pod, self._taken.pod_usage[pod.key]) for pod in group.pods]
            ends = self._destinations.find_all(used, later=group.pods[0].uid in self._counts.few)
            if all(one.node for one in ends):
                return self._choose(draft, overload, group, [one.node for one in ends])
            pod, end = next((pod, one) for pod, one in zip(group.pods, ends, strict=True) if not one.node)
            refusal = Verdict(Cause.NO_DESTINATION, f"no other node takes it: {end}")
        for one in counted:
            self._counts.count(one, number=-1)
        return _of_group(group, pod, refusal)

    def _choose(self, draft: NodeDraft, overload: Overload, group: Group, places: list[str]) -> Verdict:
        """Makes the evictions: of a group that restarts as a whole one, of a pod on the overloaded node."""
        here = [pod for pod in group.pods if pod.node_name == draft.node.name]
        for pod, destination in zip(group.pods, places, strict=True):
            few, replacement = self._counts.few.get(pod.uid), self._taken.replacement(pod)
            self.chosen[pod.uid] = _of_group(group, pod, _chosen(few, replacement, destination))
            if group.restarts and pod is not here[0]:
                continue
            before_ratio = draft.projected[overload.metric]
            for one in here if group.restarts else [one for one in here if one is pod]:
                draft.deduct(self._taken.pod_usage[one.key], self._resources)
            projected_ratio = draft.projected[overload.metric]
            expected_5m_ratio, expected_30m_ratio = departed_load.expected(
                self._policy, overload.metric, value_ratio=overload.value_ratio, projected_ratio=projected_ratio
            )
            if replacement is None:
                ratio: float | None = self._destinations.projected_ratios(destination)[overload.metric]
            else:  # its load is there already, also where nothing else may go
                ratio = destinations.judged_ratios(self._taken, destination, self._policy).get(overload.metric)
            siblings = [pod] if pod.owner is None else self._taken.owned[pod.namespace, pod.owner.uid]
            budget, flow = self._counts.count(pod, number=0)
            eviction = Eviction(
                pod=pod,
                workload=self._taken.workload_of(group.pods[0] if group.restarts else pod),
                overload=overload,
                used=self._taken.pod_usage[pod.key],
                before_ratio=before_ratio,
                projected_ratio=projected_ratio,
                destination=destination,
                destination_ratio=ratio,
                budget=budget,
                flow=flow,
                newest_sibling_at_seconds=max(one.created_at_seconds for one in siblings if one is not replacement),
                expected_5m_ratio=expected_5m_ratio if pod in here else None,
                expected_30m_ratio=expected_30m_ratio if pod in here else None,
                pool=self._policies.pool_name(draft.node.name),
                group=group.name,
                replacement=replacement,
                surges=few is not None,
            )
            (self.evictions if few is None else self.surges).append(eviction)
        return self.chosen[here[0].uid]

    def _sorted_out(self, node: Node, projected: dict[str, float]) -> NodeDraft:
        draft = NodeDraft(node, projected)
        for pod in self._taken.on_nodes.get(node.name, ()):
            group = self._cases.group(pod)
            verdicts = ((one, self._own_verdict(one)) for one in (pod, *group.pods))
            refusals = (_of_group(group, one, verdict) for one, verdict in verdicts if verdict is not None)
            if pod.uid in self.chosen:  # with its group, from another node
                draft.deduct(self._taken.pod_usage[pod.key], self._resources)
            if verdict := self.chosen.get(pod.uid) or next(refusals, None):
                draft.verdicts[pod.uid] = verdict
            else:
                draft.open_pods[pod.uid] = pod
        return draft

    def _own_verdict(self, pod: Pod) -> Verdict | None:
        if pod.uid not in self._own_verdicts:
            verdict = protections.verdict(self._cases.of(pod, self._taken.at_seconds))
            if verdict is not None and verdict.cause in protections.FEW and self._policy.descheduler.surge.enabled:
                if why := _no_surge(pod, self._taken, self._policy):
                    verdict = verdict._replace(detail=f"{verdict.detail}; no surge: {why}")
                elif not self._cases.group(pod).name:
                    self._counts.few[pod.uid], verdict = verdict, None
            self._own_verdicts[pod.uid] = verdict or _usage_verdict(pod, self._taken, self._policy)
        return self._own_verdicts[pod.uid]

    def _use(self, draft: NodeDraft, overload: Overload, pod: Pod) -> candidate_order.Use:
        """Returns the use of the hot resource that leaves the node with the pod, in millicores or bytes."""
        resource, known = self._resources[overload.metric], self._taken.pod_usage
        excess_ratio = draft.projected[overload.metric] - overload.evict_until_ratio - usage.ROUNDING
        excess = excess_ratio * usage.size(draft.node.capacity, resource)
        mates = self._cases.group(pod).pods
        leaving = [(one, known[one.key]) for one in mates if one.node_name == draft.node.name]
        requested = sum(usage.requested(one.requests, measured, resource) for one, measured in leaving)
        return candidate_order.Use(sum(usage.amount(one, resource) for _, one in leaving), excess, requested)


def _usage_verdict(pod: Pod, taken: Snapshot, policy: LoadPolicy) -> Verdict | None:
    since_seconds = pod.running_since_seconds or pod.started_at_seconds  # what init containers did is not its use
    if since_seconds is not None and taken.at_seconds - since_seconds < max(usage.pod_windows(policy).values()):
        return Verdict(Cause.USAGE_UNKNOWN, "it has not run for a whole window yet")
    used = taken.pod_usage.get(pod.key)
    if used is None:
        return Verdict(Cause.USAGE_UNKNOWN, taken.absences.get(pod.key, "no window of it is known"))
    if usage.fresh(used.at_seconds, taken.at_seconds, policy.sync.stale_after_seconds):
        return None
    return Verdict(Cause.USAGE_UNKNOWN, f"its usage is {taken.at_seconds - used.at_seconds:.0f} s old")


def _of_group(group: Group, pod: Pod, verdict: Verdict) -> Verdict:
    return verdict._replace(detail=f"{verdict.detail} ({pod.name} of {group.name})".lstrip()) if group.name else verdict


def _chosen(few: Verdict | None, replacement: Pod | None, destination: str) -> Verdict:
    """The verdict on a pod that leaves, or gets another pod first where `few` keeps it alone."""
    if few is not None:
        return Verdict(Cause.SURGE, f"{few.detail}: another pod first, expected on {destination}")
    where = f"expected on {destination}" if replacement is None else f"{replacement.name} is Ready on {destination}"
    return Verdict(Cause.CHOSEN, where)


def _no_surge(pod: Pod, taken: Snapshot, policy: LoadPolicy) -> str:
    """Why no other pod comes first where too few replicas would be left, "" if one may."""
    workload = taken.workload_of(pod)
    if workload is None or workload.kind != "Deployment" or workload.replicas < 1:
        return "only a Deployment surges, of 1 replica or more"
    if why := taken.surge_refusals.get(workload.uid, f'label its Deployment {surges.OPT_IN}: "true"'):
        return why
    lately = [one for one in reversed(taken.surges) if one.workload_uid == workload.uid]
    in_vain = sum(1 for _ in itertools.takewhile(lambda one: one.state == surges.UNDONE, lately))
    rest_seconds = limits.workload_cooldown_seconds(policy.descheduler, in_vain)  # as after so many returns
    return lately[0].rest(rest_seconds, taken.at_seconds) if lately else ""


def _blocked(taken: Snapshot, policies: NodePolicies, overloaded: frozenset[str]) -> Verdict | None:
    """Why no pod at all may leave in this run, None if some may."""
    if stale := taken.stale():
        return Verdict(Cause.STALE_VIEW, stale)
    needed = policies.whole.descheduler.cool_nodes
    cool = len(list(itertools.islice(cool_nodes(taken, policies, overloaded), needed)))  # so many are as good as all
    few = Verdict(Cause.NO_DESTINATION, f"{cool} cool nodes, {needed} needed (coolNodes)")
    return few if cool < needed else None


def cool_nodes(taken: Snapshot, policies: NodePolicies, overloaded: frozenset[str]) -> collections.abc.Iterator[str]:
    """The open nodes that are at or under every target line of theirs by fresh readings, as they are found.

    A taint that keeps pods away closes a node (a control plane), but not where an overloaded node has it, too: what
    runs there tolerates it. While none is overloaded no pod has to go anywhere, and no taint closes any.
    """
    tolerated = open_nodes.tolerated_taints(node for node in taken.nodes if node.name in overloaded)
    for node in taken.nodes:
        if not open_nodes.open_to_pods(node):
            continue
        if overloaded and not open_nodes.closing_taints(node) <= tolerated:
            continue
        ratios = usage.fresh_ratios(taken.node_usage.get(node.name), taken.at_seconds, policies.whole)
        lines = policies.bands(node.name).items()
        under = (name in ratios and not usage.over(ratios[name], band.evict_until_ratio) for name, band in lines)
        if ratios and all(under):
            yield node.name


def _relative_excess(node: Node, overload: Overload, resource: str) -> float:
    """The excess relative to allocatable: (u - until) * capacity / allocatable."""
    allocatable = usage.size(node.allocatable, resource)
    return overload.excess_ratio * (usage.size(node.capacity, resource) / allocatable if allocatable > 0 else 1.0)
