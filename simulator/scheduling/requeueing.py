"""Requeueing of unschedulable pods: the cluster events that each plugin waits for.

`world.placing` tells `queue` every change of a node or a bound pod as these events, and it wakes the pods that were
refused by a plugin that waits for it. Source: kubernetes v1.36 pkg/scheduler/framework/plugins (EventsToRegister of
each), framework/events.go. The real plugins also look whether the very change helps the very pod (QueueingHint); the
model wakes more pods, which then fail again, and decides the same.
"""

import enum
from collections.abc import Iterator, Mapping

from kube.objects import Node, Pod
from kube_scheduler import refusals
from simulator.scheduling import filtering


class Change(enum.Enum):
    """A change of a node or of a pod on one."""

    NODE_CAME = enum.auto()
    NODE_LEFT = enum.auto()
    NODE_AMOUNTS = enum.auto()
    NODE_LABELS = enum.auto()
    NODE_TAINTS = enum.auto()
    NODE_OTHERWISE = enum.auto()
    POD_CAME = enum.auto()
    POD_LEFT = enum.auto()
    POD_LABELS = enum.auto()
    POD_OTHERWISE = enum.auto()


NEIGHBOURS = frozenset({Change.POD_CAME, Change.POD_LEFT, Change.POD_LABELS, Change.NODE_CAME, Change.NODE_LABELS})
AWAITED: Mapping[str, frozenset[Change]] = {
    refusals.UNSCHEDULABLE: frozenset({Change.NODE_CAME, Change.NODE_TAINTS}),
    refusals.TAINTS: frozenset({Change.NODE_CAME, Change.NODE_TAINTS}),
    refusals.NODE_AFFINITY: frozenset({Change.NODE_CAME, Change.NODE_LABELS}),
    refusals.PORTS: frozenset({Change.NODE_CAME, Change.POD_LEFT}),
    refusals.RESOURCES: frozenset({Change.NODE_CAME, Change.NODE_AMOUNTS, Change.POD_LEFT}),
    refusals.SPREAD: NEIGHBOURS | {Change.NODE_LEFT, Change.NODE_TAINTS},
    refusals.POD_AFFINITY: NEIGHBOURS,
    filtering.EXTENDER: frozenset(Change),  # an extender has no way to say what it waits for: k/k#122019
}


def of_node(old: Node | None, new: Node | None) -> Iterator[Change]:
    """Yields the changes of a node's update; nothing for an update without an effect."""
    if old is None or new is None:
        yield Change.NODE_CAME if new is not None else Change.NODE_LEFT
        return
    if old.metadata.labels != new.metadata.labels:
        yield Change.NODE_LABELS
    if old.spec != new.spec:
        yield Change.NODE_TAINTS
    if old.status.allocatable != new.status.allocatable:
        yield Change.NODE_AMOUNTS
    if old.metadata.annotations != new.metadata.annotations or old.status.conditions != new.status.conditions:
        yield Change.NODE_OTHERWISE


def of_pod(old: Pod | None, new: Pod | None) -> Iterator[Change]:
    """Yields the changes of a pod's update that matter to other pods: only pods on nodes do, until they finish."""
    was, is_now = _counts(old), _counts(new)
    if was and is_now and old is not None and new is not None:
        yield Change.POD_LABELS if old.metadata.labels != new.metadata.labels else Change.POD_OTHERWISE
    elif was or is_now:
        yield Change.POD_CAME if is_now else Change.POD_LEFT


def awaits(plugins: frozenset[str], change: Change) -> bool:
    """Whether a pod that these plugins refused may be helped by the change; one without a refusal always may."""
    return not plugins or any(change in AWAITED[plugin] for plugin in plugins)


def _counts(pod: Pod | None) -> bool:
    return pod is not None and bool(pod.node_name) and not pod.finished
