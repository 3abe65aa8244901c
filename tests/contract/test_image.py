"""The image under runc as the manifests run it: services and command line do their work on a real control plane.

`deploy.image` builds it from this tree on Debian's own Python, so no registry is asked. That needs root on Debian;
elsewhere the file is skipped with the reason, and in CI it fails.
"""

import contextlib
import errno
import functools
import http.client
import json
import pathlib
import shutil
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pytest

import cluster
from cluster.demo import permissions
from deploy.image import __main__ as make_image
from deploy.image import archive, container, engine, provenance
from policy.contract import load_annotation
from tests.contract import built_image
from tests.contract.built_image import Built
from tests.e2e import policies, services, waiting

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]  # pip downloads everything again in one of them
NODES = ("node-0", "node-1")
SERVICES = ("annotator", "extender", "descheduler")
MOST_BYTES = 200_000_000
PYTHON = "/opt/evenload/bin/python"
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {"containers": [{"name": "main"}]}}


def printed(built: Built, directory: pathlib.Path, *arguments: str, **mounts: pathlib.Path) -> str:
    """Runs a command in a container of its own; returns its stdout. The exit code must be 0."""
    at = {f"/mnt/{name}": path for name, path in mounts.items()}
    config = container.bundle(built.image, built.root, arguments, at)
    with container.running(directory, config) as one:
        assert one.wait(waiting.START_SECONDS) == 0, one.log()
        return one.printed()


def test_a_build_without_any_earlier_step_makes_the_same_image(built: Built) -> None:
    again = engine.Engine()
    again.build(built_image.ROOT, timestamp=built_image.TIMESTAMP, fresh=True)
    assert again.configuration_digest() == built.configuration_digest


def test_it_is_small_and_holds_no_tools(built: Built) -> None:
    names = {entry.path.rpartition("/")[2] for entry in built.image.entries if entry.is_file}
    assert built.image.unpacked_bytes < MOST_BYTES
    tools = {"apt", "apt-get", "bash", "busybox", "curl", "dash", "dpkg", "ensurepip", "perl", "pip", "sh", "wget"}
    assert not names & tools
    assert not [entry.path for entry in built.image.entries if entry.path.endswith(("/pip", "/setuptools"))]
    assert [entry.path for entry in built.image.entries if entry.changes_user] == []


def test_what_may_be_written_belongs_to_its_user_and_the_rest_to_root(built: Built) -> None:
    owners = {entry.path: entry.user for entry in built.image.entries}
    assert {path for path, user in owners.items() if user} == {"/var/lib/evenload"}
    assert owners["/var/lib/evenload"] == 65532
    modes = {entry.path: entry.mode & 0o7777 for entry in built.image.entries}
    assert modes["/tmp"] == 0o1777  # noqa: S108 - of the image
    written = [entry.path for entry in built.image.entries if entry.is_file and entry.mode & 0o022]
    assert written == []


def test_scanners_find_its_packages_and_readers_their_licences(built: Built) -> None:
    files = {entry.path for entry in built.image.entries}
    records = {path.rpartition("/")[2] for path in files if path.startswith("/var/lib/dpkg/status.d/")}
    assert {"libc6", "zlib1g"} <= records == {name for name, _ in archive.debian_packages(built.path)}
    unread = [name for name in records if not (built.root / "usr/share/doc" / name / "copyright").exists()]
    assert unread == []
    assert any("/flask-" in path and path.endswith(".dist-info/METADATA") for path in files)


def test_the_statement_beside_it_names_image_base_and_locks(built: Built) -> None:
    statement = provenance.statement(built.image, "evenload.tar", built_image.ROOT, "c" * 40, built_image.TIMESTAMP)
    assert f"sha256:{statement['subject'][0]['digest']['sha256']}" == built.image.digest
    materials = {one["uri"]: one["digest"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]}
    assert {"git+evenload", "file:Dockerfile", "file:requirements.txt", "file:requirements-build.txt"} < set(materials)
    assert any(uri.startswith("localhost/debian-python:") for uri in materials)
    assert "MB  numpy" in make_image.contents(built.image)


def test_a_process_in_it_can_do_nothing_special(built: Built, tmp_path: pathlib.Path) -> None:
    program = "import pathlib\nprint(pathlib.Path('/proc/self/status').read_text())\n"
    program += "try:\n pathlib.Path('/opt/x').touch()\nexcept OSError as error:\n print(f'errno: {error.errno}')"
    lines = printed(built, tmp_path, PYTHON, "-c", program).splitlines()
    status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    assert (status["Uid"], status["Gid"]) == (["65532"] * 4, ["65532"] * 4)
    assert {int(status[f"Cap{kind}"][0], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert status["NoNewPrivs"] == ["1"]
    assert status["errno"] == [str(errno.EROFS)]


def test_it_has_what_the_steps_of_the_compose_file_import(built: Built, tmp_path: pathlib.Path) -> None:
    program = "import sys; sys.path.insert(0, '/mnt/tree'); import cluster.containers, cluster.exporter; print('yes')"
    assert printed(built, tmp_path, PYTHON, "-c", program, tree=built_image.ROOT) == "yes\n"


class Stack(NamedTuple):
    """A cluster, and the services in containers on it by name."""

    cluster: cluster.Cluster
    containers: Mapping[str, container.Container]
    ports: Mapping[str, int]

    def get(self, service: str, path: str) -> tuple[int, str]:
        """Status and text of GET; status 0 while the connection is refused."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.ports[service], timeout=30)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read().decode()
            except (ConnectionError, TimeoutError):
                return 0, ""

    def is_ready(self, service: str) -> bool:
        """Whether /readyz says ok; AssertionError with the log of one that ended."""
        one = self.containers[service]
        assert not one.ended(), one.log()
        return self.get(service, "/readyz")[0] == 200


@pytest.fixture(scope="module")
def stack(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The three services from the image, each with the account and rights that it ships with, all ready."""
    directory = tmp_path_factory.mktemp("stack")
    with cluster.Cluster(nodes=len(NODES), node_exporter=False) as running, contextlib.ExitStack() as undo:
        running.api.create("api/v1/namespaces", {"metadata": {"name": permissions.NAMESPACE}})
        permissions.apply(running)
        ports = {name: services.free_port() for name in SERVICES}
        started = {}
        for name in SERVICES:
            config = container.bundle(built.image, built.root, *command(running, name, ports[name], directory / name))
            started[name] = undo.enter_context(container.running(directory, config))
        made = Stack(running, started, ports)
        for name in SERVICES:
            waiting.eventually(
                functools.partial(made.is_ready, name), waiting.START_SECONDS, f"{name} to be ready", started[name].log
            )
        yield made
        assert {name: one.stop() for name, one in started.items()} == dict.fromkeys(SERVICES, 0)


def command(
    running: cluster.Cluster, name: str, port: int, folder: pathlib.Path
) -> tuple[list[str], dict[str, pathlib.Path]]:
    """The arguments of a service and what is mounted for it; its files belong to the image's user."""
    (folder / "ledger").mkdir(parents=True)
    policies.write(folder / "policy.yaml")
    shutil.copyfile(permissions.kubeconfig(running, name), folder / "kubeconfig")
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, 65532, 65532)
    arguments = [name, "--policy=/etc/evenload/policy.yaml", "--kubeconfig=/etc/evenload/kubeconfig"]
    arguments += [f"--namespace={permissions.NAMESPACE}", f"--listen=127.0.0.1:{port}", "--logging-format=json"]
    arguments += [] if name == "extender" else [f"--prometheus={running.prometheus_url}"]
    arguments += ["--ledger=/var/lib/evenload/ledger.sqlite"] if name == "descheduler" else []
    mounts = {f"/etc/evenload/{file}": folder / file for file in ("policy.yaml", "kubeconfig")}
    return arguments, {**mounts, "/var/lib/evenload": folder / "ledger"}


def test_the_annotator_writes_the_load_of_each_node(stack: Stack) -> None:
    def annotated() -> set[str]:
        nodes = stack.cluster.api.items("api/v1/nodes")
        return {
            one["metadata"]["name"] for one in nodes if load_annotation.KEY in one["metadata"].get("annotations", {})
        }

    waiting.eventually(
        lambda: annotated() == set(NODES), waiting.LIMIT_SECONDS, "every node to be annotated", annotated
    )


def test_the_extender_answers_kube_scheduler(stack: Stack) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", stack.ports["extender"], timeout=30)) as connection:
        body = json.dumps({"Pod": POD, "NodeNames": list(NODES)})
        connection.request("POST", "/filter", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert set(json.load(answer)["NodeNames"]) <= set(NODES)


def test_the_descheduler_plans_and_keeps_a_ledger_and_the_command_line_prints_the_plan(
    built: Built, stack: Stack, tmp_path: pathlib.Path
) -> None:
    waiting.eventually(
        lambda: stack.get("descheduler", "/plan")[0] == 200,
        waiting.LIMIT_SECONDS,
        "a plan",
        stack.containers["descheduler"].log,
    )
    address = f"http://127.0.0.1:{stack.ports['descheduler']}"
    plan = json.loads(printed(built, tmp_path, "plan", "--descheduler", address, "-o", "json"))
    assert plan["mode"] == "Observe"
