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
    wanted = {place: one for place, one in _policies(policy).items() if _following(one)}
    if not wanted:
        return ()
    by_place: dict[int, list[Node]] = {place: [] for place in wanted}
    for node in nodes:
        place = node_pools.place(policy.pools, node.labels)
        if place in by_place and open_nodes.open_to_pods(node):
            by_place[place].append(node)
    return tuple(
        line
        for place, one in wanted.items()
        for metric, band in _following(one).items()
        if (
            line := _line(
                _name(policy, place),
                metric,
                band,
                by_place[place],
                usages=usages,
                policy=policy,
                now_seconds=now_seconds,
            )
        )
        is not None
    )


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


def _policies(policy: LoadPolicy) -> dict[int, LoadPolicy]:
    return {node_pools.NO_POOL: policy, **dict(enumerate(policy.of_pools))}


def _following(policy: LoadPolicy) -> dict[str, Band]:
    return {name: band for name, band in policy.descheduler.thresholds.items() if band.over_mean is not None}


def _name(policy: LoadPolicy, place: int) -> str:
    return "" if place == node_pools.NO_POOL else policy.pools[place].name


def _line(
    pool: str,
    metric: str,
    band: Band,
    nodes: collections.abc.Sequence[Node],
    *,
    usages: collections.abc.Mapping[str, NodeUsage],
    policy: LoadPolicy,
    now_seconds: float,
) -> MeanLine | None:
    readings = (usage.fresh_ratios(usages.get(node.name), now_seconds, policy) for node in nodes)
    values = [ratios[metric] for ratios in readings if metric in ratios]
    if band.over_mean is None or len(values) < max(LEAST_NODES, LEAST_READ_RATIO * len(nodes)):
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
    return {name: _of_run(band, own.get(name)) for name, band in policy.descheduler.thresholds.items()}


def _of_run(band: Band, line: MeanLine | None) -> Band:
    if line is None:
        return band
    return band.model_copy(
        update={"evict_above_ratio": line.evict_above_ratio, "evict_until_ratio": line.evict_until_ratio}
    )
