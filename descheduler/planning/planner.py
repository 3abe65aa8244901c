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
`planning.plans`. In a policy with `makeRoom`, `planning.room` looks for room where a node stays overloaded because no
other takes its pods.
"""

import collections.abc
import itertools
from typing import Final, NamedTuple

from descheduler.placement import open_nodes
from descheduler.planning import room
from descheduler.planning.node_relief import NodeRelief
from descheduler.planning.overload import Overload
from descheduler.planning.plans import NO_HEADROOM, EvictionPlan, NodePlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy

ROOMS_TRIED: Final = 3  # ways to make room, each with the whole plan made again


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
    inputs = _Inputs(taken, overloads, policies, history, overloaded)
    draft = _relieved(inputs)
    if policy.descheduler.make_room is not None and not draft.why_blocked:
        draft = _with_room(inputs, draft)
    left = draft.relief.headroom() if headroom else NO_HEADROOM
    evictions, blocked = tuple(draft.relief.evictions), _words(draft.why_blocked)
    made = EvictionPlan(taken.at_seconds, draft.plans, evictions, blocked, left, draft.relief.unreplaced)
    return made.with_verdicts(draft.verdicts)


class _Inputs(NamedTuple):
    """Everything that a plan is made of."""

    taken: Snapshot
    overloads: tuple[Overload, ...]
    policies: NodePolicies
    history: History
    overloaded: frozenset[str]  # other plans' nodes, too


class _Draft(NamedTuple):
    """A plan in the making, why no pod may leave, and the verdicts, by uid, that replace those of the node plans."""

    relief: NodeRelief
    plans: tuple[NodePlan, ...]
    why_blocked: Verdict | None
    verdicts: collections.abc.Mapping[str, Verdict]


def _relieved(inputs: _Inputs) -> _Draft:
    """Relieves one overloaded node after the other."""
    taken, policies = inputs.taken, inputs.policies
    relief = NodeRelief(taken, policies, inputs.history, inputs.overloaded)
    by_node: dict[str, list[Overload]] = {}
    for overload in inputs.overloads:
        by_node.setdefault(overload.node, []).append(overload)
    nodes = {node.metadata.name: node for node in taken.nodes}
    resources = usage.resources_of(policies.whole)
    known = (name for name in by_node if name in nodes)
    ordered = sorted(known, key=lambda name: _hottest_first(nodes[name], by_node[name], resources))
    relief.blocked = why_blocked = _blocked(taken, policies, inputs.overloaded) or relief.brake
    plans = tuple(relief.relieve(nodes[name], tuple(by_node[name])) for name in ordered)
    return _Draft(relief, plans, why_blocked, {})


def _with_room(inputs: _Inputs, draft: _Draft) -> _Draft:
    """The draft with the moves that make room for one pod, or with a word about why there are none."""
    taken, policies = inputs.taken, inputs.policies
    unplaced = room.unplaced(draft.relief, draft.plans)
    if not unplaced:
        return draft
    rest_seconds = room.left_seconds(inputs.history, policies.whole, taken.at_seconds)
    if rest_seconds > 0:
        words = f"room was made, and is not made again for {rest_seconds:.0f} s"
        return draft._replace(verdicts={one.pod.uid: one.verdict(words) for one in unplaced})
    usages, now_seconds = taken.node_usage, taken.at_seconds
    names = room.nodes_to_read(taken.nodes, usages, policies, inputs.overloaded, now_seconds=now_seconds)
    found = room.options(draft.relief, draft.plans, taken, policies, names)
    for option in itertools.islice(found, ROOMS_TRIED):
        trial = _relieved(inputs)  # anew, as a choice is not taken back
        made = trial.relief.make_room(option.overload, option.moves)
        if made is not None:
            moved = " and ".join(pod.key for pod in option.moves)
            verdicts = {option.large.pod.uid: option.large.verdict(f"{moved} leave {option.overload.node} for it")}
            return trial._replace(plans=(*trial.plans, made), verdicts=verdicts)
    words = f"makeRoom finds no small pods that may leave one of {len(names)} nodes for it"
    return draft._replace(verdicts={one.pod.uid: one.verdict(words) for one in unplaced})


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
