"""The manifests of deploy/kustomize and deploy/scheduler say what our commands, ports, names and files really are."""

import importlib
import pathlib

import click
import pytest
import yaml

from cli.common import services
from cli.doctor import command as doctor
from policy.loading import loader
from runtime import options as service_options
from tests.unit.deploy import manifests, test_cert_manager
from tests.unit.deploy.manifests import BASE, DEPLOY, MTLS, SERVICES, Document, load, only

PORTS = {"annotator": 8901, "extender": 8900, "descheduler": 8902}  # docs/contract.md, processes


def pod(service: str) -> Document:
    """The pod spec of a service."""
    spec: Document = only(BASE / f"{service}.yaml", "Deployment")["spec"]["template"]["spec"]
    return spec


def container(service: str) -> Document:
    """Its one container."""
    (found,) = pod(service)["containers"]
    assert isinstance(found, dict)
    return found


def arguments(service: str, directory: pathlib.Path) -> list[str]:
    """The container's arguments as it gets them, with the mounts in a directory of ours."""
    (generated,) = load(BASE / "kustomization.yaml")[0]["configMapGenerator"]
    settings = dict(literal.split("=", 1) for literal in generated["literals"])
    given = container(service)["args"] + [
        value for value in manifests.added_by_mtls(service) if str(value).startswith("--")
    ]
    for name, value in settings.items():
        given = [text.replace(f"$({name})", value) for text in given]
    for mounted in (
        "etc/evenload/policy.yaml",
        *(f"etc/evenload-tls/{name}" for name in ("tls.crt", "tls.key", "ca.crt")),
    ):
        (directory / mounted).parent.mkdir(parents=True, exist_ok=True)
        (directory / mounted).touch()
    return [text.replace("=/etc/", f"={directory}/etc/") for text in given]


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_starts_a_command_of_ours_with_options_it_understands(service: str, tmp_path: pathlib.Path) -> None:
    assert container(service)["command"] == ["evenload", service]
    given = arguments(service, tmp_path)
    assert not [text for text in given if "$(" in text]
    main = importlib.import_module(f"{service}.__main__").main
    assert isinstance(main, click.Command)
    context = main.make_context(service, given)
    assert context.params["policy"] == tmp_path / "etc/evenload/policy.yaml"
    assert service_options.listen_address(context.params["listen"], 0) == ("", PORTS[service])
    if service != "extender":
        assert context.params["prometheus"].startswith("http://")
        assert context.params["node_label"] == "instance"
        assert context.params["node_selector"] == context.params["pod_selector"] == ""
    else:
        assert context.params["client_names"] == ("system:kube-scheduler", "descheduler")


@pytest.mark.parametrize("service", SERVICES)
def test_ports_of_container_service_and_network_policy_are_those_of_the_design(service: str) -> None:
    assert [port["containerPort"] for port in container(service)["ports"]] == [PORTS[service]]
    (served,) = only(BASE / f"{service}.yaml", "Service")["spec"]["ports"]
    assert (served["port"], served["targetPort"]) == (PORTS[service], container(service)["ports"][0]["name"])
    policies = manifests.network_policies()
    allowing = policies["evenload-extender" if service == "extender" else "evenload-metrics"]
    assert PORTS[service] in {port["port"] for rule in allowing["ingress"] for port in rule["ports"]}


def test_only_the_port_that_the_scheduler_asks_is_open_to_everybody() -> None:
    policies = manifests.network_policies()
    ours = {"matchLabels": {"app.kubernetes.io/name": "evenload"}}  # whatever else is in the namespace stays reachable
    assert policies["evenload-nobody"] == {"podSelector": ours, "policyTypes": ["Ingress"]}
    rules = [rule for spec in policies.values() for rule in spec.get("ingress", [])]
    assert all(rule["from"] and rule["ports"] for rule in rules), "no rule is open by what it leaves out"
    anywhere = [rule for rule in rules if any("ipBlock" in source for source in rule["from"])]
    assert [port["port"] for rule in anywhere for port in rule["ports"]] == [PORTS["extender"]]
    assert anywhere == [policies["evenload-extender"]["ingress"][1]], (
        "which the patch of docs/start/install.md replaces"
    )
    (rule,) = policies["evenload-metrics"]["ingress"]
    (source,) = rule["from"]
    assert set(source) == {"namespaceSelector", "podSelector"}  # both at once: a label alone anybody can take
    assert source["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "prometheus"}  # as operators name it
    prometheus, *ours = policies["evenload-extender"]["ingress"][0]["from"]
    assert prometheus == source
    assert [set(one) for one in ours] == [{"podSelector"}] * 2  # of our own namespace, where labels are ours


def test_the_descheduler_reaches_each_replica_of_the_extender_and_shows_the_certificate_that_is_admitted() -> None:
    service = only(BASE / "extender-replicas.yaml", "Service")
    extender = only(BASE / "extender.yaml", "Service")
    assert service["spec"] == {"clusterIP": "None", **extender["spec"]}
    assert service["metadata"]["labels"] != extender["metadata"]["labels"], "or Prometheus scrapes each twice"
    assert f"--extender={service['metadata']['name']}:{PORTS['extender']}" in container("descheduler")["args"]
    let_in = manifests.network_policies()["evenload-extender"]["ingress"][0]["from"][2]["podSelector"]["matchLabels"]
    assert let_in == only(BASE / "descheduler.yaml", "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert f"--extender-server-name={extender['metadata']['name']}" in manifests.added_by_mtls("descheduler")
    certificate = test_cert_manager.objects("Certificate")["evenload-descheduler"]["spec"]
    assert f"--client-name={certificate['commonName']}" in manifests.added_by_mtls()
    (volume,) = [one for one in manifests.added_by_mtls("descheduler") if isinstance(one, dict) and "secret" in one]
    assert volume["secret"] == {"secretName": certificate["secretName"], "optional": True}


def test_the_second_scheduler_has_the_labels_that_the_extenders_policy_lets_in() -> None:
    policies = manifests.network_policies()
    labels = policies["evenload-extender"]["ingress"][0]["from"][1]["podSelector"]["matchLabels"]
    kustomization = load(DEPLOY / "scheduler" / "second" / "kustomization.yaml")[0]
    given = {
        key: value
        for one in kustomization["labels"]
        if one.get("includeTemplates")
        for key, value in one["pairs"].items()
    }
    assert labels.items() <= given.items()


def test_the_doctor_finds_the_extenders_by_the_names_and_the_scheme_of_their_service() -> None:
    service = only(BASE / "extender.yaml", "Service")
    assert (service["metadata"]["name"], service["spec"]["ports"][0]["name"]) == (services.EXTENDER.in_cluster, "http")
    deployment, _, named = (yaml.safe_load(one["patch"]) for one in load(MTLS)[0]["patches"])
    assert named == [{"op": "replace", "path": "/spec/ports/0/name", "value": "https"}]
    schemes = [op["path"] for op in deployment if op["value"] == "HTTPS"]
    assert {path.split("/")[-3] for path in schemes} == {
        name for name in container("extender") if name.endswith("Probe")
    }


@pytest.mark.parametrize("service", SERVICES)
def test_probes_ask_what_is_served_where_it_is_served(service: str) -> None:
    wanted = {"livenessProbe": "/livez", "readinessProbe": "/readyz", "startupProbe": "/livez"}
    probes = {name: probe for name, probe in container(service).items() if name.endswith("Probe")}
    assert {"livenessProbe", "readinessProbe"} <= set(probes)
    for name, probe in probes.items():
        assert probe["httpGet"] == {"path": wanted[name], "port": container(service)["ports"][0]["name"]}


@pytest.mark.parametrize("service", SERVICES)
def test_a_container_can_write_nowhere_but_where_it_must_and_says_what_it_needs(service: str) -> None:
    one = container(service)
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert set(one["resources"]["requests"]) == {"cpu", "memory"}
    assert set(one["resources"]["limits"]) == {"memory"}
    volumes = {volume["name"] for volume in pod(service)["volumes"]}
    assert {mount["name"] for mount in one["volumeMounts"]} == volumes
    writable = {mount["mountPath"] for mount in one["volumeMounts"] if not mount.get("readOnly")}
    assert writable == ({"/var/lib/evenload", "/tmp"} if service == "descheduler" else set())  # noqa: S108
    assert not [mount for mount in one["volumeMounts"] if "subPath" in mount]  # kubelet never updates those


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_runs_under_the_account_of_its_shipped_rights(service: str) -> None:
    account = only(DEPLOY / "rbac" / f"{service}.yaml", "ServiceAccount")["metadata"]
    deployment = only(BASE / f"{service}.yaml", "Deployment")
    assert deployment["metadata"]["namespace"] == account["namespace"]
    assert pod(service)["serviceAccountName"] == account["name"]


def test_selectors_select_the_pods_of_their_own_service_alone() -> None:
    for service in SERVICES:
        deployment = only(BASE / f"{service}.yaml", "Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert labels == {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": service}
        assert deployment["spec"]["selector"]["matchLabels"] == labels
        assert only(BASE / f"{service}.yaml", "Service")["spec"]["selector"] == labels
    budget = only(BASE / "extender.yaml", "PodDisruptionBudget")["spec"]
    assert budget["selector"]["matchLabels"]["app.kubernetes.io/component"] == "extender"


def test_deschedulers_are_never_on_two_nodes_nor_of_two_versions() -> None:
    deployment = only(BASE / "descheduler.yaml", "Deployment")
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    (term,) = pod("descheduler")["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    claim = only(BASE / "ledger.yaml", "PersistentVolumeClaim")
    assert claim["metadata"]["name"] in {
        volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod("descheduler")["volumes"]
    }


def test_the_policy_is_where_services_and_doctor_look_and_keeps_its_name_when_it_changes() -> None:
    (shipped,) = load(DEPLOY / "policies" / "kustomization.yaml")[0]["configMapGenerator"]
    (enforced,) = load(DEPLOY / "kustomize/overlays/enforce/kustomization.yaml")[0]["configMapGenerator"]
    assert shipped["name"] == enforced["name"] == doctor.POLICY_MAP
    assert shipped["options"] == {"disableNameSuffixHash": True}
    assert [one.split("=")[0] for one in shipped["files"] + enforced["files"]] == ["policy.yaml", "policy.yaml"]
    for service in SERVICES:
        (volume,) = [one for one in pod(service)["volumes"] if one["name"] == "policy"]
        assert volume["configMap"] == {"name": doctor.POLICY_MAP}


def test_enforce_differs_from_the_default_policy_in_the_mode_alone() -> None:
    paths = (DEPLOY / "policies" / "default.yaml", DEPLOY / "kustomize/overlays/enforce/policy.yaml")
    default, enforce = (loader.load(path.read_text(encoding="utf-8"), str(path)).as_file() for path in paths)
    assert (default["descheduler"]["mode"], enforce["descheduler"]["mode"]) == ("Observe", "Enforce")  # type: ignore[index]
    default["descheduler"]["mode"] = "Enforce"  # type: ignore[index]
    assert default == enforce


def test_every_file_that_a_kustomization_names_exists_and_none_is_forgotten() -> None:
    for path in DEPLOY.rglob("kustomization.yaml"):
        (one,) = load(path)
        named = [*one.get("resources", []), *one.get("components", [])]
        for directory in (path.parent / name for name in named if not name.endswith(".yaml")):
            assert (directory / "kustomization.yaml").is_file(), f"{path}: {directory}"
        files = {name for name in named if name.endswith(".yaml")}
        files |= {text.split("=")[-1] for made in one.get("configMapGenerator", []) for text in made.get("files", [])}
        there = {found.name for found in path.parent.glob("*.yaml")} - {path.name}
        # presets and plain rule files are to choose from, not parts
        extra = there if path.parent in (DEPLOY / "policies", DEPLOY / "monitoring") else set()
        assert {name for name in files if name.endswith(".yaml")} <= there, path
        assert there - extra <= files, path


def test_every_scheduler_configuration_has_the_same_stanza() -> None:
    paths = ("extender-stanza.yaml", "kubeadm/kube-scheduler.yaml", "second/config.yaml")
    stanzas = [load(DEPLOY / "scheduler" / path)[0]["extenders"] for path in paths]
    assert stanzas[0] == stanzas[1] == stanzas[2]
    namespace = load(DEPLOY / "namespace/namespace.yaml")[0]["metadata"]["name"]
    assert stanzas[0][0]["urlPrefix"] == f"http://{services.EXTENDER.in_cluster}.{namespace}.svc:{PORTS['extender']}"


def test_the_second_scheduler_holds_the_lease_it_may_hold_and_serves_pods_that_ask_for_it() -> None:
    folder = DEPLOY / "scheduler" / "second"
    (config,) = load(folder / "config.yaml")
    election = config["leaderElection"]
    role = only(folder / "rights.yaml", "Role")
    assert {name for rule in role["rules"] for name in rule.get("resourceNames", [])} == {election["resourceName"]}
    assert role["metadata"]["namespace"] == election["resourceNamespace"]
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["evenload-scheduler"]


def test_kubeadms_patch_mounts_the_file_that_it_names() -> None:
    folder = DEPLOY / "scheduler" / "kubeadm"
    (patch,) = yaml.safe_load_all((folder / "kube-scheduler+json.yaml").read_text(encoding="utf-8"))
    ops = {op["path"]: op["value"] for op in patch}
    named = pathlib.PurePosixPath(ops["/spec/containers/0/command/-"].removeprefix("--config="))
    volume, mount = ops["/spec/volumes/-"], ops["/spec/containers/0/volumeMounts/-"]
    assert volume["name"] == mount["name"]
    assert volume["hostPath"]["path"] == mount["mountPath"] == str(named.parent)
    assert (folder / named.name).is_file()
    assert load(folder / named.name)[0]["clientConnection"]["kubeconfig"] == "/etc/kubernetes/scheduler.conf"
    assert ops["/spec/dnsPolicy"] == "ClusterFirstWithHostNet"


def test_the_second_scheduler_is_probed_where_every_supported_version_answers() -> None:
    """kube-scheduler has /livez and /readyz from 1.31 on; 1.30 answers 404."""
    deployment = only(DEPLOY / "scheduler/second/scheduler.yaml", "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    probes = [container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")]
    assert probes == ["/healthz", "/healthz"]
