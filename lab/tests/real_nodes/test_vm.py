"""A node with a kernel of its own, from start to end: cgroup v2, pressure figures, relief. Needs root and QEMU."""

import contextlib
import os
import pathlib
from typing import NamedTuple

import pytest
import yaml

from lab.cluster import cache
from lab.real_nodes import images, machine, starter, waiting
from lab.tests.real_nodes import burners
from lab.tests.real_nodes.installation import installed
from lab.tests.real_nodes.nodes import Document, Nodes, namespaces, network_of, pids
from promql.queries import node_queries, pod_queries
from tests import pages

MACHINE = machine.missing(vm=True)
pytestmark = [
    pytest.mark.skipif(bool(MACHINE), reason=MACHINE or "-"),
    pytest.mark.timeout(1800),
]
WINDOW_SECONDS = 60.0
LIMIT_SECONDS = 600.0  # a machine without KVM, beside other tests, is slow
MEBIBYTES = 600
PODS = "/sys/fs/cgroup/kubepods"
VM = 'instance=~"10.77.0.21:.*"'
PODS_USE = f'container_cpu_usage_seconds_total{{id="/kubepods",{VM}}}'
PODS_WAIT = f'container_pressure_cpu_waiting_seconds_total{{id="/kubepods",{VM}}}'
METRIC = "cpu_pressure_1m"


class Clocks(NamedTuple):
    """Seconds since the machine's start: in all, idle, and used, by all of it and by pods, as its cgroups say."""

    up: float
    idle: float
    used: float
    used_by_pods: float


def test_a_machine_with_its_own_kernel_tells_the_truth_and_leaves_no_trace() -> None:
    mounts, ours = pathlib.Path("/proc/mounts").read_text("utf-8"), set(namespaces(os.getpid()))
    real = starter.Starter(cache.here() / "rn-vm")
    with contextlib.ExitStack() as undo:
        undo.callback(real.stop)
        real.start(1, vm=True)
        theirs = set(namespaces(real.init)) - ours
        undo.enter_context(network_of(real.init))
        nodes = Nodes(real)
        since = nodes.ready_since("vm1")
        check_own_kernel(nodes)
        check_memory(nodes)
        check_processor(nodes)
        nodes.until_renewed("vm1")
        assert nodes.ready_since("vm1") == since != ""
    assert real.accelerator() == ""
    assert not [pid for pid in pids() if theirs & set(namespaces(pid))]
    assert pathlib.Path("/proc/mounts").read_text("utf-8") == mounts
    assert not real.directory.exists()


@pytest.mark.real_nodes
def test_relief_by_memory_of_a_machine_with_its_own_kernel(tmp_path: pathlib.Path) -> None:
    with installed("rn-vm-relief", 2, vm=True) as world, burners.witnessed(world.nodes, tmp_path / "pods") as witness:
        nodes = world.nodes
        burners.set_policy(world, burners.SHORT)
        burners.placed(nodes, {"vm1"}, burners.deployment("web", burners.container(560)), burners.budget("web", 1))
        burners.placed(nodes, {"vm1"}, burners.deployment("rest", burners.container(120)), burners.budget("rest", 1))
        burners.eventually(lambda: burners.reading(world, "vm1", "memory_avg_1m") > 0.8, "an overload", LIMIT_SECONDS)
        before = pods_working_set(nodes)
        burners.eventually(lambda: bool(burners.evictions(world, result="evicted")), "an eviction", LIMIT_SECONDS)
        burners.eventually(
            lambda: all(row["ready_at"] for row in burners.evictions(world, result="evicted")),
            "its replacement",
            LIMIT_SECONDS,
        )
        burners.eventually(lambda: burners.reading(world, "vm1", "memory_avg_1m") <= 0.6, "a load under the stop", 300)
        (row,) = burners.evictions(world)
        predicted, freed = row["value_ratio"] - row["projected_ratio"], before - pods_working_set(nodes)
        total = nodes.query(f"node_memory_MemTotal_bytes{{{VM}}}")
        print(f"\nrelief: {predicted:.4f} of the machine predicted, {freed / total:.4f} freed by its cgroups")
        print(f"reading {row['value_ratio']:.3f} -> {burners.reading(world, 'vm1', 'memory_avg_1m'):.3f}")
        assert (row["node"], row["pod"].split("-")[0]) == ("vm1", "web")
        assert row["destination"] in ("rn1", "rn2")
        assert predicted == pytest.approx(560 * 2**20 / total, abs=0.03)
        assert freed / total == pytest.approx(predicted, abs=0.03)
        assert witness.least_ready("web") == 1
        assert len(burners.requests(nodes)) == 1


@pytest.mark.real_nodes
def test_pods_that_wait_for_each_other_are_moved_and_a_full_node_of_one_pod_is_left_alone() -> None:
    with installed("rn-vm-pressure", 2, vm=True) as world:
        burners.set_policy(world, pressure_policy())
        world.nodes.kubectl("cordon", "rn1", "rn2")
        world.nodes.apply(burners.deployment("web", burners.container(5, millicores=1000), replicas=1))
        use = f"min_over_time(rate({PODS_USE}[1m])[20s:5s])"  # over the preset's line for longer than a sync
        burners.eventually(lambda: world.nodes.query(use) > 0.4, "the pod's use", LIMIT_SECONDS)
        assert world.nodes.query(f"rate({PODS_WAIT}[1m])") > 0.1  # for the node's own daemons
        assert 0 <= burners.reading(world, "vm1", METRIC) < 0.05
        world.nodes.kubectl("scale", "deployment", "web", "--replicas=5")
        burners.eventually(lambda: burners.reading(world, "vm1", METRIC) > 0.4, "an overload", LIMIT_SECONDS)
        assert METRIC in world.run("evenload nodes --node vm1 2>/dev/null")  # which closes the node
        world.nodes.kubectl("uncordon", "rn1", "rn2")
        burners.eventually(lambda: bool(burners.evictions(world, result="evicted")), "an eviction", LIMIT_SECONDS)
        rows = burners.evictions(world)
        print("\npressure:", [(row["pod"], row["value_ratio"], row["projected_ratio"]) for row in rows])
        assert {(row["node"], row["metric"]) for row in rows} == {("vm1", METRIC)}


def pressure_policy() -> Document:
    """The preset with windows of a minute, under which pods of a node without pressure figures wait for nothing."""
    text = (pages.ROOT / "deploy" / "policies" / "pressure.yaml").read_text("utf-8").replace("5m", "1m")
    preset: Document = yaml.safe_load(text)
    preset["metrics"][0]["query"] += " or on (instance, node) 0 * max by (instance, node) (machine_cpu_cores)"
    preset["descheduler"] = burners.SHORT["descheduler"] | preset["descheduler"]
    return burners.SHORT | preset | {"metrics": burners.SHORT["metrics"] + preset["metrics"]}


def pods_working_set(nodes: Nodes) -> int:
    """Bytes of all pods of the machine, by their cgroup, without page cache that can be had back."""
    stat = figures(nodes, f"{PODS}/memory.stat")
    return int(read(nodes, f"{PODS}/memory.current")) - stat["inactive_file"] - stat["active_file"]


def check_own_kernel(nodes: Nodes) -> None:
    """The node has another kernel than those in namespaces, cgroup v2, and no pod that would wait for anything."""
    kernels = {each["metadata"]["name"]: each["status"]["nodeInfo"]["kernelVersion"] for each in nodes.items("nodes")}
    assert kernels == {"rn1": os.uname().release, "vm1": read(nodes, "/proc/sys/kernel/osrelease").strip()}
    assert kernels["rn1"] != kernels["vm1"]
    assert " /sys/fs/cgroup cgroup2 " in read(nodes, "/proc/mounts")
    waiting.until(lambda: nodes.query(PODS_WAIT) >= 0, "cAdvisor's pressure", LIMIT_SECONDS)
    assert nodes.query(PODS_WAIT) == waited_seconds(nodes, f"{PODS}/cpu.pressure") == 0


def check_memory(nodes: Nodes) -> None:
    """A pod's memory by the shipped query is its cgroup's working set, and the node's reading rises by it."""
    waiting.until(lambda: nodes.query(node_share("memory")) > 0, "the node's reading", LIMIT_SECONDS)
    before = nodes.query(node_share("memory"))
    nodes.apply(burner("large", 50, MEBIBYTES))
    query = pod_queries.memory_bytes(WINDOW_SECONDS, selector=pod_queries.naming(["large"]))
    waiting.until(lambda: nodes.query(query) > MEBIBYTES << 20, "the pod's memory in the window", LIMIT_SECONDS)
    cgroup = f"{PODS}/besteffort/pod{nodes.get('pod', 'large')['metadata']['uid']}"
    files = figures(nodes, f"{cgroup}/memory.stat")["inactive_file"]
    working_set = int(read(nodes, f"{cgroup}/memory.current")) - files
    assert nodes.query(query) == pytest.approx(working_set, rel=0.02)
    rise = nodes.query(node_share("memory")) - before
    assert rise == pytest.approx(working_set / nodes.query(f"node_memory_MemTotal_bytes{{{VM}}}"), abs=0.03)


def check_processor(nodes: Nodes) -> None:
    """Two pods that want the only processor make pressure; readings of it, and of their use, are their cgroups'."""
    nodes.apply(burner("busy-1", 1000, 10), burner("busy-2", 1000, 10))
    pressure = f"rate(node_pressure_cpu_waiting_seconds_total{{{VM}}}[30s])"
    waiting.until(lambda: nodes.query(pressure) > 0.95, "the pressure of two pods", LIMIT_SECONDS)
    begin, now_seconds = clocks(nodes), nodes.query("vector(time())")
    waiting.until(lambda: nodes.query("vector(time())") > now_seconds + WINDOW_SECONDS, "a window of it", LIMIT_SECONDS)
    pods = nodes.query(f"sum({pod_queries.cpu_cores(WINDOW_SECONDS)})")
    node = nodes.query(node_share("cpu"))
    up, idle, used, used_by_pods = (after - before for before, after in zip(begin, clocks(nodes), strict=True))
    assert node == pytest.approx(used / (used + idle), abs=0.05)  # not `up`: this machine may let it wait
    assert pods == pytest.approx(used_by_pods / up, abs=0.15)
    check_counter(nodes, f"node_pressure_cpu_waiting_seconds_total{{{VM}}}", "/proc/pressure/cpu")
    check_counter(nodes, PODS_WAIT, f"{PODS}/cpu.pressure")
    assert nodes.query(f"rate(node_pressure_memory_waiting_seconds_total{{{VM}}}[30s])") < 0.01


def check_counter(nodes: Nodes, series: str, path: str) -> None:
    """A series of pressure comes to what its file says, and is never ahead of it."""
    before = waited_seconds(nodes, path)
    waiting.until(lambda: nodes.query(series) >= before > 0, f"{series} to follow {path}", LIMIT_SECONDS)
    assert nodes.query(series) <= waited_seconds(nodes, path)


def node_share(resource: str) -> str:
    """The shipped query, of the machine."""
    window = node_queries.Window(resource, "avg", WINDOW_SECONDS, WINDOW_SECONDS)
    return node_queries.expression(window, selector=VM)


def burner(name: str, millicores: int, mebibytes: int) -> Document:
    """A pod on the machine that uses so much."""
    container = {"name": "main", "image": images.BURNER, "args": [str(millicores), str(mebibytes)]}
    spec = {"nodeName": "vm1", "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def read(nodes: Nodes, path: str) -> str:
    """A file of the machine."""
    return nodes.inside("vm1", "cat", path)


def figures(nodes: Nodes, path: str) -> dict[str, int]:
    """A file of names and figures."""
    return {name: int(figure) for name, figure in (line.split() for line in read(nodes, path).splitlines())}


def clocks(nodes: Nodes) -> Clocks:
    """Reads the machine's clocks."""
    up, idle = (float(text) for text in read(nodes, "/proc/uptime").split())
    used, by_pods = (figures(nodes, f"{cgroup}/cpu.stat")["usage_usec"] / 1e6 for cgroup in ("/sys/fs/cgroup", PODS))
    return Clocks(up, idle, used, by_pods)


def waited_seconds(nodes: Nodes, path: str) -> float:
    """How long some process has waited, by a file of pressure."""
    return int(read(nodes, path).split("total=")[1].split()[0]) / 1e6
