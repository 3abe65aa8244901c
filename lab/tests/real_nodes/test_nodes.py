"""Two real nodes from their start to their end, and what the machine is like afterwards. Needs root and packages."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from lab.cluster import processes
from lab.real_nodes import images, machine, node, starter, texts, waiting
from lab.tests.real_nodes.nodes import NAMESPACES, Nodes, namespaces, network_of, pids, used_bytes

MACHINE = machine.missing()
pytestmark = [
    pytest.mark.skipif(bool(MACHINE), reason=MACHINE or "-"),
    pytest.mark.timeout(900),
]
SYSCTLS = (*texts.KERNEL, "net/ipv4/ip_forward", "net/ipv4/conf/all/route_localnet", "net/netfilter/nf_conntrack_max")
QUERY = '1 - node_memory_MemAvailable_bytes{instance=~"10.77.0.11:.*"} / node_memory_MemTotal_bytes'
BURNER = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "burner"},
    "spec": {"nodeName": "rn1", "containers": [{"name": "main", "image": images.BURNER, "args": ["50", "600"]}]},
}


def test_two_nodes_tell_the_truth_survive_their_kubelet_and_leave_no_trace() -> None:
    before = (pathlib.Path("/proc/mounts").read_text("utf-8"), sysctls())
    ours = set(namespaces(os.getpid()))
    real = starter.Starter()
    real.start(2)
    with contextlib.ExitStack() as undo:
        undo.callback(real.stop)
        undo.enter_context(network_of(real.init))
        nodes = Nodes(real)
        assert "" not in (nodes.ready_since("rn1"), nodes.ready_since("rn2"))
        nodes.apply(BURNER)
        nodes.kubectl("wait", "--for=condition=Ready", "pod/burner", "--timeout=60s")
        waiting.until(lambda: nodes.query(QUERY) > 0.29, "the burner in the node's reading", 60)
        assert nodes.query(QUERY) == pytest.approx(cgroup_share(nodes), abs=0.02)
        check_kubelet_restart(nodes)
        theirs = {each for pid in pids() for each in namespaces(pid) if is_of(real, pid)} - ours
        assert len(theirs) >= 3 + 2 * len(NAMESPACES)  # the world's, and six of each node
    assert not [pid for pid in pids() if theirs & set(namespaces(pid))]
    assert (pathlib.Path("/proc/mounts").read_text("utf-8"), sysctls()) == before
    assert not real.cgroups()
    assert not real.directory.exists()


def check_kubelet_restart(nodes: Nodes) -> None:
    """A kubelet that is killed comes back; its node stays Ready and its pod runs on."""
    waiting.until(lambda: nodes.renewed("rn1") != "", "the first lease", 60)
    since, renewed, old = nodes.ready_since("rn1"), nodes.renewed("rn1"), nodes.program("rn1", "kubelet")
    os.kill(old, signal.SIGKILL)
    waiting.until(lambda: nodes.program("rn1", "kubelet") not in (0, old), "another kubelet", 30)
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
    assert real.cgroups()
    real.stop()
    assert not real.cgroups()
    assert not real.directory.exists()


def sysctls() -> dict[str, str]:
    """The machine's settings that kubelet, kube-proxy and the bridge write where they may."""
    paths = {name: pathlib.Path("/proc/sys") / name for name in SYSCTLS}
    return {name: path.read_text("utf-8") for name, path in paths.items() if path.exists()}


def cgroup_share(nodes: Nodes) -> float:
    """The memory of rn1 that cannot be had back, by its cgroup, as a share of its limit."""
    return used_bytes(nodes.memory_cgroup("rn1")) / node.MEMORY_BYTES


def is_of(real: starter.Starter, pid: int) -> bool:
    """Whether a process is in a node's cgroups or in the world's PID namespace."""
    with contextlib.suppress(OSError):
        cgroups = pathlib.Path(f"/proc/{pid}/cgroup").read_text("utf-8")
        ours = f"/{texts.CGROUP_PREFIX}{real.directory.name}-"
        return ours in cgroups or namespaces(pid)[2:3] == namespaces(real.init)[2:3]
    return False
