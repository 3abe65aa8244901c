"""Gives the services the permissions they ship with: applies deploy/rbac and makes a kubeconfig per ServiceAccount.

`services` starts each service with its own, never with the admin's: what the demo shows works under the roles that an
operator would grant. The apiserver authorises by what its own watches have told it, a moment after an object was
stored: `apply` returns once every rule is in force, so that a request right after is not refused.
"""

import pathlib
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import yaml

from lab import cluster
from lab.cluster import api, processes

FOLDER = processes.ROOT / "deploy" / "rbac"
NAMESPACE = "evenload-system"
_RBAC = "apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ServiceAccount": "api/v1/namespaces/{namespace}/serviceaccounts",
    "ClusterRole": f"{_RBAC}/clusterroles",
    "ClusterRoleBinding": f"{_RBAC}/clusterrolebindings",
    "Role": f"{_RBAC}/namespaces/{{namespace}}/roles",
    "RoleBinding": f"{_RBAC}/namespaces/{{namespace}}/rolebindings",
}
REVIEWS = "apis/authorization.k8s.io/v1/subjectaccessreviews"
IN_FORCE_SECONDS = 90.0
POLL_SECONDS = 0.05
_NEVER = threading.Event()
Document = dict[str, Any]


class Right(NamedTuple):
    """Something a user may do; `resource` as roles write it (`pods/eviction`), `namespace` "" for all of them."""

    user: str
    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def review(self) -> Document:
        """The spec of the SubjectAccessReview that asks for it."""
        resource, _, subresource = self.resource.partition("/")
        attributes = {
            "verb": self.verb,
            "group": self.group,
            "resource": resource,
            "subresource": subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {"user": self.user, "resourceAttributes": attributes}


class AdminCluster(Protocol):
    """A cluster with an administrator's kubeconfig, as `cluster.Cluster`."""

    @property
    def api(self) -> api.Api:
        """REST calls as admin."""


def apply(running: AdminCluster) -> None:
    """Creates what is missing of deploy/rbac and waits until each rule is in force; the namespace must be there.

    ApiError names an object that is refused, ComponentError a rule that stays without effect.
    """
    texts = (path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml")))
    documents = [one for text in texts for one in yaml.safe_load_all(text) if one["kind"] in PATHS]
    for document in documents:
        namespace = document["metadata"].get("namespace", NAMESPACE)
        path = PATHS[document["kind"]].format(namespace=namespace)
        if not running.api.exists(f"{path}/{document['metadata']['name']}"):
            running.api.create(path, document)
    for right in granted(documents):
        await_right(running, right)


def granted(documents: Iterable[Document]) -> Iterator[Right]:
    """One right for each rule of a role that is bound: the objects of a role and its rules come into force as one."""
    known = list(documents)
    roles = {(one["kind"], one["metadata"]["name"]): one for one in known if one["kind"].endswith("Role")}
    for binding in known:
        if not binding["kind"].endswith("Binding"):
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for subject in binding["subjects"]:
            user = f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
            for rule in role["rules"]:
                name = rule.get("resourceNames", [""])[0]
                namespace = binding["metadata"].get("namespace", "")
                yield Right(user, rule["verbs"][0], rule["apiGroups"][0], rule["resources"][0], name, namespace)


def await_right(running: AdminCluster, right: Right, *, allowed: bool = True) -> None:
    """Waits until the apiserver grants a right (or no longer does); ComponentError names it after the limit."""
    limit = time.monotonic() + IN_FORCE_SECONDS
    while running.api.create(REVIEWS, {"spec": right.review()})["status"]["allowed"] is not allowed:
        if time.monotonic() > limit:
            expected = "granted" if allowed else "withdrawn"
            raise cluster.ComponentError(
                f"{right} was not {expected} after {IN_FORCE_SECONDS:g} s: look at the roles and the apiserver's log"
            )
        _NEVER.wait(POLL_SECONDS)


def kubeconfig(running: cluster.Cluster, service: str) -> pathlib.Path:
    """The kubeconfig of a service's ServiceAccount."""
    return running.service_account_kubeconfig(NAMESPACE, f"evenload-{service}")
