"""The rules about other pods: hard topology spread, required (anti-)affinity of the pod and of those that are there."""

from collections.abc import Iterator

from kube.objects import Pod
from kube_scheduler import inter_pod_affinity, topology_spread
from kube_scheduler.cluster_state import ClusterState
from kube_scheduler.refusals import POD_AFFINITY, SPREAD, Refusal

SKEWED = "node(s) didn't match pod topology spread constraints"
UNLABELLED = f"{SKEWED} (missing required label)"
UNATTRACTED = "node(s) didn't match pod affinity rules"
REPELLED = "node(s) didn't match pod anti-affinity rules"
UNWELCOME = "node(s) didn't satisfy existing pods anti-affinity rules"


def refusals(cluster: ClusterState, pod: Pod) -> Iterator[Refusal]:
    """Yields what refuses the pod on some node, in the order of the plugins."""
    none = cluster.columns.none()
    skewed = topology_spread.failed(cluster, pod)
    if skewed is not None:
        yield Refusal(SPREAD, UNLABELLED, skewed.unlabelled, skewed.unlabelled)
        yield Refusal(SPREAD, SKEWED, skewed.skewed, none)
    neighbours = inter_pod_affinity.failed(cluster, pod)
    if neighbours is not None:
        yield Refusal(POD_AFFINITY, UNATTRACTED, neighbours.unattracted, neighbours.unattracted)
        yield Refusal(POD_AFFINITY, REPELLED, neighbours.repelled, none)
        yield Refusal(POD_AFFINITY, UNWELCOME, neighbours.unwelcome, none)
