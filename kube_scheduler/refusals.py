"""The answer of a rule: the nodes it refuses for one reason, in kube-scheduler's words."""

from typing import NamedTuple

from kube_scheduler.arrays import Bools

UNSCHEDULABLE, TAINTS, NODE_AFFINITY = "NodeUnschedulable", "TaintToleration", "NodeAffinity"
PORTS, RESOURCES = "NodePorts", "NodeResourcesFit"
SPREAD, POD_AFFINITY = "PodTopologySpread", "InterPodAffinity"


class Refusal(NamedTuple):
    """Rows that one plugin refuses for one reason; `final` are those where no pod's leaving helps."""

    plugin: str
    reason: str
    rows: Bools
    final: Bools
