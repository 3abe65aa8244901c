"""The extender with the rights of deploy/rbac/extender.yaml and no others, against the real apiserver."""

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import cluster
from policy import annotations, heartbeat, owner_usage
from runtime import clock
from tests.e2e import services, waiting

pytestmark = pytest.mark.cluster
ROOT = pathlib.Path(__file__).parents[2]
NAMESPACE = "evenload-system"
RIGHTS = "apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "ServiceAccount": f"api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": f"{RIGHTS}/clusterroles",
    "ClusterRoleBinding": f"{RIGHTS}/clusterrolebindings",
    "Role": f"{RIGHTS}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{RIGHTS}/namespaces/{NAMESPACE}/rolebindings",
}


@pytest.fixture
def extender(tmp_path: pathlib.Path) -> Iterator[tuple[cluster.Cluster, services.Service]]:
    """An extender that runs as its ServiceAccount, on a cluster of its own without load or scheduler."""
    with cluster.Cluster(nodes=2, scheduler=False, prometheus=False, exporter=False) as running:
        running.api.create("api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for document in yaml.safe_load_all((ROOT / "deploy" / "rbac" / "extender.yaml").read_text(encoding="utf-8")):
            running.api.create(PATHS[document["kind"]], document)
        kubeconfig = running.service_account_kubeconfig(NAMESPACE, "evenload-extender")
        policy = ROOT / "deploy" / "policies" / "default.yaml"
        arguments = ["--policy", str(policy), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        service = services.Service("extender", arguments, tmp_path)
        service.start()
        try:
            yield running, service
        finally:
            service.stop()


def test_its_rights_suffice_for_nodes_pods_and_the_annotators_config_maps(
    extender: tuple[cluster.Cluster, services.Service],
) -> None:
    running, service = extender
    now_seconds = clock.WallClock().now()
    text = annotations.encode(annotations.Reading(now_seconds - 60, {"cpu_avg_5m": 0.5}))
    for name in ("node-0", "node-1"):
        running.api.patch(f"api/v1/nodes/{name}", {"metadata": {"annotations": {annotations.KEY: text}}})
    data = heartbeat.encode(now_seconds, "hash", 2, heartbeat.digest({"node-0": text, "node-1": text}))
    usage = owner_usage.encode(now_seconds, {"shop/ReplicaSet/web": owner_usage.Mean(120.0, None, 7)})
    for name, content in ((heartbeat.CONFIG_MAP, data), (owner_usage.CONFIG_MAP, usage)):
        body = {"metadata": {"name": name}, "data": content}
        running.api.create(f"api/v1/namespaces/{NAMESPACE}/configmaps", body)
    shown = waiting.eventually(lambda: confirmed(service), 20, "the heartbeat to confirm both nodes")
    assert all(row["age_seconds"] < 50 for row in shown["nodes"])
    waiting.eventually(lambda: service.metric("evenload_extender_owner_means") == 1, 90, "the owner's mean to be read")
    assert "Forbidden" not in service.log()


def confirmed(service: services.Service) -> dict[str, Any]:
    """GET /nodes once the heartbeat matches, {} before."""
    answer = service.json("/nodes")
    assert isinstance(answer, dict)
    return answer if answer["heartbeat"]["matches"] and all(row["usable"] for row in answer["nodes"]) else {}


@pytest.mark.parametrize("plural", ["secrets", "configmaps", "deployments"])
def test_its_rights_do_not_reach_further(plural: str) -> None:
    documents = yaml.safe_load_all((ROOT / "deploy" / "rbac" / "extender.yaml").read_text(encoding="utf-8"))
    rules = [rule for document in documents for rule in document.get("rules", [])]
    granted = [rule for rule in rules if plural in rule["resources"] and not rule.get("resourceNames")]
    assert not granted
    writing = [rule for rule in rules if not set(rule["verbs"]) <= {"get", "list", "watch"}]
    assert writing == [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}]
