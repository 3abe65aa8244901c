"""Judges of what accounts may do: the person who asks, the services by RBAC, and what the guard refuses these.

`command` lists them. Which rights are needed is read from the manifests we ship (deploy/rbac), so there is no second
list of them; `gathering` asks the apiserver about each (`kube.access`), and calls `guarding`. The proof of the guard is
a dry run as the accounts themselves, of what it always refuses: an eviction in Evenload's own namespace and a label on
a node. It needs the right to impersonate the two ServiceAccounts, which administrators have and
`deploy/rbac/doctor.yaml` does not grant: it would be the right to evict.
"""

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import yaml

from cli.common import shipped
from cli.doctor import findings
from cli.doctor.facts import Facts, GuardFacts, Trial
from cli.doctor.findings import Finding
from descheduler.eviction.api_results import GUARD
from kube import errors, kinds
from kube.access import Access, may_i
from kube.api.metadata import Object
from kube.door import EvictionAnswer
from kube.http.client import Client
from kube.kinds import Kind
from kube.objects import Node, Pod
from policy.schema import units
from policy.schema.protection import Protect

SERVICES: Final = ("annotator", "extender", "descheduler")
OWN: Final = "doctor"
ROLES: Final = {
    "evenload-guard-evictions": "evictions of pods",
    "evenload-guard-nodes": "changes of nodes",
    "evenload-guard-pods": "deletions and changes of pods",
    "evenload-guard-scales": "changes of workloads",
}
SURGES: Final = "descheduler-surge"  # the rights of the component surge, of the descheduler's account
COMPONENT: Final = "add the component deploy/kustomize/components/surge (chart: descheduler.surge.enabled: true)"
GONE: Final = (404, 409)
# A request is judged by the pods in the apiserver's cache (docs/reference/guard.md, exemptions).
YOUNGEST: Final = "a pod that the apiserver's cache has not yet passes them, and stays by protect.minPodAge alone"
OPT_OUT_IGNORED, NOWHERE = "optOutIgnored", "false"  # the variable of deploy/guard/evictions.yaml as it is shipped
Call = Callable[[Client], object]
LABEL: Final = {"metadata": {"labels": {"evenload.io/doctor": "dry-run"}}}
FIX: Final = "kubectl apply -k deploy/guard, which every overlay of deploy/kustomize contains (docs/reference/guard.md)"


def own(facts: Facts) -> Finding:
    """The caller may read what the checks need."""
    rights = findings.known(facts.own_rights)
    denied = _denied(rights)
    if not denied:
        return findings.ok(f"you have the {len(rights)} rights that doctor needs")
    return findings.warn(
        f"you may not {findings.few(denied)}: checks that need it are unknown",
        "kubectl apply -f deploy/rbac/doctor.yaml && kubectl create clusterrolebinding evenload-doctor-$USER "
        f"--clusterrole=evenload-doctor --user=YOU && kubectl -n {facts.settings.namespace} create rolebinding "
        "evenload-doctor-$USER --role=evenload-doctor --user=YOU (`kubectl auth whoami` names you)",
    )


def services(facts: Facts) -> Iterator[Finding]:
    """Each service's ServiceAccount has the rights of its manifest."""
    accounts = findings.known(facts.account_rights)
    if accounts.get(SURGES) and any(accounts["descheduler"].values()) and (denied := _denied(accounts[SURGES])):
        text = (
            f"descheduler.surge is enabled, and the ServiceAccount evenload-descheduler may not {findings.few(denied)}"
        )
        yield findings.fail(text, COMPONENT)
    accounts = {name: rights for name, rights in accounts.items() if name != SURGES}
    installed = {name: rights for name, rights in accounts.items() if any(rights.values())}
    if not installed:
        yield findings.fail(
            "no ServiceAccount of Evenload has any rights in this namespace",
            "kubectl apply -k deploy/rbac, or name the namespace with -n",
        )
    for name, rights in installed.items():
        if denied := _denied(rights):
            text = f"the ServiceAccount evenload-{name} may not {findings.few(denied)}"
            yield findings.fail(text, f"kubectl apply -f deploy/rbac/{name}.yaml")
    absent = [name for name in accounts if name not in installed]
    beside = f"; {', '.join(absent)}: no rights at all, taken as not installed" if absent else ""
    yield findings.ok(f"{', '.join(installed)} have the rights of deploy/rbac{beside}")


def needed(name: str, namespace: str) -> tuple[Access, ...]:
    """Every right that deploy/rbac/NAME.yaml, or the component of `SURGES`, grants; Roles taken as of `namespace`."""
    surge = shipped.DEPLOY / "kustomize" / "components" / "surge" / "rights.yaml"
    path = surge if name == SURGES else shipped.DEPLOY / "rbac" / f"{name}.yaml"
    text = path.read_text(encoding="utf-8")
    return tuple(access for one in yaml.safe_load_all(text) if one for access in _granted(one, namespace))


def _granted(document: Mapping[str, Any], namespace: str) -> Iterable[Access]:
    where = namespace if document["kind"] == "Role" else ""
    for rule in document.get("rules", ()):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for name in rule.get("resourceNames", ("",)):
                    yield from (Access(verb, resource, group, where, name) for verb in rule["verbs"])


def _denied(rights: Mapping[Access, bool]) -> list[str]:
    return [str(one) for one, allowed in rights.items() if not allowed]


class Spec(msgspec.Struct, frozen=True, rename="camel"):
    """spec of a ValidatingAdmissionPolicy, whose variables are CEL, or of its binding."""

    failure_policy: str = "Fail"
    variables: tuple[dict[str, str], ...] = ()
    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class Policy(Object, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy or its binding."""

    spec: Spec = Spec()


_PATH: Final = "apis/admissionregistration.k8s.io/v1"
POLICIES = Kind(_PATH, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", Policy, namespaced=False)
BINDINGS = Kind(
    _PATH, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", Policy, namespaced=False
)


def guarding(
    kube: Client, connect: Callable[..., Client], namespace: str, pods: Sequence[Pod], *, nodes: Sequence[Node]
) -> GuardFacts:
    """The objects of the guard, and what became of the dry runs that the caller may ask for by `connect`."""
    policies = kube.list(POLICIES).items
    failing = {one.name: one.spec.failure_policy for one in policies}
    denying = {one.spec.policy_name for one in kube.list(BINDINGS).items if "Deny" in one.spec.validation_actions}
    lacking = {name: reason for name in ROLES if (reason := _lack(name, failing, name in denying))}
    trials = tuple(
        _trial(kube, connect, namespace, account, request=request, call=call)
        for account, request, call in _planned(namespace, pods, nodes)
    )
    variables = {variable["name"]: variable["expression"] for one in policies for variable in one.spec.variables}
    return GuardFacts(lacking, trials, variables.get(OPT_OUT_IGNORED, NOWHERE).strip() != NOWHERE, variables)


def _lack(name: str, failing: dict[str, str], denies: bool) -> str:
    if name not in failing:
        return "is missing"
    if failing[name] != "Fail":
        return f"has failurePolicy {failing[name]}, not Fail"
    return "" if denies else "has no binding with the action Deny"


def _planned(namespace: str, pods: Sequence[Pod], nodes: Sequence[Node]) -> Iterator[tuple[str, str, Call]]:
    """The account, the request in words and the request, for each dry run that has an object to name."""
    if pod := min((one for one in pods if one.namespace == namespace), key=lambda one: one.name, default=None):
        yield (
            "evenload-descheduler",
            f"an eviction of {pod.key}",
            functools.partial(Client.evict, namespace=pod.namespace, name=pod.name, uid=pod.uid, dry_run=True),
        )
    if node := min(nodes, key=lambda one: one.name, default=None):
        for account in ("evenload-annotator", "evenload-descheduler"):
            patch = functools.partial(Client.merge_patch, kind=kinds.NODES, name=node.name, body=LABEL, dry_run=True)
            yield account, f"a label on node {node.name}", patch


def _trial(
    kube: Client, connect: Callable[..., Client], namespace: str, account: str, *, request: str, call: Call
) -> Trial:
    """A 404 or 409 says that the object went meanwhile; every other answer that is no refusal got past the guard."""
    what = f"{request} by {account}"
    if not may_i(kube, Access("impersonate", "serviceaccounts", namespace=namespace, name=account)):
        return Trial(what, None, f"you may not impersonate {account}")
    try:
        with contextlib.closing(connect(impersonate=f"system:serviceaccount:{namespace}:{account}")) as door:
            answer = call(door)
    except errors.Forbidden as error:
        return Trial(what, True if GUARD in str(error) else None, error.message or str(error))
    except errors.ApiError as error:
        return Trial(what, None, str(error))
    if isinstance(answer, EvictionAnswer) and answer.status in GONE:
        return Trial(what, None, answer.message)
    return Trial(what, False)


def guarded(facts: Facts) -> Iterator[Finding]:
    """The policies are there and deny, and what could be tried was refused."""
    guard, protect = findings.known(facts.guard), facts.settings.policy.descheduler.protect
    opt_out = protect.opt_out
    for name, lack in guard.lacking.items():
        yield findings.warn(f"ValidatingAdmissionPolicy {name} {lack}: only RBAC limits {ROLES[name]}", FIX)
    if (opt_out.except_namespaces or not opt_out.enabled) and not guard.ignores_opt_out:
        where = f"in {findings.few(opt_out.except_namespaces)}" if opt_out.enabled else "anywhere"
        yield findings.warn(
            f"the policy lets no annotation keep pods {where}, the guard refuses their evictions all the same",
            f"patch the variable {OPT_OUT_IGNORED} of evenload-guard-evictions (docs/reference/guard.md)",
        )
    if facts.settings.policy.descheduler.surge.enabled and guard.variables.get("surge", "").strip() == NOWHERE:
        yield findings.warn("descheduler.surge is enabled, and the guard refuses every change of a scale", COMPONENT)
    if stricter := _stricter(guard.variables, protect):
        yield findings.warn(
            f"the guard is stricter than the policy: {findings.few(stricter)}; such evictions are refused, and each "
            "counts for the workload's breaker",
            "make protect of the policy as strict, or patch the guard's variable (docs/reference/guard.md)",
        )
    if passed := [one.what for one in guard.trials if one.refused is False]:
        yield findings.fail(
            f"a dry run of {findings.few(passed)} was not refused: the guard does not hold this account",
            f"{FIX}; it knows the accounts by the names of deploy/rbac, in any namespace: were they renamed?",
        )
    refused = [one.what for one in guard.trials if one.refused]
    names = f"the {len(ROLES)} policies of deploy/guard deny"
    least = f"{protect.min_pod_age_seconds:g} s"
    open_ends = {one.answer for one in guard.trials if one.refused is None}
    tried = f"refused in a dry run: {', '.join(refused)}" if refused else "nothing was tried"
    more = f" ({'; '.join(sorted(open_ends))})" if open_ends else ""
    yield findings.ok(f"{names}; {tried}{more}; {YOUNGEST} ({least})")


def _stricter(variables: Mapping[str, str], protect: Protect) -> list[str]:
    """The limits of the guard that refuse what the policy lets go; an expression of another form is not compared."""
    limits = []
    age = re.fullmatch(r'duration\("(.+)"\)', variables.get("minPodAge", "").strip())
    with contextlib.suppress(ValueError):
        if age and (seconds := units.duration_seconds(age[1])) > protect.min_pod_age_seconds:
            limits.append(f"minPodAge {seconds:g} s, protect.minPodAge {protect.min_pod_age_seconds:g} s")
    priority = variables.get("priorityAtLeast", "").strip()
    if priority.isdecimal() and int(priority) < protect.priority_at_least:
        limits.append(f"priorityAtLeast {priority}, protect.priorityAtLeast {protect.priority_at_least}")
    names = re.findall(r'"([a-z0-9-]+)"', variables.get("protectedNamespaces", ""))
    missing = sorted(set(names) - set(protect.namespaces))
    if missing and protect.namespace_selector is None:
        limits.append(f"protectedNamespaces has {', '.join(missing)}, protect.namespaces has not")
    return limits
