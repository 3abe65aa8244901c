"""The extender with the rights of deploy/rbac/extender.yaml and no others, against the real apiserver."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import cluster
from lab.cluster import containers
from lab.cluster.demo import permissions
from policy.contract import heartbeat, load_annotation, owner_usage
from runtime import clock
from tests.e2e import services, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]
NAMESPACE = permissions.NAMESPACE
ADDED = ("node-3", "node-4")
NODES = ("node-0", "node-1", "node-2", *ADDED)
OLD_SECONDS = 200  # under staleAfter, and more than a test waits, so that only the heartbeat can make a reading younger


@pytest.fixture
def extender(control_plane: cluster.Cluster, tmp_path: Path) -> Iterator[tuple[cluster.Cluster, services.Service]]:
    """An extender that runs as its ServiceAccount, and two nodes more than there were."""
    with lent(control_plane) as running:
        for _ in range(2):  # what docker-compose.yml does once the apiserver answers, and may do again
            containers.create_objects(running.api, len(NODES))
        kubeconfig = permissions.kubeconfig(running, "extender")
        policy = ROOT / "deploy" / "policies" / "default.yaml"
        arguments = ["--policy", str(policy), "--kubeconfig", str(kubeconfig), "--namespace", NAMESPACE]
        service = services.Service("extender", arguments, tmp_path)
        service.start()
        try:
            yield running, service
        finally:
            service.stop()
            for name in ADDED:
                running.api.delete(f"api/v1/nodes/{name}")


def test_its_rights_suffice_for_nodes_pods_and_the_annotators_config_maps(
    extender: tuple[cluster.Cluster, services.Service],
) -> None:
    running, service = extender
    now_seconds = clock.WallClock().now()
    text = load_annotation.encode(load_annotation.Reading(now_seconds - OLD_SECONDS, {"cpu_avg_5m": 0.5}))
    for name in NODES:
        running.api.patch(f"api/v1/nodes/{name}", {"metadata": {"annotations": {load_annotation.KEY: text}}})
    data = heartbeat.encode(now_seconds, "hash", len(NODES), heartbeat.digest(dict.fromkeys(NODES, text)))
    usage = owner_usage.encode(now_seconds, {"shop/ReplicaSet/web": owner_usage.Mean(120.0, None, 7)})
    for name, content in ((heartbeat.CONFIG_MAP, data), (owner_usage.CONFIG_MAP, usage)):
        body = {"metadata": {"name": name}, "data": content}
        running.api.create(f"api/v1/namespaces/{NAMESPACE}/configmaps", body)
    waiting.until(lambda: confirmed(service), "the heartbeat to confirm all nodes", lambda: service.json("/nodes"))
    waiting.until(lambda: service.metric("evenload_extender_owner_means") == 1, "the owner's mean to be read")
    assert "Forbidden" not in service.log()


def confirmed(service: services.Service) -> bool:
    """Whether GET /nodes says that the heartbeat matches, and all readings are younger than their own time."""
    answer = service.json("/nodes")
    younger = [row["usable"] and row["age_seconds"] < OLD_SECONDS for row in answer["nodes"]]
    return answer["heartbeat"]["matches"] and younger == [True] * len(NODES)


@pytest.mark.parametrize("plural", ["secrets", "configmaps", "deployments"])
def test_its_rights_do_not_reach_further(plural: str) -> None:
    documents = yaml.safe_load_all((permissions.FOLDER / "extender.yaml").read_text(encoding="utf-8"))
    rules = [rule for document in documents for rule in document.get("rules", [])]
    granted = [rule for rule in rules if plural in rule["resources"] and not rule.get("resourceNames")]
    assert not granted
    writing = [rule for rule in rules if not set(rule["verbs"]) <= {"get", "list", "watch"}]
    assert writing == [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]}]
