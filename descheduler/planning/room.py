"""Room for a pod that no node takes: one or two small pods leave a node, so that it takes the large one in a later run.

`planning.planner` asks for `options` where a node is overloaded, nothing leaves it, and a pod of it would if some node
took it. An option has to leave the node within its lines with the large pod on it, and the small pods must use less
than the large one: fewer moves first, then the pods that leave best, then the least load. Only the nodes of the same
pool that are nearest to taking more are looked at (`nodes_to_read`), since the use of their pods has to be read.

The run moves the small pods only. Nothing is remembered: once the node's average shows the room, a later run finds that
it takes the large pod, which leaves as any other. `left_seconds` keeps that run from making more room meanwhile.
"""

import collections
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from descheduler.placement import open_nodes
from descheduler.planning import protections
from descheduler.planning.node_relief import NodeRelief, Unplaced
from descheduler.planning.overload import Overload
from descheduler.planning.plans import NodePlan
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import NodeUsage, PodUsage
from kube.objects import Node, Pod
from policy.schema.load_policy import LoadPolicy

NODES: Final = 8  # of a pool, whose pods are read for it
LARGE_PODS: Final = 3  # of an overloaded node, for which room is looked for
SMALL_PODS: Final = 20  # of a node, that are tried in pairs
MOVES: Final = 2

Used = tuple[Pod, PodUsage]


class Room(NamedTuple):
    """The pod that no node takes, the node that would without `moves`, and that node's load as an overload."""

    large: Unplaced
    overload: Overload
    moves: tuple[Pod, ...]


def nodes_to_read(
    nodes: Iterable[Node],
    usages: Mapping[str, NodeUsage],
    policies: NodePolicies,
    overloaded: frozenset[str],
    *,
    now_seconds: float,
) -> frozenset[str]:
    """The nodes that could make room: of each pool with an overloaded node the NODES that are farthest under their
    target lines by fresh readings; none in a policy without `makeRoom`.
    """
    if policies.whole.descheduler.make_room is None or not overloaded:
        return frozenset()
    pools = {policies.place(name) for name in overloaded}
    ranked: dict[int, list[tuple[float, str]]] = collections.defaultdict(list)
    for node in nodes:
        place = policies.place(node.name)
        if place not in pools or node.name in overloaded or not open_nodes.open_to_pods(node):
            continue
        ratios = usage.fresh_ratios(usages.get(node.name), now_seconds, policies.whole)
        bands = policies.bands(node.name)
        if ratios.keys() >= bands.keys():
            over_ratio = max(ratios[name] - band.evict_until_ratio for name, band in bands.items())
            ranked[place].append((over_ratio, node.name))
    return frozenset(name for several in ranked.values() for _, name in sorted(several)[:NODES])


def left_seconds(history: History, policy: LoadPolicy, now_seconds: float) -> float:
    """Until room may be made again: the longer of two windows, by when a node shows it, and both cool-downs."""
    if history.last_room_at_seconds is None:
        return 0.0
    cooldown = policy.descheduler.cooldown
    windows = (usage.window_of(policy, name) for name in policy.descheduler.thresholds)
    rest_seconds = max(cooldown.workload_seconds, cooldown.node_seconds, 2 * max(windows, default=0.0))
    return max(0.0, history.last_room_at_seconds + rest_seconds - now_seconds)


def unplaced(relief: NodeRelief, plans: Iterable[NodePlan]) -> list[Unplaced]:
    """The pods that no node takes, of overloaded nodes that nothing leaves; those that leave best first."""
    stuck = (plan.node.name for plan in plans if not plan.chosen)
    return [one for name in stuck for one in relief.unplaced.get(name, ())[:LARGE_PODS]]


def options(
    relief: NodeRelief, plans: Iterable[NodePlan], taken: Snapshot, policies: NodePolicies, names: frozenset[str]
) -> Iterator[Room]:
    """The ways to make room for pods of these overloaded nodes on nodes of these names, the best ones of a pod first.

    The small pods have a destination each, and the rules hold for the large one on the node without them; whether both
    may leave in one run, only `NodeRelief.make_room` says.
    """
    for large in unplaced(relief, plans):
        place = policies.place(large.overload.node)
        near = [name for name in sorted(names) if policies.place(name) == place]
        found = [room for name in near for room in _on_node(relief, large, name, taken, policies)]
        yield from (room for _, room in sorted(found))


_Key = tuple[int, bool, int, float, tuple[str, ...]]


def _on_node(
    relief: NodeRelief, large: Unplaced, name: str, taken: Snapshot, policies: NodePolicies
) -> Iterator[tuple[_Key, Room]]:
    """The moves after which one node takes the large pod, each with its key: smaller goes first, no two are equal."""
    overload = _as_overload(large, name, taken, policies)
    resource = usage.resources_of(policies.whole)[overload.metric]
    amount = usage.amount(large.used, resource)
    fit = relief.destinations.fit(large.pod)
    small = [(pod, used) for pod, used in relief.may_leave(overload) if 0 < usage.amount(used, resource) < amount]
    if not relief.destinations.takes_without(fit, large.used, name, small):  # not even without all of them
        return
    small = [(pod, used) for pod, used in small if relief.destinations.find(pod, used).node]
    section = policies.whole.descheduler.make_room
    most = min(MOVES, section.limits.per_run if section is not None else 0)
    for count in range(1, most + 1):
        for several in itertools.combinations(small[:SMALL_PODS] if count > 1 else small, count):
            moved = sum(usage.amount(used, resource) for _, used in several)
            if moved < amount and relief.destinations.takes_without(fit, large.used, name, several):
                yield _key(several, moved, policies.whole), Room(large, overload, tuple(pod for pod, _ in several))


def _key(moves: tuple[Used, ...], moved: float, policy: LoadPolicy) -> _Key:
    pods = [pod for pod, _ in moves]
    last = any(protections.comes_last(pod, policy) for pod in pods)
    return len(pods), last, max(pod.priority for pod in pods), moved, tuple(sorted(pod.uid for pod in pods))


def _as_overload(large: Unplaced, name: str, taken: Snapshot, policies: NodePolicies) -> Overload:
    """The node's own lines and reading of the metric that the large pod is to be moved for."""
    metric = large.overload.metric
    band = policies.bands(name)[metric]
    value_ratio = taken.node_usage[name].ratios[metric]
    lines = band.evict_above_ratio, band.evict_until_ratio
    return Overload(name, metric, value_ratio, *lines, None, room_for=large.pod.key)
