"""The rendered commands and configuration files: what the design fixes, and nothing outside the cluster's directory."""

import pathlib
import typing

import pytest
import yaml

from lab.cluster import binaries, components, kubeconfigs, monitoring, nodes
from runtime.certificates import Pair

BINARIES = {tool.name: pathlib.Path("/bin") / tool.name for tool in binaries.TOOLS}
LAYOUT = components.Layout(pathlib.Path("/c"), BINARIES)


def every_command() -> dict[str, components.Arguments]:
    return {
        "etcd": components.etcd(LAYOUT, client_port=1, peer_port=2),
        "kube-apiserver": components.apiserver(LAYOUT, port=3, etcd_port=1, audit=True),
        "kube-controller-manager": components.controller_manager(LAYOUT, port=4),
        "kube-scheduler": components.scheduler(LAYOUT, port=5, gates={}),
        "kwok": components.kwok(LAYOUT, port=6, stages=[pathlib.Path("/s/a.yaml")]),
        "prometheus": monitoring.arguments(LAYOUT, port=7),
        "node_exporter": components.node_exporter(LAYOUT, port=8),
    }


@pytest.mark.parametrize("name", sorted(every_command()))
def test_a_command_listens_on_loopback_and_keeps_to_the_clusters_directory(name: str) -> None:
    command = every_command()[name]
    assert command[0] == f"/bin/{name}"
    values = [argument.partition("=")[2] for argument in command[1:]]
    assert any("127.0.0.1" in value for value in values)
    assert not any("0.0.0.0" in value for value in values)  # noqa: S104 - the opposite of binding to it
    assert all(value.startswith(("/c/", "/s/")) for value in values if value.startswith("/") and "," not in value)


def test_the_apiserver_asks_servers_of_aggregated_apis_as_the_front_proxy_where_that_is_wanted() -> None:
    command = components.apiserver(LAYOUT, port=3, etcd_port=1, audit=False)
    assert not any("aggregator" in word or "requestheader" in word or "proxy" in word for word in command)
    command = components.apiserver(LAYOUT, port=3, etcd_port=1, audit=False, aggregation=True)
    assert "--enable-aggregator-routing=true" in command
    assert f"--requestheader-allowed-names={components.FRONT_PROXY}" in command
    assert [word for word in command if word.endswith(("pki/front-proxy.crt", "pki/front-proxy.key"))] == [
        f"--proxy-client-cert-file={LAYOUT.pki('front-proxy.crt')}",
        f"--proxy-client-key-file={LAYOUT.pki('front-proxy.key')}",
    ]


def test_the_apiserver_has_rbac_and_its_etcd() -> None:
    command = components.apiserver(LAYOUT, port=3, etcd_port=1, audit=False)
    assert {"--authorization-mode=Node,RBAC", "--etcd-servers=http://127.0.0.1:1", "--secure-port=3"} <= set(command)
    assert not any("audit" in argument for argument in command)


def test_the_node_lifecycle_and_disruption_controllers_stay_on() -> None:
    controllers = next(
        item for item in components.controller_manager(LAYOUT, port=4) if item.startswith("--controllers=")
    )
    assert controllers == "--controllers=*,-ttl-controller,-certificatesigningrequest-signing-controller"


def test_the_scheduler_has_the_feature_gates_asked_for_and_no_others() -> None:
    gates = {"SchedulerAsyncPreemption": False, "SchedulerQueueingHints": True}
    chosen = components.scheduler(LAYOUT, port=5, gates=gates)
    assert "--feature-gates=SchedulerAsyncPreemption=false,SchedulerQueueingHints=true" in chosen
    assert not any("feature-gates" in one for one in components.scheduler(LAYOUT, port=5, gates={}))


def test_the_schedulers_configuration_carries_the_extenders_as_given() -> None:
    stanza = {"urlPrefix": "http://127.0.0.1:8", "filterVerb": "filter", "nodeCacheCapable": True}
    document = yaml.safe_load(components.scheduler_configuration("/c/k", (stanza,)))
    assert document["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert document["extenders"] == [stanza]
    assert document["leaderElection"] == {"leaderElect": False}
    assert "extenders" not in yaml.safe_load(components.scheduler_configuration("/c/k", ()))


def test_prometheus_trusts_the_labels_of_our_exporter_only() -> None:
    document = yaml.safe_load(monitoring.configuration(pathlib.Path("/c/configuration"), scrape_seconds=0.5))
    assert document["global"]["scrape_interval"] == "500ms"
    assert {job["job_name"]: job["honor_labels"] for job in document["scrape_configs"]} == {
        "load-exporter": True,
        "node-exporter": False,
        "evenload": False,
    }


def test_a_job_without_an_exporter_has_no_target() -> None:
    files = monitoring.targets({"node-exporter": "127.0.0.1:9"})
    assert files == {
        "load-exporter-targets.json": "[]",
        "node-exporter-targets.json": '[{"targets": ["127.0.0.1:9"]}]',
    }


def test_a_kubeconfig_holds_its_certificates() -> None:
    document = yaml.safe_load(kubeconfigs.with_certificate("https://127.0.0.1:3", "CA", "jane", Pair("CERT", "KEY")))
    assert document["clusters"][0]["cluster"] == {"server": "https://127.0.0.1:3", "certificate-authority-data": "Q0E="}
    assert document["users"][0]["user"] == {"client-certificate-data": "Q0VSVA==", "client-key-data": "S0VZ"}
    assert document["current-context"] == document["contexts"][0]["name"]


def test_a_users_file_name_has_no_colon() -> None:
    name = kubeconfigs.file_name("system:serviceaccount:ns:a/b")
    assert name == "system-serviceaccount-ns-a-b.kubeconfig"


def test_nodes_are_numbered_and_have_addresses_of_their_own() -> None:
    shapes = nodes.shapes(1000)
    assert (shapes[0].name, shapes[-1].name) == ("node-0", "node-999")
    assert len({nodes.address(index) for index in range(1000)}) == 1000


def test_a_node_registers_with_its_shape() -> None:
    shape = nodes.NodeShape("big", cpu="64", labels={"pool": "big"}, taints=[("only", "big", "NoSchedule")])
    node: dict[str, typing.Any] = nodes.body(shape, 1)
    assert node["metadata"]["labels"]["pool"] == "big"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "big"
    assert node["spec"]["taints"] == [{"key": "only", "value": "big", "effect": "NoSchedule"}]
    assert node["status"]["addresses"][0] == {"type": "InternalIP", "address": "172.16.0.2"}
    assert node["status"]["allocatable"]["cpu"] == "64"
    assert nodes.is_usable(node)


@pytest.mark.parametrize(
    ("ready", "taint", "usable"),
    [
        pytest.param("True", None, True, id="ready and untainted"),
        pytest.param("False", None, False, id="not ready"),
        pytest.param("True", "node.kubernetes.io/not-ready", False, id="still tainted by the control plane"),
        pytest.param("True", "dedicated", True, id="tainted by its owner on purpose"),
    ],
)
def test_a_node_is_usable_when_ready_and_free_of_the_control_planes_taints(
    ready: str, taint: str | None, usable: bool
) -> None:
    spec = {"taints": [{"key": taint}]} if taint else {}
    node = {"spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    assert nodes.is_usable(node) is usable


def test_real_kubelets_are_asked_by_address_with_a_certificate_and_given_up_after_forty_seconds() -> None:
    command = components.apiserver(LAYOUT, port=3, etcd_port=1, audit=False, kubelets=True)
    added = set(command) - set(components.apiserver(LAYOUT, port=3, etcd_port=1, audit=False))
    assert added == {
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-client-certificate={LAYOUT.pki('kubelet-client.crt')}",
        f"--kubelet-client-key={LAYOUT.pki('kubelet-client.key')}",
    }
    assert "--node-monitor-grace-period=10m" in components.controller_manager(LAYOUT, port=4)
    assert "--node-monitor-grace-period=40s" in components.controller_manager(LAYOUT, port=4, kubelets=True)
