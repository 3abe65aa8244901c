"""A shared control plane, lent to a file for itself: without pods, readings and Leases of others, before and after."""

import contextlib
import http
import re
from collections.abc import Iterator

from lab import cluster
from lab.cluster import api as cluster_api
from lab.cluster.demo import permissions
from policy.contract import heartbeat, load_annotation
from tests.e2e import services, waiting

SYSTEM = f"api/v1/namespaces/{permissions.NAMESPACE}"
CONFIG_MAP = f"api/v1/namespaces/default/configmaps/{heartbeat.CONFIG_MAP}"
OF_KUBELETS = re.compile(r"kubernetes\.io/|^type$")
WORKLOADS = tuple(
    f"apis/{kind}"
    for kind in (
        "apps/v1/namespaces/default/deployments",
        "apps/v1/namespaces/default/replicasets",
        "policy/v1/namespaces/default/poddisruptionbudgets",
    )
)


@contextlib.contextmanager
def lent(control_plane: cluster.Cluster) -> Iterator[cluster.Cluster]:
    """Gives it empty, its nodes as their kubelets and the exporter make them; then its scheduler asks no extender."""
    _clear(control_plane)
    try:
        yield control_plane
    finally:
        control_plane.start_scheduler()
        _clear(control_plane)


def texts(api: cluster_api.Api) -> dict[str, str]:
    """The load annotation of each node that has one, as the apiserver stores it."""
    found = {node["metadata"]["name"]: node["metadata"].get("annotations", {}) for node in api.items("api/v1/nodes")}
    return {name: carried[load_annotation.KEY] for name, carried in found.items() if load_annotation.KEY in carried}


def bind(api: cluster_api.Api, name: str, node: str) -> None:
    """Creates a pod that a scheduler put on a node; the one that runs leaves it alone."""
    pods = "api/v1/namespaces/default/pods"
    spec = {"schedulerName": "by-hand", "containers": [{"name": "main", "image": "pause"}]}
    api.create(pods, {"metadata": {"name": name}, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    api.create(f"{pods}/{name}/binding", {"metadata": {"name": name}, "target": target})


def _end_namespace(api: cluster_api.Api) -> None:
    """Deletes the namespace and all in it as kube-controller-manager does, which waits for five seconds before."""
    api.delete(SYSTEM)
    for group_version in (
        "api/v1",
        *(f"apis/{one['preferredVersion']['groupVersion']}" for one in api.get("apis")["groups"]),
    ):
        for resource in api.get(group_version)["resources"]:
            if resource["namespaced"] and "deletecollection" in resource["verbs"]:
                api.delete(f"{group_version}/namespaces/{permissions.NAMESPACE}/{resource['name']}")
    body = {"metadata": {"name": permissions.NAMESPACE}, "spec": {"finalizers": []}}
    try:
        api.replace(f"{SYSTEM}/finalize", body)
    except cluster_api.ApiError as error:
        if error.status != http.HTTPStatus.NOT_FOUND:  # on a busy machine the controller may have been sooner
            raise


def _clear(control_plane: cluster.Cluster) -> None:
    services.set_load(control_plane, "*", cpu_ratio=None, memory_ratio=None, hidden=None)
    empty(control_plane)


def empty(control_plane: cluster.Cluster) -> None:
    """Takes away what `lent` says, but for the load that an exporter plays."""
    api = control_plane.api
    for path in WORKLOADS:
        api.delete(path)
    for namespace in {pod["metadata"]["namespace"] for pod in api.items("api/v1/pods")}:
        api.delete(f"api/v1/namespaces/{namespace}/pods")
    if api.exists(CONFIG_MAP):
        api.delete(CONFIG_MAP)
    if api.exists(SYSTEM):
        _end_namespace(api)
    for node in api.items("api/v1/nodes"):
        labels = {label: None for label in node["metadata"]["labels"] if not OF_KUBELETS.search(label)}
        metadata = {"annotations": {load_annotation.KEY: None}, "labels": labels}
        api.patch(f"api/v1/nodes/{node['metadata']['name']}", {"metadata": metadata})
    waiting.until(
        lambda: not api.items("api/v1/pods") and not api.exists(SYSTEM),
        f"every pod and {permissions.NAMESPACE} to be gone",
        lambda: [pod["metadata"]["name"] for pod in api.items("api/v1/pods")],
    )
