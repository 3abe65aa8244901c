"""The PromQL behind a pod's own use: CPU cores and memory bytes over a window, for all pods at once.

Pure text, asked by the descheduler, which judges a pod by its window and never by one instant. Written against the
kubelet's cAdvisor series. The pod's own cgroup (`container=""`) and the pause container (`POD`) are left out, or every
pod would count twice. Of a container that restarted, a window holds the series of each life. For CPU their rates are
real work of the window and add up. For memory the largest counts, and none whose last sample is older than the newest
one of its target by DEAD_SECONDS: cAdvisor gives its samples a time of their own, and of such series Prometheus says
for five minutes more that they are there (`track_timestamps_staleness` ends that). The newest sample of the target is
the measure and not time(): scrapes may be late, and clocks of nodes may differ. Active page cache, which the working
set has, is left out: a node's windows have it as available memory, and no node is relieved of it.

The same containers may be scraped twice: kubelets serve both series under /metrics/cadvisor and under
/metrics/resource, and there may be two jobs, or two Prometheus behind one Thanos. So containers are added up per target
and of several targets the largest sum counts, never the sum of all. Within a target a life of a container (its `name`)
counts once: two Services that select the kubelets give it two labels `service`, a node that is a container two `id`.
"""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from promql.queries import identity, node_queries

# cAdvisor may look at a living container once a minute only, so that some samples of a scrape are as old.
DEAD_SECONDS: Final = 90.0
_CONTAINERS = 'container!="",container!="POD"'
_MEMORY: Final = "container_memory_working_set_bytes"
_CACHE: Final = "container_memory_total_active_file_bytes"
_WITHIN_TARGET = "container, id, image, name, namespace, pod"  # the labels of cAdvisor; all others are the target's
# A label that is absent splits nothing.
_TARGET = ", ".join(("cluster", "instance", "job", "metrics_path", *identity.REPLICA_LABELS))


_NAMES: Final = re.compile(r',pod=~"([^"]*)"')


class NamedPods(NamedTuple):
    """An expression without its matcher of names, and the pods that it is about, None for all."""

    expression: str
    names: frozenset[str] | None


def naming(names: Collection[str]) -> str:
    """A matcher of the pods with these names, in any namespace; a name holds letters, digits, "-" and "." only."""
    return 'pod=~"' + "|".join(names).replace(".", "[.]") + '"'


def named(expression: str) -> NamedPods:
    """Reads an expression whose selector ends with what `naming` made; for what stands in for Prometheus."""
    match = _NAMES.search(expression)
    names = None if match is None else frozenset(match[1].replace("[.]", ".").split("|"))
    return NamedPods(_NAMES.sub("", expression), names)


def cpu_cores(window_seconds: float, *, selector: str = "") -> str:
    """Mean cores used per (namespace, pod) over the window; `selector` is further matchers."""
    series = f"container_cpu_usage_seconds_total{_matchers(selector)}"
    rates = f"rate({series}[{node_queries.duration(window_seconds)}])"
    return _of_pods(f"max by (namespace, pod, container, name, {_TARGET}) ({rates})")


def memory_bytes(window_seconds: float, *, selector: str = "") -> str:
    """Mean working set less active page cache in bytes, where that has a series; else as `cpu_cores`."""
    span = f"{_matchers(selector)}[{node_queries.duration(window_seconds)}]"
    parts = f'avg_over_time({_MEMORY}{span}) or label_replace(-avg_over_time({_CACHE}{span}), "part", "cache", "", "")'
    lives = f"sum without (part) (({parts}) and ignoring (part) ({_against_newest('>', selector)}))"
    return _of_pods(f"max by (namespace, pod, container, {_TARGET}) (clamp_min({lives}, 0))")


def dead_pods(*, selector: str = "") -> str:
    """How many pods have containers that Prometheus takes for living and `memory_bytes` does not."""
    return f"count(count by (namespace, pod) ({_against_newest('<=', selector)}))"


def measured_pods(*, selector: str = "") -> str:
    """How many pods have containers with series."""
    return f"count(count by (namespace, pod) ({_MEMORY}{_matchers(selector)}))"


def without_containers(label: str, *, selector: str = "") -> str:
    """One series per value of a label that has cgroups of pods and no container: its runtime is none of cAdvisor's."""
    pods = f'{_MEMORY}{{pod!=""{"," + selector if selector else ""}}}'
    return f"count by ({label}) ({pods}) unless count by ({label}) ({_MEMORY}{_matchers(selector)})"


def _against_newest(operator: str, selector: str) -> str:
    """The containers whose last sample is newer (">") or not ("<=") than the newest of its target less DEAD_SECONDS.

    The newest is that of the root cgroup, which never ends and is a single series also where the selector names few
    pods; where that is not stored, as of /metrics/resource, that of the containers selected.
    """
    series = f"{_MEMORY}{_matchers(selector)}"
    of_all = _NAMES.sub("", f",{selector}").rstrip(",")
    root = f'{_MEMORY}{{id="/"{of_all}}}'
    newest = " or ".join(f"max without ({_WITHIN_TARGET}) (timestamp({one}))" for one in (root, series))
    return f"timestamp({series}) {operator} ignoring ({_WITHIN_TARGET}) group_left () (({newest}) - {DEAD_SECONDS:g})"


def data_time(resource: str, *, selector: str = "") -> str:
    """When the newest scrape of the pod's containers was, in Unix seconds per (namespace, pod)."""
    name = {"cpu": "container_cpu_usage_seconds_total", "memory": _MEMORY}[resource]
    return f"max by (namespace, pod) (timestamp({name}{_matchers(selector)}))"


def _of_pods(containers: str) -> str:
    return f"max by (namespace, pod) (sum by (namespace, pod, {_TARGET}) ({containers}))"


def _matchers(selector: str) -> str:
    return f"{{{_CONTAINERS}{',' + selector if selector else ''}}}"
