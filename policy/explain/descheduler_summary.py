"""The descheduler's section in sentences: when a node is relieved, how fast, what may leave it and when.

`policy.explain.summary.read_back` appends these. A protection that is switched off says so: it is the one that hurts.
"""

import collections.abc

from policy.explain import wording
from policy.schema import descheduler_section, load_policy, node_pools, protection

Sentences = collections.abc.Iterator[str]


def read_back(policy: load_policy.LoadPolicy) -> Sentences:
    """Every rule of `policy.descheduler`, one sentence each."""
    section = policy.descheduler
    yield _mode(section)
    if section.mode == "Enforce":
        yield from _windows(section)
    yield from _bands(policy)
    yield from _limits(section.limits)
    if section.grace_period_seconds is not None:
        yield f"an evicted pod has {wording.span(section.grace_period_seconds)} to end, whatever its own grace period"
    yield from _protect(section.protect)
    yield from _cooldown(section.cooldown)
    yield _breaker(section.breaker)
    if (surge := section.surge).enabled:
        yield (
            "pods that stay for too few replicas leave once another pod of their Deployment is Ready elsewhere, within "
            f"{wording.span(surge.ready_within_seconds)}; {wording.count(surge.at_once, 'Deployment')} at a time"
        )
    yield from (_flow(rule) for rule in section.flow)
    if section.flow:
        yield "of the rules that match an eviction, the last one decides"


def _mode(section: descheduler_section.Descheduler) -> str:
    if section.paused:
        return "it is paused: nothing is evicted, whatever the mode"
    every = f"every {wording.within(section.interval_seconds)}"
    return {
        "Observe": f"it observes: {every} it plans and reports, and evicts nothing",
        "DryRun": f"it runs dry: {every} it plans and asks the apiserver with dryRun, and evicts nothing",
        "Enforce": f"it enforces: {every} it plans and evicts",
    }[section.mode]


def _windows(section: descheduler_section.Descheduler) -> Sentences:
    for window in section.windows:
        days = "every day" if len(window.days) == len(descheduler_section.DAYS) else f"on {wording.listed(window.days)}"
        next_day = " of the next day" if window.ends < window.begins else ""
        yield f"it may evict {days} from {window.begins} to {window.ends}{next_day}, {window.time_zone}"
    yield "outside these times it observes" if section.windows else "it may evict at any time of the day"


def _bands(policy: load_policy.LoadPolicy) -> Sentences:
    section = policy.descheduler
    yield from _overloaded(policy, section.thresholds)
    if not section.thresholds:
        yield "no node counts as overloaded: no threshold is set"
        return
    if len(section.thresholds) > 1:
        yield f"metrics are relieved in this order: {', '.join(section.thresholds)}"
    if section.cool_nodes:
        nodes = wording.count(section.cool_nodes, "schedulable node")
        yield f"it acts only while at least {nodes} can take more (every metric under evictUntil)"
    else:
        yield "it acts even while no other node is cool"


def _overloaded(
    policy: load_policy.LoadPolicy, bands: collections.abc.Mapping[str, descheduler_section.Band]
) -> Sentences:
    by_name = {metric.name: metric for metric in policy.metrics_in_force}
    seconds = policy.descheduler.overloaded_for_seconds
    lasting = f" for {wording.span(seconds)}" if seconds else ""
    for name, band in bands.items():
        yield (
            f"a node is overloaded once its {wording.metric(by_name[name])} has been over "
            f"{wording.percent(band.evict_above_ratio)}{lasting}; pods leave it until that is at or under "
            f"{wording.percent(band.evict_until_ratio)}"
        )
        if (over := band.over_mean) is not None:
            yield (
                f"it is overloaded, too, once that has been over {wording.percent(over.floor_ratio)} and "
                f"{100 * over.evict_above_ratio:g} points above the mean of the nodes{lasting}; pods leave it, then, "
                f"until that is at most {100 * over.evict_until_ratio:g} points above the mean"
            )


def of_pool(policy: load_policy.LoadPolicy, pool: node_pools.Pool) -> Sentences:
    """The relief of a pool's nodes, as far as the pool says something about it; `policy` is as on its nodes."""
    if pool.descheduler.mode is not None:
        yield _mode(policy.descheduler)
    yield from _overloaded(policy, pool.descheduler.thresholds)
    limits = pool.descheduler.limits
    if limits.per_node is not None:
        yield f"at most {wording.count(limits.per_node, 'pod')} from one node in one run"
    yield from caps_of_pool(pool)


def caps_of_pool(pool: node_pools.Pool) -> Sentences:
    """The caps on evictions from all nodes of a pool, which hold beside the policy's own."""
    limits = pool.descheduler.limits
    caps = ((limits.per_run, "one run"), (limits.per_hour, "any hour"))
    for most, span in caps:
        if most is not None:
            yield f"at most {wording.count(most, 'pod')} from all nodes of the pool in {span}"


def _limits(limits: descheduler_section.Limits) -> Sentences:
    yield (
        f"at most {wording.count(limits.per_run, 'pod')} in one run, {limits.per_node} from one node, "
        f"{limits.per_namespace} from one namespace, and {limits.per_hour} in any hour"
    )
    if limits.per_workload == "bySize":
        yield "of one workload at most 1 pod is away at a time, 2 of 4 to 10 replicas, 10 % of more"
    elif isinstance(limits.per_workload, str):
        yield f"of one workload at most {limits.per_workload.removesuffix('%')} % may be away at a time, rounded up"
    else:
        yield f"of one workload at most {wording.count(float(limits.per_workload), 'pod')} may be away at a time"
    yield (
        f"nothing leaves while {wording.count(limits.unreplaced, 'evicted pod')} "
        f"{'has' if limits.unreplaced == 1 else 'have'} no Ready replacement, nor from a namespace with "
        f"{limits.unreplaced_per_namespace} of these; of one workload each is waited for"
    )
    yield f"a run evicts nothing by what it began to read more than {wording.span(limits.max_snapshot_age_seconds)} ago"


def _protect(protect: protection.Protect) -> Sentences:
    labels, replicas, markers = wording.selector(protect.label_selector), protect.min_replicas, protect.markers
    namespaces = wording.selector(protect.namespace_selector) if protect.namespace_selector is not None else None
    unheeded = wording.listed(sorted(protect.opt_out.except_namespaces)) if protect.opt_out.enabled else ""
    local = {
        "disk": "pods with a hostPath or an emptyDir on disk stay",
        "all": "pods with a hostPath or any emptyDir stay",
        "none": "pods with local data may be evicted and lose it",
    }
    node_bound = "stay" if protect.node_bound_volumes else "may be evicted"
    classes = wording.listed(sorted(protect.storage_classes), "or")
    bare = "stay" if protect.bare else "may be evicted: no controller replaces them"
    jobs = "stay" if protect.jobs_without_retry else "may be evicted"
    ready = f"at least {wording.percent(protect.min_ready_ratio)} of a workload's replicas remain ready"
    bounded = 'pods annotated karpenter.sh/do-not-disrupt: "true" stay, with a duration so long after they started'
    rules = (
        (protect.opt_in, 'only pods annotated evenload.io/evictable: "true" may be evicted'),
        (labels, f"only pods that match {labels} may be evicted"),
        (protect.namespaces, f"pods in {wording.listed(sorted(protect.namespaces))} stay"),
        (namespaces, f"pods in namespaces that match {namespaces} stay"),
        (namespaces == "", "pods in any namespace stay"),
        (True, f"pods of priority {protect.priority_at_least} or more stay"),
        (protect.min_pod_age_seconds, f"pods younger than {wording.span(protect.min_pod_age_seconds)} stay"),
        (replicas > 1, f"pods of workloads with fewer than {replicas} replicas stay"),
        (replicas <= 1, "the only pod of a workload may be evicted"),
        (protect.min_ready_ratio, ready),
        (True, local[protect.local_storage]),
        (True, f"pods whose volumes exist on their node only {node_bound}"),
        (classes, f"pods with volumes of storage class {classes} stay"),
        (True, f"pods without a controller {bare}"),
        (True, f"pods of a group {'stay' if protect.groups else 'may be evicted, all of it together'}"),
        (protect.without_budget, "pods over which there is no PodDisruptionBudget stay"),
        (True, f"pods of Jobs that an eviction would take the last retry of {jobs}"),
        (markers.safe_to_evict, 'pods annotated cluster-autoscaler.kubernetes.io/safe-to-evict: "false" stay'),
        (markers.do_not_disrupt, bounded),
        (markers.eviction_cost, 'pods annotated scheduling.koordinator.sh/eviction-cost: "2147483647" stay'),
        (markers.prefer_no_eviction, "pods annotated descheduler.alpha.kubernetes.io/prefer-no-eviction come last"),
        (not protect.opt_out.enabled, "no annotation of a pod keeps it from being evicted"),
        (unheeded, f"annotations of pods in {unheeded} keep none of them"),
    )
    return (sentence for holds, sentence in rules if holds)


def _cooldown(rest: descheduler_section.Cooldown) -> Sentences:
    pairs = (("the workload", rest.workload_seconds), ("the node", rest.node_seconds))
    resting = [f"{who} is left alone for {wording.span(seconds)}" for who, seconds in pairs if seconds]
    if resting:
        yield f"after an eviction {wording.listed(resting)}"
    back = rest.returned
    yield (
        f"a workload that came back to the node is left alone for {wording.span(back.initial_seconds)}, "
        f"{wording.number(back.factor)} times as long with each further return within "
        f"{wording.span(back.window_seconds)}, at most {wording.span(back.max_seconds)}"
    )
    vain = rest.ineffective
    yield (
        f"a node whose load falls by less than half of what {wording.count(vain.evictions, 'eviction')} should have "
        f"taken off is left alone for {wording.span(vain.initial_seconds)}, "
        f"{wording.number(vain.factor)} times as long after each further one, at most {wording.span(vain.max_seconds)}"
    )


def _breaker(breaker: descheduler_section.Breaker) -> str:
    jitter = f" (and up to {wording.percent(breaker.jitter_ratio)} more, at random)" if breaker.jitter_ratio else ""
    return (
        f"after {wording.count(breaker.failures, 'failed eviction')} in a row a workload is left alone for "
        f"{wording.span(breaker.backoff_seconds)}{jitter}, {wording.number(breaker.factor)} times as long after each "
        f"failed trial, at most {wording.span(breaker.max_seconds)}; after {wording.count(breaker.steps, 'trial')} "
        "until `evenload breaker reset`"
    )


def _flow(rule: descheduler_section.FlowRule) -> str:
    match, allow = rule.match, rule.allow
    which = [f"in {wording.listed(match.namespaces, 'or')}"] if match.namespaces else []
    which += [f"of a {wording.listed(match.kinds, 'or')}"] if match.kinds else []
    which += [f"matching {selector}"] if (selector := wording.selector(match.label_selector)) else []
    which += [f"of priority under {match.priority_below}"] if match.priority_below is not None else []
    burst = f", {allow.burst} at once" if allow.burst else ""
    admitted = {
        "Exempt": "are not limited",
        "Never": "are not evicted",
        "InFlight": f"are evicted {allow.in_flight} at a time",
        "Rate": f"are evicted at most {allow.per_minute} in a minute{burst}",
    }[allow.mode]
    return f"{' '.join(['pods', *which]) if which else 'all pods'} {admitted}"
