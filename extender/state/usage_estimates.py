"""Expected use of a pod: the mean of its owner's replicas where the annotator published one, else from requests.

`state.cluster_view` hands each state of the `evenload-usage` ConfigMap to `read`; `placements` keeps an `Estimates` and
asks it for every pod that counts, `verbs` for the pod that is asked about, and `verbs.explain` says which estimate it
was. Everything here is a value: a new ConfigMap or policy makes another one.
"""

import collections.abc
import dataclasses
import functools
from typing import Final, NamedTuple

from kube import objects
from kube.api import identifiers
from kube.pods import pod_view
from kube.pods.pod_view import PodView
from policy.contract import owner_usage
from policy.rules import expected_load
from policy.schema import load_policy
from runtime import logs

log = logs.get(__name__)

# The apiserver holds no larger quantity; more, in a request made by hand, would turn sums into infinities.
LARGEST_AMOUNT: Final = 2.0**63
NONE_SEEN: Final = "none seen yet"


class EstimateKey(NamedTuple):
    """Of a pod what its estimate depends on: the key of its owner, its effective request and its annotation, "" where
    there is none.
    """

    owner: str
    request: expected_load.Load
    annotation: str = ""


def estimate_key(pod: PodView) -> EstimateKey:
    """Returns the key of an estimate: the pod's owner, requests and annotation."""
    return EstimateKey(owner_of(pod), request_of(pod), pod_view.expected_usage(pod))


def request_of(pod: PodView) -> expected_load.Load:
    """Returns a pod's requests; unreadable ones count as none, as the apiserver admits none of them."""
    try:
        requests = pod.requests
    except (ValueError, OverflowError):
        requests = objects.NOTHING
    return expected_load.Load(min(requests.cpu_millicores, LARGEST_AMOUNT), min(requests.memory_bytes, LARGEST_AMOUNT))


def owner_of(pod: PodView) -> str:
    """The key of the pod's controlling owner, "" for a bare pod and where a question names what cannot be an owner."""
    owner = pod.owner
    if owner is None or not owner.is_bounded or len(pod.namespace) > identifiers.LONGEST_LABEL:
        return ""
    return _key(pod.namespace, owner)


@functools.lru_cache(maxsize=4096)  # workloads of a large cluster; a retried pod and a burst's replicas are equal here
def _key(namespace: str, owner: objects.OwnerReference) -> str:
    if not (owner.is_possible and identifiers.is_namespace(namespace)):
        return ""
    return owner_usage.owner_key(namespace, owner.kind, owner.name)


@dataclasses.dataclass(frozen=True, slots=True)
class Estimates:
    """The policy's rules, the means as they were published last, and the source of the largest node's resources."""

    recent_pods: load_policy.RecentPods
    sync: load_policy.Sync
    published: owner_usage.PublishedUsage = owner_usage.NOTHING
    largest_node: collections.abc.Callable[[], expected_load.Load] = lambda: expected_load.UNBOUNDED

    def mean(self, owner: str, now_seconds: float) -> owner_usage.Mean | None:
        """The mean of an owner, while the means may be used and the policy wants them."""
        mean = self.published.means.get(owner) if self.recent_pods.owner_usage else None
        return mean if mean is not None and owner_usage.usable(self.published, now_seconds, self.sync) else None

    def of(self, key: EstimateKey, now_seconds: float) -> expected_load.Estimate:
        """The estimate of a pod."""
        mean, most = self.mean(key.owner, now_seconds), self.largest_node
        return expected_load.estimate(key.request, self.recent_pods, mean, key.annotation, largest_node=most)

    def owners(self, now_seconds: float) -> int:
        """How many owners are estimated by their mean at this moment."""
        wanted = self.recent_pods.owner_usage and owner_usage.usable(self.published, now_seconds, self.sync)
        return len(self.published.means) if wanted else 0


def read(data: collections.abc.Mapping[str, str] | None) -> tuple[owner_usage.PublishedUsage, str]:
    """The means in the ConfigMap's data and its error ("" for none); without usable ones requests are what is known."""
    if data is None:
        return owner_usage.NOTHING, NONE_SEEN
    try:
        published = owner_usage.decode(data)
    except owner_usage.UsageError as error:
        log.warning("owners' usage ignored", error=str(error))
        return owner_usage.NOTHING, str(error)
    return published, f"{published.refused} lines cannot be read" if published.refused else ""
