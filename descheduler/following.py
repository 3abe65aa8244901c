"""What became of evictions: intents a crash left open, where replacements landed, what the node's load was afterwards.

`service.py` runs it at the start of every run: `reconcile` closes open intents by looking at the pods themselves,
`follow` fills the ledger's later columns from the snapshot. `findings` is the pure part: one row and one snapshot in,
the columns to add out.
"""

import collections.abc
from typing import NamedTuple

from descheduler import usage
from descheduler.history import HOUR_SECONDS
from descheduler.ledger import Ledger, Row
from descheduler.snapshot import Snapshot
from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Pod
from policy.schema import LoadPolicy
from runtime import logs

log = logs.get(__name__)

FOLLOWED_SECONDS = 24 * HOUR_SECONDS
LOOK_BACKS = (("load_5m_ratio", 300.0), ("load_30m_ratio", 1800.0))
LOOK_BACK_GRACE_SECONDS = 600.0  # a figure taken later than this after its moment would be a figure of another moment


class Returned(NamedTuple):
    """A replacement that landed on the very node its predecessor was evicted from."""

    row: Row
    pod: Pod


Columns = dict[str, float | int | str | None]


def reconcile(ledger: Ledger, door: KubeDoor, *, now_seconds: float) -> int:
    """Closes every intent without an outcome by what the cluster shows; how many there were.

    The pod still stands and is not leaving: not_done. It has gone, is leaving, or another has its name:
    evicted_unconfirmed. In Observe and DryRun nothing can have happened. Raises KubeError when the cluster cannot be
    asked: nothing is decided blindly.
    """
    rows = ledger.open_rows()
    for row in rows:
        stands = row.mode != "Enforce" or _stands(row, door)
        result = "not_done" if stands else "evicted_unconfirmed"
        message = "found open after a crash or a lost answer"
        ledger.decide(row.id, result, status=row.http_status, message=message, at_seconds=now_seconds)
        log.warning("open intent closed", pod=f"{row.namespace}/{row.pod}", result=result, run=row.run)
    return len(rows)


def follow(ledger: Ledger, taken: Snapshot, policy: LoadPolicy) -> tuple[Returned, ...]:
    """Adds to the ledger what the snapshot shows of earlier evictions; the replacements found to be back where they
    left.
    """
    since_seconds = taken.at_seconds - FOLLOWED_SECONDS
    known = set(ledger.landed_pods(since_seconds))
    pods = {pod.uid: pod for pod in taken.pods}
    returned: list[Returned] = []
    for row in ledger.unfinished(since_seconds):
        columns = findings(row, taken, policy, known)
        ledger.fill(row.id, **columns)
        landed = str(columns.get("landed_pod") or "")
        known.add(landed)
        if columns.get("returned"):
            returned.append(Returned(row, pods[landed]))
            log.warning("replacement came back", workload=row.workload, node=row.node, run=row.run)
    return tuple(returned)


def findings(row: Row, taken: Snapshot, policy: LoadPolicy, known: collections.abc.Collection[str]) -> Columns:
    """The columns that the snapshot adds to a row; `known` are pods that replace other evicted ones already."""
    found: Columns = {}
    if row.gone_at_seconds is None and not any(pod.uid == row.pod_uid for pod in taken.pods):
        found["gone_at_seconds"] = taken.at_seconds
    replacement = _replacement(row, taken, known)
    if replacement is not None and row.landed_pod is None:
        found |= {
            "landed_pod": replacement.uid,
            "landed_node": replacement.node_name,
            "landed_at_seconds": replacement.scheduled_at_seconds or taken.at_seconds,
            "returned": int(replacement.node_name == row.node),
        }
    if replacement is not None and replacement.ready and row.ready_at_seconds is None:
        found["ready_at_seconds"] = replacement.ready_since_seconds or taken.at_seconds
    return found | _loads(row, taken, policy)


def _replacement(row: Row, taken: Snapshot, known: collections.abc.Collection[str]) -> Pod | None:
    """The pod recorded as the replacement, else the oldest bound one of the same owner made since and not taken yet.

    Creation times have whole seconds, so a pod made in the very second of the eviction counts as made since.
    """
    if not row.owner_uid:
        return None
    if row.landed_pod is not None:
        return next((pod for pod in taken.pods if pod.uid == row.landed_pod), None)
    made_since = (
        pod
        for pod in taken.pods
        if pod.owner is not None
        and pod.owner.uid == row.owner_uid
        and pod.uid != row.pod_uid
        and pod.node_name
        and pod.uid not in known
        and pod.created_at_seconds >= int(row.intended_at_seconds)
    )
    return min(made_since, key=lambda pod: (pod.created_at_seconds, pod.uid), default=None)


def _loads(row: Row, taken: Snapshot, policy: LoadPolicy) -> Columns:
    found: Columns = {}
    seen = taken.node_usage.get(row.node)
    if seen is None or not usage.fresh(seen.at_seconds, taken.at_seconds, policy.sync.stale_after_seconds):
        return found
    for column, after_seconds in LOOK_BACKS:
        late_seconds = taken.at_seconds - row.at_seconds - after_seconds
        if getattr(row, column) is None and 0 <= late_seconds <= LOOK_BACK_GRACE_SECONDS and row.metric in seen.ratios:
            found[column] = seen.ratios[row.metric]
    return found


def _stands(row: Row, door: KubeDoor) -> bool:
    try:
        pod = door.get(kinds.PODS, row.pod, namespace=row.namespace)
    except errors.NotFound:
        return False
    return pod.uid == row.pod_uid and not pod.deleting
