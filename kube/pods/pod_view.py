"""Fields of a pod that counting reads: a Protocol for compact and for whole pods.

`annotator.placements.counted` and `extender.state.countable_pods` add what only they read. Their watches decode little
more than this; a request of kube-scheduler's and a simulation bring whole pods (`kube.objects.Pod`).
"""

from collections.abc import Mapping
from typing import Protocol

from kube import objects
from kube.pods import compact


class Labelled(Protocol):
    """Whatever has labels."""

    @property
    def labels(self) -> Mapping[str, str]: ...


class Ranked(Labelled, Protocol):
    """Whatever has labels and a priority."""

    @property
    def priority(self) -> int: ...


class Pod(Ranked, Protocol):
    """A pod that never changes: whoever changes it puts another object in its place."""

    @property
    def uid(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def finished(self) -> bool: ...
    @property
    def deleting(self) -> bool: ...
    @property
    def is_daemonset(self) -> bool: ...
    @property
    def is_from_node(self) -> bool: ...
    @property
    def owner(self) -> objects.OwnerReference | None: ...
    @property
    def scheduled_at_seconds(self) -> float | None: ...


def is_placeholder(pod: Ranked) -> bool:
    """Whether it only holds room for bursts: nobody counts or evicts it, and its room may be preempted.

    Its label alone is any tenant's to set. Below 0 every ordinary pod may preempt it.
    """
    return claims_placeholder(pod) and pod.priority < 0


def claims_placeholder(pod: Labelled) -> bool:
    """Whether its label says that it is a placeholder, whatever its priority."""
    return pod.labels.get(compact.PLACEHOLDER_LABEL) == "true"
