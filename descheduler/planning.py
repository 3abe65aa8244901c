"""The plan of one run: which pods leave which overloaded nodes, in which order, and for every other candidate why not.

`service.py` calls `plan` with a snapshot, the confirmed overloads and the ledger's history; `evicting.py` carries the
`EvictionPlan` out, the Events, the ledger, the metrics and GET /plan repeat it. It is a pure function: no clock, no
chance, no call, and the order in which anything was listed changes nothing. Observe, DryRun and Enforce get the same
plan.

Per node, the metric listed first in the policy is relieved first, and every chosen pod's usage is deducted from all
metrics:

    projected_m = u_m - sum of usage / capacity, over pods chosen, terminating, or just gone (fading with the window)

until projected_m <= evictUntil_m. A pod is chosen if its protection, usage, cap, cool-down, budget and destination
verdicts all agree.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

from descheduler import budgets, destinations, flow, limits, ordering, placement, protections, usage, verdicts
from descheduler.budgets import BudgetLeft
from descheduler.history import Departed, History
from descheduler.overload import Overload
from descheduler.snapshot import Snapshot
from descheduler.usage import PodUsage
from descheduler.verdicts import Cause, Verdict
from descheduler.workloads import Standing, Workload
from kube.objects import Node, Pod
from policy.schema import LoadPolicy


class Judged(NamedTuple):
    """A candidate, its one verdict, and what it uses where that is known."""

    pod: Pod
    workload: Workload | None
    verdict: Verdict
    used: PodUsage | None = None


class Headroom(NamedTuple):
    """What is left after the plan: of the run's and the hour's caps, of the budgets over candidates, and per node that
    takes pods the distance to each target line (negative: over it), coolest node first.
    """

    run: int = 0
    hour: int = 0
    budgets: tuple[BudgetLeft, ...] = ()
    destinations: tuple[tuple[str, collections.abc.Mapping[str, float]], ...] = ()


NO_HEADROOM = Headroom()


@dataclasses.dataclass(frozen=True, slots=True)
class Eviction:
    """One eviction of a plan with its figures: ratios of the node before, after, and of the destination with the pod
    on it.
    """

    pod: Pod
    workload: Workload | None
    overload: Overload
    used: PodUsage
    before_ratio: float
    projected_ratio: float
    destination: str
    destination_ratio: float
    budget: str
    flow: str = ""  # key of the flow rule that let it pass


@dataclasses.dataclass(frozen=True, slots=True)
class NodePlan:
    """One overloaded node: the projected ratio per metric after the plan, every candidate's verdict, and why it is
    left alone ("").
    """

    node: Node
    overloads: tuple[Overload, ...]
    projected: collections.abc.Mapping[str, float]
    candidates: tuple[Judged, ...] = ()
    left_alone: str = ""

    @property
    def chosen(self) -> int:
        """How many pods would leave this node."""
        return sum(1 for one in self.candidates if one.verdict.cause is Cause.CHOSEN)

    @property
    def summary(self) -> str:
        """What happens to the node in one line."""
        if self.left_alone:
            return f"left alone: {self.left_alone}"
        return verdicts.summary(self.chosen, (one.verdict.cause for one in self.candidates), verb="to evict")


@dataclasses.dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Everything one run decided; `blocked` says why the run as a whole does nothing ("" if it may act)."""

    at_seconds: float
    nodes: tuple[NodePlan, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    blocked: str = ""
    headroom: Headroom = NO_HEADROOM

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The verdicts of all candidates of all overloaded nodes."""
        return tuple(one.verdict.cause for node in self.nodes for one in node.candidates)

    def summary(self, *, verb: str = "to evict", count: int | None = None) -> str:
        """One line such as "0 to evict: 41 protected, 3 PDB, 7 without a destination"; `count` if not all left."""
        evicted = len(self.evictions) if count is None else count
        blocked = f"; blocked: {self.blocked}" if self.blocked else ""
        return verdicts.summary(evicted, self.causes, verb=verb) + blocked


def plan(taken: Snapshot, overloads: tuple[Overload, ...], policy: LoadPolicy, history: History) -> EvictionPlan:
    """The plan for these overloads, largest excess first.

    Invariants, held by tests: no budget, cap, protection or target line of a destination is ever exceeded, every
    candidate has one verdict, and equal inputs in any order give equal plans.
    """
    draft = _Draft(taken, policy, history, frozenset(overload.node for overload in overloads))
    by_node: dict[str, list[Overload]] = {}
    for overload in overloads:
        by_node.setdefault(overload.node, []).append(overload)
    nodes = {node.name: node for node in taken.nodes}
    resources = usage.resources_of(policy)
    known = (name for name in by_node if name in nodes)
    ordered = sorted(known, key=lambda name: _hottest_first(nodes[name], by_node[name], resources))
    draft.blocked = _blocked(taken, policy)
    plans = tuple(draft.relieve(nodes[name], tuple(by_node[name])) for name in ordered)
    blocked = draft.blocked.detail if draft.blocked else ""
    return EvictionPlan(taken.at_seconds, plans, tuple(draft.evictions), blocked, draft.headroom())


def _blocked(taken: Snapshot, policy: LoadPolicy) -> Verdict | None:
    """Why no pod at all may leave in this run, None if some may."""
    if taken.gaps:
        return Verdict(Cause.USAGE_UNKNOWN, f"the data is not whole: {'; '.join(taken.gaps)}")
    cool, needed = len(cool_nodes(taken, policy)), policy.descheduler.cool_nodes
    if cool < needed:
        return Verdict(Cause.NO_DESTINATION, f"{cool} cool nodes, {needed} needed (coolNodes)")
    return None


def cool_nodes(taken: Snapshot, policy: LoadPolicy) -> tuple[str, ...]:
    """The open nodes that are at or under every target line by fresh readings."""
    found = []
    for node in taken.nodes:
        seen = taken.node_usage.get(node.name)
        if seen is None or not placement.open_to_pods(node):
            continue
        current = usage.fresh(seen.at_seconds, taken.at_seconds, policy.sync.stale_after_seconds)
        lines = policy.descheduler.thresholds.items()
        if current and all(_at_or_under(seen.ratios.get(name), band.evict_until_ratio) for name, band in lines):
            found.append(node.name)
    return tuple(sorted(found))


@dataclasses.dataclass(slots=True)
class _Work:
    """One node in the making: its projected ratios, the verdicts given so far, and the pods in question, by uid."""

    node: Node
    projected: dict[str, float]
    judged: dict[str, Verdict] = dataclasses.field(default_factory=dict)
    open_pods: dict[str, Pod] = dataclasses.field(default_factory=dict)


class _Draft:
    """What one plan has chosen and reserved so far."""

    def __init__(self, taken: Snapshot, policy: LoadPolicy, history: History, overloaded: frozenset[str]) -> None:
        self.evictions: list[Eviction] = []
        self.blocked: Verdict | None = None
        self._taken = taken
        self._policy = policy
        self._departed = history.departed
        self._standings = taken.standings()
        self._movable_claims = taken.movable_claims()
        self._headroom = budgets.Headroom(taken.budgets)
        self._caps = limits.Caps(policy, history, now_seconds=taken.at_seconds)
        self._gate = flow.Gate(policy.descheduler.flow, history.flow, self._standings, now_seconds=taken.at_seconds)
        self._destinations = destinations.Destinations(taken, policy, excluded=overloaded)
        self._resources = usage.resources_of(policy)
        self._longest_window_seconds = max(
            (usage.window_of(policy, name) for name in policy.descheduler.thresholds), default=0.0
        )
        self._pods_on: dict[str, list[Pod]] = {}
        for pod in taken.pods:
            self._pods_on.setdefault(pod.node_name, []).append(pod)

    def headroom(self) -> Headroom:
        """What the plan so far leaves."""
        destinations = tuple(self._destinations.headroom().items())
        return Headroom(self._caps.run_left, self._caps.hour_left, self._headroom.left(), destinations)

    def relieve(self, node: Node, overloads: tuple[Overload, ...]) -> NodePlan:
        """Chooses pods of one node, metric by metric, and gives every pod of it a verdict."""
        projected = self._without_the_gone(node, overloads)
        left_alone = placement.leaving(node) or self._unfit(node, overloads)
        if left_alone:
            return NodePlan(node, overloads, projected, (), left_alone)
        work = self._sorted_out(node, projected)
        for overload in overloads:
            self._relieve_metric(work, overload)
        for pod in work.open_pods.values():
            work.judged.setdefault(pod.uid, Verdict(Cause.NOT_NEEDED, "the target is reached without it"))
        pods = sorted(self._pods_on.get(node.name, []), key=lambda pod: (pod.key, pod.uid))
        used = self._taken.pod_usage
        found = tuple(
            Judged(pod, self._taken.workload_of(pod), work.judged[pod.uid], used.get(pod.key)) for pod in pods
        )
        return NodePlan(node, overloads, projected, found)

    def _unfit(self, node: Node, overloads: tuple[Overload, ...]) -> str:
        if not node.ready:
            return "it is not ready"
        sized = all(usage.size(node.capacity, self._resources[overload.metric]) > 0 for overload in overloads)
        return "" if sized else "its capacity is not known"

    def _relieve_metric(self, work: _Work, overload: Overload) -> None:
        key = lambda pod: ordering.key(pod, *self._used_and_excess(work, overload, pod))  # noqa: E731
        waiting = sorted(work.open_pods.values(), key=key, reverse=True)
        while waiting and work.projected[overload.metric] > overload.evict_until_ratio:
            pod = waiting.pop()
            work.judged[pod.uid] = found = self._verdict(work, overload, pod)
            if found.cause is Cause.CHOSEN:  # the excess is another one now, and with it the order
                waiting.sort(key=key, reverse=True)
            if found.cause is not Cause.TOO_SMALL:  # too small for this resource, it may still help the next one
                del work.open_pods[pod.uid]

    def _verdict(self, work: _Work, overload: Overload, pod: Pod) -> Verdict:
        """Chooses the pod, or says why not; a chosen pod's headroom, caps, room and relief are taken at once."""
        if not ordering.worthwhile(*self._used_and_excess(work, overload, pod)):
            return Verdict(Cause.TOO_SMALL, f"it uses too little {self._resources[overload.metric]} to help")
        refused = self.blocked or self._caps.node_verdict(work.node.name)
        standing = self._standing(pod)
        refused = refused or self._caps.verdict(pod, standing) or self._gate.verdict(pod, standing)
        refused = refused or self._headroom.verdict(pod)
        if refused is not None:
            return refused
        found = self._destinations.find(pod, self._taken.pod_usage[pod.key])
        if not found.node:
            return Verdict(Cause.NO_DESTINATION, f"no other node takes it: {found}")
        self._choose(work, overload, pod, found.node)
        return Verdict(Cause.CHOSEN, f"expected on {found.node}")

    def _choose(self, work: _Work, overload: Overload, pod: Pod, destination: str) -> None:
        used = self._taken.pod_usage[pod.key]
        before_ratio = work.projected[overload.metric]
        for metric in work.projected:
            work.projected[metric] -= usage.share(used, work.node.capacity, self._resources[metric])
        self._destinations.commit(pod, used, destination)
        self._caps.count(pod, self._standing(pod))
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
            flow=self._gate.count(pod, self._standing(pod)),
        )
        self.evictions.append(eviction)

    def _standing(self, pod: Pod) -> Standing | None:
        workload = self._taken.workload_of(pod)
        return self._standings.get(workload.uid) if workload is not None else None

    def _sorted_out(self, node: Node, projected: dict[str, float]) -> _Work:
        work = _Work(node, projected)
        for pod in self._pods_on.get(node.name, []):
            case = protections.Case(
                pod, self._standing(pod), self._policy, self._taken.at_seconds, self._movable_claims
            )
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
            return Verdict(Cause.USAGE_UNKNOWN, "Prometheus has no window of it")
        if usage.fresh(used.at_seconds, self._taken.at_seconds, self._policy.sync.stale_after_seconds):
            return None
        return Verdict(Cause.USAGE_UNKNOWN, f"its usage is {self._taken.at_seconds - used.at_seconds:.0f} s old")

    def _used_and_excess(self, work: _Work, overload: Overload, pod: Pod) -> tuple[float, float]:
        """What the pod uses of the hot resource and what remains to be moved, both in millicores or bytes."""
        resource = self._resources[overload.metric]
        excess_ratio = work.projected[overload.metric] - overload.evict_until_ratio
        used = usage.amount(self._taken.pod_usage[pod.key], resource)
        return used, excess_ratio * usage.size(work.node.capacity, resource)

    def _without_the_gone(self, node: Node, overloads: tuple[Overload, ...]) -> dict[str, float]:
        """The node's ratios without the pods that are leaving it or have just left it."""
        projected = {overload.metric: overload.value_ratio for overload in overloads}
        here = self._pods_on.get(node.name, [])
        leaving = [used for pod in here if pod.deleting and (used := self._taken.pod_usage.get(pod.key)) is not None]
        present = {pod.uid for pod in here}
        gone = [one for one in self._departed if one.node == node.name and one.uid not in present]
        for metric in projected:
            resource = self._resources[metric]
            projected[metric] -= sum(usage.share(used, node.capacity, resource) for used in leaving)
            projected[metric] -= sum(self._echo(one, metric, node) for one in gone)
        return projected

    def _echo(self, one: Departed, metric: str, node: Node) -> float:
        """What the metric's window still shows of a pod that has gone: its share, fading linearly over the window."""
        age_seconds = self._taken.at_seconds - one.gone_at_seconds
        left_ratio = 1.0 - age_seconds / usage.window_of(self._policy, metric)
        if left_ratio <= 0:
            return 0.0
        used = PodUsage("", one.cpu_millicores, one.memory_bytes, one.gone_at_seconds)
        return left_ratio * usage.share(used, node.capacity, self._resources[metric])


def _hottest_first(node: Node, overloads: list[Overload], resources: dict[str, usage.Resource]) -> tuple[float, str]:
    """Largest excess relative to allocatable first: (u - until) * capacity / allocatable, then the name."""
    return -max(
        one.excess_ratio * _capacity_per_allocatable(node, resources[one.metric]) for one in overloads
    ), node.name


def _capacity_per_allocatable(node: Node, resource: usage.Resource) -> float:
    allocatable = usage.size(node.allocatable, resource)
    return usage.size(node.capacity, resource) / allocatable if allocatable > 0 else 1.0


def _at_or_under(value: float | None, line_ratio: float) -> bool:
    return value is not None and usage.usable_ratio(value) and value <= line_ratio
