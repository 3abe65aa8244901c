"""Whether a pod may stand on a node by the rules that involve no other pod: readiness, taints, selectors, node
affinity.

`placement.destinations` asks for every node it considers, `planning.planner` whether a node is on its way out. The
rules are kube-scheduler's (NodeUnschedulable, TaintToleration, NodeAffinity), matched by `kube.api.selectors`.
"""

from collections.abc import Iterable
from typing import Final

from kube.api import selectors
from kube.objects import Node, Pod

# Nodes that someone is about to remove (cluster-autoscaler, Karpenter, a cloud's shutdown, the AWS node termination
# handler): neither relieved nor filled.
LEAVING_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "node.cloudprovider.kubernetes.io/shutdown",
    "node.kubernetes.io/out-of-service",
    "cloud.google.com/impending-node-termination",
    "aws-node-termination-handler/",
)

CONDITION_TAINTS: Final = "node.kubernetes.io/"


def leaving(node: Node) -> str:
    """Why the node is on its way out or closed by someone else ("" if it is not): such nodes are left alone."""
    if node.deleting:
        return "it is being deleted"
    if node.unschedulable:
        return "it is cordoned"
    taint = next((taint.key for taint in node.taints if taint.key.startswith(LEAVING_TAINTS)), "")
    return f"taint {taint}" if taint else ""


def open_to_pods(node: Node) -> bool:
    """Whether the node takes pods at all now."""
    return node.ready and not leaving(node)


def closing_taints(node: Node) -> frozenset[tuple[str, str]]:
    """Key and value of the taints that keep off what does not tolerate them; PreferNoSchedule is only advice."""
    return frozenset((taint.key, taint.value) for taint in node.taints if taint.effect in selectors.HARD_EFFECTS)


def tolerated_taints(nodes: Iterable[Node]) -> frozenset[tuple[str, str]]:
    """The taints that what runs on these nodes tolerates: those they have, but for a condition's, which comes later
    than the pods.
    """
    found = (taint for node in nodes for taint in closing_taints(node))
    return frozenset((key, value) for key, value in found if not key.startswith(CONDITION_TAINTS))


def why_not(node: Node, pod: Pod) -> str:
    """Returns the rule that keeps the pod off the node: "taint", "node affinity" (node selector too), "" for none."""
    if selectors.untolerated(node.taints, pod.tolerations) is not None:
        return "taint"
    return "" if pod.selects(node.name, node.labels) else "node affinity"
