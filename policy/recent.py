"""Expected load of recent pods: what pods bound a moment ago will add to a node before the windows can show it.

The extender estimates each pod once (`estimate`) and adds up, per node and metric, what the windows cannot show yet
(`expected`). The same estimate is the incoming pod's own load (`incoming`). Formulas: design.md section 4.
"""

import collections.abc
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from policy import metrics, schema

Floats = npt.NDArray[np.float64]


class Load(NamedTuple):
    """An amount of both resources."""

    cpu_millicores: float
    memory_bytes: float


class RecentPod(NamedTuple):
    """A pod bound at `at_seconds` (Unix) that is expected to use `load`."""

    at_seconds: float
    load: Load


def estimate(request: Load, recent_pods: schema.RecentPods) -> Load:
    """est(p): usagePerRequest x the effective request, or the default, each resource by itself (0 = not requested)."""
    share, default = recent_pods.usage_per_request, recent_pods.default
    return Load(
        share.cpu * request.cpu_millicores if request.cpu_millicores > 0 else default.cpu_millicores,
        share.memory * request.memory_bytes if request.memory_bytes > 0 else default.memory_bytes,
    )


def decay(age_seconds: float, averaging_seconds: float) -> float:
    """The share of a pod's load a window W does not show yet: max(0, 1 - age/W), at most 1 (a clock behind the
    binding).
    """
    return min(1.0, max(0.0, 1.0 - age_seconds / averaging_seconds))


def expected(
    pods: collections.abc.Iterable[RecentPod],
    allocatable: Load,
    in_force: collections.abc.Sequence[metrics.Metric],
    now_seconds: float,
) -> Floats:
    """Expected load of one node's recent pods [metrics], ratios: sum of est(p) * decay(age, W_m) / allocatable.

    0 for a resource the node does not offer: no pod that requests it can land there anyway.
    """
    listed = list(pods)
    ages = now_seconds - np.array([pod.at_seconds for pod in listed], dtype=np.float64)
    loads = np.array([pod.load for pod in listed], dtype=np.float64).reshape(len(listed), 2)
    node = np.zeros(len(listed), dtype=np.intp)
    by_node = expected_by_node(node, ages, loads, np.array([allocatable], dtype=np.float64), in_force)
    return np.asarray(by_node[0], dtype=np.float64)


def expected_by_node(
    node: npt.NDArray[np.intp],
    age_seconds: Floats,
    load: Floats,
    allocatable: Floats,
    in_force: collections.abc.Sequence[metrics.Metric],
) -> Floats:
    """The same for many nodes [nodes, metrics]: `node` [pods] row numbers, `age_seconds` [pods], `load` [pods, 2] and
    `allocatable` [nodes, 2] in the order of `Load`.
    """
    columns = np.zeros((len(allocatable), len(in_force)))
    for at, metric in enumerate(in_force):
        resource = metrics.RESOURCES.index(metric.resource)
        unseen = load[:, resource] * np.clip(1.0 - age_seconds / metric.averaging_seconds, 0.0, 1.0)
        total = np.bincount(node, weights=unseen, minlength=len(allocatable)).astype(np.float64)
        columns[:, at] = _ratio(total, allocatable[:, resource])
    return columns


def incoming(load: Load, allocatable: Floats, in_force: collections.abc.Sequence[metrics.Metric]) -> Floats:
    """The incoming pod's own expected load on every node [nodes, metrics], for `incomingPod: true`."""
    columns = [metrics.RESOURCES.index(metric.resource) for metric in in_force]
    amounts = np.asarray(load, dtype=np.float64)
    return _ratio(np.broadcast_to(amounts, allocatable.shape), allocatable)[:, columns]


def _ratio(amount: Floats, capacity: Floats) -> Floats:
    return np.divide(amount, capacity, where=capacity > 0, out=np.zeros(np.shape(amount)))
