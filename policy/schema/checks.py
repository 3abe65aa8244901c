"""Combinations of the policy that no single field can judge: what each pair of settings must mean together.

`policy.loading.loader` calls `combinations` on a model whose fields are valid each by itself, and gives every finding
its place in the text; what it finds is refused. `policy.schema.lint` judges what works and is hardly meant. A new check
is a generator of findings, listed in `_CHECKS`.
"""

import collections.abc
import re
import zoneinfo
from typing import Final, NamedTuple

from policy import metrics
from policy.schema import descheduler_section, load_policy, node_pools, pod_classes, problems, sections, units


class Finding(NamedTuple):
    """An impossible combination: where, what, and the other fields it was judged by (besides `path` itself)."""

    path: problems.Path
    message: str
    rests_on: tuple[problems.Path, ...] = ()


Findings = collections.abc.Iterator[Finding]
Part = tuple[problems.Path, node_pools.Pool | pod_classes.PodClass, load_policy.LoadPolicy]

# A statistic that the built-in queries compute; p95 is the 95th percentile, p999 the 99.9th.
_KNOWN_STATISTIC: Final = re.compile(r"avg|max|p[1-9][0-9]?|p99[0-9]")
_MIN_PERIODS_UNTIL_STALE: Final = 2
# No Prometheus scrapes more often than this, and a pod says in whole seconds when it was placed.
_LEAST_SECONDS: Final = 1.0
_LEAST: Final = units.duration_text(_LEAST_SECONDS)
# A maximum or percentile is evaluated in steps of a quarter of the averages that it is over
# (`promql.queries.node_queries`).
STEPS_PER_AVERAGE: Final = 4
# Comparing two names takes 50 us, and a file may hold thousands of each: there are no more hints than problems.
_HINTS: Final = problems.MAX_SHOWN
_COMPARED: Final = 100
_LISTED: Final = 12


def combinations(policy: load_policy.LoadPolicy) -> tuple[Finding, ...]:
    """Every impossible combination in the policy."""
    return tuple(finding for check in _CHECKS for finding in check(policy))


def _too_often(policy: load_policy.LoadPolicy) -> Findings:
    often: tuple[tuple[problems.Path, float, str], ...] = (
        (("sync", "period"), policy.sync.period_seconds, "eight queries over all nodes are asked each time"),
        (("descheduler", "interval"), policy.descheduler.interval_seconds, "a run reads all nodes and what they use"),
    )
    for path, seconds, reason in often:
        if seconds < _LEAST_SECONDS:
            yield Finding(path, f"must be at least {_LEAST}: {reason}, and scrapes are not more frequent")


def _sync(policy: load_policy.LoadPolicy) -> Findings:
    least = _MIN_PERIODS_UNTIL_STALE * policy.sync.period_seconds
    if policy.sync.stale_after_seconds < least:
        needed = units.duration_text(least)
        message = f"must be at least twice sync.period ({needed}), or one late sync makes all stale"
        yield Finding(("sync", "staleAfter"), message, (("sync", "period"),))


def _metrics(policy: load_policy.LoadPolicy) -> Findings:
    by_name = {metric.name: metric for metric in metrics.BUILT_IN}
    names: set[str] = set()
    own: dict[str, str] = {}  # podQuery by resource
    for index, entry in enumerate(policy.metrics):
        path: problems.Path = ("metrics", index)
        if entry.name in names:
            yield Finding((*path, "name"), f"metric {entry.name} is listed twice")
        names.add(entry.name)
        overridden = by_name.get(entry.name)
        if overridden is not None and overridden.resource != entry.resource:
            message = f"{entry.name} is a metric of {overridden.resource}: give yours another name"
            yield Finding((*path, "resource"), message)
        if entry.window_seconds < _LEAST_SECONDS:
            yield Finding((*path, "window"), f"must be at least {_LEAST}")
        if entry.query is None and not _KNOWN_STATISTIC.fullmatch(entry.statistic):
            message = f"{entry.statistic} is known only with a query of your own; built in are avg, max and p1 to p999"
            hint = problems.did_you_mean(entry.statistic, (metrics.AVERAGE, metrics.MAXIMUM))
            yield Finding((*path, "statistic"), message + hint)
        known = metrics.place(entry.resource) is not None  # of other resources nothing is built in
        if not known and entry.query is None:
            hint = problems.did_you_mean(entry.resource, metrics.RESOURCES)
            message = f"{entry.resource} needs a query: built in are {' and '.join(metrics.RESOURCES)}{hint}"
            yield Finding((*path, "resource"), message)
        if known and entry.pod_query is not None:
            message = f"is for resources of your own: how much {entry.resource} a pod uses is known without it"
            yield Finding((*path, "podQuery"), message)
        if entry.pod_query is not None and own.setdefault(entry.resource, entry.pod_query) != entry.pod_query:
            yield Finding((*path, "podQuery"), f"{entry.resource} has another podQuery above: one for all its metrics")
    lacking = {one.name: one.resource for one in policy.metrics if metrics.place(one.resource) is None}
    for name in (name for name in policy.descheduler.thresholds if name in lacking and lacking[name] not in own):
        message = f"{lacking[name]} has no podQuery: which pod makes how much of the load would not be known"
        yield Finding(("descheduler", "thresholds", name), message, (("metrics",),))


def _steps(policy: load_policy.LoadPolicy) -> Findings:
    """Maxima and percentiles whose window most evaluations would miss: their values would come and go."""
    entries = {entry.name: at for at, entry in enumerate(policy.metrics)}
    averages = {entry.resource: at for at, entry in reversed([*enumerate(policy.metrics)]) if entry.statistic == "avg"}
    for metric in policy.metrics_in_force:
        step_seconds = metric.averaging_seconds / STEPS_PER_AVERAGE
        if metric.query is not None or not _LEAST_SECONDS <= metric.window_seconds < step_seconds:
            continue
        behind: problems.Path = ("metrics", averages.get(metric.resource, 0), "window")
        own: problems.Path = ("metrics", entries[metric.name], "window") if metric.name in entries else behind
        average, step = units.duration_text(metric.averaging_seconds), units.duration_text(step_seconds)
        message = (
            f"{metric.name} looks back {units.duration_text(metric.window_seconds)} at averages over {average}, which "
            f"are evaluated every {step}: most of the time it would find none; expected at least {step}"
        )
        yield Finding(own, message, (behind,))


def _named(policy: load_policy.LoadPolicy) -> Findings:
    in_force = metrics.names(policy.metrics_in_force)
    known = frozenset(in_force)
    maps: tuple[tuple[problems.Path, collections.abc.Iterable[str]], ...] = (
        (("filter", "thresholds"), policy.filter.thresholds),
        (("score", "weights"), policy.score.weights),
        (("descheduler", "thresholds"), policy.descheduler.thresholds),
        *(((*path, "filter", "thresholds"), part.filter.thresholds) for path, part, _ in parts(policy)),
        *(((*path, "score", "weights"), part.score.weights) for path, part, _ in parts(policy)),
    )
    for path, keys in maps:
        for at, name in enumerate(name for name in keys if name not in known):
            hint = _hint(name, in_force) if at < _HINTS else ""
            yield Finding((*path, name), f"no metric of this name{hint}", (("metrics",),))


def _hint(name: str, in_force: tuple[str, ...]) -> str:
    listed = [*in_force[:_LISTED], "..."] if len(in_force) > _LISTED else in_force
    return problems.did_you_mean(name, in_force[:_COMPARED]) or f"; in force: {', '.join(listed)}"


def _weights(policy: load_policy.LoadPolicy) -> Findings:
    if not any(policy.score.weights.values()):
        yield Finding(("score", "weights"), "all weights are 0: at least one metric must count")
    for path, part, own in parts(policy):
        if not part.score.weights:
            continue
        where = "for this class" if path[0] == "podClasses" else "in this pool"
        cases = [(own, f"{where}, with those of score.weights")]
        if any(own.score.weights.values()):
            on_pools = zip(own.pools, own.of_pools, strict=True)
            cases = [(on_pool, f"{where} on nodes of pool {pool.name}") for pool, on_pool in on_pools]
        for case, place in cases:
            if not any(case.score.weights.values()):
                message = f"all weights are 0 {place}: at least one metric must count"
                yield Finding((*path, "score", "weights"), message, (("score", "weights"), ("pools",)))


def _goals(policy: load_policy.LoadPolicy) -> Findings:
    targets: list[tuple[problems.Path, float | None]] = [(("score", "target"), policy.score.target_ratio)]
    targets += [((*path, "score", "target"), part.score.target_ratio) for path, part, _ in parts(policy)]
    for path, target_ratio in targets:
        if target_ratio is not None and not 0.0 < target_ratio < 1.0:
            yield Finding(path, f"must be over 0 and under 1, got {target_ratio:g}: it is a load to fill nodes up to")


def _hot_spots(policy: load_policy.LoadPolicy) -> Findings:
    windows: dict[float, str] = {}
    for index, spot in enumerate(policy.hot_spots):
        path: problems.Path = ("hotSpots", index, "window")
        if spot.window_seconds < _LEAST_SECONDS:
            yield Finding(path, f"must be at least {_LEAST}: a pod says in whole seconds when it was placed")
        if spot.window_seconds in windows:
            yield Finding(path, f"the window {windows[spot.window_seconds]} is listed twice")
        windows.setdefault(spot.window_seconds, spot.window)


def _bands(policy: load_policy.LoadPolicy) -> Findings:
    own = policy.descheduler.thresholds
    yield from _band_order(("descheduler", "thresholds"), own)
    for index, pool in enumerate(policy.pools):
        path: problems.Path = ("pools", index, "descheduler", "thresholds")
        yield from _band_order(path, pool.descheduler.thresholds)
        for name in (name for name in pool.descheduler.thresholds if name not in own):
            known = ", ".join(own) or "none"
            message = f"no line in descheduler.thresholds, and a pool changes lines but adds none; there: {known}"
            yield Finding((*path, name), message, (("descheduler", "thresholds"),))


def _band_order(path: problems.Path, bands: collections.abc.Mapping[str, descheduler_section.Band]) -> Findings:
    for name, band in bands.items():
        over, place = band.over_mean, (*path, name, "overMean")
        for at, lines in (((*path, name), band), (place, over)):
            if lines is not None and lines.evict_until_ratio >= lines.evict_above_ratio:
                above = f"{lines.evict_above_ratio:g}"
                message = f"must be lower than evictAbove ({above}), or a relieved node is overloaded again"
                yield Finding((*at, "evictUntil"), message)
        if over is not None and max(over.floor_ratio, over.evict_above_ratio) >= band.evict_above_ratio:
            message = f"never counts: a node is over the fixed evictAbove ({band.evict_above_ratio:g}) before"
            key = "floor" if over.floor_ratio >= band.evict_above_ratio else "evictAbove"
            yield Finding((*place, key), message, ((*path, name, "evictAbove"),))


def _pauses(policy: load_policy.LoadPolicy) -> Findings:
    returned, vain = policy.descheduler.cooldown.returned, policy.descheduler.cooldown.ineffective
    breaker = policy.descheduler.breaker
    for path, first_seconds, longest_seconds in (
        (("cooldown", "returned", "initial"), returned.initial_seconds, returned.max_seconds),
        (("cooldown", "ineffective", "initial"), vain.initial_seconds, vain.max_seconds),
        (("breaker", "backoff"), breaker.backoff_seconds, breaker.max_seconds),
    ):
        if longest_seconds < first_seconds:
            first: problems.Path = ("descheduler", *path)
            yield Finding((*first[:-1], "max"), f"must not be shorter than {path[-1]}", (first,))


def _windows(policy: load_policy.LoadPolicy) -> Findings:
    for index, window in enumerate(policy.descheduler.windows):
        path: problems.Path = ("descheduler", "windows", index)
        if window.begins == window.ends:
            yield Finding((*path, "to"), 'is the same as from: the whole day is from "00:00" to "24:00"')
        if window.begins == "24:00":
            yield Finding((*path, "from"), 'a window begins from "00:00" to "23:59"')
        if len(set(window.days)) != len(window.days):
            yield Finding((*path, "days"), "a day is listed twice")
        if not is_time_zone(window.time_zone):
            yield Finding(
                (*path, "timeZone"), f"{units.quoted(window.time_zone)} is not an IANA time zone such as Europe/Berlin"
            )


def is_time_zone(name: str) -> bool:
    """Whether the name is one of the IANA's that is known here."""
    try:
        zoneinfo.ZoneInfo(name)
    except (ValueError, KeyError, OSError):  # OSError: a directory of the database, such as America
        return False
    return True


def _selectors(policy: load_policy.LoadPolicy) -> Findings:
    protect = policy.descheduler.protect
    flow, pools = enumerate(policy.descheduler.flow), enumerate(policy.pools)
    every: list[tuple[problems.Path, sections.LabelSelector | None]] = [
        (("descheduler", "protect", "labelSelector"), protect.label_selector),
        (("descheduler", "protect", "namespaceSelector"), protect.namespace_selector),
        *((("descheduler", "flow", at, "match", "labelSelector"), rule.match.label_selector) for at, rule in flow),
        *((("pools", at, "nodeSelector"), pool.node_selector) for at, pool in pools),
    ]
    for path, selector in every:
        for index, expression in enumerate(selector.match_expressions if selector is not None else ()):
            needs_values = expression.operator in ("In", "NotIn")
            if needs_values != bool(expression.values):
                wanted = "needs at least one" if needs_values else "takes none"
                yield Finding((*path, "matchExpressions", index, "values"), f"{expression.operator} {wanted}")


def parts(policy: load_policy.LoadPolicy) -> collections.abc.Iterator[Part]:
    """The pools and the classes of pods, each with its path and the policy as it is there."""
    pools, classes = enumerate(policy.pools), enumerate(policy.pod_classes)
    yield from ((("pools", at), pool, policy.of_pools[at]) for at, pool in pools)
    yield from ((("podClasses", at), one, policy.of_classes[at]) for at, one in classes)


def _part_names(policy: load_policy.LoadPolicy) -> Findings:
    keys: set[tuple[str | int, str]] = set()
    for path, part, _ in parts(policy):
        if (path[0], part.name) in keys:
            kind = "pool" if path[0] == "pools" else "class"
            yield Finding((*path, "name"), f"{kind} {part.name} is listed twice")
        keys.add((path[0], part.name))


def _pool_order(policy: load_policy.LoadPolicy) -> Findings:
    """Pools that no node can belong to, because one before them has all of their nodes."""
    for index, pool in enumerate(policy.pools):
        path: problems.Path = ("pools", index, "nodeSelector")
        before = next((one for one in policy.pools[:index] if one.node_selector == pool.node_selector), None)
        if before is not None:
            yield Finding(path, f"is that of pool {before.name}, which comes first and has all of its nodes")
        elif pool.node_selector.is_empty and index + 1 < len(policy.pools):
            after = policy.pools[index + 1].name
            yield Finding(
                path, f"matches every node, so that none is left for pool {after}: list pool {pool.name} last"
            )


def _classes(policy: load_policy.LoadPolicy) -> Findings:
    """Classes that no pod can be of, or more of them than the extender keeps scores for."""
    every, most = policy.pod_classes, pod_classes.MOST_CLASSES
    if len(every) > most:
        message = f"{len(every)} classes, expected at most {most}: the extender keeps the scores of all nodes for each"
        yield Finding(("podClasses",), message)
        return
    for index, one in enumerate(every):
        path: problems.Path = ("podClasses", index, "match")
        least, limit = one.match.priority.least, one.match.priority.most
        if least is not None and limit is not None and least > limit:
            yield Finding((*path, "priority", "min"), f"{least} is over max ({limit}), so that no pod matches")
        elif one.match.is_empty and index + 1 < len(every):
            after = f"none is left for class {every[index + 1].name}"
            yield Finding(path, f"matches every pod, so that {after}: list class {one.name} last")
            return
        elif not pod_classes.has_pods(every, index):
            message = f"no pod is left for class {one.name}: each that matches is of a class before it"
            yield Finding(path, f"{message}; list {one.name} before them, or remove it")


_CHECKS: Final = (
    _too_often,
    _sync,
    _metrics,
    _steps,
    _named,
    _weights,
    _goals,
    _hot_spots,
    _bands,
    _pauses,
    _windows,
    _selectors,
    _part_names,
    _pool_order,
    _classes,
)
