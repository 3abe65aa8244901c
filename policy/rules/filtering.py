"""The filter: which nodes a pod may not be placed on, because a windowed load is over its threshold.

The extender compiles the policy's thresholds once (`rules`), then asks `verdicts` for all nodes of a request;
`exempt` says first whether a pod is filtered at all. Compared is the usable reading plus the expected load of recent
pods, both as arrays of [nodes, metrics] with the columns of `metrics_in_force`; NaN in the readings means
missing, stale or invalid. A node's own thresholds (`policy.contract.node_thresholds`) come as one more such array.
"""

import collections.abc
import functools
import math
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from policy import metrics
from policy.schema import load_policy

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

# `coolest` keeps this share of an all-hot sample: room to spread a burst, few enough to stay cool-first.
KEPT_RATIO: Final = 0.1
# As in the score: 0.1 + 0.2 is 0.30000000000000004 in binary, and not over a threshold of 0.3.
_DECIMALS: Final = 9


class Rule(NamedTuple):
    """One threshold in force: the metric, its column in the load arrays, the ratio above which a node is rejected, and
    the column of the same load now: for a maximum that of the average behind it, else its own.
    """

    metric: str
    column: int
    limit_ratio: float
    present_column: int

    @property
    def over(self) -> str:
        """The reason of a node over the threshold: the same text for all nodes, as the scheduler counts equal texts."""
        return f"{self.metric} over {self.limit_ratio:g}"

    @property
    def missing(self) -> str:
        """The reason of a node rejected because the metric cannot be used."""
        return f"{self.metric} missing"


class Rules(NamedTuple):
    """The policy's filter, compiled: thresholds over 0 in the file's order, and what to do in the two odd cases.

    `columns` [rules] and `limits` [rules] are those of `rules`. `dormant` are the metrics without a threshold: rules of
    limit 0 that only a node's own threshold turns on.
    """

    rules: tuple[Rule, ...]
    columns: npt.NDArray[np.intp]
    limits: Floats
    reject_missing: bool
    keep_coolest: bool
    dormant: tuple[Rule, ...] = ()

    def woken(self, own: Floats) -> "Rules":
        """Returns the rules with those that only some nodes' own thresholds turn on."""
        awake = tuple(rule for rule in self.dormant if (own[:, rule.column] > 0).any())
        every = self.rules + awake
        return self._replace(rules=every, columns=_columns(every), limits=_limits(every))


class Verdicts(NamedTuple):
    """The verdicts over all nodes of a request.

    `limits` [nodes, rules] are the ratios in force, NaN where a node's own threshold turns the rule off, and `own`
    [nodes, rules] marks the node's own ones (None: no node has any). `allowed` [nodes]; `broken` [nodes, rules] marks
    every rule that rejects a node, `missing` [nodes, rules] every rule whose metric cannot be used. `degraded` is true
    when some rule could not be judged, or when `coolest` kept nodes that break rules.
    """

    rules: tuple[Rule, ...]
    limits: Floats
    own: Mask | None
    allowed: Mask
    broken: Mask
    missing: Mask
    degraded: bool
    kept_coolest: bool

    @property
    def reasons(self) -> tuple[str, ...]:
        """Per node the first rule it breaks, in words; "" for a node that is allowed."""
        texts_of_nodes = [""] * len(self.allowed)
        for node, reason in self.refusals():
            texts_of_nodes[node] = reason
        return tuple(texts_of_nodes)

    def refusals(self) -> list[tuple[int, str]]:
        """The nodes that are not allowed, by place, each with its reason."""
        (rejected,) = (~self.allowed).nonzero()
        if not len(rejected):
            return []
        texts = _texts(self.rules)
        first = self.broken[rejected].argmax(axis=1)
        reasons = [texts[at] for at in (2 * first + self.missing[rejected, first]).tolist()]
        if self.own is not None:
            known = self.own[rejected, first] & ~self.missing[rejected, first]
            for own in np.flatnonzero(known).tolist():
                # In whole percent, so that there are few different texts.
                limit_ratio = max(round(float(self.limits[rejected[own], first[own]]), 2), 0.01)
                reasons[own] = f"{self.rules[first[own]].metric} over {limit_ratio:g}"
        return list(zip(rejected.tolist(), reasons, strict=True))


def rules(filter_: load_policy.Filter, in_force: collections.abc.Sequence[metrics.Metric]) -> Rules:
    """Compile a policy's filter for the columns `in_force`; thresholds of 0 or of metrics not in force are no rules."""
    columns = {name: column for column, name in enumerate(metrics.names(in_force))}
    present = _present_columns(in_force)
    compiled = tuple(
        Rule(name, columns[name], limit, present[columns[name]])
        for name, limit in filter_.thresholds.items()
        if limit > 0 and name in columns
    )
    ruled = {rule.column for rule in compiled}
    dormant = tuple(Rule(name, column, 0.0, present[column]) for name, column in columns.items() if column not in ruled)
    reject_missing, keep_coolest = filter_.on_missing == "reject", filter_.when_all_rejected == "coolest"
    return Rules(compiled, _columns(compiled), _limits(compiled), reject_missing, keep_coolest, dormant)


def _present_columns(in_force: collections.abc.Sequence[metrics.Metric]) -> list[int]:
    """By column that of the first average of the resource, for what looks back further than its averages."""
    averages = [at for at, metric in enumerate(in_force) if metric.statistic == metrics.AVERAGE]
    behind = {in_force[at].resource: at for at in reversed(averages)}
    return [
        behind.get(metric.resource, at) if metric.window_seconds > metric.averaging_seconds else at
        for at, metric in enumerate(in_force)
    ]


@functools.lru_cache(maxsize=16)
def _texts(rules: tuple[Rule, ...]) -> tuple[str, ...]:
    """Of each rule the reason of a node over it, and of one where it is missing."""
    return tuple(text for rule in rules for text in (rule.over, rule.missing))


def _columns(rules: tuple[Rule, ...]) -> npt.NDArray[np.intp]:
    return np.array([rule.column for rule in rules], dtype=np.intp)


def _limits(rules: tuple[Rule, ...]) -> Floats:
    return np.array([rule.limit_ratio for rule in rules])


def verdicts(values: Floats, expected: Floats, compiled: Rules, own: Floats | None = None) -> Verdicts:
    """Judge every node: rejected iff u'_m > t_m (strictly) for some rule, u'_m = u_m + expected load to 9 decimals.

    `values` and `expected` are [nodes, metrics] ratios, NaN in `values` = unusable: such a rule rejects under
    `onMissing: reject` and passes otherwise. `own` [nodes, metrics] are the nodes' own thresholds, NaN where a node has
    none for the metric: there they stand for t_m, and 0 turns the rule off. When every node is rejected and the policy
    says `coolest`, the nodes that no rule rejects by their load now are allowed after all, or a cool-first prefix of at
    least one, and the result is degraded.
    """
    awake = compiled if own is None else compiled.woken(own)
    loads = (values + expected).round(_DECIMALS)
    predicted = loads.take(awake.columns, axis=1)
    missing = np.isnan(predicted)
    if own is None:
        marked, limits = None, awake.limits[None].repeat(len(values), axis=0)
    else:
        own = own.take(awake.columns, axis=1)
        marked = ~np.isnan(own)
        chosen = np.where(marked, own, awake.limits)
        limits = np.where(chosen > 0, chosen, np.nan)
        missing &= ~np.isnan(limits)
    over: Mask = np.greater(predicted, limits)
    broken = over | missing if compiled.reject_missing else over
    allowed: Mask = np.logical_not(np.logical_or.reduce(broken, axis=1))
    keeps_coolest = compiled.keep_coolest and len(allowed) > 0 and not np.count_nonzero(allowed)
    if keeps_coolest:
        allowed = _cool_now(loads, predicted, missing, limits, awake=awake)
    degraded = bool(keeps_coolest or np.count_nonzero(missing))
    return Verdicts(awake.rules, limits, marked, allowed, broken, missing, degraded, keeps_coolest)


def _cool_now(loads: Floats, predicted: Floats, missing: Mask, limits: Floats, *, awake: Rules) -> Mask:
    """The nodes to keep of a sample that is hot throughout: those that no rule rejects with their load now in the place
    of maxima, else the `coolest` by that. A peak that all nodes had tells nothing of where a pod runs well now.
    """
    now = loads.take([rule.present_column for rule in awake.rules], axis=1)
    now = np.where(np.isnan(now), predicted, now)
    hot: Mask = np.greater(now, limits)
    broken = hot | missing if awake.reject_missing else hot
    cool: Mask = np.logical_not(np.logical_or.reduce(broken, axis=1))
    return cool if cool.any() else coolest(now - limits)


def coolest(excess: Floats) -> Mask:
    """The nodes to keep of a sample that is hot throughout: the tenth with the smallest worst excess, at least one.

    `excess` is [nodes, rules], u'_m - t_m, NaN where unusable; a node without any usable rule comes last. Nodes
    exactly as hot as the last one kept are kept too, so the answer does not depend on the order of the nodes.
    """
    worst = np.where(np.isnan(excess), -np.inf, excess).max(axis=1)
    worst = np.where(np.isneginf(worst), np.inf, worst)
    keep = max(1, math.ceil(len(worst) * KEPT_RATIO))
    last: np.float64 = np.sort(worst)[keep - 1]
    return np.less_equal(worst, last)


def exempt(rule: load_policy.Exempt, *, is_daemon_set: bool, namespace: str, priority: int) -> str | None:
    """Why a pod is not filtered at all, or None when it is."""
    if rule.daemon_sets and is_daemon_set:
        return "DaemonSet pod"
    if namespace in rule.namespaces:
        return f"namespace {namespace}"
    if priority >= rule.priority_at_least:
        return f"priority at least {rule.priority_at_least}"
    return None
