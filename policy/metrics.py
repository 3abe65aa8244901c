"""The load metrics: the one place where their names are spelt.

`load_policy.LoadPolicy.metrics_in_force` joins the six built-in metrics with the policy's own; the annotator asks
Prometheus for them in this order, annotations carry them in this order, and the columns of every load array follow
it.
"""

import collections.abc
import dataclasses
from typing import Final

CPU: Final = "cpu"
MEMORY: Final = "memory"
# Those whose load is known of every pod, measured or estimated. A policy may name others, for metrics with a query.
RESOURCES: Final[tuple[str, ...]] = (CPU, MEMORY)
AVERAGE: Final = "avg"
MAXIMUM: Final = "max"

CPU_AVG_5M: Final = "cpu_avg_5m"
CPU_MAX_1H: Final = "cpu_max_1h"
CPU_MAX_1D: Final = "cpu_max_1d"
MEMORY_AVG_5M: Final = "memory_avg_5m"
MEMORY_MAX_1H: Final = "memory_max_1h"
MEMORY_MAX_1D: Final = "memory_max_1d"

_5_MINUTES: Final = 300.0
_1_HOUR: Final = 3600.0
_1_DAY: Final = 86400.0


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One windowed load figure of a node, a ratio of its capacity.

    `averaging_seconds` is W of the formulas: the window of the average behind the figure. For an average it is the
    metric's own window; a maximum (or percentile) is taken over the averages of the same resource, so it has theirs.
    `pod_query` asks for the share that each pod has of its node, of a resource that is not one of `RESOURCES`.
    """

    name: str
    resource: str
    statistic: str
    window_seconds: float
    averaging_seconds: float
    query: str | None = None
    pod_query: str | None = None


BUILT_IN: Final[tuple[Metric, ...]] = (
    Metric(CPU_AVG_5M, CPU, AVERAGE, _5_MINUTES, _5_MINUTES),
    Metric(CPU_MAX_1H, CPU, MAXIMUM, _1_HOUR, _5_MINUTES),
    Metric(CPU_MAX_1D, CPU, MAXIMUM, _1_DAY, _5_MINUTES),
    Metric(MEMORY_AVG_5M, MEMORY, AVERAGE, _5_MINUTES, _5_MINUTES),
    Metric(MEMORY_MAX_1H, MEMORY, MAXIMUM, _1_HOUR, _5_MINUTES),
    Metric(MEMORY_MAX_1D, MEMORY, MAXIMUM, _1_DAY, _5_MINUTES),
)


def in_force(definitions: collections.abc.Sequence[Metric]) -> tuple[Metric, ...]:
    """The built-in metrics, each replaced where `definitions` holds its name, then the new ones in their order.

    The averaging window of every entry that is no average becomes the window of the first average of its resource.
    """
    merged = {metric.name: metric for metric in (*BUILT_IN, *definitions)}
    averages = [metric for metric in merged.values() if metric.statistic == AVERAGE]
    behind = {metric.resource: metric.window_seconds for metric in reversed(averages)}
    return tuple(
        metric
        if metric.statistic == AVERAGE
        else dataclasses.replace(metric, averaging_seconds=behind.get(metric.resource, metric.window_seconds))
        for metric in merged.values()
    )


def place(resource: str) -> int | None:
    """The place of a resource in `RESOURCES`; None of one whose load no pod is expected to have."""
    return RESOURCES.index(resource) if resource in RESOURCES else None


def resources(metrics: collections.abc.Iterable[Metric]) -> tuple[str, ...]:
    """The resources that `metrics` are about: CPU and memory, then the others in their order."""
    return tuple(dict.fromkeys((*RESOURCES, *(metric.resource for metric in metrics))))


def pod_queries(metrics: collections.abc.Iterable[Metric]) -> dict[str, str]:
    """By resource the query of pods' shares, of those that have one."""
    return {metric.resource: metric.pod_query for metric in metrics if metric.pod_query is not None}


def names(metrics: collections.abc.Iterable[Metric]) -> tuple[str, ...]:
    """The names of `metrics`, in their order: the columns of a load array."""
    return tuple(metric.name for metric in metrics)
