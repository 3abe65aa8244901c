"""How good each node is for a pod: the score plugins with their default weights, added up.

`scheduler` asks for the rows that passed every filter and adds what extenders say. Each plugin gives whole numbers
0..100, cut off as in the original; a plugin that has nothing to say of a pod gives no points to anybody.
A pod without spread rules of its own gets the scheduler's: hosts with skew 3 and zones with skew 5, both soft, over the
pods of its owner; because of these defaults no pod is "signable", so that kube-scheduler 1.36 never batches pods of the
default profile (KEP-5598). Services, which may select pods too, are not modelled. ImageLocality is 0 everywhere:
simulated nodes have no images.
Sources: kubernetes v1.36 pkg/scheduler/apis/config/v1/default_plugins.go (weights); framework/plugins/tainttoleration,
nodeaffinity, noderesources (least_allocated.go, balanced_allocation.go), helper/normalize_score.go, podtopologyspread
and interpodaffinity (scoring.go; hardPodAffinityWeight, of a required term of a pod that is there, is 1).
"""

import functools
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kube.api.affinity import PreferredNode
from kube.objects import LabelSelector, Pod, Toleration, TopologySpread
from kube_scheduler import inter_pod_affinity, pod_groups, topology_spread
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.columns import SCORED as SCORED_RESOURCES
from kube_scheduler.columns import Columns
from kube_scheduler.pod_requests import Demand
from simulator.scheduling.state import State

BEST = 100
HALF = BEST // 2
SOFT = "ScheduleAnyway"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFAULTS = (TopologySpread(3, HOSTNAME, SOFT), TopologySpread(5, ZONE, SOFT))
Floats = npt.NDArray[np.float64]
SCORED = len(SCORED_RESOURCES)
TAINTS, NODE_AFFINITY, FIT = "TaintToleration", "NodeAffinity", "NodeResourcesFit"
SPREAD, POD_AFFINITY, BALANCE = "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation"
WEIGHTS: Mapping[str, int] = {TAINTS: 3, NODE_AFFINITY: 2, FIT: 1, SPREAD: 2, POD_AFFINITY: 2, BALANCE: 1}


def total(state: State, pod: Pod, demand: Demand, rows: Ints) -> Ints:
    """The weighted sum of all plugins for each of the rows."""
    totals = np.zeros(len(rows), np.int64)
    for plugin, points in parts(state, pod, demand, rows).items():
        totals += WEIGHTS[plugin] * points
    return totals


def parts(state: State, pod: Pod, demand: Demand, rows: Ints) -> dict[str, Ints]:
    """0..100 of each plugin that has something to say, by row, before weights."""
    columns = state.columns
    plugin_points = {
        TAINTS: _loved(columns, pod, rows),
        NODE_AFFINITY: _preferred(columns, pod, rows),
        FIT: _least_allocated(columns, demand, rows),
        SPREAD: _spread(state, pod, rows),
        POD_AFFINITY: _near_others(state, pod, rows),
        BALANCE: _balanced(columns, demand, rows),
    }
    return {plugin: points for plugin, points in plugin_points.items() if points is not None}


def _loved(columns: Columns, pod: Pod, rows: Ints) -> Ints:
    """The fewer PreferNoSchedule taints the pod does not tolerate, the better."""
    return _normalised(_unloved(columns, pod.tolerations)[rows], reverse=True)


@functools.lru_cache(maxsize=16)
def _unloved(columns: Columns, tolerations: tuple[Toleration, ...]) -> Ints:
    """How many PreferNoSchedule taints of each row are not tolerated."""
    soft = ([taint for taint in node.taints if taint.effect == "PreferNoSchedule"] for node in columns.nodes)
    return np.array([sum(not any(one.tolerates(taint) for one in tolerations) for taint in each) for each in soft])


def _normalised(raw: Ints, *, reverse: bool = False) -> Ints:
    """100 x raw // the largest raw; the other way round if fewer are better."""
    most = int(raw.max())
    shares = BEST * raw // most if most else raw
    points: Ints = BEST - shares if reverse else shares
    return points


def _preferred(columns: Columns, pod: Pod, rows: Ints) -> Ints | None:
    """The sum of the weights of preferred node affinity terms that the node meets, normalised."""
    rules = pod.affinity.node_affinity if pod.affinity is not None else None
    if rules is None or not rules.preferred:
        return None
    return _normalised(_weights(columns, rules.preferred)[rows])


@functools.lru_cache(maxsize=16)
def _weights(columns: Columns, terms: tuple[PreferredNode, ...]) -> Ints:
    """The weights of the terms that each row's node meets, added up."""
    weights: Ints = np.sum([one.weight * columns.meeting(one.preference) for one in terms], axis=0, dtype=np.int64)
    return weights


def _least_allocated(columns: Columns, demand: Demand, rows: Ints) -> Ints:
    """Mean over CPU and memory of (allocatable - requested) x 100 // allocatable with the pod there, 0 where it would
    be more than there is; a resource that the node has none of is left out.
    """
    left = np.maximum(columns.base_allocatable[:SCORED] - columns.scored - demand.scored, 0)
    parts = left * BEST // columns.divisors
    points: Ints = (parts[0] + parts[1]) // columns.kinds
    return points[rows]


def _balanced(columns: Columns, demand: Demand, rows: Ints) -> Ints | None:
    """50 + (50 + with - without) // 2, where with and without the pod each is (1 - deviation) x 100, cut off, and the
    deviation is half the difference of CPU's and memory's requested shares, at most 1 each, and 0 for a node that lacks
    one of them; None for a pod that requests neither.
    """
    if not np.count_nonzero(demand.base[:SCORED]):
        return None
    without = columns.requested[:SCORED]
    shares = np.minimum(np.array((without + demand.base[:SCORED], without)) / columns.divisors, 1.0)
    deviation: Floats = np.abs((shares[:, 0] - shares[:, 1]) / 2)
    if not columns.all_whole:
        deviation *= columns.whole
    even = ((1 - deviation) * float(BEST)).astype(np.int64)
    points: Ints = HALF + (HALF + even[0] - even[1]) // 2
    return points[rows]


def _spread(state: State, pod: Pod, rows: Ints) -> Ints | None:
    """More where fewer of its kind are; None for a pod without soft rules.

    raw = round(sum over rules of matching x ln(domains + 2) + maxSkew - 1);
    score = 100 x (most + least - raw) // most, 100 if most is 0, 0 for nodes without all labels of its own rules.
    """
    if not pod.spec.topology_spread_constraints:
        owner = state.owner_selector(pod)
        return None if owner is None else _by_default(state, pod, rows, owner)
    soft = (rule for rule in pod.spec.topology_spread_constraints if rule.when_unsatisfiable == SOFT)
    rules = [topology_spread.own_rule(rule, pod) for rule in soft]
    if not rules:
        return None
    labelled = topology_spread.labelled_rows(state.columns, rules)
    eligible = labelled[rows]
    spread = np.zeros(len(rows), np.int64)
    if eligible.any():
        scored = rows[eligible]
        raw = np.zeros(len(scored))
        for rule in rules:
            matching = topology_spread.matching_pods(state, pod, rule.label_selector)
            raw += _raw(state.columns, pod, rule, matching, scored=scored, eligible=labelled)
        spread[eligible] = _fewest(raw)
    return spread


def _by_default(state: State, pod: Pod, rows: Ints, owner: LabelSelector) -> Ints:
    """The scheduler's own rules, over the pods that the owner selects; a node may lack the label of one."""
    matching = topology_spread.matching_pods(state, pod, owner)
    hosts, zones = (_raw(state.columns, pod, rule, matching, scored=rows, eligible=None) for rule in DEFAULTS)
    return _fewest(hosts + zones)


def _raw(
    columns: Columns, pod: Pod, rule: TopologySpread, matching: Ints, *, scored: Ints, eligible: Bools | None
) -> Floats:
    """One rule's part, by scored row; nothing for a node without the label."""
    topology = columns.topology(rule.topology_key)
    if not topology.numbers:
        return np.zeros(len(scored))
    if rule.topology_key == HOSTNAME:
        domains, pods = len(scored), matching[scored]
    else:
        codes = topology.codes[scored]
        domains = int(np.count_nonzero(np.bincount(codes + 1)))  # rows without the label are one together
        pods = topology.sums(matching, topology_spread.counted_rows(columns, pod, rule, eligible))[codes]
    weighted: Floats = pods * np.float64(math.log(domains + 2)) + (rule.max_skew - 1)
    return weighted if topology.whole else np.where(topology.labelled[scored], weighted, 0.0)


def _fewest(amounts: Floats) -> Ints:
    """Rounds half away from zero, as Go does (amounts are never negative), and turns round: fewer are better."""
    raw = np.floor(amounts)
    raw = (raw + (amounts - raw >= 0.5)).astype(np.int64)
    most, least = int(raw.max()), int(raw.min())
    return BEST * (most + least - raw) // most if most else np.full(len(raw), BEST, np.int64)


def _near_others(state: State, pod: Pod, rows: Ints) -> Ints | None:
    """None where no term has anything to say.

    raw = sum of the weights of terms over the pods in the row's domains, those of anti-affinity negative;
    score = 100 x (raw - least) / (most - least), cut off, 0 where all are equal.
    """
    own = [term for term in pod_groups.of_pod(pod) if not term.required]
    theirs = [term for term in state.terms.about(pod, state.namespaces) if not term.required or term.sign > 0]
    if not own and not theirs:
        return None
    places = [(term, inter_pod_affinity.places(state, pod, [term])) for term in own]
    places += [(term, state.columns.placed(term.places)) for term in theirs]
    raw = np.zeros(len(state.columns.names), np.int64)
    for term, there in places:
        topology = state.columns.topology(term.term.topology_key)
        raw += topology.sums(there)[topology.codes] * (term.sign * term.weight)
    return _stretched(raw[rows])


def _stretched(raw: Ints) -> Ints:
    least, most = raw.min(), raw.max()
    if least == most:
        return np.zeros(len(raw), np.int64)
    shares: npt.NDArray[np.float64] = float(BEST) * ((raw - least) / np.float64(most - least))
    return shares.astype(np.int64)
