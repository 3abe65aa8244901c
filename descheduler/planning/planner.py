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
"""

import collections.abc
import dataclasses
import functools
import itertools

from descheduler.placement import destinations, open_nodes
from descheduler.planning import candidate_order, departed_load, flow_rules, limits, protections
from descheduler.planning.overload import Overload
from descheduler.planning.plans import NO_HEADROOM, ConsideredPod, Eviction, EvictionPlan, Headroom, NodePlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube.objects import Node, Pod
from policy.rules import expected_load


def plan(
    taken: Snapshot,
    overloads: tuple[Overload, ...],
    policies: NodePolicies,
    history: History,
    *,
    headroom: bool = True,
    elsewhere: frozenset[str] = frozenset(),
) -> EvictionPlan:
    """The plan for these overloads, largest excess first. What it leaves is counted where `headroom` is asked for.

    `elsewhere` are overloaded nodes of another plan of the run, for pools of another mode: they take no pods.

    Invariants, held by tests: no budget, cap, protection or target line of a destination is ever exceeded, every
    candidate has one verdict, and equal inputs in any order give equal plans.
    """
    if not (overloads or headroom):  # most runs of most clusters
        return EvictionPlan(taken.at_seconds, blocked=_words(_blocked(taken, policies, frozenset())))
    draft = PlanDraft(taken, policies, history, elsewhere.union(overload.node for overload in overloads))
    by_node: dict[str, list[Overload]] = {}
    for overload in overloads:
        by_node.setdefault(overload.node, []).append(overload)
    nodes = {node.name: node for node in taken.nodes}
    resources = usage.resources_of(policies.whole)
    known = (name for name in by_node if name in nodes)
    ordered = sorted(known, key=lambda name: _hottest_first(nodes[name], by_node[name], resources))
    plans = tuple(draft.relieve(nodes[name], tuple(by_node[name])) for name in ordered)
    left = draft.headroom() if headroom else NO_HEADROOM
    evictions = tuple(draft.evictions)
    return EvictionPlan(taken.at_seconds, plans, evictions, _words(draft.blocked), left, draft.unreplaced)


@dataclasses.dataclass(slots=True)
class NodeDraft:
    """One node in the making: its projected ratios, the verdicts so far, and the pods in question, by uid."""

    node: Node
    projected: dict[str, float]
    verdicts: dict[str, Verdict] = dataclasses.field(default_factory=dict)
    open_pods: dict[str, Pod] = dataclasses.field(default_factory=dict)


class PlanDraft:
    """The evictions that one plan has chosen, and their reservations."""

    def __init__(self, taken: Snapshot, policies: NodePolicies, history: History, overloaded: frozenset[str]) -> None:
        policy = policies.whole
        self.evictions: list[Eviction] = []
        self._taken = taken
        self._policies, self._policy = policies, policy
        self._departed = departed_load.DepartedLoad(taken, policy, history.departed)
        self._cases = protections.CandidateContexts(taken, policy)
        self._budgets = self._cases.headroom
        standings = self._cases.standings
        self._caps = limits.Caps(policies, history, standings, now_seconds=taken.at_seconds)
        self._gate = flow_rules.Gate(policy.descheduler.flow, history.flow, standings, now_seconds=taken.at_seconds)
        self._plan_rules = (self._caps.verdict, self._gate.verdict, self._budgets.verdict)
        self.unreplaced = self._caps.unreplaced
        self.blocked = _blocked(taken, policies, overloaded) or self._caps.brake
        self._overloaded = overloaded
        since_seconds = taken.at_seconds - expected_load.LONGEST_WAIT_SECONDS
        self._coming = [(one.destination, one.used) for one in self.unreplaced if one.at_seconds > since_seconds]
        self._landed = history.landed
        self._resources = usage.resources_of(policy)
        self._longest_window_seconds = max(usage.pod_windows(policy).values())

    @functools.cached_property
    def _destinations(self) -> destinations.Destinations:
        """Where pods could go, looked at when the first pod passed everything else: in most runs none does."""
        return destinations.Destinations(
            self._taken, self._policies, excluded=self._overloaded, landed=self._landed, coming=self._coming
        )

    def headroom(self) -> Headroom:
        """Returns the caps and budgets that the plan leaves so far."""
        destinations = tuple(self._destinations.headroom().items())
        return Headroom(self._caps.run_left, self._caps.hour_left, self._budgets.left(), destinations)

    def relieve(self, node: Node, overloads: tuple[Overload, ...]) -> NodePlan:
        """Chooses pods of one node, metric by metric, and gives every pod a verdict, unless the node is left alone."""
        here = self._taken.on_nodes.get(node.name, ())
        projected = self._departed.without_the_gone(node, overloads, here)
        pool = self._policies.pool_name(node.name)
        left_alone = open_nodes.leaving(node) or self._unfit(node, overloads)
        if left_alone:
            return NodePlan(node, overloads, projected, (), left_alone, pool)
        draft = self._sorted_out(node, projected)
        for overload in overloads:
            self._relieve_metric(draft, overload)
        last = f": {pod_annotations.PREFER_NO_EVICTION} has it come last"
        for pod in draft.open_pods.values():
            why_last = last if protections.comes_last(pod, self._policy) else ""
            draft.verdicts.setdefault(pod.uid, Verdict(Cause.NOT_NEEDED, f"the target is reached without it{why_last}"))
        return NodePlan(node, overloads, projected, self._considered(draft), pool=pool)

    def _considered(self, draft: NodeDraft) -> tuple[ConsideredPod, ...]:
        pods = sorted(self._taken.on_nodes.get(draft.node.name, ()), key=lambda pod: (pod.key, pod.uid))
        used = self._taken.pod_usage
        return tuple(
            ConsideredPod(pod, self._taken.workload_of(pod), draft.verdicts[pod.uid], used.get(pod.key)) for pod in pods
        )

    def _unfit(self, node: Node, overloads: tuple[Overload, ...]) -> str:
        if not node.ready:
            return "it is not ready"
        sized = all(usage.size(node.capacity, self._resources[overload.metric]) > 0 for overload in overloads)
        return "" if sized else "its capacity is not known"

    def _relieve_metric(self, draft: NodeDraft, overload: Overload) -> None:
        waiting = self._last_first(draft, overload, draft.open_pods.values())
        while waiting and usage.over(draft.projected[overload.metric], overload.evict_until_ratio):
            pod = waiting.pop()
            draft.verdicts[pod.uid] = verdict = self._verdict(draft, overload, pod)
            if verdict.cause is Cause.CHOSEN:  # the excess is another one now, and with it the order
                waiting = self._last_first(draft, overload, waiting)
            if verdict.cause is not Cause.TOO_SMALL:  # too small for this resource, it may still help the next one
                del draft.open_pods[pod.uid]

    def _last_first(self, draft: NodeDraft, overload: Overload, pods: collections.abc.Iterable[Pod]) -> list[Pod]:
        def key(pod: Pod) -> candidate_order.Key:
            return candidate_order.key(
                pod, self._use(draft, overload, pod), last=protections.comes_last(pod, self._policy)
            )

        return candidate_order.ordered(pods, key)[::-1]

    def _verdict(self, draft: NodeDraft, overload: Overload, pod: Pod) -> Verdict:
        """Chooses the pod, or says why not; a chosen pod's headroom, caps, room and relief are taken at once."""
        if not candidate_order.worthwhile(self._use(draft, overload, pod)):
            return Verdict(Cause.TOO_SMALL, f"it uses too little {self._resources[overload.metric]} to help")
        if self.blocked:
            return self.blocked
        standing = self._cases.standing(pod)
        for rule in self._plan_rules:
            if verdict := rule(pod, standing, overload.metric):
                return verdict
        destination = self._destinations.find(pod, self._taken.pod_usage[pod.key])
        if not destination.node:
            return Verdict(Cause.NO_DESTINATION, f"no other node takes it: {destination}")
        self._choose(draft, overload, pod, destination.node)
        return Verdict(Cause.CHOSEN, f"expected on {destination.node}")

    def _choose(self, draft: NodeDraft, overload: Overload, pod: Pod, destination: str) -> None:
        used = self._taken.pod_usage[pod.key]
        before_ratio = draft.projected[overload.metric]
        for metric in draft.projected:
            draft.projected[metric] -= usage.share(used, draft.node.capacity, self._resources[metric])
        expected_5m_ratio, expected_30m_ratio = departed_load.expected(
            self._policy,
            overload.metric,
            value_ratio=overload.value_ratio,
            projected_ratio=draft.projected[overload.metric],
        )
        self._destinations.commit(pod, used, destination)
        self._caps.count(pod, self._cases.standing(pod))
        siblings = [pod] if pod.owner is None else self._taken.owned[pod.namespace, pod.owner.uid]
        eviction = Eviction(
            pod=pod,
            workload=self._taken.workload_of(pod),
            overload=overload,
            used=used,
            before_ratio=before_ratio,
            projected_ratio=draft.projected[overload.metric],
            destination=destination,
            destination_ratio=self._destinations.projected_ratios(destination)[overload.metric],
            budget=self._budgets.reserve(pod),
            flow=self._gate.count(pod, self._cases.standing(pod)),
            newest_sibling_at_seconds=max(one.created_at_seconds for one in siblings),
            expected_5m_ratio=expected_5m_ratio,
            expected_30m_ratio=expected_30m_ratio,
            pool=self._policies.pool_name(draft.node.name),
        )
        self.evictions.append(eviction)

    def _sorted_out(self, node: Node, projected: dict[str, float]) -> NodeDraft:
        draft = NodeDraft(node, projected)
        for pod in self._taken.on_nodes.get(node.name, ()):
            case = self._cases.of(pod, self._taken.at_seconds)
            verdict = protections.verdict(case) or self._usage_verdict(pod)
            if verdict is not None:
                draft.verdicts[pod.uid] = verdict
            else:
                draft.open_pods[pod.uid] = pod
        return draft

    def _usage_verdict(self, pod: Pod) -> Verdict | None:
        since_seconds = pod.running_since_seconds or pod.started_at_seconds  # what init containers did is not its use
        if since_seconds is not None and self._taken.at_seconds - since_seconds < self._longest_window_seconds:
            return Verdict(Cause.USAGE_UNKNOWN, "it has not run for a whole window yet")
        used = self._taken.pod_usage.get(pod.key)
        if used is None:
            return Verdict(Cause.USAGE_UNKNOWN, self._taken.absences.get(pod.key, "no window of it is known"))
        if usage.fresh(used.at_seconds, self._taken.at_seconds, self._policy.sync.stale_after_seconds):
            return None
        return Verdict(Cause.USAGE_UNKNOWN, f"its usage is {self._taken.at_seconds - used.at_seconds:.0f} s old")

    def _use(self, draft: NodeDraft, overload: Overload, pod: Pod) -> candidate_order.Use:
        """Returns the pod's use of the hot resource, in millicores or bytes."""
        resource = self._resources[overload.metric]
        excess_ratio = draft.projected[overload.metric] - overload.evict_until_ratio - usage.ROUNDING
        measured = self._taken.pod_usage[pod.key]
        excess = excess_ratio * usage.size(draft.node.capacity, resource)
        requested = usage.requested(pod.requests, measured, resource)
        return candidate_order.Use(usage.amount(measured, resource), excess, requested)


def _words(why_blocked: Verdict | None) -> str:
    return why_blocked.detail if why_blocked else ""


def _blocked(taken: Snapshot, policies: NodePolicies, overloaded: frozenset[str]) -> Verdict | None:
    """Why no pod at all may leave in this run, None if some may."""
    if stale := taken.stale():
        return Verdict(Cause.STALE_VIEW, stale)
    needed = policies.whole.descheduler.cool_nodes
    cool = len(list(itertools.islice(cool_nodes(taken, policies, overloaded), needed)))  # so many are as good as all
    if cool < needed:
        return Verdict(Cause.NO_DESTINATION, f"{cool} cool nodes, {needed} needed (coolNodes)")
    return None


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


def _hottest_first(node: Node, overloads: list[Overload], resources: dict[str, str]) -> tuple[float, str]:
    """Largest excess relative to allocatable first: (u - until) * capacity / allocatable, then the name."""
    return -max(
        one.excess_ratio * _capacity_per_allocatable(node, resources[one.metric]) for one in overloads
    ), node.name


def _capacity_per_allocatable(node: Node, resource: str) -> float:
    allocatable = usage.size(node.allocatable, resource)
    return usage.size(node.capacity, resource) / allocatable if allocatable > 0 else 1.0
