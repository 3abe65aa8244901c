"""The fake nodes: their shapes, their Node objects, and the wait until the scheduler may use them.

`control_plane` creates them through the API with capacity, addresses and labels, as a kubelet registers itself; kwok
then plays the kubelet (lab/cluster/stages). Every node has an InternalIP of its own, because the exporter's series are
told apart by it.
"""

import collections.abc
import concurrent.futures
import dataclasses
import ipaddress
import threading
import time

from lab.cluster import api, errors

FIRST_ADDRESS = ipaddress.IPv4Address("172.16.0.1")  # 172.16.0.0/12 holds a million
PARALLEL = 16
# A kubelet registers unready and reports Ready in a second write; this one saves it, so that a thousand nodes come
# quickly.
_HEALTHY = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
_NODE_INFO = {
    "architecture": "amd64",
    "operatingSystem": "linux",
    "kubeletVersion": "v1.36.3",
    "kubeProxyVersion": "v1.36.3",
    "containerRuntimeVersion": "kwok://0.8.0",
    "kernelVersion": "0.0.0-fake",
    "osImage": "fake",
    "bootID": "",
    "machineID": "",
    "systemUUID": "",
}
POLL_SECONDS = 0.05
_NEVER = threading.Event()


@dataclasses.dataclass(frozen=True, slots=True)
class NodeShape:
    """One fake node: quantities as Kubernetes writes them; taints as (key, value, effect)."""

    name: str
    cpu: str = "8"
    memory: str = "32Gi"
    pods: int = 110
    labels: collections.abc.Mapping[str, str] = dataclasses.field(default_factory=dict)
    taints: collections.abc.Sequence[tuple[str, str, str]] = ()


def shapes(nodes: int | collections.abc.Sequence[NodeShape]) -> tuple[NodeShape, ...]:
    """A number means that many plain nodes, node-0, node-1, …"""
    if isinstance(nodes, int):
        return tuple(NodeShape(f"node-{index}") for index in range(nodes))
    return tuple(nodes)


def address(index: int) -> str:
    """The InternalIP of the cluster's n-th node, from 0."""
    return str(FIRST_ADDRESS + index)


def body(shape: NodeShape, index: int) -> dict[str, object]:
    """The Node object a kubelet of that shape would register."""
    room = {"cpu": shape.cpu, "memory": shape.memory, "pods": str(shape.pods), "ephemeral-storage": "200Gi"}
    labels = {
        "kubernetes.io/hostname": shape.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",  # the node controller would add the two, one write per node
        "beta.kubernetes.io/arch": "amd64",
        "type": "kwok",
    }
    addresses = [{"type": "InternalIP", "address": address(index)}, {"type": "Hostname", "address": shape.name}]
    taints = [{"key": key, "value": value, "effect": effect} for key, value, effect in shape.taints]
    conditions = [{"type": kind, "status": status, "reason": "Registered"} for kind, status in _HEALTHY.items()]
    status = {"capacity": room, "allocatable": room, "addresses": addresses, "conditions": conditions}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": shape.name, "labels": {**labels, **shape.labels}},
        "spec": {"taints": taints} if taints else {},
        "status": {**status, "nodeInfo": _NODE_INFO, "phase": "Running"},
    }


def create(client: api.Api, new: collections.abc.Sequence[NodeShape], *, first_index: int = 0) -> None:
    """Creates the nodes side by side; ApiError names the one that was refused."""
    bodies = [body(shape, first_index + number) for number, shape in enumerate(new)]
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(lambda node: client.create("api/v1/nodes", node), bodies))


def wait_ready(client: api.Api, names: collections.abc.Collection[str], *, timeout_seconds: float = 180.0) -> None:
    """Waits until the nodes are Ready and without a taint of the control plane's; ComponentError names the others."""
    limit = time.monotonic() + timeout_seconds
    missing = set(names)
    while missing:
        missing -= {_name(node) for node in client.items("api/v1/nodes", resourceVersion="0") if is_usable(node)}
        # A list of a thousand nodes costs the apiserver as much as twenty writes: watch one straggler, then list again.
        while missing and not _is_usable_yet(client, min(missing)):
            if time.monotonic() > limit:
                raise errors.ComponentError(_not_ready(missing, len(names), timeout_seconds))
            _NEVER.wait(POLL_SECONDS)


def is_usable(node: api.Json) -> bool:
    """Ready, and free of the taints node.kubernetes.io/… that the control plane sets."""
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    return conditions.get("Ready") == "True" and not any(key.startswith("node.kubernetes.io/") for key in taints)


def _is_usable_yet(client: api.Api, name: str) -> bool:
    """As the apiserver's cache knows the node, which may not have heard yet of one just created."""
    try:
        return is_usable(client.get(f"api/v1/nodes/{name}", resourceVersion="0"))
    except api.ApiError as error:
        if error.status == 404:
            return False
        raise


def _name(node: api.Json) -> str:
    return str(node["metadata"]["name"])


def _not_ready(missing: collections.abc.Collection[str], wanted: int, timeout_seconds: float) -> str:
    return (
        f"{len(missing)} of {wanted} nodes not Ready after {timeout_seconds:g} s: {', '.join(sorted(missing)[:5])}. "
        "kwok makes them Ready and kube-controller-manager removes the taint: look at their logs."
    )
