"""The PromQL behind a pod's own use: CPU cores and memory bytes over a window, for all pods at once.

Pure text, asked by the descheduler, which judges a pod by its window and never by one instant. Written against the
kubelet's cAdvisor series. The pod's own cgroup (`container=""`) and the pause container (`POD`) are left out, or every
pod would count twice. A container that restarted has an old and a new series inside one window: for memory only the
living one counts (`and <the bare series>`), for CPU both rates are real work of the window and add up.

The same containers may be scraped twice: kubelets serve both series under /metrics/cadvisor and under
/metrics/resource, and there may be two jobs, or two Prometheus behind one Thanos. So containers are added up per target
and of several targets the largest sum counts, never the sum of all: a pod would seem to use twice what it does.
"""

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from promql.queries import identity, node_queries

_CONTAINERS = 'container!="",container!="POD"'
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
    found = _NAMES.search(expression)
    names = None if found is None else frozenset(found[1].replace("[.]", ".").split("|"))
    return NamedPods(_NAMES.sub("", expression), names)


def cpu_cores(window_seconds: float, *, selector: str = "") -> str:
    """Mean cores used per (namespace, pod) over the window; `selector` is further matchers."""
    series = f"container_cpu_usage_seconds_total{_matchers(selector)}"
    return _of_pods(f"rate({series}[{node_queries.duration(window_seconds)}])")


def memory_bytes(window_seconds: float, *, selector: str = "") -> str:
    """Mean working set in bytes per (namespace, pod) over the window; `selector` is further matchers."""
    series = f"container_memory_working_set_bytes{_matchers(selector)}"
    average = f"avg_over_time({series}[{node_queries.duration(window_seconds)}])"
    return _of_pods(f"{average} and {series}")


def data_time(resource: str, *, selector: str = "") -> str:
    """When the newest scrape of the pod's containers was, in Unix seconds per (namespace, pod)."""
    name = {"cpu": "container_cpu_usage_seconds_total", "memory": "container_memory_working_set_bytes"}[resource]
    return f"max by (namespace, pod) (timestamp({name}{_matchers(selector)}))"


def _of_pods(containers: str) -> str:
    return f"max by (namespace, pod) (sum by (namespace, pod, {_TARGET}) ({containers}))"


def _matchers(selector: str) -> str:
    return f"{{{_CONTAINERS}{',' + selector if selector else ''}}}"
