"""The rules that read only the node itself: cordon, taints, labels. Their refusals are final.

Sources: kubernetes v1.36 pkg/scheduler/framework/plugins: nodeunschedulable, tainttoleration, nodeaffinity. NodeName
refuses nobody: a pod that names its node is in no scheduler's queue.
"""

from collections.abc import Iterator

from kube.objects import Pod
from kube_scheduler.columns import Columns
from kube_scheduler.refusals import NODE_AFFINITY, TAINTS, UNSCHEDULABLE, Refusal

CORDONED = "node(s) were unschedulable"
UNTOLERATED = "node(s) had untolerated taint(s)"
UNSELECTED = "node(s) didn't match Pod's node affinity/selector"


def refusals(columns: Columns, pod: Pod) -> Iterator[Refusal]:
    """Yields what refuses the pod on some node, in the order of the plugins."""
    barred = columns.barred(pod)
    for plugin, reason, rows in (
        (UNSCHEDULABLE, CORDONED, barred.cordoned),
        (TAINTS, UNTOLERATED, barred.tainted),
        (NODE_AFFINITY, UNSELECTED, barred.unselected),
    ):
        if rows is not None:
            yield Refusal(plugin, reason, rows, rows)
