"""Whether another node would really take a pod, and which: by requests, by rules, and by what the node measurably uses.

`planning.planner` asks for one destination per pod it would choose and commits the room of the chosen only. A node
qualifies if it is open (`placement.open_nodes`), kube-scheduler's rules hold in the cluster as the plan leaves it
(`placement.planned_cluster`), the extender's filter agrees (`placement.load_filter`), and for every metric with a
descheduler line

    max(u_m, u_peak) + committed + expected of recent pods + pod / allocatable  <=  evictUntil_m

with u_peak the hourly maximum of the resource, by the lines of the node's pool, where it has one.

Coolest first, so that the load spreads as the scheduler would spread it. A node without a fresh reading of every such
metric never qualifies, and none does for a pod with device claims, which only kube-scheduler can check.
"""

import collections
import collections.abc
import copy
from typing import NamedTuple

import numpy as np

from descheduler.placement import load_filter, open_nodes
from descheduler.placement.load_filter import Floats
from descheduler.placement.planned_cluster import PlannedCluster, PodFit
from descheduler.snapshot import usage
from descheduler.snapshot.eviction_history import PodUse
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.usage import PodUsage
from kube.objects import Node, Pod
from kube.pods import pod_view
from kube_scheduler.arrays import Ints
from policy import metrics
from policy.rules import expected_load
from policy.schema.load_policy import LoadPolicy

OVERLOADED, CLOSED, UNREAD, OVER = "overloaded", "closed", "without a fresh reading", "over evictUntil with it"


class Destination(NamedTuple):
    """A destination, or "" and how many of the other nodes are out for which reason."""

    node: str
    reasons: collections.abc.Mapping[str, int]

    def __str__(self) -> str:
        if self.node:
            return self.node
        ranked = sorted(self.reasons.items(), key=lambda pair: (-pair[1], pair[0]))
        return ", ".join(f"{count} {reason}" for reason, count in ranked) or "there is no other node"


class Ranking(NamedTuple):
    """The open nodes, coolest first, with what fits under each line in millicores or bytes [nodes, metrics]."""

    order: Ints
    slack: Floats


class Destinations:
    """The nodes that could take pods, with the room that this plan has not given away yet."""

    def __init__(
        self,
        taken: Snapshot,
        policies: NodePolicies,
        *,
        excluded: collections.abc.Collection[str],
        landed: collections.abc.Mapping[str, PodUse],
        coming: collections.abc.Iterable[tuple[str, PodUse]] = (),
    ) -> None:
        policy = policies.whole
        self._bands = policy.descheduler.thresholds
        self._resources = usage.resources_of(policy)
        self._cluster = PlannedCluster(taken)
        peaks = peaks_of(policy)
        every = {node.metadata.name: node for node in taken.nodes}
        valid = {name: _valid(taken, name, policy) for name in every}
        judged = {name: _judged(ratios, peaks) for name, ratios in valid.items()}
        closed = {name: self._closed(node, judged[name], excluded) for name, node in every.items()}
        self._out = {name: why for name, why in closed.items() if why}
        self._nodes = [every[name] for name in sorted(every) if not closed[name]]
        self._positions = {node.name: position for position, node in enumerate(self._nodes)}
        self._advice = any(taint.effect == "PreferNoSchedule" for node in self._nodes for taint in node.taints)
        self._rows = self._cluster.columns.rows_of(list(self._positions))
        expected = expected_ratios(self._nodes, taken, policy, landed, coming=coming)
        self._filter = load_filter.LoadFilter(self._nodes, expected, valid, policy)
        columns = {metric.name: column for column, metric in enumerate(policy.metrics_in_force)}
        held = [[judged[name][metric] for metric in self._bands] for name in self._positions]
        self._ratios = np.array(held, np.float64).reshape(len(self._nodes), len(self._bands))
        self._ratios += expected[:, [columns[metric] for metric in self._bands]]
        self._until_ratios = _targets(self._positions, policies)
        self._sizes = _sizes(self._nodes, [self._resources[metric] for metric in self._bands])
        self._ranking: Ranking | None = None

    def _find(self, pod: Pod, used: PodUsage) -> Destination:
        """The coolest node that would take the pod and stay at or under every target line, else why none would; one
        with taints that advise against it (PreferNoSchedule: it is about to be replaced, or spared) only if no other.
        """
        amounts = np.array([usage.amount(used, self._resources[metric]) for metric in self._bands])
        reasons = collections.Counter(why for name, why in self._out.items() if name != pod.node_name)
        ranking = self._coolest_first()
        under = (amounts <= ranking.slack).all(axis=1)
        reasons[OVER] += len(ranking.order) - int(under.sum())
        candidates = ranking.order[under].tolist()
        if not candidates:
            return Destination("", +reasons)
        fit = self._cluster.fit(pod)
        if self._advice:  # as kube-scheduler would: coolest first of those that are alike
            candidates.sort(key=lambda position: open_nodes.advised_against(self._nodes[position], pod))
        for position in candidates:
            why = self._why_not(position, fit)
            if not why:
                return Destination(self._nodes[position].name, {})
            reasons[why] += 1
        return Destination("", +reasons)

    def find_all(self, leaving: collections.abc.Sequence[tuple[Pod, PodUsage]], *, later: bool) -> list[Destination]:
        """A destination for each pod of a group, whose room is given away, or for none; `later` it stands meanwhile."""
        before, ends = (self._ratios, copy.copy(self._filter)), list[Destination]()
        for pod, _ in () if later else leaving:
            self._cluster.place(pod, "")
        for pod, used in leaving:
            ends.append(self._find(pod, used))
            if ends[-1].node:
                self._commit(pod, used, ends[-1].node)
        if not all(one.node for one in ends):
            (self._ratios, self._filter), self._ranking = before, None
            for (pod, _), one in zip(leaving, ends, strict=True):
                self._cluster.stay(pod, one.node)
        return ends

    def _commit(self, pod: Pod, used: PodUsage, name: str) -> None:
        """Gives the chosen pod's room away."""
        position = self._positions[name]
        allocatable = self._nodes[position].allocatable
        self._ratios = self._ratios.copy()
        self._ratios[position] += [usage.share(used, allocatable, self._resources[metric]) for metric in self._bands]
        self._filter.add(name, used)
        self._cluster.move(pod, name)
        self._ranking = None

    def projected_ratios(self, name: str) -> dict[str, float]:
        """Returns a destination's utilisation with everything committed so far, by metric with a descheduler line."""
        return dict(zip(self._bands, self._ratios[self._positions[name]].tolist(), strict=True))

    def headroom(self) -> dict[str, dict[str, float]]:
        """By node that takes pods: how far it is under each target line (negative: over it), coolest node first."""
        left = self._until_ratios - self._ratios
        return {
            self._nodes[position].name: dict(zip(self._bands, left[position].tolist(), strict=True))
            for position in self._coolest_first().order.tolist()
        }

    def _closed(
        self,
        node: Node,
        judged: collections.abc.Mapping[str, float],
        excluded: collections.abc.Collection[str],
    ) -> str:
        """Why the node takes no pod at all, "" if it may."""
        if node.name in excluded:
            return OVERLOADED
        if not open_nodes.open_to_pods(node):
            return CLOSED
        return "" if judged.keys() >= self._bands.keys() else UNREAD

    def _coolest_first(self) -> Ranking:
        """The open nodes by their distance to the nearest line, by name where that is equal: so they are held."""
        if self._ranking is None:
            order = np.argsort((self._ratios - self._until_ratios).max(axis=1, initial=-np.inf), kind="stable")
            slack = (self._until_ratios + usage.ROUNDING - self._ratios) * self._sizes
            self._ranking = Ranking(order, slack[order])
        return self._ranking

    def _why_not(self, position: int, fit: PodFit) -> str:
        return (
            self._cluster.why_not(fit, int(self._rows[position]))
            or self._filter.why_not(self._nodes[position].name, fit.pod)
            or ("device claims" if fit.pod.spec.resource_claims else "")
        )


def _targets(names: collections.abc.Collection[str], policies: NodePolicies) -> Floats:
    """Returns the target lines [nodes, metrics with a line], or [1, metrics] where they are the same on all nodes."""
    held = [policies.bands(name) for name in names] if policies.whole.pools else [policies.whole.descheduler.thresholds]
    lines = [[band.evict_until_ratio for band in bands.values()] for bands in held]
    return np.array(lines, np.float64).reshape(len(held), len(policies.whole.descheduler.thresholds))


def peaks_of(policy: LoadPolicy) -> dict[str, str]:
    """For every metric with a line its resource's hourly maximum; where that is not in force, the metric itself."""
    resources = usage.resources_of(policy)
    return {metric: usage.peak_metric(policy, resources[metric]) or metric for metric in policy.descheduler.thresholds}


def judged_ratios(taken: Snapshot, node: str, policy: LoadPolicy) -> dict[str, float]:
    """The ratios a destination is judged by: for every metric with a line the higher of it and its resource's hourly
    maximum (`peaks_of`).

    A metric without a fresh, valid reading is absent, and one whose hourly maximum has none: the node may have been hot
    within the hour.
    """
    return _judged(_valid(taken, node, policy), peaks_of(policy))


def _valid(taken: Snapshot, node: str, policy: LoadPolicy) -> dict[str, float]:
    return usage.fresh_ratios(taken.node_usage.get(node), taken.at_seconds, policy)


def _judged(valid: collections.abc.Mapping[str, float], peaks: collections.abc.Mapping[str, str]) -> dict[str, float]:
    return {
        metric: max(valid[metric], valid[peak]) for metric, peak in peaks.items() if metric in valid and peak in valid
    }


def expected_ratios(
    nodes: collections.abc.Sequence[Node],
    taken: Snapshot,
    policy: LoadPolicy,
    landed: collections.abc.Mapping[str, PodUse],
    *,
    coming: collections.abc.Iterable[tuple[str, PodUse]] = (),
) -> Floats:
    """Returns the load of recent pods before the windows show it [nodes, metrics in force]: est(p) * decay /
    allocatable.

    The replacement of an evicted pod is expected to use what that one measurably used, whatever it requests; if that
    was evicted for a resource of the policy's own, the same share of it. Until it is bound it counts where the plan
    expected it (`coming`: node and use). A pod counts in full until it starts, and on its nominated node until it is
    bound; DaemonSet pods, placeholders and what waits for a reason of failure do not count.
    """
    rows = {node.metadata.name: row for row, node in enumerate(nodes)}
    largest_node = expected_load.Load(*_sizes(taken.nodes, metrics.RESOURCES).max(axis=0, initial=0.0).tolist())
    longest_seconds = max(metric.averaging_seconds for metric in policy.metrics_in_force)
    estimated = policy.recent_pods.enabled  # else only what was measured counts
    pods = [pod for pod in _lately_bound(taken, longest_seconds) if estimated or pod.uid in landed]
    ages = ((pod, _age_seconds(pod, taken, taken.windows_end_seconds(pod.node_name))) for pod in pods if _counts(pod))
    recents = [
        (
            rows[pod.node_name or pod.nominated_node],
            max(0.0, age_seconds),
            landed.get(pod.uid) or _estimate(pod, policy, largest_node),
        )
        for pod, age_seconds in ages
        if age_seconds is not None and age_seconds < longest_seconds and (pod.node_name or pod.nominated_node) in rows
    ]
    recents += [(rows[node], 0.0, used) for node, used in coming if node in rows]
    expected = expected_load.expected(
        np.array([row for row, _, _ in recents], dtype=np.intp),
        np.array([age_seconds for _, age_seconds, _ in recents], dtype=np.float64),
        np.array([used[:2] for _, _, used in recents], dtype=np.float64).reshape(len(recents), 2),
        _sizes(nodes, metrics.RESOURCES),
        in_force=policy.metrics_in_force,
    )
    for row, age_seconds, used in recents:
        if used.metric:
            expected[row] += _unseen_shares(used, age_seconds, policy)
    return expected


def _unseen_shares(measured: PodUse, age_seconds: float, policy: LoadPolicy) -> list[float]:
    """The load by metric in force that the windows do not show yet of a replacement bound so long ago: of the resource
    that its pod was evicted for, if that has no amounts, else 0.
    """
    resource = usage.resources_of(policy).get(measured.metric, metrics.CPU)
    has_amounts = metrics.place(resource) is not None
    return [
        measured.share_ratio * max(0.0, 1.0 - age_seconds / metric.averaging_seconds)
        if metric.resource == resource and not has_amounts
        else 0.0
        for metric in policy.metrics_in_force
    ]


def _sizes(nodes: collections.abc.Sequence[Node], resources: collections.abc.Sequence[str]) -> Floats:
    """Returns the allocatable amounts [nodes, resources], in millicores and bytes, 1 of a resource of shares."""
    sizes = [
        [usage.size(allocatable, one) for one in resources] for allocatable in (node.allocatable for node in nodes)
    ]
    return np.array(sizes, dtype=np.float64).reshape(len(nodes), len(resources))


def _lately_bound(taken: Snapshot, span_seconds: float) -> collections.abc.Iterable[Pod]:
    """Those of all pods that began to use their node within the span, or wait for that: few, so that few are looked at
    closely.
    """
    ends = map(taken.windows_end_seconds, taken.node_usage if taken.windows_end_at_readings else ())
    now_seconds = min(ends, default=taken.at_seconds)
    return [
        pod
        for pod in taken.pods
        if not pod.spec.node_name
        or ((age_seconds := _age_seconds(pod, taken, now_seconds)) is not None and age_seconds < span_seconds)
    ]


def _age_seconds(pod: Pod, taken: Snapshot, at_seconds: float) -> float | None:
    """For how long it used its node at a moment, under 0 before; 0 for a pod that waits for its binding to a node, None
    for a pod that has none.
    """
    if not pod.node_name:
        return 0.0 if pod.nominated_node else None
    bound_at_seconds = expected_load.bound_at_seconds(pod, taken.at_seconds)
    if bound_at_seconds is None:
        return 0.0 if pod.pending else None
    return at_seconds - expected_load.began_at_seconds(pod, bound_at_seconds, taken.at_seconds)


def _estimate(pod: Pod, policy: LoadPolicy, largest_node: expected_load.Load) -> PodUse:
    request = expected_load.Load(pod.requests.cpu_millicores, pod.requests.memory_bytes)
    own, recent_pods = pod_view.expected_usage(pod), policy.recent_pods
    return PodUse(*expected_load.estimate(request, recent_pods, None, own, largest_node=lambda: largest_node).load)


def _counts(pod: Pod) -> bool:
    """Returns whether a scheduler brought it and it will run: restarted kubelets bind their static pods anew."""
    return not (pod.finished or pod.failing) and pod_view.is_placed_by_load(pod)
