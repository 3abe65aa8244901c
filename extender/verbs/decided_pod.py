"""A pod as the memory of decisions keeps it: what explaining reads, of a size that is known, whatever came with it.

A request's pod may carry annotations, labels and containers of a megabyte. `verbs.decision_log` keeps a `slim` one for
an hour and counts its `size_bytes`; `verbs.explain` reads it as it would the whole one.
"""

import collections.abc
import sys
from typing import Final

import msgspec

from extender.state import usage_estimates
from kube import objects
from kube.pods import compact, pod_view

_STRUCTS_BYTES: Final = 1200  # a slim pod without its texts, measured with tracemalloc
_SLIM: Final = "slim"  # where a pod keeps its slim one, beside what it computed once
_REFERENCE_BYTES: Final = 24  # a text's place in a tuple, and a share of the rest


def slim(pod: objects.Pod) -> objects.Pod:
    """A pod with the identity, controlling owner, priority, requests and own estimate of this one, and nothing else.

    Without a controlling owner there is none. Requests that cannot be read are none, as in `state.usage_estimates`. It
    is the same each time: filter and prioritize are remembered with it.
    """
    small: objects.Pod | None = vars(pod).get(_SLIM)
    if small is not None:
        return small
    owners = () if pod.owner is None else (pod.owner,)
    own = pod_view.expected_usage(pod)
    annotations = {compact.EXPECTED_USAGE_ANNOTATION: own} if own else {}
    metadata = objects.Metadata(
        name=pod.name, namespace=pod.namespace, uid=pod.uid, owner_references=owners, annotations=annotations
    )
    spec = msgspec.structs.replace(objects.Pod().spec, priority=pod.priority)
    small = objects.Pod(metadata=metadata, spec=spec)
    vars(pod)[_SLIM] = small
    vars(small)["requests"] = objects.Resources(*usage_estimates.request_of(pod))  # the cached property's own place
    return small


def size_bytes(pod: objects.Pod) -> int:
    """About how much memory a slim pod holds."""
    owner = pod.owner
    owners = () if owner is None else (owner.kind, owner.name, owner.uid, owner.api_version)
    return _STRUCTS_BYTES + texts_bytes((pod.name, pod.namespace, pod.uid, *owners, *pod.annotations.values()))


def texts_bytes(texts: collections.abc.Collection[str]) -> int:
    """How much memory texts hold by their real lengths: a client chooses them."""
    return _REFERENCE_BYTES * len(texts) + sum(map(sys.getsizeof, texts))
