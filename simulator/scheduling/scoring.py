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
from simulator.scheduling import attraction, demands, spreading
from simulator.scheduling.columns import Columns
from simulator.scheduling.demands import Demand
from simulator.scheduling.order import Ints
from simulator.scheduling.state import State

BEST = 100
HALF = BEST // 2
Floats = npt.NDArray[np.float64]
TAINTS, NODE_AFFINITY, FIT = "TaintToleration", "NodeAffinity", "NodeResourcesFit"
SPREAD, POD_AFFINITY, BALANCE = "PodTopologySpread", "InterPodAffinity", "NodeResourcesBalancedAllocation"
WEIGHTS: Mapping[str, int] = {TAINTS: 3, NODE_AFFINITY: 2, FIT: 1, SPREAD: 2, POD_AFFINITY: 2, BALANCE: 1}


def total(state: State, pod: Pod, demand: Demand, rows: Ints) -> Ints:
    """The weighted sum of all plugins for each of the rows."""
    found = np.zeros(len(rows), np.int64)
    for plugin, points in parts(state, pod, demand, rows).items():
        found += WEIGHTS[plugin] * points
    return found


def parts(state: State, pod: Pod, demand: Demand, rows: Ints) -> dict[str, Ints]:
    """0..100 of each plugin that has something to say, by row, before weights."""
    columns = state.columns
    given = {
        TAINTS: _normalised(columns.unloved(pod.tolerations)[rows], reverse=True),
        NODE_AFFINITY: _preferred(columns, pod, rows),
        FIT: _least_allocated(columns, demand, rows),
        SPREAD: spreading.scores(state, pod, rows),
        POD_AFFINITY: attraction.scores(state, pod, rows),
        BALANCE: _balanced(columns, demand, rows),
    }
    return {plugin: points for plugin, points in given.items() if points is not None}


def _normalised(raw: Ints, *, reverse: bool = False) -> Ints:
    """100 x raw // the largest raw; the other way round if fewer are better."""
    most = int(raw.max())
    shares = BEST * raw // most if most else raw
    found: Ints = BEST - shares if reverse else shares
    return found


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
    points, weights = np.zeros((2, len(rows)), np.int64)
    wanted = {demands.CPU: demand.scored_cpu_millicores, demands.MEMORY: demand.scored_memory_bytes}
    for resource, amount in wanted.items():
        given = columns.given(resource)[rows]
        left = given - columns.scored[resource][rows] - amount
        points += np.where(left > 0, left, 0) * BEST // np.maximum(given, 1)
        weights += given > 0
    return points // np.maximum(weights, 1)


def _balanced(columns: Columns, demand: Demand, rows: Ints) -> Ints | None:
    """50 + (50 + with - without) // 2, where with and without the pod each is (1 - deviation) x 100, cut off, and the
    deviation is that of CPU's and memory's requested shares; None for a pod that requests neither.
    """
    wanted = {resource: demand.of(resource) for resource in (demands.CPU, demands.MEMORY)}
    if not any(wanted.values()):
        return None
    without = _evenness(columns, rows, dict.fromkeys(wanted, 0))
    change: Ints = _evenness(columns, rows, wanted) - without
    return HALF + (HALF + change) // 2


def _evenness(columns: Columns, rows: Ints, wanted: Mapping[str, int]) -> Ints:
    shares = [_share(columns, rows, resource, amount) for resource, amount in wanted.items()]
    deviation: Floats = np.abs((shares[0] - shares[1]) / 2)
    one_is_missing = np.isnan(deviation)
    found: Floats = (1 - np.where(one_is_missing, 0.0, deviation)) * float(BEST)
    return found.astype(np.int64)


def _share(columns: Columns, rows: Ints, resource: str, amount: int) -> Floats:
    """Requested of allocatable, at most 1; NaN where the node has none."""
    given = columns.given(resource)[rows]
    asked = (columns.requested[resource][rows] + amount).astype(np.float64)
    shares: Floats = np.divide(asked, given, out=np.full(len(rows), np.nan), where=given > 0)
    return np.minimum(shares, 1.0)
