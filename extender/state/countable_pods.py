"""The fields of a pod that counting reads, and the rule which pods count: for watched pods and for those of requests.

`placements` counts pods by it and `state.usage_estimates` says what they will use; `state.pod_cache` keeps of a pod no
more than this.
"""

from typing import Protocol

from kube import objects
from kube.pods import pod_view


class Countable(pod_view.Pod, Protocol):
    """A `pod_cache.Pod` of our watch, or the whole `kube.objects.Pod` of a request."""

    @property
    def key(self) -> str: ...
    @property
    def requests(self) -> objects.Resources: ...


def counts(pod: Countable) -> bool:
    """Whether a pod counts as load to come: not ended or ending, no DaemonSet's, no static one, no placeholder."""
    if pod.finished or pod.deleting or pod.is_daemonset or pod.is_from_node:
        return False
    return not pod_view.is_placeholder(pod)
