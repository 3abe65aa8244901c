"""Real nodes as tests reach them: in their network, by kubectl, by Prometheus, by commands in a node, by cgroups."""

import contextlib
import ctypes
import json
import pathlib
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import requests

from lab.cluster import binaries
from lab.real_nodes import node, starter, texts, vm, waiting

Document = dict[str, Any]
NAMESPACES = ("mnt", "net", "pid", "uts", "ipc", "cgroup")
_CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Puts this thread, and all that it starts, into the network of a process, and takes it out again."""
    with contextlib.ExitStack() as files:
        paths = (pathlib.Path(f"/proc/{each}/ns/net") for each in ("thread-self", pid))
        own, other = (files.enter_context(path.open("rb")) for path in paths)
        _set_network(other.fileno())
        try:
            yield
        finally:
            _set_network(own.fileno())


def _set_network(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Nodes:
    """Commands and questions. The caller is in the nodes' network."""

    def __init__(self, running: starter.Starter) -> None:
        self.starter = running
        self.kubectl_program = binaries.find_or_build()["kubectl"]
        self.kubeconfig, _, self.prometheus_url = running.addresses()
        self._session = requests.Session()
        self._session.trust_env = False

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """Returns the output of kubectl; an AssertionError has its errors."""
        command = [str(self.kubectl_program), f"--kubeconfig={self.kubeconfig}", *arguments]
        answer = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
        assert answer.returncode == 0, f"kubectl {' '.join(arguments)}: {answer.stderr}"
        return answer.stdout

    def apply(self, *documents: Document) -> None:
        """Creates or changes objects."""
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))

    def get(self, *what: str) -> Document:
        """An object."""
        return dict(json.loads(self.kubectl("get", *what, "-o", "json")))

    def items(self, *what: str) -> list[Document]:
        """The objects of a list."""
        return list(self.get(*what)["items"])

    def series(self, expression: str) -> dict[str, float]:
        """The values of a query by their labels, as JSON with sorted keys."""
        answer = self._session.get(f"{self.prometheus_url}/api/v1/query", params={"query": expression}, timeout=30)
        rows = answer.json()["data"]["result"]
        return {json.dumps(row["metric"], sort_keys=True): float(row["value"][1]) for row in rows}

    def query(self, expression: str) -> float:
        """The value of a query that has one series; -1 as long as it has none."""
        values = list(self.series(expression).values())
        assert len(values) < 2, values
        return values[0] if values else -1.0

    def ready_since(self, name: str) -> str:
        """When a node became Ready; "" when it is not."""
        conditions = {each["type"]: each for each in self.get("node", name)["status"]["conditions"]}
        ready = conditions["Ready"]
        return str(ready["lastTransitionTime"]) if ready["status"] == "True" else ""

    def renewed(self, name: str) -> str:
        """When a node's kubelet last renewed its lease; "" before the first, which comes up to 10 s after Ready."""
        what = ["lease", name, "--namespace=kube-node-lease", "--ignore-not-found"]
        return self.kubectl("get", *what, "-o", "jsonpath={.spec.renewTime}")

    def inside(self, name: str, *command: str) -> str:
        """The output of a command in a node."""
        if name == vm.Place(1, self.starter.directory).name:
            url = f"http://{vm.Place(1, self.starter.directory).address}:{vm.SHELL_PORT}{vm.SHELL_PATH}"
            answer = self._session.post(url, data=shlex.join(command), timeout=60)
            assert answer.ok, answer.text
            return answer.text
        pid = (self.starter.directory / "nodes" / name / node.INIT).read_text("utf-8")
        world = ["nsenter", "-t", str(self.starter.init), "-m", "-n", "-p", "--"]
        there = ["nsenter", "-t", pid, "-m", "-n", "-p", "-u", "-i", "-C", "--"]
        return subprocess.run([*world, *there, *command], capture_output=True, text=True, check=True).stdout

    def program(self, node_name: str, name: str) -> int:
        """The process id, as this machine counts, of a node's kubelet, containerd, kube-proxy or node_exporter.

        It is 0 while there is none.
        """
        cgroup = texts.Place(int(node_name.removeprefix("rn")), self.starter.directory).cgroup
        for pid in pids():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
                cgroups = pathlib.Path(f"/proc/{pid}/cgroup").read_text("utf-8")
                if pathlib.PurePath(words[0]).name == name and f"/{cgroup}\n" in cgroups:
                    return pid
        return 0

    def memory_cgroup(self, node_name: str) -> pathlib.Path:
        """The directory of the memory controller of a node; those of its pods lie below, as `*pod<uid>`."""
        (path,) = [
            each
            for each in self.starter.cgroups()
            if each.name.endswith(f"-{node_name}") and (each / "memory.usage_in_bytes").exists()
        ]
        return path

    def until_renewed(self, name: str) -> None:
        """Waits until a node's kubelet has renewed its lease once more."""
        before = self.renewed(name)
        waiting.until(lambda: self.renewed(name) > before, f"the lease of {name} to be renewed", 60)


def pids() -> Iterator[int]:
    """All processes of the machine."""
    return (int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit())


def memory_stat(cgroup: pathlib.Path) -> dict[str, int]:
    """The figures of a memory cgroup in bytes: those of memory.stat, and `usage`."""
    lines = (cgroup / "memory.stat").read_text("utf-8").split("\n")
    usage = int((cgroup / "memory.usage_in_bytes").read_text("utf-8"))
    return {"usage": usage, **{line.split()[0]: int(line.split()[1]) for line in lines if line}}


def used_bytes(cgroup: pathlib.Path) -> int:
    """The memory of a cgroup without page cache, which can be had back: as readings of nodes and pods count it."""
    stat = memory_stat(cgroup)
    return stat["usage"] - stat["total_inactive_file"] - stat["total_active_file"]


def cpu_seconds(cgroup: pathlib.Path) -> float:
    """The processor time that the cgroup of a memory cgroup's name has used."""
    parts = cgroup.parts
    root = pathlib.Path("/sys/fs/cgroup/cpuacct", *parts[parts.index(next(p for p in parts if "-rn" in p)) :])
    return int((root / "cpuacct.usage").read_text("utf-8")) / 1e9


def namespaces(pid: int) -> list[str]:
    """The namespaces of a process; none when it is gone."""
    with contextlib.suppress(OSError):
        return [str(pathlib.Path(f"/proc/{pid}/ns/{name}").readlink()) for name in NAMESPACES]
    return []
