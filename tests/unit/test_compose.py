"""docker-compose.yml runs what lab/cluster/ runs, reads what is written for it, and gives services only their needs."""

import importlib
import pathlib
import re
from typing import Any

import click
import pytest
import yaml

from lab.cluster import binaries, containers, extender_stanza, kubeconfigs, site
from runtime import certificates, version
from runtime import options as service_options
from tests.unit.deploy.manifests import BASE, only
from tests.unit.test_repository import validated

ROOT = pathlib.Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {"annotator": 8901, "extender": 8900, "descheduler": 8902}  # docs/contract.md, processes
STEPS = ("files", "objects")
NOW = 1_790_000_000.0


def line(name: str) -> list[str]:
    """What a service's container runs."""
    return [*SERVICES[name].get("entrypoint", []), *SERVICES[name]["command"]]


def mounts(name: str) -> dict[str, dict[str, Any]]:
    """What a service sees, by path, in the long form."""
    found: dict[str, dict[str, Any]] = {}
    for volume in SERVICES[name].get("volumes", []):
        if isinstance(volume, str):
            source, target, *mode = volume.split(":")
            volume = {"source": source, "target": target, "read_only": mode == ["ro"]}
        found[volume["target"]] = volume
    return found


def seen_as(name: str, path: str, volume: pathlib.Path) -> pathlib.Path:
    """Where a path of a container lies here, with the named volume in a directory of ours."""
    target = max((target for target in mounts(name) if path.startswith(f"{target}/")), key=len)
    mount = mounts(name)[target]
    rest = path.removeprefix(f"{target}/")
    source, folder = str(mount["source"]), str(mount.get("volume", {}).get("subpath", ""))
    return ROOT / source / rest if source.startswith(".") else volume / folder / rest


def test_a_read_only_container_has_a_tmp_of_its_own() -> None:
    """Without one gunicorn and Python's tempfile end at their start, again and again."""
    assert [name for name, one in SERVICES.items() if one.get("read_only") and "/tmp" not in one.get("tmpfs", [])] == []  # noqa: S108


def test_it_is_what_the_compose_specification_allows(tmp_path: pathlib.Path) -> None:
    answer = validated("vendor.compose-spec", ROOT / "docker-compose.yml")
    assert answer.exit_code == 0, answer.stdout
    wrong = tmp_path / "docker-compose.yml"
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("depends_on:", "depends_upon:", 1), encoding="utf-8")
    answer = validated("vendor.compose-spec", wrong)
    assert answer.exit_code == 1
    assert "depends_upon" in answer.stdout


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The named volume after the step `files`."""
    directory = tmp_path_factory.mktemp("volume")
    assert containers.write_files(containers.place(directory), now_seconds=NOW)
    return directory


@pytest.mark.parametrize("name", site.ORDER)
def test_a_component_runs_the_command_that_cluster_renders(name: str) -> None:
    expected = containers.commands()[name]
    if name == "load-exporter":
        expected = ["python", *expected[1:]]
    assert line(name) == expected


def test_every_service_is_a_component_or_ours_or_a_step_or_a_tool() -> None:
    assert set(SERVICES) == {*site.ORDER, *OURS, *STEPS, "kubectl"}
    assert set(containers.SERVICES) == set(OURS)


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_starts_with_options_it_understands(name: str, volume: pathlib.Path) -> None:
    command, *given = SERVICES[name]["command"]
    assert command == name
    arguments = [re.sub(r"=(/.*)$", lambda found: f"={seen_as(name, found[1], volume)}", text) for text in given]
    main = importlib.import_module(f"{name}.__main__").main
    assert isinstance(main, click.Command)
    context = main.make_context(name, arguments)
    assert context.params["policy"] == ROOT / "deploy" / "policies" / "demo.yaml"
    assert service_options.listen_address(context.params["listen"], 0) == ("", OURS[name])
    kubeconfig = yaml.safe_load(pathlib.Path(context.params["kubeconfig"]).read_text(encoding="utf-8"))
    assert kubeconfig["users"][0]["name"] == f"system:serviceaccount:evenload-system:evenload-{name}"
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://kube-apiserver:6443"
    if name != "extender":
        assert context.params["prometheus"] == f"http://prometheus:{containers.PORTS['prometheus']}"


@pytest.mark.parametrize("name", [*site.ORDER, *OURS])
def test_every_file_that_a_command_names_is_there(name: str, volume: pathlib.Path) -> None:
    made_by_itself = ("--data-dir=", "--storage.tsdb.path=", "--ledger=")
    named = [text for text in line(name) if not text.startswith(made_by_itself)]
    paths = [found[1] for text in named if (found := re.search(r"(?:^|=)(/(?:var|etc)/[^,]+)$", text))]
    assert [path for path in paths if not seen_as(name, path, volume).exists()] == []


def test_the_files_name_hosts_and_ports_of_the_components(volume: pathlib.Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in volume.glob("configuration/*")]
    texts += [" ".join(line(name)) for name in SERVICES if name != "kubectl"]
    named = set(re.findall(r"(?:https?://|\")([a-z-]+):(\d+)", "\n".join(texts)))
    assert named == {
        (name, str(containers.PORTS[name]))
        for name in ("etcd", "prometheus", "node-exporter", "load-exporter", "extender")
    }
    assert {host for host, _ in named} <= set(SERVICES)


def test_the_apiserver_is_known_by_the_names_that_kubeconfigs_call_it(volume: pathlib.Path) -> None:
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in volume.rglob("*kubeconfig") if path.is_file()]
    servers = {one["clusters"][0]["cluster"]["server"] for one in found}
    assert servers == {"https://kube-apiserver:6443", "https://127.0.0.1:6443"}
    hosts = certificates.read((volume / "pki" / "server.crt").read_text(encoding="utf-8")).hosts
    assert {"kube-apiserver", "127.0.0.1"} <= set(hosts)
    assert all(one["current-context"] == kubeconfigs.CONTEXT for one in found)


def test_a_second_run_of_the_step_changes_nothing(volume: pathlib.Path) -> None:
    before = {path: path.read_bytes() for path in volume.rglob("*") if path.is_file()}
    assert not containers.write_files(containers.place(volume), now_seconds=NOW + 1)
    assert {path: path.read_bytes() for path in volume.rglob("*") if path.is_file()} == before


def test_the_scheduler_asks_the_extender_by_the_stanza_that_we_ship(volume: pathlib.Path) -> None:
    written = yaml.safe_load((volume / "configuration" / "scheduler.yaml").read_text(encoding="utf-8"))
    (shipped,) = yaml.safe_load(extender_stanza.FILE.read_text(encoding="utf-8"))["extenders"]
    assert written["extenders"] == [{**shipped, "urlPrefix": "http://extender:8900"}]


def test_images_are_of_the_versions_that_cluster_builds() -> None:
    modules = "".join(
        (ROOT / "lab" / "cluster" / name / "go.mod").read_text(encoding="utf-8") for name in ("tools", "prometheus")
    )

    def built(module: str) -> str:
        found = re.search(rf"^\s+{re.escape(module)} v(\S+)", modules, re.MULTILINE)
        assert found, module
        return found[1]

    _, prometheus_minor, prometheus_patch = built("github.com/prometheus/prometheus").split(".")  # v0.315.0 is 3.15.0
    tags = {
        "etcd": f"{built('go.etcd.io/etcd/server/v3')}-0",
        **dict.fromkeys(
            ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"), binaries.KUBERNETES
        ),
        "kwok": f"v{built('sigs.k8s.io/kwok')}",
        "prometheus": f"v{prometheus_minor[0]}.{prometheus_minor[1:]}.{prometheus_patch}",
        "node-exporter": f"v{built('github.com/prometheus/node_exporter')}",
    }
    images = {name: service["image"].rpartition(":") for name, service in SERVICES.items()}
    assert {name: image[2] for name, image in images.items()} == {
        name: tags.get(name, version.VERSION) for name in SERVICES
    }
    local = {name for name, image in images.items() if image[0] == "evenload"}
    assert local == {*OURS, *STEPS, "load-exporter"}
    assert all(SERVICES[name]["build"] == "." for name in local)


def test_what_is_mounted_exists_and_volumes_are_declared() -> None:
    for name in SERVICES:
        for mount in mounts(name).values():
            source = mount["source"]
            assert (ROOT / source).is_dir() if source.startswith(".") else source in COMPOSE["volumes"], (name, source)
            assert not source.startswith(".") or mount["read_only"], (name, source)


def test_services_wait_for_services_that_there_are_and_for_steps_until_they_ended() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            expected = "service_completed_successfully" if needed in STEPS else "service_started"
            assert how == {"condition": expected}, (name, needed)
            assert needed in SERVICES
    assert not [name for name in STEPS if "restart" in SERVICES[name]]


def test_ports_are_published_on_loopback_alone_and_as_they_are() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    open_ports = {**OURS, "kube-apiserver": 6443, "prometheus": 9090}
    assert published == {name: [f"127.0.0.1:{port}:{port}"] for name, port in open_ports.items()}


@pytest.mark.parametrize("name", [*OURS, *STEPS, "load-exporter"])
def test_what_runs_our_image_may_do_nothing_special(name: str) -> None:
    service = SERVICES[name]
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"user", "privileged", "cap_add", "pid", "network_mode"} & set(service)


@pytest.mark.parametrize("name", OURS)
def test_a_service_of_ours_sees_its_own_folder_of_the_volume_alone(name: str) -> None:
    mount = mounts(name)[str(containers.VOLUME)]
    assert mount["volume"] == {"subpath": containers.own_directory(name), "nocopy": True}
    assert mount.get("read_only", False) is (name != "descheduler")  # the ledger
    assert str(OURS[name]) in SERVICES[name]["healthcheck"]["test"][-1]


def test_components_run_as_the_user_of_our_image() -> None:
    pod = only(BASE / "extender.yaml", "Deployment")["spec"]["template"]["spec"]["securityContext"]
    user = f"{pod['runAsUser']}:{pod['runAsGroup']}"
    others = [name for name in SERVICES if not SERVICES[name]["image"].startswith("evenload:")]
    assert {SERVICES[name]["user"] for name in others} == {user}
