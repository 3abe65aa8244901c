"""Gives our services the permissions they ship with: applies deploy/rbac and makes a kubeconfig per ServiceAccount.

`services` starts each service with its own, never with the admin's: what the demo shows works under the roles that an
operator would grant.
"""

import pathlib

import yaml

import cluster
from cluster import processes

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


def apply(running: cluster.Cluster) -> None:
    """Creates every object of deploy/rbac; the namespace must be there. ApiError names one that is refused."""
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in PATHS:
                namespace = document["metadata"].get("namespace", NAMESPACE)
                running.api.create(PATHS[document["kind"]].format(namespace=namespace), document)


def kubeconfig(running: cluster.Cluster, service: str) -> pathlib.Path:
    """The kubeconfig of a service's ServiceAccount."""
    return running.service_account_kubeconfig(NAMESPACE, f"evenload-{service}")
