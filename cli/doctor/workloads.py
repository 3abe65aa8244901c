"""Judges of what workloads say: objects that cannot be decoded, budgets that never allow an eviction, placeholders that
hold no room.

`checks` lists them; the facts are `gathering`'s.
"""

from cli.doctor import findings
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding
from kube.objects import DisruptionBudget
from kube.pods import compact, pod_view

SOAK = "soak"  # of compact.PRESET_ANNOTATION; order is the default


def decoded(facts: Facts) -> Finding:
    """Every object that was read could be decoded: others are skipped by all services."""
    if not facts.undecodable:
        return findings.ok("every object that was read could be decoded")
    return findings.warn(
        f"{facts.undecodable}: no service sees them whole",
        "kubectl get KIND NAME -o yaml --show-managed-fields shows who wrote the field; "
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
    classes = () if isinstance(facts.priority_classes, Finding) else facts.priority_classes
    if any(one.name == name and one.preemption_policy != "Never" for one in classes):
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
