"""Expected load of recent pods: what pods bound a moment ago will add to a node before the windows can show it.

The extender estimates each pod once (`estimate`) and adds up, per node and metric, what the windows cannot show yet
(`expected`). The same estimate is the incoming pod's own load (`incoming`). Formulas: docs/contract.md, expected load;
the mean use of a pod's owner and the pod's own annotation come before the request
(docs/decisions/0004-owners-mean-usage.md).
"""

import collections.abc
import functools
import math
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from policy import metrics
from policy.contract import freshness, owner_usage
from policy.schema import load_policy, units

Floats = npt.NDArray[np.float64]

OWNERS_MEAN: Final = "owner's mean"
# Replicas that idle say nothing of what their like will use with work to do (docs/decisions/0004-owners-mean-usage.md).
OWNERS_MEAN_FLOOR: Final = 0.5
FLOOR: Final = f"{OWNERS_MEAN_FLOOR:.0%} of the request, over an owner's mean of less"
ANNOTATION: Final = "annotation"
ANNOTATION_FLOOR: Final = f"{OWNERS_MEAN_FLOOR:.0%} of the request, over an annotation of less"
REQUEST_RATIO: Final = "request ratio"
DEFAULT: Final = "default"

# kube-scheduler lets no binding wait longer (Permit: 15 min; volumes: 10 min), and images of many GB are there by then.
LONGEST_WAIT_SECONDS: Final = 900.0
_READERS: Final = {"cpu": units.cpu_millicores, "memory": units.memory_bytes}
_LONGEST: Final = 63  # of an annotation: the descheduler has the first 64 characters of each


class Load(NamedTuple):
    """An amount of both resources."""

    cpu_millicores: float
    memory_bytes: float


UNBOUNDED: Final = Load(math.inf, math.inf)


class OwnEstimate(NamedTuple):
    """A pod's own estimate: the amounts, None where none is named, and why the text is ignored, if it is."""

    cpu_millicores: float | None = None
    memory_bytes: float | None = None
    problem: str = ""


class Estimate(NamedTuple):
    """The load expected of a pod, by what each resource was estimated, over how many replicas there is a mean, and why
    the pod's own estimate is ignored, if it is.
    """

    load: Load
    cpu_by: str
    memory_by: str
    replicas: int
    ignored: str = ""

    def words(self, by: str) -> str:
        """By what a resource was estimated, for explain."""
        measured = by in (OWNERS_MEAN, FLOOR)
        return f"{by} over {self.replicas} replica{'s' * (self.replicas != 1)}" if measured else by


@functools.lru_cache(maxsize=4096)  # a workload's pods have the same text
def own_estimate(text: str) -> OwnEstimate:
    """Read a pod's annotation, such as `cpu=500m,memory=1Gi`; "" is none. People write it: nothing is an error."""
    if not text:
        return OwnEstimate()
    try:
        pairs = [part.strip().split("=") for part in text.split(",")]
        amounts = {name: _READERS[name](quantity) for name, quantity in pairs}
    except (KeyError, ValueError):
        pairs, amounts = [], {}
    if not amounts or len(amounts) < len(pairs) or 0.0 in amounts.values() or len(text) > _LONGEST:
        expected = f"amounts over 0 such as cpu=500m,memory=1Gi, of at most {_LONGEST} characters, expected"
        return OwnEstimate(problem=f"{expected}, got {units.quoted(text)}")
    return OwnEstimate(amounts.get("cpu"), amounts.get("memory"))


def estimate(
    request: Load,
    recent_pods: load_policy.RecentPods,
    mean: owner_usage.Mean | None = None,
    annotation: str = "",
    *,
    largest_node: collections.abc.Callable[[], Load] = lambda: UNBOUNDED,
) -> Estimate:
    """est(p): max(the mean use of the owner's replicas, the pod's own estimate, OWNERS_MEAN_FLOOR x the effective
    request) where one of the first two is known, else usagePerRequest x the request, else the default; each resource by
    itself (a request of 0 is none). An own estimate of more than the largest node has is ignored.
    """
    share, default = recent_pods.usage_per_request, recent_pods.default
    if mean is None or not recent_pods.owner_usage:
        mean = owner_usage.Mean(None, None, 0)
    cpu = _estimated(mean.cpu_millicores, request.cpu_millicores, share.cpu, default.cpu_millicores)
    memory = _estimated(mean.memory_bytes, request.memory_bytes, share.memory, default.memory_bytes)
    own = own_estimate(annotation)
    if any(own[:2]):
        most = largest_node()
        if (own.cpu_millicores or 0) > most.cpu_millicores or (own.memory_bytes or 0) > most.memory_bytes:
            own = OwnEstimate(problem="more than any node has")
        cpu = _at_least(own.cpu_millicores, request.cpu_millicores, cpu)
        memory = _at_least(own.memory_bytes, request.memory_bytes, memory)
    return Estimate(Load(cpu[0], memory[0]), cpu[1], memory[1], mean.replicas, own.problem)


def _estimated(measured: float | None, request: float, share_ratio: float, default: float) -> tuple[float, str]:
    if measured is not None:
        least = OWNERS_MEAN_FLOOR * request
        return (measured, OWNERS_MEAN) if measured >= least else (least, FLOOR)
    return (share_ratio * request, REQUEST_RATIO) if request > 0 else (default, DEFAULT)


def _at_least(own: float | None, request: float, others: tuple[float, str]) -> tuple[float, str]:
    """The pod's own estimate in the place of its request, never under a measured mean or the floor."""
    if own is None:
        return others
    if others[1] in (REQUEST_RATIO, DEFAULT):
        others = (OWNERS_MEAN_FLOOR * request, ANNOTATION_FLOOR)
    return (own, ANNOTATION) if own > others[0] else others


class PlacedPod(Protocol):
    """A pod as far as it tells when it began to use its node."""

    @property
    def pending(self) -> bool: ...
    @property
    def scheduled_at_seconds(self) -> float | None: ...
    @property
    def running_since_seconds(self) -> float | None: ...


def bound_at_seconds(pod: PlacedPod, now_seconds: float) -> float | None:
    """The PodScheduled transition; without one, or with one of a wrong clock, the start of its last container."""
    latest_seconds = now_seconds + freshness.MAX_AHEAD_SECONDS
    at_seconds = pod.scheduled_at_seconds
    if at_seconds is None or at_seconds > latest_seconds:
        at_seconds = pod.running_since_seconds
    return None if at_seconds is None or at_seconds > latest_seconds else at_seconds


def began_at_seconds(pod: PlacedPod, bound_at_seconds: float, now_seconds: float) -> float:
    """The moment from which a pod's age counts: the start of its last container; its binding where that is not known,
    or where the node's clock is wrong; LONGEST_WAIT_SECONDS after its binding while a container has not started.
    """
    since_seconds = pod.running_since_seconds
    if since_seconds is None and pod.pending:
        return bound_at_seconds + LONGEST_WAIT_SECONDS
    if since_seconds is None or since_seconds > now_seconds + freshness.MAX_AHEAD_SECONDS:
        return bound_at_seconds
    return max(bound_at_seconds, since_seconds)


def expected(
    node: npt.NDArray[np.intp],
    age_seconds: Floats,
    load: Floats,
    allocatable: Floats,
    *,
    in_force: collections.abc.Sequence[metrics.Metric],
) -> Floats:
    """Expected load of recent pods [nodes, metrics], ratios: sum of est(p) * max(0, 1 - age / W_m) / allocatable.

    `node` [pods] are row numbers, `age_seconds` [pods], `load` [pods, 2] and `allocatable` [nodes, 2] in the order of
    `Load`. A pod's share is at most 1 (a clock behind the binding). 0 for a resource the node does not offer: no pod
    that requests it can land there anyway.
    """
    columns = np.zeros((len(allocatable), len(in_force)))
    for at, metric in enumerate(in_force):
        resource = metrics.place(metric.resource)
        if resource is None:  # no pod is expected to use it
            continue
        unseen = load[:, resource] * np.clip(1.0 - age_seconds / metric.averaging_seconds, 0.0, 1.0)
        total = np.bincount(node, weights=unseen, minlength=len(allocatable))
        capacity = allocatable[:, resource]
        columns[:, at] = total / np.where(capacity > 0, capacity, np.inf)
    return columns
