"""Builders of Kubernetes objects for tests: a complete JSON body, a mutator for what the case is about, a fresh object.

    pod = builders.pod("web-1", node="node-1", spec={"priority": 7}, mutate=builders.placeholder)

Keys of metadata, spec and status are put over the usual ones. `*_body` gives the JSON (for servers and create calls),
the plain name the decoded `kube.objects` struct.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from kube import errors, objects
from kube.http import decoding
from kube.pods import compact
from runtime import clock

Body = dict[str, Any]
Mutator = Callable[[Body], object]
T = TypeVar("T", bound=objects.IdentifiedObject)
CREATED = "2026-11-21T03:00:00Z"
SCHEDULED = "2026-11-21T03:00:01Z"
MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}  # annotations of a static pod
# What kube-apiserver 1.36 stores and serves for anyone who may write a status or a Lease.
IMPOSSIBLE_TIMES = ("0000-01-01T00:00:00Z", "10000-01-01T00:00:00Z")


def clock_text(at_seconds: float) -> str:
    """A time as the apiserver writes it."""
    return clock.to_rfc3339(at_seconds)


def decoded(body: Mapping[str, object], kind: type[T]) -> T:
    """The body as its struct, through JSON as on the wire."""
    return msgspec.json.decode(msgspec.json.encode(body), type=kind)


def read(body: Mapping[str, object], kind: type[T]) -> T:
    """The same as the door reads it: what the struct refuses is left out where the kind counts in part."""
    found = decoding.decoded("GET", kind, msgspec.json.encode(body)).object
    if found is None:
        raise errors.Undecodable(f"GET: {kind.__name__}")
    return found


def node_body(
    name: str = "node-1",
    *,
    cpu: str = "8",
    memory: str = "32Gi",
    pods: str = "110",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    address: str = "10.0.0.1",
    mutate: Mutator | None = None,
    **parts: Mapping[str, object],
) -> Body:
    """A Ready node of 8 cores and 32 GiB."""
    amounts = {"cpu": cpu, "memory": memory, "pods": pods}
    body: Body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, "", {"kubernetes.io/hostname": name, **(labels or {})}, annotations),
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": dict(amounts),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}],
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        },
    }
    return _mutated(body, mutate, parts)


def node(name: str = "node-1", *, mutate: Mutator | None = None, **fields: Any) -> objects.Node:
    """A decoded node; `fields` are those of node_body."""
    return decoded(node_body(name, mutate=mutate, **fields), objects.Node)


def pod_body(
    name: str = "web-1",
    *,
    namespace: str = "default",
    node: str = "",
    cpu: str = "250m",
    memory: str = "256Mi",
    owner: tuple[str, str] | None = ("ReplicaSet", "web"),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    phase: str = "",
    scheduled_at: str = SCHEDULED,
    mutate: Mutator | None = None,
    **parts: Mapping[str, object],
) -> Body:
    """A pod of a ReplicaSet with one container; bound, Running and Ready if `node` is given, else Pending.

    With an owner of kind DaemonSet it is as that one's controller makes it.
    """
    bound = bool(node)
    metadata = _metadata(name, namespace, {"app": "web"} if labels is None else labels, annotations)
    kind, owner_name = owner or ("", "")
    if owner is not None:
        version = "v1" if kind == "Node" else "apps/v1"
        reference = {"kind": kind, "name": owner_name, "uid": f"uid-{owner_name[-64:]}", "apiVersion": version}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    requests = {"cpu": cpu, "memory": memory}
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [{"name": "main", "image": "pause", "resources": {"requests": requests}}],
            "schedulerName": "default-scheduler",
            **({"nodeName": node} if bound else {}),
            **({"affinity": pinned(node or "node-1")} if kind == "DaemonSet" else {}),
        },
        "status": {
            "phase": phase or ("Running" if bound else "Pending"),
            "qosClass": "Burstable",
            "conditions": [_condition(kind, scheduled_at) for kind in ("PodScheduled", "Ready")] if bound else [],
            **({"startTime": scheduled_at} if bound else {}),
        },
    }
    return _mutated(body, mutate, parts)


def pinned(node: str) -> Body:
    """The affinity that the DaemonSet controller gives a pod."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def node_metrics_body(
    name: str, at_seconds: float, *, cpu: str = "1", memory: str = "1Gi", window: str = "15s"
) -> Body:
    """A node of metrics.k8s.io, as metrics-server serves it."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "timestamp": clock_text(at_seconds),
        "window": window,
        "usage": {"cpu": cpu, "memory": memory},
    }


def mirror_body(name: str = "kube-proxy-n", *, node: str = "n") -> Body:
    """The image of a static pod, as a kubelet makes it."""
    return pod_body(name, node=node, owner=("Node", node), annotations=MIRROR)


def placeholder(body: Body) -> None:
    """A mutator of pods: as deploy/placeholder makes them."""
    body["metadata"]["labels"]["evenload.io/placeholder"] = "true"
    body["spec"]["priority"] = -10


def pod(name: str = "web-1", *, mutate: Mutator | None = None, **fields: Any) -> objects.Pod:
    """A decoded pod; `fields` are those of pod_body."""
    return decoded(pod_body(name, mutate=mutate, **fields), objects.Pod)


def lean_pod(name: str = "web-1", *, mutate: Mutator | None = None, **fields: Any) -> compact.Pod:
    """The same as those keep it who watch every pod."""
    return decoded(pod_body(name, mutate=mutate, **fields), compact.Pod)


def replica_set_body(
    name: str = "web",
    *,
    namespace: str = "default",
    replicas: int = 3,
    ready: int | None = None,
    labels: Mapping[str, str] | None = None,
    mutate: Mutator | None = None,
    **parts: Mapping[str, object],
) -> Body:
    """A ReplicaSet without a Deployment, all replicas ready unless said otherwise."""
    selected = dict(labels or {"app": "web"})
    ready = replicas if ready is None else ready
    body: Body = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": _metadata(name, namespace, selected, None),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selected},
            "template": {
                "metadata": {"labels": selected},
                "spec": {"containers": [{"name": "main", "image": "pause"}]},
            },
        },
        "status": {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready},
    }
    return _mutated(body, mutate, parts)


def replica_set(name: str = "web", *, mutate: Mutator | None = None, **fields: Any) -> objects.ReplicaSet:
    """A decoded ReplicaSet; `fields` are those of replica_set_body."""
    return decoded(replica_set_body(name, mutate=mutate, **fields), objects.ReplicaSet)


def budget_body(
    name: str = "web",
    *,
    namespace: str = "default",
    allowed: int = 1,
    min_available: int | str | None = 2,
    labels: Mapping[str, str] | None = None,
    mutate: Mutator | None = None,
    **parts: Mapping[str, object],
) -> Body:
    """A PodDisruptionBudget over app=web, up to date with its generation."""
    body: Body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {**_metadata(name, namespace, {}, None), "generation": 1},
        "spec": {"selector": {"matchLabels": dict(labels or {"app": "web"})}, "minAvailable": min_available},
        "status": {
            "disruptionsAllowed": allowed,
            "expectedPods": 3,
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "observedGeneration": 1,
        },
    }
    return _mutated(body, mutate, parts)


def budget(name: str = "web", *, mutate: Mutator | None = None, **fields: Any) -> objects.DisruptionBudget:
    """A decoded PodDisruptionBudget; `fields` are those of budget_body."""
    return decoded(budget_body(name, mutate=mutate, **fields), objects.DisruptionBudget)


def event_body(regarding: objects.Reference) -> Body:
    """An Event without metadata, which the apiserver takes in the namespace of its object."""
    return {
        "eventTime": "2026-11-21T04:00:00.000000Z",
        "reportingController": "evenload.io/test",
        "reportingInstance": "test",
        "action": "Try",
        "reason": "Tried",
        "type": "Normal",
        "regarding": msgspec.to_builtins(regarding),
    }


def _metadata(name: str, namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str] | None) -> Body:
    return {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
        "labels": dict(labels),
        "annotations": dict(annotations or {}),
        **({"namespace": namespace} if namespace else {}),
    }


def _condition(kind: str, at: str) -> Body:
    return {"type": kind, "status": "True", "lastTransitionTime": at}


def _mutated(body: Body, mutate: Mutator | None, parts: Mapping[str, Mapping[str, object]]) -> Body:
    for part, fields in parts.items():
        body[part].update(fields)
    if mutate is not None:
        mutate(body)
    return body


def pod_stages() -> dict[str, Body]:
    """A pod at every stage of its life, by what one would call it: bodies for tests of what decodes pods."""
    return {
        "one that waits": pod_body("p"),
        "one that runs": pod_body("p", node="n"),
        "one that finished": pod_body("p", node="n", phase="Succeeded"),
        "one without conditions": pod_body("p", node="n", mutate=lambda body: body["status"].pop("conditions")),
        "one that ends": pod_body("p", node="n", metadata={"deletionTimestamp": "2026-11-21T04:00:00Z"}),
    }
