"""The plan of one run: which pods leave which overloaded nodes, in which order, and for every other candidate why not.

`service.py` calls `plan` with a snapshot, the confirmed overloads and the ledger's history; `eviction.evictor` carries
the `EvictionPlan` out, the Events, the ledger, the metrics and GET /plan repeat it. It is a pure function: no clock, no
chance, no call, and the order in which anything was listed changes nothing. Observe, DryRun and Enforce get the same
plan.

Per node, the metric listed first in the policy is relieved first, and every chosen pod's usage is deducted from all
metrics:

    projected_m = u_m - sum of usage / capacity, over pods chosen, terminating, or just gone (fading with the window)

until projected_m <= evictUntil_m; `planning.departed_load` has what is deducted before the first choice. A pod is
chosen if its protection, usage, cap, cool-down, budget and destination verdicts all agree. What comes out is in
`planning.plans`.
"""

import collections.abc
import itertools

from descheduler.placement import open_nodes
from descheduler.planning.node_relief import NodeRelief
from descheduler.planning.overload import Overload
from descheduler.planning.plans import NO_HEADROOM, EvictionPlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy


def plan(
    taken: Snapshot,
    overloads: tuple[Overload, ...],
    policy: LoadPolicy,
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
    if not (overloads or headroom):
        return idle(taken, policy)
    overloaded = elsewhere.union(overload.node for overload in overloads)
    policies = NodePolicies(policy, taken.nodes)
    relief = NodeRelief(taken, policies, history, overloaded)
    by_node: dict[str, list[Overload]] = {}
    for overload in overloads:
        by_node.setdefault(overload.node, []).append(overload)
    nodes = {node.metadata.name: node for node in taken.nodes}
    resources = usage.resources_of(policy)
    known = (name for name in by_node if name in nodes)
    ordered = sorted(known, key=lambda name: _hottest_first(nodes[name], by_node[name], resources))
    relief.blocked = why_blocked = _blocked(taken, policies, overloaded) or relief.brake
    plans = tuple(relief.relieve(nodes[name], tuple(by_node[name])) for name in ordered)
    left = relief.headroom() if headroom else NO_HEADROOM
    evictions = tuple(relief.evictions)
    return EvictionPlan(taken.at_seconds, plans, evictions, _words(why_blocked), left, relief.unreplaced)


def idle(taken: Snapshot, policy: LoadPolicy) -> EvictionPlan:
    """The plan of most runs of most clusters: no node is overloaded."""
    why_blocked = _blocked(taken, NodePolicies(policy, taken.nodes), frozenset())
    return EvictionPlan(taken.at_seconds, blocked=_words(why_blocked))


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
        seen = taken.node_usage.get(node.name)
        if seen is None or not open_nodes.open_to_pods(node):
            continue
        if overloaded and not open_nodes.closing_taints(node) <= tolerated:
            continue
        current = usage.fresh(seen.at_seconds, taken.at_seconds, policies.whole.sync.stale_after_seconds)
        lines = policies.bands(node.name).items()
        if current and all(_at_or_under(seen.ratios.get(name), band.evict_until_ratio) for name, band in lines):
            yield node.name


def _hottest_first(node: Node, overloads: list[Overload], resources: dict[str, str]) -> tuple[float, str]:
    """Largest excess relative to allocatable first: (u - until) * capacity / allocatable, then the name."""
    return -max(
        one.excess_ratio * _capacity_per_allocatable(node, resources[one.metric]) for one in overloads
    ), node.name


def _capacity_per_allocatable(node: Node, resource: str) -> float:
    allocatable = usage.size(node.allocatable, resource)
    return usage.size(node.capacity, resource) / allocatable if allocatable > 0 else 1.0


def _at_or_under(value: float | None, line_ratio: float) -> bool:
    return value is not None and usage.usable_ratio(value) and not usage.over(value, line_ratio)
