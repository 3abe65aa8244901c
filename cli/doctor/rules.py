"""Judges of settings: of a policy that is valid and pulls against itself in use, budgets that never allow an eviction,
placeholders that hold no room, and objects that cannot be decoded.

`command` lists them. What no cluster could make sense of is refused when the policy is loaded (`policy.schema.checks`);
here stands what works, but hardly as meant.
"""

import collections
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cli.doctor import findings
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding
from kube.objects import DisruptionBudget, Node
from kube.pods import compact, pod_view
from policy.metrics import MEMORY
from policy.schema.load_policy import LoadPolicy

SOAK: Final = "soak"  # of compact.PRESET_ANNOTATION; order is the default
Remarks = Iterator[Finding]


def consistent(facts: Facts) -> Remarks:
    """The rules of filter, score and descheduler fit together."""
    policy = facts.settings.policy
    remarks = [remark for rule in _RULES for remark in rule(policy)]
    yield from remarks
    yield from _in_pools(policy, frozenset(remarks))
    if not isinstance(facts.nodes, Finding):
        yield from _cool_nodes(policy, len(facts.nodes))
        yield from _above_allocatable(policy, facts.nodes)
    yield from findings.unread({"whether it fits the nodes": facts.nodes})
    filtered = sum(limit > 0 for limit in policy.filter.thresholds.values())
    yield findings.ok(f"{facts.settings.policy_source}: {filtered} filter rules, descheduler {policy.descheduler.mode}")


def _in_pools(policy: LoadPolicy, known: frozenset[Finding]) -> Remarks:
    """Remarks that hold on the nodes of a pool and not everywhere."""
    for pool, on_pool in zip(policy.pools, policy.of_pools, strict=True):
        for remark in (remark for rule in _RULES for remark in rule(on_pool)):
            if remark not in known:
                fix = f"{remark.fix}, in pool {pool.name}"
                yield remark._replace(observation=f"pool {pool.name}: {remark.observation}", fix=fix)


def _filter_beside_relief(policy: LoadPolicy) -> Remarks:
    for name, band in policy.descheduler.thresholds.items():
        limit = policy.filter.thresholds.get(name, 0.0)
        if limit >= band.evict_above_ratio:
            yield findings.warn(
                f"{name}: nodes take pods up to {limit:g} and are relieved from {band.evict_above_ratio:g} on, so pods "
                "are placed where others are evicted",
                f"set filter.thresholds.{name} lower than descheduler.thresholds.{name}.evictAbove",
            )
        if 0 < limit < band.evict_until_ratio:
            yield findings.warn(
                f"{name}: relief stops at {band.evict_until_ratio:g}, and the node still takes no pods above {limit:g}",
                f"set descheduler.thresholds.{name}.evictUntil to {limit:g} or lower",
            )
        if limit <= 0 and policy.descheduler.mode == "Enforce":
            yield findings.warn(
                f"{name}: pods are evicted by it and no filter rule keeps their replacements off hot nodes",
                f"give filter.thresholds.{name} a value lower than evictAbove",
            )


def _nothing_against_herding(policy: LoadPolicy) -> Remarks:
    if not policy.recent_pods.enabled and not policy.hot_spots:
        yield findings.warn(
            "neither recentPods nor hotSpots count pods that the windows cannot show yet: a burst herds onto one node",
            "set recentPods: {enabled: true}",
        )


def _single_reading(policy: LoadPolicy) -> Remarks:
    least_seconds = 2 * policy.sync.period_seconds
    if policy.descheduler.mode == "Enforce" and policy.descheduler.overloaded_for_seconds < least_seconds:
        yield findings.warn(
            f"descheduler.overloadedFor is shorter than two sync periods ({least_seconds:g} s): one reading evicts",
            f"set descheduler.overloadedFor to at least {least_seconds:g}s; 3m is the default",
        )


def _cool_nodes(policy: LoadPolicy, nodes: int) -> Remarks:
    if nodes and policy.descheduler.cool_nodes >= nodes:
        yield findings.warn(
            f"descheduler.coolNodes is {policy.descheduler.cool_nodes} and there are {nodes} nodes: it never acts",
            f"set descheduler.coolNodes to {max(1, nodes - 1)} or less",
        )


def _above_allocatable(policy: LoadPolicy, nodes: Sequence[Node]) -> Remarks:
    """Lines of memory that lie above what a node lets all its pods use: kubelet evicts and the kernel kills earlier.

    A reading is a share of the whole machine. CPU has no such line: pods may use idle CPU beyond allocatable.
    """
    below: dict[tuple[str, float, str], dict[str, float]] = collections.defaultdict(dict)
    for node in nodes:
        own, pool = policy.on_node(node.labels), policy.pool_of(node.labels)
        for metric in own.metrics_in_force:
            if metric.resource != MEMORY or metric.query is not None:
                continue
            band = own.descheduler.thresholds.get(metric.name)
            lines = {
                f"filter.thresholds.{metric.name}": own.filter.thresholds.get(metric.name, 0.0),
                f"descheduler.thresholds.{metric.name}.evictAbove": band.evict_above_ratio if band else 0.0,
            }
            for key, line in lines.items():
                if line > (share := _allocatable_ratio(node)):
                    below[key, line, f" of pool {pool.name}" if pool else ""][node.name] = share
    for (key, line, where), shares in below.items():
        ascending = sorted((share, name) for name, share in shares.items())
        yield findings.warn(
            f"{key} is {line:g}, and the memory that pods may use is "
            f"{findings.few(f'{share:.2f} of {name}' for share, name in ascending)}: kubelet evicts pods there, or the "
            "kernel kills them, before a reading is over the line",
            f"set {key}{where} lower than {ascending[0][0]:.2f}",
        )


def _allocatable_ratio(node: Node) -> float:
    """Allocatable memory as a share of the machine's; 1 where the node does not say both."""
    try:
        allocatable_bytes, capacity_bytes = node.allocatable.memory_bytes, node.capacity.memory_bytes
    except (ValueError, OverflowError):
        return 1.0
    return allocatable_bytes / capacity_bytes if allocatable_bytes and capacity_bytes else 1.0


_RULES: tuple[Callable[[LoadPolicy], Remarks], ...] = (_filter_beside_relief, _nothing_against_herding, _single_reading)


def decoded(facts: Facts) -> Finding:
    """Every object that was read could be decoded: others are skipped by all services."""
    if not facts.undecodable:
        unread = findings.unread({"the nodes": facts.nodes, "the pods": facts.pods})
        return findings.worst([findings.ok("every object that was read could be decoded"), *unread])
    return findings.warn(
        f"{facts.undecodable}: no service sees them whole",
        "kubectl get KIND NAME -n NAMESPACE -o yaml --show-managed-fields shows who wrote the field; "
        "docs/runbooks/EvenloadObjectsUndecodable.md",
    )


def budgets(facts: Facts) -> Finding:
    """No PodDisruptionBudget forbids every eviction for ever."""
    protected = set(facts.settings.policy.descheduler.protect.namespaces)
    budgets = findings.known(facts.budgets)
    ours = [one for one in budgets if one.namespace not in protected and one.status.expected_pods > 0]
    never = [one for one in ours if _never_allows(one)]
    for_now = [one for one in ours if one not in never and one.status.disruptions_allowed == 0]
    waiting = f"; {findings.few(one.key for one in for_now)} allow none just now" if for_now else ""
    if not never:
        return findings.ok(f"{len(ours)} budgets, all of them can allow an eviction{waiting}")
    text = findings.few(f"{one.key} ({_rule(one)} over {one.status.expected_pods} pods)" for one in never)
    first = never[0]
    patch = f"kubectl -n {first.namespace} patch pdb {first.name} --type merge -p "
    return findings.warn(
        f"allow no eviction ever: {text}: neither the descheduler nor a node drain can move their pods{waiting}",
        f"""{patch}'{{"spec":{{"minAvailable":null,"maxUnavailable":1}}}}', or more replicas than minAvailable""",
    )


def placeholders(facts: Facts) -> Finding:
    """Placeholder pods yield to every ordinary pod and still count for the autoscaler."""
    held = [pod for pod in findings.known(facts.pods) if pod_view.claims_placeholder(pod) and not pod.finished]
    if not held:
        return findings.ok("none deployed (deploy/placeholder holds room for bursts)")
    cutoff = facts.settings.expendable_below
    ordering = [pod.priority for pod in held if pod.annotations.get(compact.PRESET_ANNOTATION) != SOAK]
    highest, lowest = max(pod.priority for pod in held), min(ordering, default=cutoff)
    name = next((pod.priority_class for pod in held if pod.priority_class), "the PriorityClass")
    fix = f"give {name} a value from {cutoff} to -1 (-5 in deploy/placeholder) and create the placeholders again"
    if lowest < cutoff:
        return findings.fail(
            f"placeholders have priority {lowest}: cluster-autoscaler expends pods under {cutoff} and adds no node",
            fix,
        )
    if highest >= 0:
        return findings.fail(f"placeholders have priority {highest}: ordinary pods (0) do not preempt them", fix)
    if any(one.name == name and one.preemption_policy != "Never" for one in findings.known(facts.priority_classes)):
        return findings.warn(
            f"PriorityClass {name} lets placeholders preempt others", f"set preemptionPolicy: Never on {name}"
        )
    bound = sum(bool(pod.node_name) for pod in held)
    soaking = len(held) - len(ordering)
    beside = f"; {soaking} of them soak up free room, and no node is added for those" if soaking else ""
    return findings.ok(f"{bound} of {len(held)} placeholders hold room, priority {lowest} (cutoff {cutoff}){beside}")


def _never_allows(budget: DisruptionBudget) -> bool:
    """Whether no number of healthy pods would help: all must be available, or none may be unavailable."""
    if budget.status.disruptions_allowed > 0:
        return False
    unavailable, available = budget.spec.max_unavailable, budget.spec.min_available
    if unavailable is not None:
        return str(unavailable) in ("0", "0%")
    if isinstance(available, int):
        return available >= budget.status.expected_pods
    return available is not None and budget.status.desired_healthy >= budget.status.expected_pods


def _rule(budget: DisruptionBudget) -> str:
    if budget.spec.max_unavailable is not None:
        return f"maxUnavailable {budget.spec.max_unavailable}"
    return f"minAvailable {budget.spec.min_available}"
