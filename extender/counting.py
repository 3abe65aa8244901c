"""What counting reads of a pod, and which pods count: the same for a pod of our watch and for the one of a request.

`placements` counts pods by it and `estimates` says what they will use; `watched` keeps of a pod no more than this.
"""

import collections.abc
from typing import Protocol

from kube import lean_pods, objects


class Countable(Protocol):
    """A `watched.Pod` of our watch, or the whole `kube.objects.Pod` of a request."""

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
    def labels(self) -> collections.abc.Mapping[str, str]: ...
    @property
    def owner(self) -> objects.OwnerReference | None: ...
    @property
    def requests(self) -> objects.Resources: ...
    @property
    def scheduled_at_seconds(self) -> float | None: ...


def counts(pod: Countable) -> bool:
    """Whether a pod counts as load to come: not ended or ending, no DaemonSet's, no static one, no placeholder."""
    if pod.finished or pod.deleting or pod.is_daemonset or pod.is_from_node:
        return False
    return pod.labels.get(lean_pods.PLACEHOLDER_LABEL) != "true"
