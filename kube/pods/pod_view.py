"""A pod as counting reads it: a compact or a whole one.

A watch decodes `kube.pods.compact.Pod`; a request of kube-scheduler's and a simulation bring whole pods
(`kube.objects.Pod`). A function that takes a `PodView` may be given either.
"""

from typing import Final, TypeVar

from kube import objects
from kube.pods import compact

PodView = compact.Pod | objects.Pod  # it never changes: a changed pod is another object
P = TypeVar("P", compact.Pod, objects.Pod)
TEMPLATE_HASH: Final = "pod-template-hash"  # the label that a Deployment's controller gives, and ends names by


def is_placeholder(pod: PodView) -> bool:
    """Returns whether the pod only holds room for bursts: it is never counted or evicted, and may be preempted.

    The label alone is any tenant's to set. Below priority 0 every ordinary pod may preempt it.
    """
    return claims_placeholder(pod) and pod.priority < 0


def claims_placeholder(pod: PodView) -> bool:
    """Returns whether the label says that the pod is a placeholder, whatever its priority."""
    return pod.labels.get(compact.PLACEHOLDER_LABEL) == "true"


def preset(pod: PodView) -> str:
    """Returns the preset of a placeholder, from its annotation; "" without one."""
    return pod.annotations.get(compact.PRESET_ANNOTATION, "")


def expected_usage(pod: PodView) -> str:
    """Returns the beginning of the text in which the pod says what it will use; "" without one."""
    return pod.annotations.get(compact.EXPECTED_USAGE_ANNOTATION, "")[: compact.LONGEST_ANNOTATION]


def workload(pod: objects.Pod) -> tuple[str, str]:
    """Returns kind and name of what people call the owner of a pod: the Deployment above its ReplicaSet, else the owner
    itself; ("", "") for a bare pod.
    """
    owner, suffix = pod.owner, f"-{pod.labels.get(TEMPLATE_HASH)}"
    if owner is None:
        return "", ""
    if owner.kind == "ReplicaSet" and owner.name.endswith(suffix):
        return "Deployment", owner.name.removesuffix(suffix)
    return owner.kind, owner.name


def is_placed_by_load(pod: PodView) -> bool:
    """Returns whether the scheduler chooses a node for such a pod, and for its own sake."""
    return not (pod.is_daemonset or pod.is_from_node or is_placeholder(pod))


def counts_as_load(pod: PodView) -> bool:
    """Returns whether the scheduler's placement of the pod brings load: it has not ended, is not ending and does not
    wait for a reason of failure, and it is neither a DaemonSet's, nor a static pod, nor a placeholder.
    """
    return not (pod.finished or pod.deleting or pod.failing) and is_placed_by_load(pod)


def counts_alike(old: P, new: P) -> bool:
    """Returns whether two versions of a pod count the same: most changes are the kubelet's, about addresses and other
    conditions.
    """
    return (
        old.uid == new.uid
        and old.spec == new.spec
        and old.requests == new.requests
        and expected_usage(old) == expected_usage(new)
        and old.scheduled_at_seconds == new.scheduled_at_seconds
        and old.finished == new.finished
        and old.pending == new.pending
        and old.running_since_seconds == new.running_since_seconds
        and old.failing == new.failing
        and old.nominated_node == new.nominated_node
        and old.scheduling_failure == new.scheduling_failure
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.is_daemonset == new.is_daemonset
        and old.is_from_node == new.is_from_node
        and old.metadata.labels == new.metadata.labels
        and old.metadata.owner_references == new.metadata.owner_references
    )
