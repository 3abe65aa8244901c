"""Judges of RBAC: what the person who asks may see, and whether the services may do their work.

`command` lists them. Which rights are needed is read from the manifests we ship (deploy/rbac), so there is no second
list of them; `gathering` asks the apiserver about each (`kube.access`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import yaml

from cli.common import shipped
from cli.doctor import findings
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding
from kube.access import Access

SERVICES: Final = ("annotator", "extender", "descheduler")
OWN: Final = "doctor"


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
    """Every right that deploy/rbac/NAME.yaml grants, Roles taken as of `namespace`."""
    text = (shipped.DEPLOY / "rbac" / f"{name}.yaml").read_text(encoding="utf-8")
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
