"""How good each node is for a pod: the score plugins with their default weights, added up.

`scheduler` asks for the rows that passed every filter and adds what extenders say. Each plugin gives whole numbers
0..100, cut off as in the original; a plugin that has nothing to say of a pod gives no points to anybody.
Sources: kubernetes v1.36 pkg/scheduler/apis/config/v1/default_plugins.go (weights); framework/plugins/tainttoleration,
nodeaffinity, noderesources (least_allocated.go, balanced_allocation.go), helper/normalize_score.go. ImageLocality is 0
everywhere: simulated nodes have no images.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kube.objects import Pod
from kube_scheduler import inter_pod_affinity, topology_spread
from kube_scheduler.arrays import Ints
from kube_scheduler.columns import SCORED as SCORED_RESOURCES
from kube_scheduler.columns import Columns
from kube_scheduler.pod_requests import Demand
from simulator.scheduling.state import State

BEST = 100
HALF = BEST // 2
SCORED = len(SCORED_RESOURCES)
Floats = npt.NDArray[np.float64]
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
        SPREAD: topology_spread.scores(state, pod, rows, state.owner_selector(pod)),
        POD_AFFINITY: inter_pod_affinity.scores(state, pod, rows),
        BALANCE: _balanced(columns, demand, rows),
    }
    return {plugin: points for plugin, points in plugin_points.items() if points is not None}


def _loved(columns: Columns, pod: Pod, rows: Ints) -> Ints:
    """The fewer PreferNoSchedule taints the pod does not tolerate, the better."""
    unloved = columns.unloved(pod.tolerations)
    return np.full(len(rows), BEST, np.int64) if unloved is None else _normalised(unloved[rows], reverse=True)


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
    return _normalised(columns.preferred(rules.preferred)[rows])


def _least_allocated(columns: Columns, demand: Demand, rows: Ints) -> Ints:
    """Mean over CPU and memory of (allocatable - requested) x 100 // allocatable with the pod there, 0 where it would
    be more than there is; a resource that the node has none of is left out.
    """
    left = np.maximum(columns.base_allocatable[:SCORED] - columns.scored - demand.scored, 0)
    points = left * BEST // columns.divisors
    return columns.at((points[0] + points[1]) // columns.kinds, rows)


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
    return columns.at(HALF + (HALF + even[0] - even[1]) // 2, rows)
