"""A policy in sentences: what each section makes the services do, so that an operator sees what was understood.

`evenload policy show` prints `read_back`; every section in force speaks, with its defaults, and what is switched off
says so. The descheduler's section is in `policy.explain.descheduler_summary`.
"""

import collections.abc
from typing import Final, NamedTuple

from policy import metrics
from policy.contract import filter_opt_out
from policy.explain import descheduler_summary, wording
from policy.schema import load_policy, node_pools, pod_classes

Sentences = collections.abc.Iterator[str]
_MODES: Final = {
    "Shadow": "it shadows: it decides and records, and tells kube-scheduler that every node passes and scores the same",
    "Enforce": "it enforces: kube-scheduler gets its verdicts and scores",
}


class Section(NamedTuple):
    """A section of the file by its YAML key, and what it means: one sentence per rule."""

    key: str
    sentences: tuple[str, ...]


def read_back(policy: load_policy.LoadPolicy) -> tuple[Section, ...]:
    """All sections, in the order of the file."""
    return (
        Section("sync", tuple(_sync(policy.sync))),
        Section("metrics", tuple(_metric(metric) for metric in policy.metrics_in_force)),
        Section("filter", tuple(_filter(policy))),
        Section("score", tuple(_score(policy))),
        Section("hotSpots", tuple(_hot_spots(policy))),
        Section("recentPods", tuple(_recent_pods(policy.recent_pods))),
        Section("extender", (_MODES[policy.extender.mode],)),
        Section("descheduler", tuple(descheduler_summary.read_back(policy))),
        Section("pools", tuple(_pools(policy))),
        Section("podClasses", tuple(_pod_classes(policy))),
    )


def _sync(sync: load_policy.Sync) -> Sentences:
    yield f"node load is read from Prometheus every {wording.within(sync.period_seconds)}, one query per metric"
    yield f"a reading older than {wording.span(sync.stale_after_seconds)} is not used"
    if sync.min_change_ratio > 0:
        points = wording.count(round(sync.min_change_ratio * 100, 10), "percentage point")
        yield f"a move of less than {points} is not written to the node, unless it crosses a limit"
    else:
        yield "every change is written to the node"


def _metric(metric: metrics.Metric) -> str:
    """Returns the definition of a metric, written once, so that the other sections can be short."""
    resource, window = wording.resource(metric.resource), wording.within(metric.window_seconds)
    if metric.query is not None:
        return f"{metric.name} is a ratio of {resource} by a query of your own: {metric.query}"
    if metric.statistic == metrics.AVERAGE:
        return f"{metric.name} is the average {resource} use of the last {window}"
    averages = f"the {wording.long(metric.averaging_seconds)} averages of {resource} use in the last {window}"
    which = "highest" if metric.statistic == metrics.MAXIMUM else wording.statistic(metric.statistic)
    return f"{metric.name} is the {which} of {averages}"


def _filter(policy: load_policy.LoadPolicy) -> Sentences:
    rules = policy.filter
    limited = [metric for metric in policy.metrics_in_force if rules.thresholds.get(metric.name, 0.0) > 0]
    for metric in limited:
        yield _skipped(metric, rules.thresholds[metric.name])
    if not limited:
        yield "no node is skipped for its load: no threshold is set"
        return
    if policy.recent_pods.enabled:
        yield "the expected load of pods that arrived a moment ago counts towards these limits"
    missing = "skipped as well" if rules.on_missing == "reject" else "not skipped for that"
    yield f"a node whose reading is missing, stale or invalid is {missing}"
    yield {
        "pending": "when every node is skipped, the pod waits",
        "coolest": "when every node is skipped, the coolest tenth (at least one) is kept and the decision is degraded",
    }[rules.when_all_rejected]
    who = ["pods of DaemonSets"] if rules.exempt.daemon_sets else []
    who += [f"pods in {wording.listed(sorted(rules.exempt.namespaces))}"] if rules.exempt.namespaces else []
    who += [f"pods of priority {rules.exempt.priority_at_least} or more"]
    yield f"no node is skipped for {wording.listed(who, 'or')}"
    asking, opt_out = f'pods annotated {filter_opt_out.KEY}: "{filter_opt_out.OFF}"', rules.exempt.opt_out
    but = f", except in {wording.listed(sorted(opt_out.except_namespaces))}" if opt_out.except_namespaces else ""
    if opt_out.enabled:
        yield f"no node is skipped for {asking}{but}, unless it was just relieved of their workload"
    else:
        yield f"{asking} are filtered like all others"


def _skipped(metric: metrics.Metric, limit_ratio: float) -> str:
    if limit_ratio == 0:
        return f"no node is skipped for its {wording.metric(metric)}"
    return f"a node is skipped for new pods while its {wording.metric(metric)} is over {wording.percent(limit_ratio)}"


def _scored(policy: load_policy.LoadPolicy) -> Sentences:
    every = metrics.resources(policy.metrics_in_force)
    if policy.score.combine == "mean":
        yield f"a node scores 10 (idle) to 0 (full) by the weighted mean of {_shares(policy, every)}"
    else:
        means = [_shares(policy, (resource,)) for resource in every]
        worse = wording.listed([f"the mean of {mean}" for mean in means if mean])
        yield f"a node scores 10 (idle) to 0 (full) by the worse of {worse}"
    if policy.score.goal == "pack":
        target = wording.percent(policy.score.target_ratio)
        yield f"nodes are packed: up to a load of {target} the fuller node scores higher, above it the emptier one"


def _score(policy: load_policy.LoadPolicy) -> Sentences:
    score = policy.score
    yield from _scored(policy)
    if score.incoming_pod:
        yield "the expected load of the pod being placed is added first"
    else:
        yield "the pod being placed does not count in it"
    if score.spread == "stretch":
        yield "scores are stretched: the best candidate has 10, and one that is 3 points or more behind it has 0"
    else:
        yield "scores are not stretched: candidates of nearly the same load score nearly the same"


def _shares(policy: load_policy.LoadPolicy, resources: collections.abc.Collection[str]) -> str:
    """The metrics of `resources` that weigh anything, each with its share of their sum."""
    weights = policy.score.weights
    counted = [
        (metric, weights[metric.name])
        for metric in policy.metrics_in_force
        if metric.resource in resources and weights.get(metric.name, 0.0) > 0
    ]
    total = sum(weight for _, weight in counted)
    return wording.listed([f"{wording.metric(metric)} ({100 * weight / total:.3g} %)" for metric, weight in counted])


def _hot_spots(policy: load_policy.LoadPolicy) -> Sentences:
    counted = [spot for spot in policy.hot_spots if spot.penalty > 0]
    for spot in sorted(counted, key=lambda spot: spot.window_seconds):
        points, window = wording.count(spot.penalty, "point"), wording.within(spot.window_seconds)
        pods = "pod" if spot.pods == 1 else f"{spot.pods} pods"
        yield f"a node loses {points} for every {pods} placed on it in the last {window}"
    if not counted:
        yield "pods placed on one node in a row cost it no points"


def _recent_pods(recent: load_policy.RecentPods) -> Sentences:
    if not recent.enabled:
        yield "pods that arrived a moment ago count only as far as the readings show them"
        return
    share, default = recent.usage_per_request, recent.default
    yield (
        f"a pod that the readings cannot show yet is expected to use {wording.percent(share.cpu)} of the CPU and "
        f"{wording.percent(share.memory)} of the memory it requests, and counts less as each window fills"
    )
    if recent.owner_usage:
        yield (
            "where its owner has 3 measured replicas, or 1 that has been Ready for an hour, it is expected to use what "
            "these use on average, and at least half of what it requests"
        )
    as_text = default.model_dump(mode="json", by_alias=True)
    yield f"what it does not request is taken as {as_text['cpu']} of CPU and {as_text['memory']} of memory"


def _pools(policy: load_policy.LoadPolicy) -> Sentences:
    """Pools by what differs in them from the sections above."""
    if not policy.pools:
        yield "there are no pools: all of this holds for every node"
        return
    yield "a node belongs to the first pool that matches it; what a pool does not name is as above"
    for pool, on_pool in zip(policy.pools, policy.of_pools, strict=True):
        selected = wording.selector(pool.node_selector)
        yield f"pool {pool.name} has the nodes that match {selected}" if selected else f"pool {pool.name} has all nodes"
        scored = tuple(_scored(on_pool)) if pool.score.differs else ()
        for sentence in (*_filtered(policy, pool), *scored, *descheduler_summary.of_pool(on_pool, pool)):
            yield f"pool {pool.name}: {sentence}"


def _filtered(policy: load_policy.LoadPolicy, part: node_pools.Pool | pod_classes.PodClass) -> Sentences:
    by_name = {metric.name: metric for metric in policy.metrics_in_force}
    for name, limit_ratio in part.filter.thresholds.items():
        yield _skipped(by_name[name], limit_ratio)


def _pod_classes(policy: load_policy.LoadPolicy) -> Sentences:
    """Classes of pods by what differs for them from the sections above."""
    if not policy.pod_classes:
        yield "there are no classes of pods: all of this holds for every pod"
        return
    yield "a pod is of the first class that matches it; what a class does not name is as above, pools included"
    for one, for_class in zip(policy.pod_classes, policy.of_classes, strict=True):
        yield f"class {one.name} has {wording.pods(one.match)}"
        scored = tuple(_scored(for_class)) if one.score.differs else ()
        for sentence in (*_filtered(policy, one), *scored):
            yield f"class {one.name}: {sentence}"
