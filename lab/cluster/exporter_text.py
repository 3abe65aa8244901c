"""The fleet as Prometheus text: node_exporter's and cAdvisor's real names and labels, for all nodes in one page.

Called at every scrape by `cluster.exporter_http`. Thousands of nodes are joined from plain strings; metric objects per
series would cost more than the scrape interval. As in the kubelet, a pod appears several times: per container, once
for the whole pod (`container=""`), once for the pause container (`POD`), and inside the node's root cgroup (`id="/"`).
A sum over these without a matcher counts double, here as in life.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from lab.cluster import exporter_fleet

# Shares of busy time by mode; iowait is in it because the field counts all that is not idle as busy.
BUSY_MODES = (
    ("user", 0.68), ("system", 0.22), ("iowait", 0.04), ("softirq", 0.03),
    ("irq", 0.01), ("nice", 0.01), ("steal", 0.01),
)  # fmt: skip
CPU_SKEW = 0.3  # the busiest CPU of a half-busy node does 15 % more than the mean, the laziest 15 % less
PAUSE_IMAGE, PAUSE_CPU_SHARE, PAUSE_BYTES = "registry.k8s.io/pause:3.10", 0.0, 400 * 1024.0
GARBAGE = ("nan", "negative", "over", "infinite", "twice")

Lines = list[str]


class Page(NamedTuple):
    """How to label: node_exporter's port, the kubelet's, and whether node series carry `node` too."""

    node_port: int = 9100
    kubelet_port: int = 10250
    node_label: bool = False
    max_cpus: int = 0  # 0: one series per CPU and mode as in life; n: at most n CPUs, to keep huge fleets cheap


def render(fleet: exporter_fleet.Fleet, page: Page) -> str:
    """The whole page; the fleet must have been brought up to now."""
    nodes = [node for node in fleet.nodes() if node.control.hidden is not True]
    lines: Lines = []
    _node_cpu(lines, nodes, page)
    _node_memory(lines, nodes, page)
    _head(lines, "node_uname_info", "gauge", "The name of the node.")
    names = ((escape(node.facts.name), labels) for node, labels in _labelled(nodes, page))
    lines.extend(f'node_uname_info{{{labels},nodename="{name}"}} 1' for name, labels in names)
    pods = [node for node in nodes if node.control.hidden_pods is not True]
    _containers(lines, pods, page, _CPU)
    _containers(lines, pods, page, _MEMORY)
    lines.append("")
    return "\n".join(lines)


def _head(lines: Lines, name: str, kind: str, text: str) -> None:
    lines.append(f"# HELP {name} {text}")
    lines.append(f"# TYPE {name} {kind}")


def escape(value: str) -> str:
    """A label value as the text format wants it."""
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def instance(address: str, port: int) -> str:
    """host:port, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _labelled(nodes: Iterable[exporter_fleet.NodeState], page: Page) -> Iterator[tuple[exporter_fleet.NodeState, str]]:
    """Yields each node with the labels of its series, and once more for a second exporter that claims the node."""
    for node in nodes:
        own = f'instance="{escape(instance(node.facts.address, page.node_port))}"'
        labels = f'{own},node="{escape(node.facts.name)}"' if page.node_label else own
        yield node, labels
        if node.control.garbage == "twice":
            yield node, f'{labels},exporter="second"'


def _node_cpu(lines: Lines, nodes: Iterable[exporter_fleet.NodeState], page: Page) -> None:
    _head(lines, "node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.")
    for node, labels in _labelled(nodes, page):
        for cpu, busy in enumerate(_busy_by_cpu(node, page.max_cpus)):
            start = f'node_cpu_seconds_total{{cpu="{cpu}",{labels},mode='
            lines.append(f'{start}"idle"}} {_idle(node, busy):.3f}')
            lines.extend(f'{start}"{mode}"}} {busy * share:.3f}' for mode, share in BUSY_MODES)


def _busy_by_cpu(node: exporter_fleet.NodeState, max_cpus: int) -> list[float]:
    """Busy seconds of each CPU: the integral of r + d * r(1-r), where the d of all CPUs add up to nothing."""
    cpus = max(1, math.ceil(node.facts.capacity.cpu_millicores / 1000))
    cpus = min(cpus, max_cpus) if max_cpus else cpus
    skews = (CPU_SKEW * math.cos(2 * math.pi * cpu / cpus) if cpus > 1 else 0.0 for cpu in range(cpus))
    return [node.busy_seconds + skew * node.skew_seconds for skew in skews]


def _idle(node: exporter_fleet.NodeState, busy: float) -> float:
    if node.control.garbage == "nan":
        return math.nan
    if node.control.garbage == "negative":
        return 3 * node.seen_seconds  # idle faster than time: 1 - rate becomes -2
    return node.seen_seconds - busy


def _node_memory(lines: Lines, nodes: list[exporter_fleet.NodeState], page: Page) -> None:
    rows: tuple[tuple[str, Callable[[exporter_fleet.NodeState], float]], ...] = (
        ("MemTotal", _total),
        ("MemAvailable", _available),
        ("MemFree", lambda node: max(0.0, _true_available(node) * 0.6)),
        ("Buffers", lambda node: max(0.0, _true_available(node) * 0.05)),
        ("Cached", lambda node: max(0.0, _true_available(node) * 0.35)),
    )
    for field, value in rows:
        name = f"node_memory_{field}_bytes"
        _head(lines, name, "gauge", f"Memory information field {name}.")
        lines.extend(f"{name}{{{labels}}} {value(node):.0f}" for node, labels in _labelled(nodes, page))


def _true_available(node: exporter_fleet.NodeState) -> float:
    return node.facts.capacity.memory_bytes - node.now.memory_bytes


def _total(node: exporter_fleet.NodeState) -> float:
    return 0.0 if node.control.garbage == "infinite" else node.facts.capacity.memory_bytes


def _available(node: exporter_fleet.NodeState) -> float:
    """MemAvailable, or the nonsense asked for: NaN, more than there is (use -1), or less than nothing (use 2)."""
    capacity = node.facts.capacity.memory_bytes
    wrong = {"nan": math.nan, "negative": 2 * capacity, "over": -capacity}
    garbage = node.control.garbage
    return wrong.get(garbage, _true_available(node)) if isinstance(garbage, str) else _true_available(node)


class _Family(NamedTuple):
    """One cAdvisor metric: of a pod, of its pause container, and of the node's root cgroup."""

    name: str
    kind: str
    text: str
    extra: str
    digits: int
    of_pod: Callable[[exporter_fleet.PodState], float]
    pause: float
    of_node: Callable[[exporter_fleet.NodeState], float]


_CPU = _Family(
    "container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", 'cpu="total",', 6,
    lambda pod: pod.cpu_seconds, PAUSE_CPU_SHARE,
    lambda node: node.busy_seconds * node.facts.capacity.cpu_millicores / 1000,
)  # fmt: skip
_MEMORY = _Family(
    "container_memory_working_set_bytes", "gauge", "Current working set in bytes.", "", 0,
    lambda pod: pod.now.memory_bytes, PAUSE_BYTES, lambda node: node.now.memory_bytes,
)  # fmt: skip


def _containers(lines: Lines, nodes: Iterable[exporter_fleet.NodeState], page: Page, family: _Family) -> None:
    _head(lines, family.name, family.kind, family.text)
    for node in nodes:
        where = f'instance="{escape(instance(node.facts.address, page.kubelet_port))}",node="{escape(node.facts.name)}"'
        root = f'{family.name}{{{family.extra}container="",id="/",image="",name="",namespace="",pod="",{where}}} '
        lines.append(f"{root}{family.of_node(node):.{family.digits}f}")
        for pod in node.pods.values():
            _pod(lines, pod, where, family)


def _pod(lines: Lines, pod: exporter_fleet.PodState, where: str, family: _Family) -> None:
    """One line per container (equal shares), one for the pause container, one for the pod's own cgroup."""
    facts, total = pod.facts, family.of_pod(pod)
    cgroup = f"/kubepods/pod{facts.uid}"
    ending = f'namespace="{escape(facts.namespace)}",pod="{escape(facts.name)}",{where}}} '
    start, digits = f"{family.name}{{{family.extra}", family.digits
    for ordinal, (name, image) in enumerate(facts.containers):
        labels = f'container="{escape(name)}",id="{cgroup}/{ordinal:02d}",image="{escape(image)}"'
        own = f'{labels},name="{facts.uid}-{ordinal}",'
        lines.append(f"{start}{own}{ending}{total / len(facts.containers):.{digits}f}")
    pause = f'container="POD",id="{cgroup}/pause",image="{PAUSE_IMAGE}",name="{facts.uid}-pause",'
    lines.append(f"{start}{pause}{ending}{family.pause:.{digits}f}")
    lines.append(f'{start}container="",id="{cgroup}",image="",name="",{ending}{total + family.pause:.{digits}f}')
