"""Workloads of a scenario as Kubernetes objects: the owners with their versions, pods, budgets, PriorityClasses, nodes.

Pure; `owners` and `nodes` create what is made here. Owners of one namespace, kind and name are one workload whose
replicas differ, as during a roll-out: a Deployment then has a ReplicaSet for each.
"""

import dataclasses
import math
import zlib
from typing import Any

from kube import kinds, objects
from kube.kinds import Kind
from simulator.apiserver import merge_patch
from simulator.contention import Load
from simulator.scenario import Machine, Owner

Body = dict[str, Any]

WORKLOAD_LABEL = "simulator.evenload.io/workload"  # by which selectors tell one workload's pods from all others'
HASH_LABEL = "pod-template-hash"
SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"  # of the hashes in names: policy.contract.owner_usage tells them by these
HASH_LENGTH = 8
LABEL_LENGTH = 63
IMAGE = "registry.k8s.io/pause:3.10"
DAEMON_SETS = Kind("apis/apps/v1", "daemonsets", "DaemonSet", objects.Object)
CUSTOM_PATH = "apis/simulator.evenload.io/v1"
KNOWN: dict[str, Kind[Any]] = {
    kind.name: kind
    for kind in (
        kinds.DEPLOYMENTS,
        kinds.STATEFUL_SETS,
        kinds.JOBS,
        kinds.REPLICA_SETS,
        kinds.REPLICATION_CONTROLLERS,
        DAEMON_SETS,
    )
}
SYSTEM_CLASSES = {2_000_000_000: "system-cluster-critical", 2_000_001_000: "system-node-critical"}
DAEMON_TAINTS = {  # what the DaemonSet controller lets its pods tolerate, and the effect
    "node.kubernetes.io/not-ready": "NoExecute",
    "node.kubernetes.io/unreachable": "NoExecute",
    "node.kubernetes.io/disk-pressure": "NoSchedule",
    "node.kubernetes.io/memory-pressure": "NoSchedule",
    "node.kubernetes.io/pid-pressure": "NoSchedule",
    "node.kubernetes.io/unschedulable": "NoSchedule",
}
HEALTHY = {"Ready": "True", "MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}


def reference(kind: Kind[Any], name: str, uid: str) -> Body:
    """An entry of ownerReferences: how an object's children name it."""
    mine = {"apiVersion": kind.api_version, "kind": kind.name, "name": name, "uid": uid}
    return {**mine, "controller": True, "blockOwnerDeletion": True}


def kind_of(owner: Owner) -> Kind[Any] | None:
    """The kind of a workload; None for a bare pod. One that Kubernetes does not have is a custom kind with a scale, and
    so is one that it has for something else: Spark's executors belong to a Pod.
    """
    if not owner.kind:
        return None
    return KNOWN.get(owner.kind) or Kind(CUSTOM_PATH, f"custom{owner.kind.lower()}s", owner.kind, objects.Object)


@dataclasses.dataclass(frozen=True, slots=True)
class SelectedPods:
    """The pods of a workload; with a hash those of one ReplicaSet. `kind` is that of the object that selects them."""

    number: int
    hash: str = ""
    kind: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """Returns the labels that all of the objects carry."""
        mine = {WORKLOAD_LABEL: str(self.number)}
        return {**mine, HASH_LABEL: self.hash} if self.hash else mine


def size(selected: SelectedPods, replicas: int) -> Body:
    """spec of what owns so many pods."""
    labels = selected.labels
    if selected.kind == kinds.REPLICATION_CONTROLLERS.name:
        return {"replicas": replicas, "selector": labels}
    amount = "parallelism" if selected.kind == kinds.JOBS.name else "replicas"
    return {amount: replicas, "selector": {"matchLabels": labels}}


def standing(kind: str, pods: int, ready: int, generation: int) -> Body:
    """status of what owns pods, of which so many are there and so many Ready."""
    if kind == kinds.JOBS.name:
        return {"active": pods, "ready": ready}
    counts = {"replicas": pods, "readyReplicas": ready, "availableReplicas": ready, "updatedReplicas": pods}
    return {**counts, "observedGeneration": generation}


def workload(owner: Owner, number: int) -> Body:
    """A workload's own object, before it has replicas."""
    selected = SelectedPods(number, kind=owner.kind)
    return {"metadata": {"name": owner.name, "labels": selected.labels}, "spec": size(selected, 0)}


def replica_set(owner: Owner, selected: SelectedPods, above: Body) -> Body:
    """The ReplicaSet of one version of a Deployment."""
    name = f"{owner.name}-{selected.hash}"
    metadata = {"name": name, "labels": selected.labels, "ownerReferences": [above]}
    return {"metadata": metadata, "spec": size(selected, 0)}


def template_hash(owner: Owner, number: int) -> str:
    """Tells the versions of a workload apart, and reads like Kubernetes' own."""
    value, letters = zlib.crc32(f"{number} {owner.name} {owner.requests}".encode()), []
    for _ in range(HASH_LENGTH):
        value, index = divmod(value, len(SAFE_LETTERS))
        letters.append(SAFE_LETTERS[index])
    return "".join(letters)


def budget(owner: Owner, name: str, number: int) -> Body:
    """The disruption budget of a workload."""
    selector = {"matchLabels": SelectedPods(number).labels}
    return {"metadata": {"name": name}, "spec": {"minAvailable": owner.min_available, "selector": selector}}


def priority_class(priority: int) -> str:
    """The name of the PriorityClass of a number; "" where none is needed."""
    if priority == 0 or priority in SYSTEM_CLASSES:
        return SYSTEM_CLASSES.get(priority, "")
    return f"priority-{priority}" if priority > 0 else f"priority-minus-{-priority}"


def pod_spec(owner: Owner, node: str = "") -> Body:
    """spec of a pod; `node` is a DaemonSet's, whose pods ask for their node by affinity."""
    spec: Body = {"containers": [{"name": "main", "image": IMAGE, "resources": {"requests": amounts(owner.requests)}}]}
    if name := priority_class(owner.priority):
        spec["priorityClassName"] = name
    if owner.kind == DAEMON_SETS.name:
        spec["tolerations"] = [
            {"key": key, "operator": "Exists", "effect": effect} for key, effect in DAEMON_TAINTS.items()
        ]
    if owner.kind == DAEMON_SETS.name and node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        spec["affinity"] = {"nodeAffinity": required}
    merged: Body = merge_patch.merged(spec, dict(owner.pod_spec))
    return merged


def pod_metadata(owner: Owner, selected: SelectedPods, above: Body | None) -> Body:
    """metadata of a pod, without its name."""
    mine = {key: label_value(value) for key, value in owner.labels.items()}
    metadata: Body = {"labels": {**mine, **selected.labels}}
    if owner.annotations:
        metadata["annotations"] = dict(owner.annotations)
    if above is not None:
        metadata["ownerReferences"] = [above]
    return metadata


def amounts(load: Load) -> dict[str, str]:
    """Requests as Kubernetes writes them, rounded up; what is not asked for is absent."""
    copies = {}
    if load.cpu_millicores > 0:
        copies["cpu"] = f"{math.ceil(load.cpu_millicores)}m"
    if load.memory_bytes > 0:
        copies["memory"] = str(math.ceil(load.memory_bytes))
    return copies


def label_value(name: str) -> str:
    """A name as a label can have it: 63 characters at most, as the kubelet cuts a host's."""
    return name[:LABEL_LENGTH].rstrip("-_.")


def node(machine: Machine, address: str, stamp: str) -> Body:
    """The Node that the machine's kubelet registers, healthy from the first moment."""
    labels = {
        "kubernetes.io/hostname": label_value(machine.name),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        **machine.labels,
    }
    pods = {"pods": str(machine.max_pods)}
    room, whole = {**amounts(machine.allocatable or machine.capacity), **pods}, {**amounts(machine.capacity), **pods}
    conditions = [{"type": type_, "status": status, "lastTransitionTime": stamp} for type_, status in HEALTHY.items()]
    addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": machine.name}]
    spec: Body = {"taints": [dict(one) for one in machine.taints]} if machine.taints else {}
    status = {"capacity": whole, "allocatable": room, "addresses": addresses, "conditions": conditions}
    return {"metadata": {"name": machine.name, "labels": labels}, "spec": spec, "status": status}
