"""Lines of overload that follow the mean of the nodes, as fixed lines of one run.

`service.py` asks for the lines at the beginning of a run, when the nodes' usage is known, and runs by a policy in which
they stand as fixed ones: what observes, plans, looks again and records knows fixed lines only.

With mean the average of the fresh readings of the open nodes of a pool (or of those without a pool):

    evictAbove of the run = min(evictAbove, max(floor, mean + overMean.evictAbove))
    evictUntil of the run = min(evictUntil, mean + overMean.evictUntil)

kubernetes-sigs descheduler has the same idea as `useDeviationThresholds`, without a floor and with one line.
"""

import collections.abc
import math
from typing import Final, NamedTuple

from descheduler.placement import open_nodes
from descheduler.snapshot import usage
from descheduler.snapshot.usage import NodeUsage
from kube.objects import Node
from policy.schema import node_pools
from policy.schema.descheduler_section import Band
from policy.schema.load_policy import LoadPolicy

LEAST_NODES: Final = 2  # one node is its own mean
LEAST_READ_RATIO: Final = 0.5  # of the open nodes: the mean of a few is not that of all


class MeanLine(NamedTuple):
    """The lines of one metric on the nodes of a pool ("" for none) in one run, and the mean behind them."""

    pool: str
    metric: str
    nodes: int
    mean_ratio: float
    evict_above_ratio: float
    evict_until_ratio: float


def lines(
    policy: LoadPolicy,
    nodes: collections.abc.Iterable[Node],
    usages: collections.abc.Mapping[str, NodeUsage],
    *,
    now_seconds: float,
) -> tuple[MeanLine, ...]:
    """The lines that follow a mean, by pool and metric; none where fewer than half of the open nodes can be read."""
    places = {node_pools.NO_POOL: ("", policy)}
    places |= {place: (pool.name, policy.of_pools[place]) for place, pool in enumerate(policy.pools)}
    following = [
        (place, name, metric, band)
        for place, (name, on_pool) in places.items()
        for metric, band in on_pool.descheduler.thresholds.items()
        if band.over_mean is not None
    ]
    readings: dict[int, list[dict[str, float]]] = {place: [] for place in places}
    for node in nodes if following else ():
        if open_nodes.open_to_pods(node):
            ratios = usage.fresh_ratios(usages.get(node.name), now_seconds, policy)
            readings[node_pools.place(policy.pools, node.labels)].append(ratios)
    every = (_line(name, metric, band, readings[place]) for place, name, metric, band in following)
    return tuple(line for line in every if line is not None)


def in_run(policy: LoadPolicy, mean_lines: collections.abc.Collection[MeanLine]) -> LoadPolicy:
    """The policy with these lines as fixed ones; the policy itself where there is none."""
    if not mean_lines:
        return policy
    own = _fixed(policy, "", mean_lines)
    pools = tuple(
        pool.model_copy(update={"descheduler": pool.descheduler.model_copy(update={"thresholds": thresholds})})
        for pool, on_pool in zip(policy.pools, policy.of_pools, strict=True)
        for thresholds in [_fixed(on_pool, pool.name, mean_lines)]
    )
    section = policy.descheduler.model_copy(update={"thresholds": own})
    return policy.model_copy(update={"descheduler": section, "pools": pools})


def _line(
    pool: str, metric: str, band: Band, readings: collections.abc.Sequence[collections.abc.Mapping[str, float]]
) -> MeanLine | None:
    values = [ratios[metric] for ratios in readings if metric in ratios]
    if band.over_mean is None or len(values) < max(LEAST_NODES, LEAST_READ_RATIO * len(readings)):
        return None
    mean_ratio = math.fsum(values) / len(values)
    above_ratio = max(band.over_mean.floor_ratio, mean_ratio + band.over_mean.evict_above_ratio)
    until_ratio = mean_ratio + band.over_mean.evict_until_ratio
    return MeanLine(
        pool,
        metric,
        len(values),
        mean_ratio,
        min(band.evict_above_ratio, above_ratio),
        min(band.evict_until_ratio, until_ratio),
    )


def _fixed(policy: LoadPolicy, pool: str, mean_lines: collections.abc.Iterable[MeanLine]) -> dict[str, Band]:
    """All bands of the policy, with the lines of the run where there are any."""
    own = {line.metric: line for line in mean_lines if line.pool == pool}
    fields = ("evict_above_ratio", "evict_until_ratio")
    return {
        name: band.model_copy(update={field: getattr(own[name], field) for field in fields}) if name in own else band
        for name, band in policy.descheduler.thresholds.items()
    }
