"""Nodes and pods for the comparison of the simulated scheduler with the real one (`test_scheduler_model`).

Everything follows from a seed. The mixture is wide on purpose: requests of all sorts and none, owners, tolerations,
selectors, affinity, spread rules; and for preemption nodes whose pods all matter differently.
"""

import collections
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from lab import cluster

ZONE = "topology.kubernetes.io/zone"
SIZES = (("2", "4Gi"), ("4", "16Gi"), ("8", "16Gi"), ("8", "32Gi"), ("16", "64Gi"), ("3", "24Gi"))
Body = dict[str, Any]


def shapes() -> list[cluster.NodeShape]:
    """26 nodes of six sizes in three zones and none, with taints of both kinds and labels."""
    made = []
    for number in range(26):
        cpu, memory = SIZES[number % len(SIZES)]
        labels = {"disk": ("ssd", "hdd", "nvme")[number % 3], "generation": str(number % 5)}
        if number % 13:
            labels[ZONE] = f"zone-{'aabbc'[number % 5]}"
        taints = []
        if number % 8 == 3:
            taints.append(("dedicated", "batch", "NoSchedule"))
        if number % 7 == 2:
            taints.append(("spot", "", "PreferNoSchedule"))
        if number % 9 == 4:
            taints.append(("old", "", "PreferNoSchedule"))
        pods = 6 if number % 10 == 6 else 110
        made.append(cluster.NodeShape(f"node-{number:02}", cpu, memory, pods, labels, taints))
    return made


class Owners:
    """A seeded sequence of pods: some sixty owners whose replicas come mixed, as in a real cluster."""

    def __init__(self, seed: int, prefix: str, claims: Sequence[str] = ()) -> None:
        self._rng = random.Random(seed)
        self._claims = claims
        self._owners = [self._owner(f"{prefix}-{number:02}") for number in range(60)]
        self._made: collections.Counter[str] = collections.Counter()

    def names(self) -> list[str]:
        """Of owners that have a ReplicaSet."""
        return [body["metadata"]["labels"]["app"] for body in self._owners if "ownerReferences" in body["metadata"]]

    def pods(self, count: int) -> Iterator[Body]:
        """Pods to create, each a further replica of any owner."""
        for _ in range(count):
            body: Body = json.loads(json.dumps(self._rng.choice(self._owners)))
            name = body["metadata"]["labels"]["app"]
            self._made[name] += 1
            body["metadata"]["name"] = f"{name}-{self._made[name]}"
            yield body

    def _owner(self, name: str) -> Body:
        chance = self._rng.random
        labels = {"app": name, "tier": self._rng.choice(("web", "db", "batch"))}
        metadata: Body = {"labels": labels}
        if chance() < 0.7:
            reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"uid-{name}"}
            metadata["ownerReferences"] = [{**reference, "controller": True}]
        spec: Body = {"terminationGracePeriodSeconds": 0, "containers": self._containers()}
        if chance() < 0.15:
            spec["initContainers"] = [_container("init", {"cpu": "300m", "memory": "100Mi"})]
        if chance() < 0.25:
            spec["tolerations"] = [{"key": self._rng.choice(("dedicated", "spot")), "operator": "Exists"}]
        if chance() < 0.2:
            spec["nodeSelector"] = {"disk": self._rng.choice(("ssd", "hdd"))}
        if chance() < 0.2:
            spec["priorityClassName"] = "patient"
        if chance() < 0.3:
            spec["topologySpreadConstraints"] = self._spread(name)
        spec["affinity"] = self._affinity(name)
        if chance() < 0.15:
            port = {"containerPort": 80, "hostPort": self._rng.choice((8080, 8081)), "protocol": "TCP"}
            spec["containers"][0]["ports"] = [{**port, **self._rng.choice(({}, {"hostIP": "10.0.0.1"}))}]
        if self._claims and chance() < 0.6:
            claimed = self._rng.sample(self._claims, k=self._rng.choice((1, 2)))
            spec["volumes"] = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claimed]
        return {"metadata": metadata, "spec": spec}

    def _containers(self) -> list[Body]:
        kinds_of_requests: tuple[Body, ...] = (
            {},
            {"cpu": "50m"},
            {"memory": "96Mi"},
            {"cpu": "100m", "memory": "128Mi"},
            {"cpu": "250m", "memory": "64Mi"},
            {"cpu": "30m", "memory": "700Mi"},
            {"cpu": "400m", "memory": "512Mi", "ephemeral-storage": "1Gi"},
        )
        some = self._rng.choices(kinds_of_requests, k=self._rng.choice((1, 1, 2)))
        return [_container(f"c{number}", requests) for number, requests in enumerate(some)]

    def _spread(self, name: str) -> list[Body]:
        rules = []
        for key in self._rng.sample((ZONE, "kubernetes.io/hostname", "disk"), k=self._rng.choice((1, 1, 2))):
            rule: Body = {
                "maxSkew": self._rng.choice((1, 2, 4)),
                "topologyKey": key,
                "whenUnsatisfiable": self._rng.choice(("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway")),
                "labelSelector": {"matchLabels": {"app": name}},
                "nodeTaintsPolicy": self._rng.choice(("Honor", "Ignore")),
                "nodeAffinityPolicy": self._rng.choice(("Honor", "Ignore")),
            }
            if rule["whenUnsatisfiable"] == "DoNotSchedule" and self._rng.random() < 0.5:
                rule |= self._rng.choice(({"minDomains": 2}, {"minDomains": 4}, {"matchLabelKeys": ["tier"]}))
            rules.append(rule)
        return rules

    def _affinity(self, name: str) -> Body:
        chance, found = self._rng.random, {}
        if chance() < 0.25:
            found["nodeAffinity"] = self._node_affinity()
        if chance() < 0.15:
            found["podAffinity"] = self._others("tier", ("web", "db", "batch"), ZONE)
        if chance() < 0.25:
            found["podAntiAffinity"] = self._others("app", (name,), "kubernetes.io/hostname")
        return found

    def _node_affinity(self) -> Body:
        wanted = {"key": "generation", "operator": "In", "values": self._rng.sample("01234", k=2)}
        liked = {"key": "disk", "operator": "In", "values": [self._rng.choice(("ssd", "nvme"))]}
        body: Body = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": self._rng.choice((1, 30, 100)), "preference": {"matchExpressions": [one]}}
                for one in (wanted, liked)
            ]
        }
        if self._rng.random() < 0.3:
            newer = {"key": "generation", "operator": "Gt", "values": ["0"]}
            required = {"nodeSelectorTerms": [{"matchExpressions": [newer]}]}
            body["requiredDuringSchedulingIgnoredDuringExecution"] = required
        return body

    def _others(self, label: str, values: Sequence[str], topology: str) -> Body:
        term = {
            "topologyKey": self._rng.choice((topology, "disk")),
            "labelSelector": {"matchExpressions": [{"key": label, "operator": "In", "values": list(values)}]},
        }
        if self._rng.random() < 0.3:
            return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        weighted = [{"weight": self._rng.choice((5, 50, 100)), "podAffinityTerm": term}]
        return {"preferredDuringSchedulingIgnoredDuringExecution": weighted}


def _container(name: str, requests: Body) -> Body:
    return {"name": name, "image": "pause", "resources": {"requests": requests}}


def filler(shape: cluster.NodeShape, number: int, place: int) -> Body:
    """One of four pods on a node: a fifth of its CPU, a tenth of its memory, more or less."""
    millicores = int(shape.cpu) * 1000 // 5 - 10 * place
    labels = {"app": f"filler-{place}", "guarded": "yes" if place == 3 and number % 3 == 0 else "no"}
    spec = {
        "nodeName": shape.name,
        "priorityClassName": f"level-{(number + place) % 5}",
        "terminationGracePeriodSeconds": 0,
        "containers": [_container("main", {"cpu": f"{millicores}m", "memory": "300Mi"})],
    }
    return {"metadata": {"name": f"filler-{number:02}-{place}", "labels": labels}, "spec": spec}


def resized(shape: cluster.NodeShape, number: int) -> tuple[Body, Body]:
    """A pod on a node, and the status that its kubelet would write: all but a core is in force where it shrinks, is
    allocated to a sidecar, or asked for; or it asks for more than there is, which is infeasible.
    """
    large, small = {"cpu": f"{int(shape.cpu) - 1}"}, {"cpu": "100m"}
    spec, allocated, actual = (
        (small, small, large),
        (small, large, small),
        (large, small, small),
        ({"cpu": "64"}, small, small),
        (small, small, small),
    )[number % 5]
    sidecar = _container("main", spec) | {"restartPolicy": "Always"}
    place = "initContainers" if number % 5 == 1 else "containers"
    body: Body = {"nodeName": shape.name, "containers": [_container("other", {})]}
    body[place] = [sidecar] if number % 5 == 1 else [_container("main", spec)]
    held = {"name": "main", "image": "pause", "imageID": "", "ready": True, "restartCount": 0}
    status: Body = {"initContainerStatuses" if number % 5 == 1 else "containerStatuses": [held]}
    held |= {"allocatedResources": allocated, "resources": {"requests": actual}}
    if number % 5 == 3:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    return {"metadata": {"name": f"resized-{number:02}"}, "spec": {"terminationGracePeriodSeconds": 0, **body}}, status


def volumes(count: int) -> Iterator[tuple[Body, Body]]:
    """Volumes with the claims that they are bound to: anywhere, in one zone by label, on some nodes by affinity."""
    ssd = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]}
    for number in range(count):
        name = f"claim-{number}"
        modes: Body = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        source = {"driver": ("disk.example", "share.example")[number % 2], "volumeHandle": f"handle-{number}"}
        labels = {ZONE: "zone-a__zone-b"} if number % 5 == 1 else {}
        spec: Body = {**modes, "capacity": {"storage": "1Gi"}, "csi": source}
        spec["claimRef"] = {"namespace": "default", "name": name}
        if number % 5 == 2:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [ssd]}}
        wanted = {**modes, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": f"volume-{number}"}
        bound = {"pv.kubernetes.io/bind-completed": "yes"}
        yield (
            {"metadata": {"name": f"volume-{number}", "labels": labels}, "spec": spec},
            {"metadata": {"name": name, "annotations": bound}, "spec": wanted},
        )


def attach_limits() -> dict[str, dict[str, int]]:
    """By node and driver how many volumes it can attach; every fourth node has no limit."""
    return {shape.name: {"disk.example": 1 + number % 3} for number, shape in enumerate(shapes()) if number % 4}


def csi_node(name: str, limits: dict[str, int]) -> Body:
    drivers = [
        {"name": driver, "nodeID": name, "topologyKeys": None, "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    return {"metadata": {"name": name}, "spec": {"drivers": drivers}}


def urgent_pod(name: str, cpu: str, **spec: object) -> Body:
    fields = {"priorityClassName": "urgent", "containers": [_container("main", {"cpu": cpu, "memory": "100Mi"})]}
    return {"metadata": {"name": name, "labels": {"app": "urgent"}}, "spec": {**fields, **spec}}


def urgent() -> Iterator[Body]:
    """Pods for which others must leave: of several sizes, on some nodes only, with rules about others."""
    anti = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "urgent"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [anti]}}
    from_filler = {**anti, "labelSelector": {"matchLabels": {"app": "filler-1"}}}
    afar = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [from_filler]}}
    for number, cpu in enumerate(("4", "5", "9", "2500m", "7", "3500m")):
        yield urgent_pod(f"urgent-{number}", cpu)
        yield urgent_pod(f"urgent-ssd-{number}", cpu, nodeSelector={"disk": "ssd"})
        yield urgent_pod(f"urgent-apart-{number}", "1500m", affinity=apart)
    yield urgent_pod("urgent-afar", "1", affinity=afar)


def replica_set(name: str) -> Body:
    selector = {"app": name}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [{"name": "main", "image": "pause"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": {"matchLabels": selector}, "template": template},
    }
