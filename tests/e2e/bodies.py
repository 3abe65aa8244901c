"""Request bodies of the end-to-end tests: pods that request one thing and really use another, and what owns them."""

import collections.abc
import json
import typing

from kube import errors, kinds
from kube.door import KubeDoor
from tests.e2e import waiting


class PodOptions(typing.TypedDict, total=False):
    """What a test may say of a pod; the rest stays as `DEFAULTS`."""

    cpu_request: str
    memory_request: str
    cpu_millicores: float
    memory_bytes: float
    labels: collections.abc.Mapping[str, str]
    annotations: collections.abc.Mapping[str, str]
    priority_class: str
    node_selector: collections.abc.Mapping[str, str]
    grace_seconds: int
    claim: str


DEFAULTS: typing.Final[PodOptions] = {
    "cpu_request": "100m",
    "memory_request": "64Mi",
    "cpu_millicores": 50,
    "memory_bytes": 32 * 2**20,
    "labels": {},
    "annotations": {},
    "priority_class": "",
    "node_selector": {},
    "grace_seconds": 0,
    "claim": "",
}


def pod(name: str, **options: typing.Unpack[PodOptions]) -> dict[str, object]:
    """A pod; its real use is what lab/cluster/exporter_load.py reads from the annotation."""
    return {"metadata": {"name": name, **_metadata(options)}, "spec": _spec(options)}


def deployment(name: str, replicas: int, **options: typing.Unpack[PodOptions]) -> dict[str, object]:
    """A Deployment of such pods, labelled app=NAME besides."""
    options = {**options, "labels": {**options.get("labels", {}), "app": name}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": _metadata(options), "spec": _spec(options)},
        },
    }


def budget(name: str, min_available: int) -> dict[str, object]:
    """A PodDisruptionBudget over the pods labelled app=NAME."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}},
    }


def volume(name: str, namespace: str, driver: str, storage_class: str = "") -> tuple[dict[str, object], ...]:
    """A volume of a CSI driver, and the claim `data` that is bound to it."""
    shared: dict[str, object] = {"accessModes": ["ReadWriteMany"], "storageClassName": storage_class}
    size, source = {"storage": "1Gi"}, {"driver": driver, "volumeHandle": "volume-1"}
    spec = {**shared, "capacity": size, "csi": source, "claimRef": {"namespace": namespace, "name": "data"}}
    wanted = {**shared, "resources": {"requests": size}, "volumeName": name}
    return {"metadata": {"name": name}, "spec": spec}, {"metadata": {"name": "data"}, "spec": wanted}


def await_class(door: KubeDoor, name: str) -> None:
    """Waits until the apiserver takes pods of a PriorityClass: its admission learns of a new one by a watch."""

    def is_admitted() -> bool:
        try:
            door.create(kinds.PODS, pod("asks", priority_class=name), namespace="default", dry_run=True)
        except errors.Forbidden:
            return False
        return True

    waiting.until(is_admitted, f"pods of class {name} to be admitted")


def _metadata(options: PodOptions) -> dict[str, object]:
    said: PodOptions = {**DEFAULTS, **options}
    usage = {"cpu_millicores": said["cpu_millicores"], "memory_bytes": said["memory_bytes"], "series": "flat"}
    return {
        "labels": dict(said["labels"]),
        "annotations": {"load.evenload.io/usage": json.dumps(usage), **said["annotations"]},
    }


def _spec(options: PodOptions) -> dict[str, object]:
    said: PodOptions = {**DEFAULTS, **options}
    requests = {"cpu": said["cpu_request"], "memory": said["memory_request"]}
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}}
    priority = {"priorityClassName": said["priority_class"]} if said["priority_class"] else {}
    selector = {"nodeSelector": dict(said["node_selector"])} if said["node_selector"] else {}
    grace = {"terminationGracePeriodSeconds": said["grace_seconds"]}
    volumes = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": said["claim"]}}]}
    return {**grace, "containers": [container], **priority, **selector, **(volumes if said["claim"] else {})}
