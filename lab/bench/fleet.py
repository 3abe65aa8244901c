"""Nodes and pods for the benches, put into etcd in the form the apiserver stores.

`answers` and `footprint` need up to 5,000 nodes and 100,000 pods that are only read. Creating them through the
apiserver would take minutes and measure nothing, so they are written in transactions over etcd's JSON gateway;
the apiserver reads, caches and serves them like any other object. Loads and times come from a seeded generator.
"""

import base64
import collections.abc
import json
import random

import msgspec
import requests

from lab.cluster import nodes
from policy.contract import load_annotation
from runtime import clock

METRICS = ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d", "memory_avg_5m", "memory_max_1h", "memory_max_1d")
CORES, GIBIBYTES = 16, 64  # of a node
HOT_RATIO = 0.05  # so many nodes are over a filter threshold
PER_TRANSACTION = 100  # etcd refuses more than 128 operations
NAMESPACE = "default"
REPLICAS = 20  # pods per workload
TEMPLATE_HASH = "7d9f8c6b5"
Stored = tuple[str, dict[str, object]]  # key in etcd, object


def names(count: int) -> list[str]:
    """Node names as a cloud gives them: of several lengths, about 40 characters."""
    return [f"ip-10-{at // 65536}-{at // 256 % 256}-{at % 256}.eu-west-1.compute.internal" for at in range(count)]


def reading(rng: random.Random, now_seconds: float) -> str:
    """The text of a node's load annotation: somewhere under the thresholds, or for a few nodes over them."""
    cpu = rng.uniform(0.7, 0.95) if rng.random() < HOT_RATIO else rng.uniform(0.05, 0.6)
    values = {name: cpu if name == "cpu_avg_5m" else rng.uniform(0.05, 0.6) for name in METRICS}
    return load_annotation.encode(load_annotation.Reading(now_seconds, values))


def stored_nodes(count: int, rng: random.Random, now_seconds: float) -> collections.abc.Iterator[Stored]:
    """Ready nodes with a fresh reading each."""
    for at, name in enumerate(names(count)):
        body = nodes.body(nodes.NodeShape(name, cpu=f"{CORES}", memory=f"{GIBIBYTES}Gi"), at)
        metadata: dict[str, object] = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        metadata["annotations"] = {load_annotation.KEY: reading(rng, now_seconds)}
        body["metadata"] = _metadata(metadata, rng, now_seconds)
        yield f"/registry/minions/{name}", body


def stored_pods(count: int, on: list[str], rng: random.Random, now_seconds: float) -> collections.abc.Iterator[Stored]:
    """Running pods of Deployments spread over the nodes, bound between a day and a minute ago."""
    for at in range(count):
        body = pod(f"load-{at // REPLICAS}", f"{at:06}", rng, now_seconds)
        yield running(body, on[at % len(on)], at, now_seconds - rng.uniform(60, 86400))


def running(
    body: dict[str, object], node: str, number: int, bound_at_seconds: float, *, annotated: dict[str, str] | None = None
) -> Stored:
    """A pod made to run on a node since a moment, under further annotations; `number` gives it an address."""
    bound_at = clock.to_rfc3339(bound_at_seconds)
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": bound_at} for kind in kinds]
    metadata = mapping(body["metadata"])
    metadata["annotations"] = {**mapping(metadata["annotations"]), **(annotated or {})}
    whole = {**body, "spec": {**mapping(body["spec"]), "nodeName": node}, "metadata": metadata}
    whole["status"] = _running(bound_at, conditions, number)
    return f"/registry/pods/{NAMESPACE}/{metadata['name']}", whole


def pod_names(count: int) -> list[str]:
    """The names of `stored_pods`."""
    return [f"load-{at // REPLICAS}-{TEMPLATE_HASH}-{at:06}" for at in range(count)]


def stored_owners(count: int, rng: random.Random, now_seconds: float) -> collections.abc.Iterator[Stored]:
    """The ReplicaSets of the stored pods, all ready, and a budget over every fifth of them."""
    for at in range(count):
        name, labels = f"load-{at}-{TEMPLATE_HASH}", {"app.kubernetes.io/name": f"load-{at}"}
        metadata = _metadata({"name": name, "namespace": NAMESPACE, "labels": labels}, rng, now_seconds)
        spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": {"spec": _spec(f"load-{at}")}}
        status = {"replicas": REPLICAS, "readyReplicas": REPLICAS, "availableReplicas": REPLICAS}
        yield (
            f"/registry/replicasets/{NAMESPACE}/{name}",
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "metadata": {**metadata, "uid": f"rs-load-{at}"},
                "spec": spec,
                "status": status,
            },
        )
        if at % 5 == 0:
            yield _budget(f"load-{at}", labels, rng, now_seconds)


def _budget(name: str, labels: dict[str, str], rng: random.Random, now_seconds: float) -> Stored:
    metadata = _metadata({"name": name, "namespace": NAMESPACE, "generation": 1}, rng, now_seconds)
    healthy = {"disruptionsAllowed": 1, "expectedPods": REPLICAS, "currentHealthy": REPLICAS}
    return (
        f"/registry/poddisruptionbudgets/{NAMESPACE}/{name}",
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"selector": {"matchLabels": labels}, "maxUnavailable": 1},
            "status": {**healthy, "desiredHealthy": REPLICAS - 1, "observedGeneration": 1},
        },
    )


def pod(workload: str, suffix: str, rng: random.Random, now_seconds: float) -> dict[str, object]:
    """A pod of a Deployment about as large as pods are (3 kB), not bound."""
    labels = {
        "app.kubernetes.io/name": workload,
        "app.kubernetes.io/part-of": "bench",
        "pod-template-hash": TEMPLATE_HASH,
    }
    replica_set = f"{workload}-{TEMPLATE_HASH}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": f"rs-{workload}"}
    metadata: dict[str, object] = {
        "name": f"{replica_set}-{suffix}",
        "namespace": NAMESPACE,
        "labels": labels,
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "checksum/config": "c" * 64},
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(metadata, rng, now_seconds),
        "spec": _spec(workload),
    }


def waiting(body: dict[str, object], name: str) -> Stored:
    """A pod like another one that waits for a node, under a name that is its uid, too."""
    metadata = {**mapping(body["metadata"]), "name": name, "uid": name}
    status = {"phase": "Pending", "qosClass": "Burstable"}
    return f"/registry/pods/{NAMESPACE}/{name}", {**body, "metadata": metadata, "status": status}


def _metadata(metadata: dict[str, object], rng: random.Random, now_seconds: float) -> dict[str, object]:
    uid = f"{rng.getrandbits(32):08x}-0000-4000-8000-{rng.getrandbits(48):012x}"
    return {**metadata, "uid": uid, "creationTimestamp": clock.to_rfc3339(now_seconds - 86400)}


def _spec(workload: str) -> dict[str, object]:
    environment = [{"name": f"SETTING_{at}", "value": f"value-of-setting-{at}"} for at in range(8)]
    probe = {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10, "timeoutSeconds": 1}
    mount = {"name": "kube-api-access", "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    container = {
        "name": "main",
        "image": f"registry.example.com/bench/{workload}:1.2.3",
        "env": environment,
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
        "readinessProbe": {**probe, "successThreshold": 1, "failureThreshold": 3},
        "volumeMounts": [mount],
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for why in ("not-ready", "unreachable")
    ]
    return {
        "containers": [container],
        "volumes": [{"name": "kube-api-access", "emptyDir": {}}],
        "tolerations": tolerations,
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def _running(bound_at: str, conditions: list[dict[str, str]], at: int) -> dict[str, object]:
    address = f"10.{at // 65536}.{at // 256 % 256}.{at % 256}"
    state = {"running": {"startedAt": bound_at}}
    container = {"name": "main", "ready": True, "restartCount": 0, "state": state, "image": "i", "imageID": "i"}
    return {
        "phase": "Running",
        "conditions": conditions,
        "startTime": bound_at,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": "Burstable",
        "containerStatuses": [container],
    }


def mapping(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value


def store(etcd_url: str, objects: collections.abc.Iterable[Stored], *, per_transaction: int = PER_TRANSACTION) -> int:
    """Writes the objects; how many. HTTPError when etcd refuses.

    Objects of one transaction have one revision, as they never have in life: a watch that the apiserver ends among them
    goes on after all of them, and so does one that follows a list which its cache answered among them. Where every
    object counts, store one at a time.
    """
    done = 0
    with requests.Session() as session:
        session.trust_env = False
        batch: list[dict[str, object]] = []
        for key, body in objects:
            put = {"key": _base64(key.encode()), "value": _base64(msgspec.json.encode(body))}
            batch.append({"requestPut": put})
            if len(batch) == per_transaction:
                done += _commit(session, etcd_url, batch)
        return done + _commit(session, etcd_url, batch)


def _commit(session: requests.Session, etcd_url: str, batch: list[dict[str, object]]) -> int:
    count = len(batch)
    if batch:
        answer = session.post(f"{etcd_url}/v3/kv/txn", data=json.dumps({"success": batch}), timeout=60)
        answer.raise_for_status()
        batch.clear()
    return count


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
