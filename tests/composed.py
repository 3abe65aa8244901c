"""docker-compose.yml without an engine: its commands, unaltered, in a network and a view of the files of their own.

    sudo unshare --net --mount .venv/bin/python -m tests.composed

Every service becomes a process of this machine's binaries (those of cluster/) and of this interpreter: names resolve to
loopback, volumes are mounted where the file says, services start in the order of `depends_on`. What an engine adds is
not shown: images, users, capabilities, health checks. Prints what the loop did and ends with 1 where it did nothing.
Not a part of `make test`, because it needs rights that not every machine gives.
"""

import contextlib
import fcntl
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import yaml

from cluster import binaries, containers, errors

ROOT = pathlib.Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
LIMIT_SECONDS = 240.0
FOUND: dict[str, pathlib.Path] = {}
_IFF_UP, _SIOCSIFFLAGS = 0x1, 0x8914


def main() -> int:
    """Run everything until pods are placed and nodes annotated, then end it."""
    own_world()
    with contextlib.ExitStack() as undo:
        logs = pathlib.Path(undo.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        running: dict[str, subprocess.Popen[bytes]] = {}
        undo.callback(end, running)
        for name in in_order():
            running[name] = start(name, logs)
            if name in ("files", "objects"):
                code = running[name].wait(LIMIT_SECONDS)
                say(f"{name} ended with {code}: {errors.log_tail(logs / name)}")
                if code:
                    return 1
        return judged(running, logs)


def own_world() -> None:
    """Loopback up; names of services for it; empty /var/lib and /srv; an /etc to which files can be added."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))
    kept = {
        name: pathlib.Path("/etc", name) for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache", "localtime")
    }
    contents = {name: path.read_bytes() for name, path in kept.items() if path.exists()}
    run("mount", "-t", "tmpfs", "tmpfs", "/etc")
    for name, content in contents.items():
        pathlib.Path("/etc", name).write_bytes(content)
    pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost {' '.join(COMPOSE['services'])}\n", encoding="utf-8")
    run("mount", "-t", "tmpfs", "tmpfs", "/var/lib")
    containers.VOLUME.mkdir()


def in_order() -> list[str]:
    """The services without a profile, each after those it depends on."""
    waiting = {n: set(s.get("depends_on", {})) for n, s in COMPOSE["services"].items() if not s.get("profiles")}
    ordered: list[str] = []
    while waiting:
        name = next(name for name, needs in waiting.items() if needs <= set(ordered))
        ordered.append(name)
        del waiting[name]
    return ordered


def start(name: str, logs: pathlib.Path) -> subprocess.Popen[bytes]:
    """A service in a view of the files of its own; started again while its server is not there yet."""
    service = COMPOSE["services"][name]
    mounts = " && ".join(mount(volume) for volume in service.get("volumes", []) if mount(volume)) or "true"
    command = [*service.get("entrypoint", ["evenload"]), *service.get("command", [])]
    found = {name: str(path) for name, path in FOUND.items()}
    found |= {"python": sys.executable, "evenload": f"{sys.executable} -m cli"}
    program = " ".join([found[command[0]], *(f"'{word}'" for word in command[1:])])
    once = "exec " if name in ("files", "objects") else "while :; do "
    script = f"{mounts} && {once}{program}" + ("" if once == "exec " else "; sleep 1; done")
    log = (logs / name).open("wb")
    environment = {**os.environ, "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
    with log:
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", script],
            cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True,
        )  # fmt: skip


def mount(volume: str | dict[str, Any]) -> str:
    """The command that makes a volume of a service appear; the tree itself is the working directory anyway."""
    if isinstance(volume, dict):
        return f"mount --bind {containers.VOLUME}/{volume['volume']['subpath']} {volume['target']}"
    source, target, *_ = volume.split(":")
    if not source.startswith("./"):
        return ""  # the named volume, which is there
    return f"mkdir -p {target} && mount --bind {ROOT / source} {target}"


def judged(running: dict[str, subprocess.Popen[bytes]], logs: pathlib.Path) -> int:
    """Create a workload through kubectl as the file runs it, and wait until the loop has gone round once."""
    kubectl = [str(FOUND["kubectl"]), "--cache-dir=/dev/shm/kubectl"]
    kubectl += [f"--kubeconfig={containers.VOLUME / containers.HOST_KUBECONFIG}"]
    for name in running:
        if check := COMPOSE["services"][name].get("healthcheck"):
            until(lambda test=check["test"][1:]: healthy(test), f"{name} to be healthy")  # type: ignore[misc]
    run(*kubectl, "create", "deployment", "web", "--image=pause", "--replicas=40")
    limit = time.monotonic() + LIMIT_SECONDS
    jsonpath = "-o=jsonpath={range .items[*]}{.status.phase}{'\\n'}{end}"
    while time.monotonic() < limit:
        phases = subprocess.check_output([*kubectl, "get", "pods", jsonpath], text=True).split()
        written = subprocess.check_output([*kubectl, "get", "nodes", "-o", "yaml"], text=True).count(
            "evenload.io/load:"
        )
        asked = metric("http://127.0.0.1:8900/metrics", "evenload_extender_request_duration_seconds_count")
        say(f"{phases.count('Running')} of 40 pods run, {written} nodes annotated, extender asked {asked:g} times")
        if phases.count("Running") == 40 and written == 20 and asked >= 40:
            return 0
        time.sleep(2)
    for name in running:
        say(f"--- {name}\n{errors.log_tail(logs / name)}")
    return 1


def healthy(test: list[str]) -> bool:
    """Whether a health check of the file says so."""
    return subprocess.run([sys.executable, *test[1:]], capture_output=True, check=False).returncode == 0


def until(probe: Callable[[], bool], what: str) -> None:
    """Wait for it; TimeoutError names it."""
    limit = time.monotonic() + LIMIT_SECONDS
    while not probe():
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {LIMIT_SECONDS:g} s for {what}")
        time.sleep(1)
    say(what)


def metric(url: str, name: str) -> float:
    """The sum of a metric over its labels; 0 while nobody answers."""
    with contextlib.suppress(OSError):
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name))
    return 0


def run(*command: str) -> None:
    """A command that must succeed."""
    subprocess.run(command, check=True)


def end(running: dict[str, subprocess.Popen[bytes]]) -> None:
    """The sessions of all services, the last one first."""
    for process in reversed(running.values()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.2)
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    FOUND.update(binaries.find_or_build())  # before /etc and /var/lib are others
    sys.exit(main())
