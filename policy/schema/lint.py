"""Settings of a policy that work and are hardly meant: warnings, each with its reason.

`policy.loading.loader` gives them their places in the text: `evenload policy validate` prints them, the services log
them when a policy comes into force. Nothing is refused for them; what cannot work is judged by `policy.schema.checks`.
"""

import itertools
from typing import Final

from policy import metrics
from policy.schema import checks, load_policy, problems, units
from policy.schema.checks import Finding, Findings

# Most clusters scrape every 15 s to 1 min.
_QUICK_SCRAPE_SECONDS: Final = 15.0
_SCRAPES_IN_AVERAGE: Final = 4  # as `annotator.diagnostics.scrapes` expects of what it measures
_OFTEN_SECONDS: Final = 5.0
_NOTHING_NEW: Final = "most clusters scrape every 15s to 1m, and between two scrapes there is nothing new"
_ROUNDING: Final = 1e-9


def doubts(policy: load_policy.LoadPolicy) -> tuple[Finding, ...]:
    """The doubtful settings in the policy, as many as a log should hold."""
    return tuple(itertools.islice((finding for check in _CHECKS for finding in check(policy)), problems.MAX_SHOWN))


def _period(policy: load_policy.LoadPolicy) -> Findings:
    period_seconds, path = policy.sync.period_seconds, ("sync", "period")
    built_in = [metric for metric in policy.metrics_in_force if metric.query is None]
    shortest = min(built_in, key=lambda metric: metric.window_seconds, default=None)
    if period_seconds < _OFTEN_SECONDS:
        yield Finding(path, f"is short: {_NOTHING_NEW}, at eight queries over all nodes each time")
    elif shortest is not None and period_seconds > shortest.window_seconds:
        window = units.duration_text(shortest.window_seconds)
        message = f"is longer than the window of {shortest.name} ({window}): load between two syncs is in no reading"
        yield Finding(path, message)


def _windows(policy: load_policy.LoadPolicy) -> Findings:
    in_force = {metric.name: metric for metric in policy.metrics_in_force}
    least = units.duration_text(_SCRAPES_IN_AVERAGE * _QUICK_SCRAPE_SECONDS)
    for index, entry in enumerate(policy.metrics):
        metric, path = in_force[entry.name], ("metrics", index, "window")
        if metric.query is not None:
            continue
        if metric.statistic == metrics.AVERAGE and metric.window_seconds < _SCRAPES_IN_AVERAGE * _QUICK_SCRAPE_SECONDS:
            message = f"is short: at least {_SCRAPES_IN_AVERAGE} scrapes are needed for an average that one failed"
            takes = f"which takes {least} at a scrape every 15s, and longer at fewer"
            yield Finding(path, f"{message} scrape does not empty, {takes}")
        elif metric.window_seconds < metric.averaging_seconds:
            average = units.duration_text(metric.averaging_seconds)
            message = f"is shorter than the averages it is over ({average}): it says hardly more than one does"
            yield Finding(path, message)


def _rests(policy: load_policy.LoadPolicy) -> Findings:
    interval_seconds = policy.descheduler.interval_seconds
    if interval_seconds < _OFTEN_SECONDS:
        message = f"is short: {_NOTHING_NEW}, at a reading of all nodes each time"
        yield Finding(("descheduler", "interval"), message)
    if policy.descheduler.breaker.backoff_seconds < interval_seconds:
        message = f"is shorter than descheduler.interval ({units.duration_text(interval_seconds)})"
        yield Finding(("descheduler", "breaker", "backoff"), f"{message}: an open breaker holds back no run")
    returned = policy.descheduler.cooldown.returned
    if returned.window_seconds < returned.initial_seconds:
        message = "is shorter than initial: a return is forgotten before the next one can come, so that nothing grows"
        yield Finding(("descheduler", "cooldown", "returned", "window"), message)


def _weights(policy: load_policy.LoadPolicy) -> Findings:
    """Weights of one resource against the other, where `combine` is what a file that does not name it gets."""
    score = policy.score
    if score.combine != "worst" or "combine" in score.model_fields_set:
        return
    totals = dict.fromkeys(metrics.RESOURCES, 0.0)
    for metric in policy.metrics_in_force:
        for resource in (one for one in totals if one == metric.resource):
            totals[resource] += score.weights.get(metric.name, 0.0)
    less, more = sorted(totals.values())
    if less > 0 and more - less > _ROUNDING * more:
        sums = " and ".join(f"{resource} {total:.3g}" for resource, total in totals.items())
        message = f"{sums} in all say nothing: combine is worst, its default, and takes each resource by itself"
        yield Finding(("score", "weights"), f"{message}; write combine: mean to weigh them, or combine: worst")


def _targets(policy: load_policy.LoadPolicy) -> Findings:
    """Targets of packing that the filter does not let a node reach."""
    every: list[tuple[problems.Path, load_policy.LoadPolicy]] = [(("score", "target"), policy)]
    every += [((*path, "score", "target"), own) for path, part, own in checks.parts(policy) if part.score.differs]
    for path, one in every:
        counted = {name for name, weight in one.score.weights.items() if weight > 0}
        limits = {name: limit for name, limit in one.filter.thresholds.items() if limit > 0 and name in counted}
        lowest = min(limits, key=lambda name: limits[name], default=None)
        if one.score.goal == "pack" and lowest is not None and limits[lowest] <= one.score.target_ratio:
            message = f"is not reached: the filter closes nodes at {lowest} {limits[lowest]:g}, before they are full"
            yield Finding(path, message, (("filter", "thresholds"),))


def _refilled(policy: load_policy.LoadPolicy) -> Findings:
    """Nodes that may be filled, by the filter or by packing, as far as the line at which pods are evicted from them."""
    known: set[tuple[str, float, float]] = set()  # what a pool or class has from the policy is named once
    for path, one in (((), policy), *((path, own) for path, _, own in checks.parts(policy))):
        if one.descheduler.mode == "Observe":
            continue
        target_ratio = one.score.target_ratio if one.score.goal == "pack" else 0.0
        for name, band in one.descheduler.thresholds.items():
            filled: dict[problems.Path, float] = {(*path, "filter", "thresholds"): one.filter.thresholds.get(name, 0.0)}
            filled[(*path, "score", "target")] = target_ratio if one.score.weights.get(name) else 0.0
            for place, ratio in filled.items():
                case = (f"{place[-1]} {name}", ratio, band.evict_above_ratio)
                if ratio >= band.evict_above_ratio and case not in known:
                    line = f"evictAbove of {name} ({band.evict_above_ratio:g})"
                    message = f"is not under {line}: new pods come to nodes from which the descheduler evicts some"
                    at = (*place, name) if place[-1] == "thresholds" else place
                    yield Finding(at, message, (("descheduler", "thresholds"),))
                known.add(case)


def _shadow(policy: load_policy.LoadPolicy) -> Findings:
    if policy.extender.mode == "Shadow" and policy.evicts:
        message = "is Shadow while descheduler.mode is Enforce: evicted pods may go back to the node that they left"
        yield Finding(("extender", "mode"), f"{message}; let the descheduler observe until the extender enforces")


def _pool_limits(policy: load_policy.LoadPolicy) -> Findings:
    own = policy.descheduler.limits
    for index, pool in enumerate(policy.pools):
        limits = pool.descheduler.limits
        for key, cap, most in (("perRun", limits.per_run, own.per_run), ("perHour", limits.per_hour, own.per_hour)):
            if cap is not None and cap > most:
                message = f"never holds: descheduler.limits.{key} ({most}) counts the evictions from all nodes"
                yield Finding(("pools", index, "descheduler", "limits", key), message)


def _exempt_classes(policy: load_policy.LoadPolicy) -> Findings:
    """Thresholds of classes whose pods the filter lets pass anyway."""
    exempt = policy.filter.exempt
    for index, one in enumerate(policy.pod_classes):
        path: problems.Path = ("podClasses", index, "filter", "thresholds")
        least, namespaces = one.match.priority.least, one.match.namespaces
        if not one.filter.thresholds:
            continue
        if least is not None and least >= exempt.priority_at_least:
            message = f"never hold: pods of priority {exempt.priority_at_least} or more"
            yield Finding(path, f"{message} are never filtered (filter.exempt.priorityAtLeast)")
        elif namespaces and set(namespaces) <= set(exempt.namespaces):
            named = ", ".join(namespaces)
            yield Finding(path, f"never hold: pods in {named} are never filtered (filter.exempt.namespaces)")


_CHECKS: Final = (
    _period,
    _windows,
    _rests,
    _weights,
    _targets,
    _refilled,
    _shadow,
    _pool_limits,
    _exempt_classes,
)
