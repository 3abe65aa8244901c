"""Gives our services the permissions they ship with: applies deploy/rbac and makes a kubeconfig per ServiceAccount.

`services` starts each service with its own, never with the admin's: what the demo shows works under the roles that an
operator would grant.
"""

import collections.abc
import pathlib
import threading
import time

import yaml

import cluster
from cluster import api, errors, processes

FOLDER = processes.ROOT / "deploy" / "rbac"
NAMESPACE = "evenload-system"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
GRANTED_SECONDS = 180.0
POLL_SECONDS = 0.05
_REVIEWS = "apis/authorization.k8s.io/v1/subjectaccessreviews"
_NEVER = threading.Event()
PATHS = {
    "ServiceAccount": "api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
}


def apply(running: cluster.Cluster) -> None:
    """Creates every object of deploy/rbac; the namespace must be there. ApiError names one that is refused."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in PATHS:
                namespace = document["metadata"].get("namespace", NAMESPACE)
                running.api.create(PATHS[document["kind"]].format(namespace=namespace), document)


def kubeconfig(running: cluster.Cluster, service: str) -> pathlib.Path:
    """The kubeconfig of a service's ServiceAccount, once the apiserver grants what `apply` wrote for it.

    The apiserver learns of roles by watches of its own; a service that is quicker would be refused, and log that.
    ComponentError names a right that is not granted.
    """
    for asked in rights(service):
        _await_granted(running.api, f"system:serviceaccount:{NAMESPACE}:evenload-{service}", asked)
    return running.service_account_kubeconfig(NAMESPACE, f"evenload-{service}")


def rights(service: str) -> list[dict[str, str]]:
    """One right of each rule of a service's roles, as the attributes of an access review."""
    text = (FOLDER / f"{service}.yaml").read_text(encoding="utf-8")
    roles = [role for role in yaml.safe_load_all(text) if role["kind"] in ("ClusterRole", "Role")]
    return [_right(rule, role["metadata"].get("namespace", "")) for role in roles for rule in role["rules"]]


def _right(rule: collections.abc.Mapping[str, list[str]], namespace: str) -> dict[str, str]:
    resource, _, subresource = rule["resources"][0].partition("/")
    return {
        "namespace": namespace,
        "verb": rule["verbs"][0],
        "group": rule["apiGroups"][0],
        "resource": resource,
        "subresource": subresource,
        "name": rule.get("resourceNames", [""])[0],
    }


def _await_granted(client: api.Api, user: str, asked: collections.abc.Mapping[str, str]) -> None:
    limit = time.monotonic() + GRANTED_SECONDS
    review = {"spec": {"user": user, "resourceAttributes": dict(asked)}}
    while not client.create(_REVIEWS, review)["status"]["allowed"]:
        if time.monotonic() > limit:
            raise errors.ComponentError(
                f"{user} may not {asked} {GRANTED_SECONDS:g} s after its role was created: "
                f"does {FOLDER} bind the role to it?"
            )
        _NEVER.wait(POLL_SECONDS)
