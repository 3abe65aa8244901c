"""docker-compose.yml in a real engine, by the commands of docs/start/compose.md: `make -C lab compose`, as root.

dockerd, containerd and Compose are built once from lab/campaigns/container_engine; Debian's runc runs the containers.
The engine has directories and a socket of its own, and ends with this program. No registry is asked: Evenload's image
is the one that `make -C lab image` builds, and each of the others holds the program of lab/cluster/ that its name
means, so that only the pull of the public images is not shown. Prints what the commands print, and ends with 1 where
one of them, or the loop, does not do what the page says.
"""

import contextlib
import http.client
import io
import os
import pathlib
import re
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator

import yaml

from lab.cluster import binaries, cache, errors, programs
from lab.image import engine
from tests import pages
from tests.contract import built_image

ROOT = pathlib.Path(__file__).parents[2]
MODULES = sorted(path.parent for path in (ROOT / "lab" / "campaigns" / "container_engine").glob("*/go.mod"))
PAGE = ROOT / "docs" / "start" / "compose.md"
COMPOSE = ROOT / "docker-compose.yml"
SERVICES = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
OURS = SERVICES["extender"]["image"]
LIMIT_SECONDS = 240.0
REPLICAS, NODES = 40, 20  # of the page
GET_PODS = "docker compose run --rm kubectl get pods --no-headers"
GET_LOADS = "docker compose run --rm kubectl get nodes -o yaml"
_NEVER = threading.Event()


def main() -> int:
    """Type the page's commands until the loop has gone round once."""
    if reason := engine.obstacle():
        cache.say(reason)
        return 1 if os.environ.get("CI") else 0
    with tempfile.TemporaryDirectory() as place, running(pathlib.Path(place)) as daemon:
        daemon.load_ours()
        tools = binaries.find_or_build()
        for name, service in SERVICES.items():
            if service["image"] != OURS:
                daemon.make(service["image"], tools[program(name)])
        commands = [one.text for block in pages.blocks(PAGE) for one in block.commands() if " compose " in one.text]
        down = next(one for one in commands if " down " in one)
        try:
            for command in commands:
                if command != down:
                    follow(daemon, command)
            look_from_outside(tools["kubectl"], daemon.directory / "kubeconfig")
        finally:
            daemon.compose(down)
    return 0


def follow(daemon: "Daemon", command: str) -> None:
    """Type a command and wait for its effect; ComponentError where it has none."""
    text = daemon.compose(command)
    sys.stdout.write(text)
    if " create deployment " in command:
        until(lambda: daemon.compose(GET_PODS).count("Running") == REPLICAS, f"{REPLICAS} pods to run")
        until(lambda: daemon.compose(GET_LOADS).count("evenload.io/load:") == NODES, f"{NODES} nodes with their load")
    if command.endswith("evenload nodes"):
        names = set(re.findall(r"^node-\d+", text, re.MULTILINE))
        if len(names) != NODES:
            raise errors.ComponentError(f"$ {command}\n{text}\nnames {len(names)} nodes, expected {NODES}")


def look_from_outside(kubectl: pathlib.Path, kubeconfig: pathlib.Path) -> None:
    """List the nodes by the kubeconfig that a command of the page has written."""
    command = [str(kubectl), f"--kubeconfig={kubeconfig}", "get", "nodes", "--no-headers"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if len(done.stdout.splitlines()) != NODES:
        raise errors.ComponentError(f"kubectl get nodes: {done.stdout}{done.stderr}\nexpected {NODES} nodes")


def program(service: str) -> str:
    """The command of lab/cluster/ that a service of the file runs."""
    return str(SERVICES[service]["entrypoint"][0])


def built(directory: pathlib.Path) -> pathlib.Path:
    """A directory with the programs of the engine: each looks for the next on the PATH."""
    for module in MODULES:
        (directory / module.name).symlink_to(programs.built(module))
    return directory


class Engine(http.client.HTTPConnection):
    """The engine's API on its socket."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__("localhost", timeout=LIMIT_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(self._path))


class Daemon:
    """A dockerd that answers, and Compose with it; commands run beside its socket."""

    def __init__(self, path: pathlib.Path, compose: pathlib.Path) -> None:
        self._path, self._compose, self.directory = path, compose, path.parent

    def answers(self) -> bool:
        """Whether it can be asked."""
        with contextlib.suppress(OSError):
            return self._ask("GET", "/_ping", b"") == b"OK"
        return False

    def make(self, name: str, binary: pathlib.Path) -> None:
        """Make an image of one program, which finds itself on the PATH."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(binary, f"bin/{binary.name}")
        repository, _, tag = name.rpartition(":")
        query = urllib.parse.urlencode({"fromSrc": "-", "repo": repository, "tag": tag, "changes": "ENV PATH=/bin"})
        self._ask("POST", f"/images/create?{query}", packed.getvalue())
        cache.say(f"{name}: {binary.name} of this machine")

    def load_ours(self) -> None:
        """Load the image of this tree under the file's name."""
        builder = engine.Engine()
        builder.build(ROOT, timestamp=built_image.TIMESTAMP)
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "evenload.tar"
            builder.export(path, as_docker=OURS)
            self._ask("POST", "/images/load", path.read_bytes())

    def compose(self, command: str) -> str:
        """Run a command of the page by this engine, without building or pulling; returns its stdout."""
        text = command.replace("docker compose", str(self._compose)).replace("--build", "--no-build --pull never")
        done = subprocess.run(
            ["bash", "-c", text],
            cwd=self.directory,
            env={**os.environ, "DOCKER_HOST": f"unix://{self._path}", "COMPOSE_FILE": str(COMPOSE)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise errors.ComponentError(f"$ {command}\n{done.stdout}{done.stderr}\nended with {done.returncode}")
        return done.stdout

    def _ask(self, method: str, path: str, body: bytes) -> bytes:
        with contextlib.closing(Engine(self._path)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/x-tar"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != http.HTTPStatus.OK:
                raise errors.ComponentError(f"dockerd: {method} {path}: {answer.status} {text.decode()}")
            return text


@contextlib.contextmanager
def running(directory: pathlib.Path) -> Iterator[Daemon]:
    """The engine while the body runs."""
    (directory / "bin").mkdir()
    commands = built(directory / "bin")
    socket_path, log = directory / "docker.sock", directory / "dockerd.log"
    options = {"data-root": "data", "exec-root": "run", "pidfile": "pid"}
    command = [str(commands / "dockerd"), f"--host=unix://{socket_path}", "--userland-proxy=false"]
    command += [f"--{option}={directory / name}" for option, name in options.items()]
    environment = {**os.environ, "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            made = Daemon(socket_path, commands / "compose")
            until(lambda: process.poll() is not None or made.answers(), "dockerd to answer")
            if process.poll() is not None:
                raise errors.ComponentError(f"dockerd ended with {process.returncode}:\n{errors.log_tail(log)}")
            yield made
        finally:
            process.terminate()


def until(probe: Callable[[], bool], what: str) -> None:
    """Wait for it; ComponentError names it."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not probe():
        if time.monotonic() > limit:
            raise errors.ComponentError(f"waited {LIMIT_SECONDS:g} s for {what}")
        _NEVER.wait(0.5)


if __name__ == "__main__":
    sys.exit(main())
