"""Puts beside the services of a demo cluster what an installation has: the guard, and Services with pods behind them.

The services are processes of this machine. A pod stands for each, with the machine's address, as a kubelet and the
controller of the Service would write it, so that `evenload doctor` and every command that asks through the apiserver
find them. No scheduler and no kubelet touches such a pod.
"""

import collections.abc
from typing import Any, Final
from urllib import parse

import yaml

from lab.cluster import control_plane, processes
from lab.cluster.demo import permissions

GUARD: Final = processes.ROOT / "deploy" / "guard"
ADMISSION: Final = "apis/admissionregistration.k8s.io/v1"
PATHS: Final = {
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
}
CORE: Final = f"api/v1/namespaces/{permissions.NAMESPACE}"
SLICES: Final = f"apis/discovery.k8s.io/v1/namespaces/{permissions.NAMESPACE}/endpointslices"
NOBODY: Final = "nobody"  # the scheduler of these pods
Document = dict[str, Any]


def guard(running: control_plane.Cluster, min_pod_age_seconds: float) -> None:
    """Creates the objects of deploy/guard, with the policy's own least age of pods in place of the shipped 5 minutes,
    which is longer than a demo. ApiError names an object that is refused.
    """
    for path in sorted(GUARD.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if document["kind"] in PATHS:
                for variable in document["spec"].get("variables", ()):
                    if variable["name"] == "minPodAge":
                        variable["expression"] = f'duration("{min_pod_age_seconds:g}s")'
                running.api.create(PATHS[document["kind"]], document)


def services(running: control_plane.Cluster, urls: collections.abc.Mapping[str, str]) -> None:
    """Creates a Service for each name, with a pod behind it that answers at the URL. ApiError names one refused."""
    for name, url in urls.items():
        address = parse.urlsplit(url)
        host, port = str(address.hostname), int(address.port or 0)
        full_name = f"evenload-{name}"
        labels = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": name}
        running.api.create(f"{CORE}/services", _service(full_name, labels, port))
        pod = running.api.create(f"{CORE}/pods", _pod(full_name, labels))
        running.api.patch(f"{CORE}/pods/{full_name}/status", _running(host))
        running.api.create(SLICES, _slice(full_name, host, port, pod["metadata"]["uid"]))


def _service(name: str, labels: Document, port: int) -> Document:
    ports = [{"name": "http", "port": port, "targetPort": port}]
    # no selector: the slice is written here
    return {"kind": "Service", "metadata": {"name": name, "labels": labels}, "spec": {"ports": ports}}


def _pod(name: str, labels: Document) -> Document:
    spec = {"schedulerName": NOBODY, "containers": [{"name": name, "image": "evenload"}]}
    return {"kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _running(host: str) -> Document:
    ready = {"type": "Ready", "status": "True"}
    return {"status": {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}], "conditions": [ready]}}


def _slice(name: str, host: str, port: int, uid: str) -> Document:
    target = {"kind": "Pod", "name": name, "namespace": permissions.NAMESPACE, "uid": uid}
    return {
        "kind": "EndpointSlice",
        "metadata": {"name": f"{name}-1", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}, "targetRef": target}],
        "ports": [{"name": "http", "port": port}],
    }
