"""The score: how good each candidate node is, an integer from 0 (full) to 10 (idle).

The extender compiles the policy's weights once (`weighing`) and asks `scores` per request, or keeps `bases` per node
and only calls `rank`. The `Breakdown` returned holds every factor for explain. All arrays are [nodes] or [nodes,
metrics] with the columns of `metrics_in_force`; NaN in the readings means missing, stale or invalid.
"""

import collections.abc
import dataclasses
import functools
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policy import metrics
from policy.schema import load_policy, node_pools

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Places = npt.NDArray[np.intp]

MAX_SCORE: Final = 10
# The base of every node when no candidate has one: any number, as it is the same for all.
NEUTRAL_BASE: Final = 5.0
# With `spread: stretch` so many points of base become 10: smaller differences between the candidates decide less.
LEAST_RANGE: Final = 3.0
# Sums of binary fractions miss the half by less than this; round half up is meant on the decimal number.
_DECIMALS: Final = 9


class Weighing(NamedTuple):
    """The policy's score, compiled: a weight per column, and the columns of which each mean is taken.

    `groups` is one group of all columns for `combine: mean`, one per resource for `combine: worst`; `weighted` are
    their columns of a weight over 0, for the groups that have any; `points` [metrics, 1] are those that a node without
    load gets from each metric. `target_ratio` is the load up to which nodes are packed, None where they are spread.
    `of_pools` are the weighings of the policy's pools, () where none has a score of its own; with them the functions
    below need the place of each node's pool [nodes].
    """

    weights: Floats
    groups: tuple[tuple[int, ...], ...]
    weighted: tuple[tuple[int, ...], ...]
    points: Floats
    stretch: bool
    incoming_pod: bool
    target_ratio: float | None = None
    of_pools: "tuple[Weighing, ...]" = ()

    def parts(self, places: Places) -> "collections.abc.Iterator[tuple[Weighing, Places]]":
        """Each weighing with the rows of its nodes."""
        for place in np.unique(places).tolist():
            own = self if place == node_pools.NO_POOL else self.of_pools[place]
            yield own, np.flatnonzero(places == place)


class Ranking(NamedTuple):
    """Steps of the candidates' scores: `base` after the cap, the median and the stretch, `neutral` where the
    median filled in, `capped` where it was scaled down to stay under the best whole node's, `penalty` taken off
    (`beyond_least`), `raw` the clamped result, `scores` its integers. All [nodes].
    """

    base: Floats
    neutral: Mask
    capped: Mask
    penalty: Floats
    raw: Floats
    scores: Integers


@dataclasses.dataclass(frozen=True, slots=True)
class Breakdown:
    """Every factor of the scores of one request.

    `incoming` [nodes, metrics] is what the pod itself adds, 0 where the policy does not want it; `predicted` [nodes,
    metrics] is u' (reading + recent pods + incoming pod); `terms` [nodes, metrics] are the points
    each metric gives to the mean it belongs to, NaN where unusable; `spread_base` [nodes] is the worst of those means,
    `own_base` [nodes] the base from the node's own readings, another one where nodes are packed; both are NaN for a
    node that has none; `degraded` [nodes] marks nodes with an unusable metric of a weight over 0.
    """

    values: Floats
    expected: Floats
    incoming: Floats
    predicted: Floats
    terms: Floats
    spread_base: Floats
    own_base: Floats
    degraded: Mask
    ranking: Ranking


def weighing(score: load_policy.Score, in_force: collections.abc.Sequence[metrics.Metric]) -> Weighing:
    """Compile a policy's score for the columns `in_force`; a metric without a weight has weight 0."""
    weights = np.array([score.weights.get(metric.name, 0.0) for metric in in_force])
    everything = (tuple(range(len(in_force))),)
    by_resource = tuple(
        tuple(column for column, metric in enumerate(in_force) if metric.resource == resource)
        for resource in metrics.resources(in_force)
    )
    groups = by_resource if score.combine == "worst" else everything
    with_weight = [list(group) for group in groups if weights[list(group)].any()]
    points = np.zeros((len(weights), 1))
    for group in with_weight:
        points[group, 0] = MAX_SCORE * (weights[group] / weights[group].sum())
    weighted = tuple(tuple(column for column in group if weights[column] > 0) for group in with_weight)
    target_ratio = score.target_ratio if score.goal == "pack" else None
    return Weighing(weights, groups, weighted, points, score.spread == "stretch", score.incoming_pod, target_ratio)


def scores(
    values: Floats,
    expected: Floats,
    penalty: Floats,
    compiled: Weighing,
    *,
    incoming: Floats | None = None,
    places: Places | None = None,
) -> Breakdown:
    """Score every node: round(clamp(base - (penalty - least penalty), 0, 10)), half up.

    `values` [nodes, metrics] ratios with NaN = unusable, `expected` [nodes, metrics] the load of recent pods,
    `penalty` [nodes] hot points, `incoming` [nodes, metrics] the incoming pod's own expected load, added only if the
    policy says `incomingPod: true`.
    """
    added = incoming if compiled.incoming_pod and incoming is not None else np.zeros_like(expected)
    predicted = values + expected + added
    terms, spread_base, own_base = _terms(predicted, compiled, places)
    complete = whole(values, compiled, places)
    ranking = rank(own_base, penalty, whole=complete, stretch=compiled.stretch)
    return Breakdown(values, expected, added, predicted, terms, spread_base, own_base, ~complete, ranking)


def ranking(
    values: Floats,
    expected: Floats,
    penalty: Floats,
    compiled: Weighing,
    *,
    incoming: Floats | None = None,
    places: Places | None = None,
) -> Ranking:
    """The ranking of `scores`, the same to the bit, without its factors: for who asks thousands of times."""
    predicted = values + expected
    if compiled.incoming_pod and incoming is not None:
        predicted += incoming
    own_base, all_whole = _bases(predicted, compiled, places)
    complete = None if all_whole else whole(values, compiled, places)
    return rank(own_base, penalty, whole=complete, stretch=compiled.stretch)


def whole(values: Floats, compiled: Weighing, places: Places | None = None) -> Mask:
    """Which nodes [nodes] have every metric of a weight over 0; `values` [nodes, metrics], NaN = unusable."""
    if places is None:
        return ~(np.isnan(values) @ (compiled.weights > 0))
    mask = np.ones(len(values), dtype=np.bool_)
    for own, rows in compiled.parts(places):
        mask[rows] = whole(values[rows], own)
    return mask


def bases(predicted: Floats, compiled: Weighing, places: Places | None = None) -> Floats:
    """Base of every node by its own readings, 0..10: 10 * sum(w_m * (1 - min(1, u'_m))) / sum(w_m) over usable m; NaN
    if none.

    `predicted` is u' [nodes, metrics]. With `combine: worst` it is the lower of the two resources' means, over those
    that have one. Where nodes are packed it is `packed` of that. With `places` [nodes], those of the nodes' pools, each
    pool's nodes are weighed by themselves.
    """
    return _bases(predicted, compiled, places)[0]


def _bases(predicted: Floats, compiled: Weighing, places: Places | None = None) -> tuple[Floats, bool]:
    """Returns the bases, and whether every node has every metric of a weight."""
    if places is not None:
        whole_bases, all_whole = np.full(len(predicted), np.nan), True
        for own, rows in compiled.parts(places):
            whole_bases[rows], complete = _bases(predicted[rows], own)
            all_whole = all_whole and complete
        return whole_bases, all_whole
    whole_bases = _whole_bases(predicted, compiled)
    all_whole = not np.count_nonzero(np.isnan(whole_bases))
    if not all_whole:
        return _terms(predicted, compiled)[2], False
    return packed(whole_bases, compiled.target_ratio), True


def packed(spread_base: Floats, target_ratio: float | None) -> Floats:
    """The base [nodes] that has nodes filled up to a load, of the base that has them spread; the same one without.

    With u = 1 - base / 10 the load and t the target:

        10 * (t + (1 - t) * u / t)      up to t: the fuller the better, 10 at t
        10 * t * (1 - u) / (1 - t)      above t: the emptier the better, never better than an empty node

    It is the shape of Trimaran's TargetLoadPacking (scheduler-plugins, KEP 61) over the worse resource and all windows.
    """
    if target_ratio is None:
        return spread_base
    load = 1.0 - spread_base / MAX_SCORE
    filling = target_ratio + (1.0 - target_ratio) * load / target_ratio
    beyond = target_ratio * (1.0 - load) / (1.0 - target_ratio)
    return np.asarray(MAX_SCORE * np.where(load <= target_ratio + 10.0**-_DECIMALS, filling, beyond))


def _whole_bases(predicted: Floats, compiled: Weighing) -> Floats:
    """`bases` of the nodes that have every metric of a weight, the same to the bit, and NaN for the others. Here each
    step of numpy counts: it is asked of a few rows with every placement, and of all candidates with every pod.
    """
    points = np.minimum(predicted.T, 1.0)
    np.subtract(1.0, points, out=points)
    np.multiply(points, compiled.points, out=points)
    means = [_summed(points[column] for column in group) for group in compiled.weighted]
    return functools.reduce(np.minimum, means) if means else np.full(len(predicted), np.nan)


def _summed(columns: collections.abc.Iterable[Floats]) -> Floats:
    """The sum from left to right: the order of numpy's own sums depends on how many there are and lie in memory."""
    return functools.reduce(np.add, columns)


def _terms(predicted: Floats, compiled: Weighing, places: Places | None = None) -> tuple[Floats, Floats, Floats]:
    """Returns the terms [nodes, metrics], the bases before packing and those after it [nodes]."""
    if places is not None:
        terms, spread_base, own_base = np.empty_like(predicted), np.empty(len(predicted)), np.empty(len(predicted))
        for own, rows in compiled.parts(places):
            terms[rows], spread_base[rows], own_base[rows] = _terms(predicted[rows], own)
        return terms, spread_base, own_base
    headroom = 1.0 - np.minimum(predicted, 1.0)
    weights = np.where(np.isnan(predicted), 0.0, compiled.weights)
    terms = np.empty_like(predicted)
    means = np.full((len(predicted), len(compiled.groups)), np.nan)
    for at, group in enumerate(compiled.groups):
        columns = list(group)
        mine = weights.take(columns, axis=1)  # unlike [:, columns] row by row in memory: sums of a row have one order
        total = mine.sum(axis=1)
        share = mine / np.where(total > 0, total, np.inf)[:, None]
        points = MAX_SCORE * share * headroom.take(columns, axis=1)
        terms[:, columns] = points
        means[:, at] = np.where(total > 0, _summed(np.where(np.isnan(points), 0.0, points).T), np.nan)
    spread_base = np.fmin.reduce(means, axis=1)
    return terms, spread_base, packed(spread_base, compiled.target_ratio)


def rank(own_base: Floats, penalty: Floats, *, whole: Mask | None = None, stretch: bool = False) -> Ranking:
    """Scores of the candidates of one request from their bases and penalties, both [nodes] on the 0..10 scale.

    No node is the best only because it lacks a metric: see `_under_the_best_whole`; `whole` [nodes] are those that
    lack none (None: all). A node without a base (NaN) then gets the median of those that have one, before penalties. If
    no candidate has one, all score the same: penalties are left aside, too.
    `stretch` maps the bases linearly so that the best is 10 before penalties, and the worst 0 if it is LEAST_RANGE or
    more behind: 10 - 10 * (best - base) / max(best - worst, LEAST_RANGE).
    """
    neutral = np.isnan(own_base)
    without = np.count_nonzero(neutral)
    if without == len(own_base):
        base = np.full(len(own_base), NEUTRAL_BASE)
        return Ranking(base, neutral, np.zeros_like(neutral), np.zeros(len(base)), base, _round_half_up(base))
    base = own_base if whole is None else _under_the_best_whole(own_base, whole)
    capped = base < own_base
    if without:
        base = np.where(neutral, np.median(base[~neutral]), base)
    if stretch:
        best = base.max()
        base = MAX_SCORE - MAX_SCORE * (best - base) / max(best - base.min(), LEAST_RANGE)
    penalty = beyond_least(penalty)
    raw, rounded = clamped(base, penalty)
    return Ranking(base, neutral, capped, penalty, raw, rounded)


def beyond_least(penalty: Floats) -> Floats:
    """Penalties [nodes] without the least of them, which every candidate has: taken off everywhere it tells no node
    from another, and in a burst over all nodes it would leave 0 for each.
    """
    beyond: Floats = penalty - penalty.min(initial=np.inf)
    return beyond


def _under_the_best_whole(own_base: Floats, whole: Mask) -> Floats:
    """The bases, those of nodes that lack a metric of a weight scaled to at most the best of the others.

    That is base * most / top where top > most: most is the best base of a whole node, top that of a node that is not.
    One factor for all of them keeps their order, and uses all integers that are left where whole nodes are nearly full.
    """
    partly = ~whole & ~np.isnan(own_base)
    most, top = (own_base[each].max(initial=-np.inf) for each in (whole, partly))
    if not top > most > -np.inf:
        return own_base
    return np.where(partly, most * (own_base / top), own_base)  # in this order never over `most`, not by a bit


def clamped(base: Floats, penalty: Floats) -> tuple[Floats, Integers]:
    """The last step for nodes that have a base: clamp(base - penalty, 0, 10), and the same rounded half up."""
    raw = np.minimum(np.maximum(base - penalty, 0.0), float(MAX_SCORE))
    return raw, _round_half_up(raw)


def _round_half_up(raw: Floats) -> Integers:
    return np.floor(raw.round(_DECIMALS) + 0.5).astype(np.int64)
