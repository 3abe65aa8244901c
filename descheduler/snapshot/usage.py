"""Use of nodes and pods, as figures with a time, and the rule which of them may be acted on.

A `UsageSource` (`descheduler.sources`) makes these; `planning.planner` and `placement.destinations` decide by them. A
figure that is missing is absent, never 0, and a figure that is too old counts as missing: the descheduler never acts on
a node or a pod it cannot see.
"""

import collections.abc
import dataclasses
import math
from typing import Final, NamedTuple, Protocol

from kube.objects import Node, Pod, Resources
from policy import metrics
from policy.contract import freshness, load_annotation, node_thresholds
from policy.schema.load_policy import LoadPolicy

ROUNDING: Final = 1e-9  # what sums of floats may be off: more than 1e4 pods of a node add, less than any line means


class NodeUsage(NamedTuple):
    """One node's windows (metric name -> ratio of the node) and when the newest sample behind them was taken (Unix
    seconds).
    """

    node: str
    ratios: collections.abc.Mapping[str, float]
    at_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class PodUsage:
    """One pod's windowed usage and when the newest sample behind it was taken (Unix seconds); `key` is
    "namespace/name". `shares` are its ratios of a node, by the resources of the policy's own that it has series of.
    """

    key: str
    cpu_millicores: float
    memory_bytes: float
    at_seconds: float
    shares: collections.abc.Mapping[str, float] = dataclasses.field(default_factory=dict)


class UsageSource(Protocol):
    """Source of the usage of nodes and pods. Any thread may call it.

    `windows_end_at_readings`: whether a node's windows end at its `NodeUsage.at_seconds`, and not at the moment of
    asking.
    """

    @property
    def windows_end_at_readings(self) -> bool: ...

    def node_usage(
        self, nodes: collections.abc.Collection[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> collections.abc.Mapping[str, NodeUsage]:
        """Every node's windows, now or as they were at `at_seconds`. Raises PromqlError or KubeError."""
        ...

    def pod_usage(
        self, policy: LoadPolicy, pods: collections.abc.Collection[Pod], *, of_all: int
    ) -> collections.abc.Mapping[str, PodUsage]:
        """The usage of these pods, out of so many, over `pod_windows`; a pod that lacks a figure is absent. Raises
        PromqlError or KubeError.
        """
        ...

    def absence(self, pod: Pod) -> str:
        """Why the last answer has no usage of the pod."""
        ...

    def known_until_seconds(self, now_seconds: float) -> float:
        """Until which moment gone by the nodes' usage is known: now, where the source answers for any."""
        return now_seconds

    def follow(self, nodes: frozenset[str], *, until_seconds: float) -> None:
        """The usage of pods on these nodes will be asked for until then (monotonic), unless this is called again."""
        return


def of_nodes(
    ratios: collections.abc.Mapping[str, collections.abc.Mapping[str, float]],
    at_seconds: collections.abc.Mapping[str, float],
) -> dict[str, NodeUsage]:
    """Usage by node out of ratios by metric and node; a node without any ratio, or without a time, is left out."""
    values_of: dict[str, dict[str, float]] = {node: {} for node in at_seconds}
    for metric, by_node in ratios.items():
        for node, value in by_node.items():
            if node in values_of:
                values_of[node][metric] = value
    return {node: NodeUsage(node, values, at_seconds[node]) for node, values in values_of.items() if values}


def fresh(at_seconds: float, now_seconds: float, stale_after_seconds: float) -> bool:
    """Whether data of that time may be acted on: not stale, not from the future."""
    return freshness.usable(at_seconds, now_seconds, stale_after_seconds) == "usable"


def over(value_ratio: float, line_ratio: float) -> bool:
    """Whether a ratio is over a line, and not only by what sums of floats are off."""
    return value_ratio > line_ratio + ROUNDING


def fresh_ratios(reading: NodeUsage | None, now_seconds: float, policy: LoadPolicy) -> dict[str, float]:
    """A node's valid ratios by metric; none at all without a reading, or with one that may not be acted on."""
    if reading is None or not fresh(reading.at_seconds, now_seconds, policy.sync.stale_after_seconds):
        return {}
    limit = load_annotation.MAX_RATIO
    return {name: value for name, value in reading.ratios.items() if 0 <= value <= limit}  # as `invalid_reason` has it


def resources_of(policy: LoadPolicy) -> dict[str, str]:
    """The resource behind every metric in force."""
    return {metric.name: metric.resource for metric in policy.metrics_in_force}


def window_of(policy: LoadPolicy, metric_name: str) -> float:
    """The window of a metric in force, in seconds; for a maximum, the window that its averages are taken over."""
    return _metric(policy, metric_name).averaging_seconds


def pod_windows(policy: LoadPolicy) -> dict[str, float]:
    """Over how long a pod's usage is averaged: as long as the averages that its node is judged by."""
    resources = resources_of(policy)
    windows = dict.fromkeys(metrics.RESOURCES, 0.0)
    for name in policy.descheduler.thresholds:
        windows[resources[name]] = max(windows.get(resources[name], 0.0), window_of(policy, name))
    longest = max(windows.values())
    return {resource: seconds or longest for resource, seconds in windows.items()}


def shown_ratio(policy: LoadPolicy, metric_name: str, age_seconds: float) -> float:
    """How much of a load that went so long ago a metric in force still shows: an average less and less, linearly; a
    maximum (or percentile) all of it until its window has passed, and then as the averages behind it.
    """
    metric = _metric(policy, metric_name)
    held_seconds = 0.0 if metric.statistic == metrics.AVERAGE else metric.window_seconds
    return min(1.0, max(0.0, 1.0 - (age_seconds - held_seconds) / metric.averaging_seconds))


def _metric(policy: LoadPolicy, name: str) -> metrics.Metric:
    return next(metric for metric in policy.metrics_in_force if metric.name == name)


def peak_metric(policy: LoadPolicy, resource: str) -> str | None:
    """The name of the resource's hourly maximum, by which destinations are judged beside the short average, if it is
    in force.
    """
    name = f"{resource}_max_1h"
    return name if any(metric.name == name for metric in policy.metrics_in_force) else None


def metrics_read(policy: LoadPolicy, nodes: collections.abc.Iterable[Node] = ()) -> tuple[metrics.Metric, ...]:
    """The metrics that a run reads: those with a descheduler line, the hourly maxima of their resources, and what the
    extender filters by (thresholds of the policy, its pools, its classes of pods and the nodes), which destinations
    must pass.
    """
    lines = tuple(policy.descheduler.thresholds)
    resources = resources_of(policy)
    peaks = [peak for name in lines if (peak := peak_metric(policy, resources[name])) is not None]
    changes = [part.filter for part in policy.pools] + [part.filter for part in policy.pod_classes]
    of_all = (policy.filter.thresholds, *(change.thresholds for change in changes))
    filtered = [name for thresholds in of_all for name, limit in thresholds.items() if limit > 0]
    key = node_thresholds.KEY
    written = {node.metadata.annotations[key] for node in nodes if key in node.metadata.annotations}
    own = {name for text in written if (node_limits := node_thresholds.decode(text)) for name in node_limits.limits}
    named = dict.fromkeys((*lines, *peaks, *filtered, *sorted(own)))
    in_force = {metric.name: metric for metric in policy.metrics_in_force}
    return tuple(in_force[name] for name in named if name in in_force)


def amount(usage: PodUsage, resource: str) -> float:
    """Returns the pod's use of the resource: millicores, bytes or its share of a node. What devices measure has series
    for pods that use them, so a pod without one uses nothing.
    """
    if resource == metrics.CPU:
        return usage.cpu_millicores
    return usage.memory_bytes if resource == metrics.MEMORY else usage.shares.get(resource, 0.0)


def size(resources: Resources, resource: str) -> float:
    """How much of the resource a node has: millicores, bytes, or 1 of a resource of which pods have shares."""
    if resource == metrics.CPU:
        return resources.cpu_millicores
    return resources.memory_bytes if resource == metrics.MEMORY else 1.0


def requested(pod: Resources, used: PodUsage, resource: str) -> float:
    """How much of the resource the pod requests; of one of which pods have shares, what it uses."""
    return amount(used, resource) if metrics.place(resource) is None else size(pod, resource)


def share(usage: PodUsage, of: Resources, resource: str) -> float:
    """The pod's usage as a ratio of a node's resources; infinite on a node that says it has none."""
    whole = size(of, resource)
    return amount(usage, resource) / whole if whole > 0 else math.inf
