"""Two real nodes from their start to their end, and what the machine is like afterwards. Needs root and packages."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from lab.cluster import binaries, processes
from lab.real_nodes import images, machine, node, starter, texts, waiting

MACHINE = machine.missing()
pytestmark = [
    pytest.mark.skipif(bool(MACHINE), reason=MACHINE or "-"),
    pytest.mark.timeout(900),
]
NAMESPACES = ("mnt", "net", "pid", "uts", "ipc", "cgroup")
SYSCTLS = (*texts.KERNEL, "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max")
QUERY = '1 - node_memory_MemAvailable_bytes{instance=~"10.77.0.11:.*"} / node_memory_MemTotal_bytes'
BURNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "burner"},
    "spec": {"nodeName": "rn1", "containers": [{"name": "main", "image": images.BURNER, "args": ["50", "600"]}]},
}


class Nodes:
    """Commands within the namespaces of the nodes, as `nsenter` gives a person."""

    def __init__(self, running: starter.Starter) -> None:
        self._tools = binaries.find_or_build()
        self._enter = ["nsenter", "-t", str(running.init), "-m", "-n"]
        self._kubeconfig, _, self._prometheus = running.addresses()

    def kubectl(self, *arguments: str, text: str = "") -> str:
        """Returns the output of kubectl."""
        command = [*self._enter, str(self._tools["kubectl"]), f"--kubeconfig={self._kubeconfig}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout

    def get(self, *what: str) -> dict[str, Any]:
        """An object."""
        return dict(json.loads(self.kubectl("get", *what, "-o", "json")))

    def query(self, expression: str) -> float:
        """The value of a query that has one series; -1 as long as it has none."""
        command = [str(self._tools["promtool"]), "query", "instant", "--format=json", self._prometheus, expression]
        answer = subprocess.run([*self._enter, *command], capture_output=True, text=True, check=True).stdout
        series = json.loads(answer)
        return float(series[0]["value"][1]) if series else -1.0

    def ready_since(self, name: str) -> str:
        """When a node became Ready; "" when it is not."""
        conditions = {each["type"]: each for each in self.get("node", name)["status"]["conditions"]}
        ready = conditions["Ready"]
        return str(ready["lastTransitionTime"]) if ready["status"] == "True" else ""

    def renewed(self, name: str) -> str:
        """When a node's kubelet last renewed its lease; "" before the first, which comes up to 10 s after Ready."""
        what = ["lease", name, "--namespace=kube-node-lease", "--ignore-not-found"]
        return self.kubectl("get", *what, "-o", "jsonpath={.spec.renewTime}")


def test_two_nodes_tell_the_truth_survive_their_kubelet_and_leave_no_trace() -> None:
    before = (pathlib.Path("/proc/mounts").read_text("utf-8"), sysctls(), starter.node_cgroups())
    ours = set(namespaces(os.getpid()))
    real = starter.Starter()
    real.start(2)
    with contextlib.ExitStack() as undo:
        undo.callback(real.stop)
        nodes = Nodes(real)
        assert "" not in (nodes.ready_since("rn1"), nodes.ready_since("rn2"))
        nodes.kubectl("apply", "-f", "-", text=json.dumps(BURNER))
        nodes.kubectl("wait", "--for=condition=Ready", "pod/burner", "--timeout=60s")
        waiting.until(lambda: nodes.query(QUERY) > 0.29, "the burner in the node's reading", 60)
        assert nodes.query(QUERY) == pytest.approx(cgroup_share(), abs=0.02)
        check_kubelet_restart(nodes)
        theirs = {each for pid in pids() for each in namespaces(pid) if node_or_world(pid, real.init)} - ours
        assert len(theirs) >= 3 + 2 * len(NAMESPACES)  # the world's, and six of each node
    assert not [pid for pid in pids() if theirs & set(namespaces(pid))]
    assert (pathlib.Path("/proc/mounts").read_text("utf-8"), sysctls(), starter.node_cgroups()) == before
    assert not real.directory.exists()


def check_kubelet_restart(nodes: Nodes) -> None:
    """A kubelet that is killed comes back; its node stays Ready and its pod runs on."""
    waiting.until(lambda: nodes.renewed("rn1") != "", "the first lease", 60)
    since, renewed, old = nodes.ready_since("rn1"), nodes.renewed("rn1"), kubelet("rn1")
    os.kill(old, signal.SIGKILL)
    waiting.until(lambda: kubelet("rn1") not in (0, old), "another kubelet", 30)
    waiting.until(lambda: nodes.renewed("rn1") > renewed, "the lease to be renewed", 60)
    assert nodes.ready_since("rn1") == since
    assert nodes.get("pod", "burner")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_nodes_die_with_a_killed_starter_and_the_next_start_sweeps() -> None:
    command = [sys.executable, "-m", "lab.real_nodes", "--nodes", "1"]
    with subprocess.Popen(command, cwd=processes.ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("export KUBECONFIG=")
        real = starter.Starter()
        world = real.init
        process.kill()
    waiting.until(lambda: world not in pids(), "the world to end", 60)
    assert starter.node_cgroups()
    real.stop()
    assert not starter.node_cgroups()
    assert not real.directory.exists()


def sysctls() -> dict[str, str]:
    """The machine's settings that kubelet, kube-proxy and the bridge write where they may."""
    paths = {name: pathlib.Path("/proc/sys") / name for name in SYSCTLS}
    return {name: path.read_text("utf-8") for name, path in paths.items() if path.exists()}


def cgroup_share() -> float:
    """The memory of rn1 that cannot be had back, by its cgroup, as a share of its limit."""
    (cgroup,) = [path for path in starter.node_cgroups() if path.name == "evenload-rn1" and is_memory(path)]
    lines = (cgroup / "memory.stat").read_text("utf-8").split("\n")
    stat = {line.split()[0]: int(line.split()[1]) for line in lines if line}
    usage = int((cgroup / "memory.usage_in_bytes").read_text("utf-8"))
    return (usage - stat["total_inactive_file"] - stat["total_active_file"]) / node.MEMORY_BYTES


def is_memory(path: pathlib.Path) -> bool:
    """Whether a cgroup is one of the memory controller."""
    return (path / "memory.usage_in_bytes").exists()


def pids() -> Iterator[int]:
    """All processes of the machine."""
    return (int(path.name) for path in pathlib.Path("/proc").iterdir() if path.name.isdigit())


def namespaces(pid: int) -> list[str]:
    """The namespaces of a process; none when it is gone."""
    with contextlib.suppress(OSError):
        return [str(pathlib.Path(f"/proc/{pid}/ns/{name}").readlink()) for name in NAMESPACES]
    return []


def node_or_world(pid: int, world: int) -> bool:
    """Whether a process is in a node's cgroups or in the world's PID namespace."""
    with contextlib.suppress(OSError):
        cgroups = pathlib.Path(f"/proc/{pid}/cgroup").read_text("utf-8")
        return node.CGROUP_PREFIX in cgroups or namespaces(pid)[2:3] == namespaces(world)[2:3]
    return False


def kubelet(name: str) -> int:
    """The process id of a node's kubelet, 0 while there is none."""
    for pid in pids():
        with contextlib.suppress(OSError):
            program, *arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_text("utf-8").split("\0")
            if program.endswith("/kubelet") and f"--hostname-override={name}" in arguments:
                return pid
    return 0
