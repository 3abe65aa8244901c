"""Evenload on real nodes, installed by the commands of docs/start/install.md as they stand.

The reader's registry is the nodes' own store of images: they have the image of this tree under the page's name. The
page's Prometheus and the forwarded port to it are the fixed port that leads to Prometheus; the disk is a directory.
"""

import contextlib
import os
import pathlib
import tempfile
import time
from collections.abc import Iterator

import yaml

from lab.cluster import binaries
from lab.image import engine
from lab.real_nodes import images, starter, texts
from lab.tests.real_nodes.nodes import Document, Nodes, network_of
from tests import pages

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

    def follow(self) -> None:
        """Types what the page says up to its check of the installation; kube-scheduler asks the extender then."""
        self.nodes.inside("rn1", "mkdir", "-p", "/var/lib/ledger")
        self.nodes.apply(DISK)
        for block in pages.blocks(PAGE):
            if block.file:
                self._reader.write(block.file, block)
                path = self.clone / block.file
                path.write_text(path.read_text("utf-8").replace(PAGES_PROMETHEUS, PROMETHEUS), encoding="utf-8")
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


def archives(directory: pathlib.Path) -> list[pathlib.Path]:
    """Writes the images that a reader's registry would have: Evenload of this tree, and the page's `pause`."""
    if reason := engine.obstacle():
        raise engine.EngineError(reason)
    built = engine.Engine()
    built.build(pages.ROOT, timestamp=int(time.time()) // 86400 * 86400)
    built.export(directory / "evenload.tar", as_docker=IMAGE)
    pause = images.compiled("pause", directory).read_bytes()
    (directory / "pause.tar").write_bytes(images.archive("registry.k8s.io/pause:3.10", "/pause", {"pause": pause}))
    scheduler = binaries.find_or_build()["kube-scheduler"].read_bytes()
    program = "usr/local/bin/kube-scheduler"
    archive = images.archive("registry.k8s.io/kube-scheduler:v1.36.3", f"/{program}", {program: scheduler})
    (directory / "kube-scheduler.tar").write_bytes(archive)
    return [directory / f"{name}.tar" for name in ("evenload", "pause", "kube-scheduler")]


@contextlib.contextmanager
def installed(name: str, count: int = 3) -> Iterator[Installation]:
    """Real nodes with Evenload on them, in a directory of that name; the caller is in their network."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as undo:
        real = starter.Starter(starter.Starter().directory.with_name(name))
        real.start(count, archives=archives(pathlib.Path(directory)))
        undo.callback(real.stop)
        undo.enter_context(network_of(real.init))
        clone = pathlib.Path(directory) / "clone"
        clone.mkdir()
        made = Installation(Nodes(real), clone)
        made.follow()
        yield made
