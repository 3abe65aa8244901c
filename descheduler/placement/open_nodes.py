"""Whether a node takes pods at all, and whether a pod may stand there whatever else does.

`placement.destinations` and `planning.planner` ask which nodes are on their way out, `eviction.last_look` asks both of
the one destination as it is at that moment.
"""

from collections.abc import Iterable
from typing import Final

from descheduler.placement import planned_cluster
from kube.api import selectors
from kube.objects import Node, Pod
from kube_scheduler import node_rules
from kube_scheduler.columns import Columns

# Nodes that someone is about to remove or restart (cluster-autoscaler, Karpenter, a cloud's shutdown, the AWS node
# termination handler): neither relieved nor filled.
LEAVING_TAINTS = (
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "karpenter.sh/rebooting",
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
    """Whether the node takes pods at all now; the kubelet of one under pressure refuses them, or ends them again."""
    return not (node.adverse_conditions or leaving(node))


def closing_taints(node: Node) -> frozenset[tuple[str, str]]:
    """Key and value of the taints that keep off what does not tolerate them; PreferNoSchedule is only advice."""
    return frozenset((taint.key, taint.value) for taint in node.taints if taint.effect in selectors.HARD_EFFECTS)


def advised_against(node: Node, pod: Pod) -> int:
    """Returns how many taints ask kube-scheduler to prefer other nodes for the pod: it does, unless none takes it."""
    soft = (taint for taint in node.taints if taint.effect == "PreferNoSchedule")
    return sum(1 for taint in soft if not any(one.tolerates(taint) for one in pod.tolerations))


def tolerated_taints(nodes: Iterable[Node]) -> frozenset[tuple[str, str]]:
    """The taints that what runs on these nodes tolerates: those they have, but for a condition's, which comes later
    than the pods.
    """
    taints = (taint for node in nodes for taint in closing_taints(node))
    return frozenset((key, value) for key, value in taints if not key.startswith(CONDITION_TAINTS))


def why_not(node: Node, pod: Pod) -> str:
    """Returns the rule that keeps the pod off the node: "taint", "node affinity" (node selector too), "" for none."""
    refusals = node_rules.refusals(Columns([node]), pod)
    return next((planned_cluster.RULES[refusal.reason] for refusal in refusals), "")
