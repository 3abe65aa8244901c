"""What kube-apiserver takes into a pod from anyone who may create one, and what the services keep of it.

Owners are of kinds that no API serves, so that the garbage collector leaves the pods alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from descheduler.snapshot import interned_pods
from kube import config, door, errors, kinds, objects
from kube.pods import compact, pod_view
from lab import cluster
from tests.e2e import bodies, waiting

pytestmark = pytest.mark.cluster
FOREIGN = {"apiVersion": "x.example/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"}
TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
TERMS = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM] * 5000}}


def owned(*references: Mapping[str, object]) -> dict[str, object]:
    return {"metadata": {"ownerReferences": list(references)}}


def spelt(**fields: str) -> dict[str, object]:
    return {**FOREIGN, "controller": True, **fields}


HOSTILE: dict[str, dict[str, Any]] = {
    "owners-without-end": owned(*({**FOREIGN, "name": f"o{at}", "uid": f"u-{at}" * 8} for at in range(8000))),
    "a-long-name": owned(spelt(name="x" * 1_200_000)),
    "a-long-uid": owned(spelt(uid="x" * 1_200_000)),
    "a-path": owned(spelt(apiVersion="../healthz")),
    "terms": {"spec": {"affinity": TERMS}},
    "a-forged-daemon-set": owned(spelt()),
    "a-forged-source": {"metadata": {"annotations": {"kubernetes.io/config.source": "file"}}},
    "a-forged-placeholder": {"metadata": {"labels": {"evenload.io/placeholder": "true"}}},
}
IMPOSSIBLE = {"a-long-name", "a-long-uid", "a-path"}


@pytest.fixture(scope="module")
def home(control_plane: cluster.Cluster) -> Iterator[str]:
    """A namespace with these pods, all on one node."""
    namespace = "hostile"
    control_plane.api.create("api/v1/namespaces", {"metadata": {"name": namespace}})
    account = f"api/v1/namespaces/{namespace}/serviceaccounts/default"
    waiting.until(lambda: control_plane.api.exists(account), account)
    for name, parts in HOSTILE.items():
        body: dict[str, Any] = bodies.pod(name)
        metadata, spec = parts.get("metadata", {}), parts.get("spec", {})
        made = {"metadata": {**body["metadata"], **metadata}, "spec": {**body["spec"], "nodeName": "node-0", **spec}}
        control_plane.api.create(f"api/v1/namespaces/{namespace}/pods", made)
    yield namespace
    control_plane.api.delete(f"api/v1/namespaces/{namespace}")


def by_name(api: door.KubeDoor, kind: kinds.Kind[Any], namespace: str) -> dict[str, Any]:
    return {pod.name: pod for pod in api.list(kind, namespace=namespace).items}


def test_an_apiserver_takes_it_all_and_only_bounded_values_are_kept(admin: door.KubeDoor, home: str) -> None:
    whole = by_name(admin, kinds.PODS, home)
    assert whole.keys() >= HOSTILE.keys(), "what the apiserver refuses needs no bound"
    assert len(whole["owners-without-end"].metadata.owner_references) == 8000
    assert len(whole["a-long-name"].owner.name) == 1_200_000
    watched = by_name(admin, compact.PODS, home)
    assert {name for name, pod in watched.items() if pod.left_out == "owner"} == IMPOSSIBLE
    assert all(pod.owner is None for name, pod in watched.items() if name in IMPOSSIBLE)
    assert max(len(repr(pod)) for pod in watched.values()) < 2000
    run = by_name(admin, interned_pods.PODS, home)
    assert {name for name, pod in run.items() if pod.left_out} == {"a-long-name", "a-long-uid", "terms"}
    assert max(len(repr(pod)) for pod in run.values()) < 4000


@pytest.mark.parametrize("name", ["a-forged-daemon-set", "a-forged-source", "a-forged-placeholder"])
def test_a_forged_exemption_is_none(admin: door.KubeDoor, home: str, name: str) -> None:
    seen: compact.Pod = by_name(admin, compact.PODS, home)[name]
    asked: objects.Pod = by_name(admin, kinds.PODS, home)[name]
    assert pod_view.counts_as_load(seen)
    assert pod_view.counts_as_load(asked)
    assert pod_view.is_placed_by_load(by_name(admin, compact.PODS, home)[name])


@pytest.fixture
def kubelet(control_plane: cluster.Cluster) -> Iterator[door.KubeDoor]:
    """A client with the certificate of the kubelet of node-0."""
    client = config.connect(control_plane.kubeconfig_for("system:node:node-0", ["system:nodes"]))
    yield client
    client.close()


MARKED = {"metadata": {"annotations": {"evenload.io/load": "{}"}}}
LARGER = {"status": {"capacity": {"cpu": "999"}, "addresses": [{"type": "InternalIP", "address": "203.0.113.9"}]}}
READY = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


def test_a_kubelet_writes_to_its_own_node_and_its_own_pods_alone(
    admin: door.KubeDoor, kubelet: door.KubeDoor, home: str
) -> None:
    """NodeRestriction holds a kubelet to its own Node and Pods: docs/reference/security.md counts on it."""
    for body, part in ((MARKED, ""), (LARGER, "status")):
        kubelet.merge_patch(kinds.NODES, "node-0", body, subresource=part, dry_run=True)
        with pytest.raises(errors.Forbidden, match="node-1"):
            kubelet.merge_patch(kinds.NODES, "node-1", body, subresource=part, dry_run=True)
    neighbour = bodies.pod("neighbour")
    on_another = {**neighbour, "spec": {**neighbour["spec"], "nodeName": "node-1"}}  # type: ignore[dict-item]
    admin.create(kinds.PODS, on_another, namespace=home)
    kubelet.merge_patch(kinds.PODS, "terms", READY, namespace=home, subresource="status", dry_run=True)
    with pytest.raises(errors.Forbidden, match="neighbour"):
        kubelet.merge_patch(kinds.PODS, "neighbour", READY, namespace=home, subresource="status", dry_run=True)
