"""The evictions of one plan in the making: pods leave a node while every judge agrees, and take their room at once.

`planning.planner` relieves one node after the other with a `NodeRelief`. What was chosen counts in caps, budgets, flow
rules and destinations from then on.
"""

import collections.abc
import dataclasses
import functools

from descheduler.placement import destinations, open_nodes
from descheduler.planning import candidate_order, flow_rules, limits, predictions, protections
from descheduler.planning.departed_load import DepartedLoad
from descheduler.planning.overload import Overload
from descheduler.planning.plans import ConsideredPod, Eviction, Headroom, NodePlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube.objects import Node, Pod


@dataclasses.dataclass(slots=True)
class _Planner:
    """One node in the making: its projected ratios, the verdicts given so far, and the pods in question, by uid."""

    node: Node
    projected: dict[str, float]
    judged: dict[str, Verdict] = dataclasses.field(default_factory=dict)
    open_pods: dict[str, Pod] = dataclasses.field(default_factory=dict)


class NodeRelief:
    """The evictions that one plan has chosen, and their reservations."""

    def __init__(self, taken: Snapshot, policies: NodePolicies, history: History, overloaded: frozenset[str]) -> None:
        policy = policies.whole
        self.evictions: list[Eviction] = []
        self.blocked: Verdict | None = None
        self._taken = taken
        self._policies, self._policy = policies, policy
        self._echoes = DepartedLoad(taken, policy, history.departed)
        self._cases = protections.CandidateContexts(taken, policy)
        self._headroom = self._cases.headroom
        standings = self._cases.standings
        self._caps = limits.Caps(policies, history, standings, now_seconds=taken.at_seconds)
        self.brake, self.unreplaced = self._caps.brake, self._caps.unreplaced
        self._gate = flow_rules.Gate(policy.descheduler.flow, history.flow, standings, now_seconds=taken.at_seconds)
        self._overloaded = overloaded
        self._landed = history.landed
        self._resources = usage.resources_of(policy)
        self._longest_window_seconds = max(
            (usage.window_of(policy, name) for name in policy.descheduler.thresholds), default=0.0
        )

    @functools.cached_property
    def _destinations(self) -> destinations.Destinations:
        """Where pods could go, looked at when the first pod passed everything else: in most runs none does."""
        return destinations.Destinations(self._taken, self._policies, excluded=self._overloaded, landed=self._landed)

    def headroom(self) -> Headroom:
        """Returns the caps and budgets that the plan leaves so far."""
        destinations = tuple(self._destinations.headroom().items())
        return Headroom(self._caps.run_left, self._caps.hour_left, self._headroom.left(), destinations)

    def relieve(self, node: Node, overloads: tuple[Overload, ...]) -> NodePlan:
        """Chooses pods of one node, metric by metric, and gives every pod of it a verdict."""
        here = self._taken.on_nodes.get(node.name, ())
        projected = self._echoes.without_the_gone(node, overloads, here)
        pool = self._policies.pool_name(node.name)
        left_alone = open_nodes.leaving(node) or self._unfit(node, overloads)
        if left_alone:
            return NodePlan(node, overloads, projected, (), left_alone, pool)
        work = self._sorted_out(node, projected)
        for overload in overloads:
            self._relieve_metric(work, overload)
        for pod in work.open_pods.values():
            last = f": {pod_annotations.PREFER_NO_EVICTION} has it come last" * protections.comes_last(
                pod, self._policy
            )
            work.judged.setdefault(pod.uid, Verdict(Cause.NOT_NEEDED, f"the target is reached without it{last}"))
        return NodePlan(node, overloads, projected, self._considered(work), pool=pool)

    def _considered(self, work: _Planner) -> tuple[ConsideredPod, ...]:
        pods = sorted(self._taken.on_nodes.get(work.node.name, ()), key=lambda pod: (pod.key, pod.uid))
        used = self._taken.pod_usage
        return tuple(
            ConsideredPod(pod, self._taken.workload_of(pod), work.judged[pod.uid], used.get(pod.key)) for pod in pods
        )

    def _unfit(self, node: Node, overloads: tuple[Overload, ...]) -> str:
        if not node.ready:
            return "it is not ready"
        sized = all(usage.size(node.capacity, self._resources[overload.metric]) > 0 for overload in overloads)
        return "" if sized else "its capacity is not known"

    def _relieve_metric(self, work: _Planner, overload: Overload) -> None:
        waiting = self._last_first(work, overload, work.open_pods.values())
        while waiting and usage.over(work.projected[overload.metric], overload.evict_until_ratio):
            pod = waiting.pop()
            work.judged[pod.uid] = found = self._verdict(work, overload, pod)
            if found.cause is Cause.CHOSEN:  # the excess is another one now, and with it the order
                waiting = self._last_first(work, overload, waiting)
            if found.cause is not Cause.TOO_SMALL:  # too small for this resource, it may still help the next one
                del work.open_pods[pod.uid]

    def _last_first(self, work: _Planner, overload: Overload, pods: collections.abc.Iterable[Pod]) -> list[Pod]:
        def key(pod: Pod) -> candidate_order.Key:
            return candidate_order.key(
                pod, self._use(work, overload, pod), last=protections.comes_last(pod, self._policy)
            )

        return candidate_order.ordered(pods, key)[::-1]

    def _verdict(self, work: _Planner, overload: Overload, pod: Pod) -> Verdict:
        """Chooses the pod, or says why not; a chosen pod's headroom, caps, room and relief are taken at once."""
        if not candidate_order.worthwhile(self._use(work, overload, pod)):
            return Verdict(Cause.TOO_SMALL, f"it uses too little {self._resources[overload.metric]} to help")
        caps, standing = self._caps, self._cases.standing(pod)
        refused = self.blocked or caps.node_verdict(overload.node, overload.metric)
        refused = refused or caps.verdict(pod, standing) or self._gate.verdict(pod, standing)
        refused = refused or self._headroom.verdict(pod)
        if refused is not None:
            return refused
        found = self._destinations.find(pod, self._taken.pod_usage[pod.key])
        if not found.node:
            return Verdict(Cause.NO_DESTINATION, f"no other node takes it: {found}")
        self._choose(work, overload, pod, found.node)
        return Verdict(Cause.CHOSEN, f"expected on {found.node}")

    def _choose(self, work: _Planner, overload: Overload, pod: Pod, destination: str) -> None:
        used = self._taken.pod_usage[pod.key]
        before_ratio = work.projected[overload.metric]
        for metric in work.projected:
            work.projected[metric] -= usage.share(used, work.node.capacity, self._resources[metric])
        expected = predictions.expected(
            self._policy,
            overload.metric,
            value_ratio=overload.value_ratio,
            projected_ratio=work.projected[overload.metric],
        )
        self._destinations.commit(pod, used, destination)
        self._caps.count(pod, self._cases.standing(pod))
        eviction = Eviction(
            pod=pod,
            workload=self._taken.workload_of(pod),
            overload=overload,
            used=used,
            before_ratio=before_ratio,
            projected_ratio=work.projected[overload.metric],
            destination=destination,
            destination_ratio=self._destinations.projected_ratios(destination)[overload.metric],
            budget=self._headroom.reserve(pod),
            flow=self._gate.count(pod, self._cases.standing(pod)),
            newest_sibling_at_seconds=self._newest_sibling_at_seconds(pod),
            expected_5m_ratio=expected.after_5m_ratio,
            expected_30m_ratio=expected.after_30m_ratio,
            pool=self._policies.pool_name(work.node.name),
        )
        self.evictions.append(eviction)

    def _newest_sibling_at_seconds(self, pod: Pod) -> float:
        siblings = [pod] if pod.owner is None else self._taken.owned[pod.namespace, pod.owner.uid]
        return max(one.created_at_seconds for one in siblings)

    def _sorted_out(self, node: Node, projected: dict[str, float]) -> _Planner:
        work = _Planner(node, projected)
        for pod in self._taken.on_nodes.get(node.name, ()):
            case = self._cases.of(pod, self._taken.at_seconds)
            found = protections.verdict(case) or self._usage_verdict(pod)
            if found is not None:
                work.judged[pod.uid] = found
            else:
                work.open_pods[pod.uid] = pod
        return work

    def _usage_verdict(self, pod: Pod) -> Verdict | None:
        since_seconds = pod.started_at_seconds
        if since_seconds is not None and self._taken.at_seconds - since_seconds < self._longest_window_seconds:
            return Verdict(Cause.USAGE_UNKNOWN, "it has not run for a whole window yet")
        used = self._taken.pod_usage.get(pod.key)
        if used is None:
            return Verdict(Cause.USAGE_UNKNOWN, self._taken.absences.get(pod.key, "no window of it is known"))
        if usage.fresh(used.at_seconds, self._taken.at_seconds, self._policy.sync.stale_after_seconds):
            return None
        return Verdict(Cause.USAGE_UNKNOWN, f"its usage is {self._taken.at_seconds - used.at_seconds:.0f} s old")

    def _use(self, work: _Planner, overload: Overload, pod: Pod) -> candidate_order.Use:
        """Returns the pod's use of the hot resource, in millicores or bytes."""
        resource = self._resources[overload.metric]
        excess_ratio = work.projected[overload.metric] - overload.evict_until_ratio - usage.ROUNDING
        measured = self._taken.pod_usage[pod.key]
        excess = excess_ratio * usage.size(work.node.capacity, resource)
        requested = usage.requested(pod.requests, measured, resource)
        return candidate_order.Use(usage.amount(measured, resource), excess, requested)
