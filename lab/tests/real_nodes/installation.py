"""Evenload on real nodes, installed by the commands of docs/start/install.md as they stand.

The reader's registry is the nodes' own store of images: they have the image of this tree under the page's name. The
page's Prometheus and the forwarded port to it are the fixed port that leads to Prometheus; the disk is a directory.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest
import requests
import yaml

from lab.cluster import binaries
from lab.image import engine
from lab.real_nodes import images, machine, starter, texts
from lab.tests.real_nodes.nodes import Document, Nodes, network_of
from tests import pages
from tests.contract import built_image

MACHINE = machine.missing()
MARKS = [pytest.mark.skipif(bool(MACHINE), reason=MACHINE or "-"), pytest.mark.real_nodes, pytest.mark.timeout(1800)]
PAGE = pages.ROOT / "docs" / "start" / "install.md"
IMAGE = "registry.example.com/evenload:0.2.0"  # as the page names it
PAGES_PROMETHEUS = "http://prometheus.observability.svc:9090"
PROMETHEUS = f"http://{texts.GATEWAY}:{texts.PROMETHEUS_PORT}"
NAMESPACE = "evenload-system"
SERVICES = ("annotator", "extender", "descheduler")
LIMIT_SECONDS = 300.0
DISK = {
    "apiVersion": "v1",
    "kind": "PersistentVolume",
    "metadata": {"name": "disk"},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "ssd",
        "local": {"path": "/var/lib/ledger"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["rn1"]}]}
                ]
            }
        },
    },
}


class Installation:
    """A reader with a clone in a directory, and the commands of the page on real nodes."""

    def __init__(self, nodes: Nodes, clone: pathlib.Path) -> None:
        self.nodes = nodes
        self.clone = clone
        folders = [str(nodes.kubectl_program.parent), os.environ["PATH"]]
        self._reader = pages.Directory(clone, {"PATH": os.pathsep.join(folders), "KUBECONFIG": nodes.kubeconfig})
        # A process of its own for each command: those that `pages` forks stay in the network of the first world.
        program = f'#!/bin/sh\nexec {sys.executable} -m cli "$@"\n'
        (clone / ".bin" / "evenload").write_text(program, encoding="utf-8")

    def follow(self) -> None:
        """Types what the page says up to its check of the installation; kube-scheduler asks the extender then."""
        self.nodes.inside("rn1", "mkdir", "-p", "/var/lib/ledger")
        self.nodes.apply(DISK)
        for block in pages.blocks(PAGE):
            if block.file:
                self.write(block)
            commands = block.commands() if block.how == "cluster" else []
            if any("doctor" in command.text for command in commands):
                break
            for command in commands:
                self.run(command.text, code=command.code)
        self.until_running()
        self.nodes.starter.ask_extender(self.extender_url())

    def run(self, text: str, *, code: int = 0) -> str:
        """The output of a command in the clone, where `evenload` and kubectl are; an AssertionError for another code.

        `code` -1 takes any.
        """
        answer = self._reader.run(pages.Command(0, text))
        assert code in (-1, answer.returncode), f"$ {text}\n{answer.returncode}: {answer.stdout}"
        return answer.stdout

    def write(self, block: pages.Block) -> None:
        """Writes the file that a block is, for the Prometheus of this cluster."""
        path = self.clone / str(block.file)
        self._reader.write(str(block.file), block)
        path.write_text(path.read_text("utf-8").replace(PAGES_PROMETHEUS, PROMETHEUS), encoding="utf-8")

    def start(self, text: str) -> subprocess.Popen[bytes]:
        """A command that goes on until it is ended."""
        return self._reader.start(f"exec {text}")

    def extender_url(self) -> str:
        """The extender's Service by its address: no name of a Service resolves here."""
        service = self.nodes.get("service", "evenload-extender", f"--namespace={NAMESPACE}")
        return f"http://{service['spec']['clusterIP']}:8900"

    def until_running(self) -> None:
        """Waits until every replica of every service is Ready."""
        for name in SERVICES:
            rollout = ["rollout", "status", f"deployment/evenload-{name}", f"--timeout={LIMIT_SECONDS:.0f}s"]
            self.nodes.kubectl(f"--namespace={NAMESPACE}", *rollout)

    def pods(self, service: str = "") -> list[Document]:
        """The pods of a service, or of all."""
        chosen = [f"--selector=app.kubernetes.io/component={service}"] if service else []
        return self.nodes.items("pods", f"--namespace={NAMESPACE}", *chosen)

    def doctor(self) -> dict[str, str]:
        """The checks of doctor that are not ok, with what it says."""
        options = "--prometheus http://127.0.0.1:9090 -o json"
        if (self.clone / "mine").exists():
            options += " --policy mine/policy.yaml"
        answer = json.loads(self.run(f"evenload doctor {options} 2>/dev/null", code=-1))
        return {check["check"]: check["seen"] for check in answer["checks"] if check["verdict"] != "ok"}

    def configuration(self, pod: Document) -> Document:
        """Returns what the service in a pod says of its policy; empty while it does not answer."""
        port = pod["spec"]["containers"][0]["ports"][0]["containerPort"]
        with requests.Session() as session, contextlib.suppress(requests.RequestException):
            session.trust_env = False
            return dict(session.get(f"http://{pod['status']['podIP']}:{port}/configz", timeout=10).json())
        return {}

    def bindings(self) -> dict[str, tuple[str, str]]:
        """The node of each pod of the namespace `default`, and who bound it, by the apiserver's audit log."""
        lines = (self.nodes.starter.directory / "plane" / "logs" / "audit.log").read_text("utf-8").splitlines()
        events = (json.loads(line) for line in lines if '"subresource":"binding"' in line and line.endswith("}"))
        return {
            event["objectRef"]["name"]: (event["requestObject"]["target"]["name"], event["user"]["username"])
            for event in events
            if event["objectRef"]["namespace"] == "default" and event.get("responseStatus", {}).get("code") == 201
        }

    def failed_questions(self) -> list[str]:
        """The lines of kube-scheduler's log about an extender that did not answer."""
        lines = (self.nodes.starter.directory / "plane" / "logs" / "kube-scheduler.log").read_text("utf-8").splitlines()
        return [line for line in lines if "Skipping extender" in line]

    def restarts(self) -> list[str]:
        """The pods of Evenload whose container was started again, and the Events of those that a probe ended."""
        killings = self.nodes.items("events", f"--namespace={NAMESPACE}", "--field-selector=reason=Killing")
        statuses = [(pod, status) for pod in self.pods() for status in pod["status"].get("containerStatuses", ())]
        again = [pod["metadata"]["name"] for pod, status in statuses if status["restartCount"]]
        return again + [event["message"] for event in killings if "probe" in event["message"]]

    def set_policy(self, policy: Document, *, hurry: bool = True) -> None:
        """Applies the overlay with another policy; `hurry` makes kubelets write it at once, not within two minutes.

        It does not wait for the services.
        """
        (self.clone / "mine" / "policy.yaml").write_text(yaml.safe_dump(policy), encoding="utf-8")
        self.run("kubectl apply -k mine")
        if hurry:  # a change of a pod makes its kubelet look at the pod's volumes
            self.nodes.kubectl(
                *("annotate", "pods", "--all", f"--namespace={NAMESPACE}", "--overwrite"),
                f"test/touched={time.time():.0f}",
            )

    def policy(self) -> Document:
        """The policy that is applied."""
        return dict(yaml.safe_load((self.clone / "mine" / "policy.yaml").read_text("utf-8")))


def archives(directory: pathlib.Path, programs: Mapping[str, pathlib.Path]) -> list[pathlib.Path]:
    """Writes the images that a reader's registry would have: Evenload of this tree, the page's `pause`, kube-scheduler,
    and those of other programs by name.
    """
    if reason := engine.obstacle():
        raise engine.EngineError(reason)
    built = engine.Engine()
    built.build(pages.ROOT, timestamp=built_image.TIMESTAMP)  # whose steps the engine has kept
    written = [directory / "evenload.tar"]
    built.export(written[0], as_docker=IMAGE)
    own = {
        "registry.k8s.io/pause:3.10": images.compiled("pause", directory),
        "registry.k8s.io/kube-scheduler:v1.36.3": binaries.find_or_build()["kube-scheduler"],
    }
    for name, program in {**own, **programs}.items():
        path = f"usr/local/bin/{program.name}"
        written.append(directory / f"{program.name}.tar")
        written[-1].write_bytes(images.archive(name, f"/{path}", {path: program.read_bytes()}))
    return written


@contextlib.contextmanager
def installed(
    name: str,
    count: int = 3,
    *,
    vm: bool = False,
    programs: Mapping[str, pathlib.Path] = MappingProxyType({}),
    by_page: bool = True,
) -> Iterator[Installation]:
    """Real nodes with Evenload on them, in a directory of that name; the caller is in their network.

    With `vm` also vm1, cordoned until Evenload runs. `programs`: images of one program each, by name. Without
    `by_page` there is only a reader with a clone.
    """
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as undo:
        real = starter.Starter(starter.Starter().directory.with_name(name))
        real.start(count, vm=vm, archives=archives(pathlib.Path(directory), programs))
        undo.callback(real.stop)
        undo.enter_context(network_of(real.init))
        clone = pathlib.Path(directory) / "clone"
        clone.mkdir()
        made = Installation(Nodes(real), clone)
        if vm:
            made.nodes.kubectl("cordon", "vm1")
        if by_page:
            made.follow()
        if vm:
            made.nodes.kubectl("uncordon", "vm1")
        yield made
