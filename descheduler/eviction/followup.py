"""Follow-up of evictions: intents that a crash left open, nodes of the replacements, the load of the node afterwards.

`service.py` runs it at the start of every run: `reconcile` closes open intents by looking at the pods themselves; of
the rows that are unfinished, `follow` fills the later columns from what pods there are, `LookBack` those that ask
the source of usage for a moment gone by. `findings` is the pure part: one row and a sight of the pods in, the columns
to add out.
"""

import collections.abc
from typing import NamedTuple

from descheduler.ledger import prediction_errors
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import DONE, Row
from descheduler.planning.departed_load import LOOK_BACKS
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import FOLLOWED_SECONDS
from descheduler.snapshot.usage import NodeUsage
from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Pod
from policy.schema.load_policy import LoadPolicy
from runtime import logs

log = logs.get(__name__)

# A request may be carried out after its sender has gone: the apiserver works on one for up to a minute (its
# --request-timeout). Until then an intent whose pod still stands stays open, and its workload is left alone.
ANSWER_SECONDS = 60.0
# A controller that said that it moves the pod in the background marks the pod meanwhile; without the mark it has this
# long (as descheduler's EvictionsInBackground, which counts such evictions for ten minutes).
BACKGROUND_SECONDS = 600.0
MOMENTS_A_RUN = 6  # the most moments that one run asks for, after whatever outage

Usages = collections.abc.Mapping[str, NodeUsage]
Ask = collections.abc.Callable[[float], Usages]
Pods = collections.abc.Collection[Pod]
Rows = collections.abc.Sequence[Row]
Columns = dict[str, float | int | str | None]
Look = tuple[Row, str]  # a row with what a look back found for one of its columns, if anything


class PodState(NamedTuple):
    """All pods by uid, and those of the owners in question: many rows are followed at once, among very many pods."""

    at_seconds: float
    by_uid: collections.abc.Mapping[str, Pod]
    by_owner: collections.abc.Mapping[str, collections.abc.Sequence[Pod]]

    @classmethod
    def of(cls, pods: Pods, owners: collections.abc.Iterable[str], at_seconds: float) -> "PodState":
        """Returns the observations of these pods that belong to the owners (uids) in question."""
        by_owner: dict[str, list[Pod]] = {uid: [] for uid in owners}
        theirs = [pod for pod in pods for one in pod.metadata.owner_references if one.uid in by_owner]
        for pod in theirs:
            owner = pod.owner  # the one that controls it
            if owner is not None and owner.uid in by_owner:
                by_owner[owner.uid].append(pod)
        return cls(at_seconds, {pod.metadata.uid: pod for pod in pods}, by_owner)


def reconcile(ledger: Ledger, door: KubeDoor, *, now_seconds: float) -> tuple[Row, ...]:
    """Closes intents without an outcome by what the cluster shows; those that turn out to have taken place.

    The pod has gone, is leaving, or another has its name: evicted_unconfirmed, or evicted where a controller said that
    it moves the pod in the background. It still stands, and the request cannot be carried out any more: failed if it
    was not answered or went on for too long, not_done if a crash left it. In Observe and DryRun nothing can have
    happened. Raises KubeError when the cluster cannot be asked: nothing is decided blindly.
    """
    rows = []
    for row in ledger.open_rows():
        pod = _standing(row, door) if row.mode == "Enforce" else None
        result = _ending(row, pod, now_seconds)
        if not result:
            continue
        words = [row.message or "found open after a crash"]
        words += ["the pod still stands"] if result == "failed" else []
        ledger.decide(row.id, result, status=row.http_status, message="; ".join(words), at_seconds=now_seconds)
        ledger.fill(row.id, **disruption(row, pod))
        log.warning("open intent closed", pod=f"{row.namespace}/{row.pod}", result=result, run=row.run)
        if result in DONE:
            rows.append(row)
    return tuple(rows)


def _ending(row: Row, pod: Pod | None, now_seconds: float) -> str:
    """How an open intent ended, "" while that is open."""
    without_effect = "not_done" if row.result == "intended" else "failed"
    if row.mode != "Enforce":
        return without_effect
    background = row.result == "in_progress"
    if pod is None or pod.deleting:
        return "evicted" if background else "evicted_unconfirmed"
    if background and pod_annotations.EVICTION_IN_PROGRESS in pod.annotations:
        return ""
    limit_seconds = BACKGROUND_SECONDS if background else ANSWER_SECONDS
    return "" if 0 <= now_seconds - row.intended_at_seconds < limit_seconds else without_effect


def disruption(row: Row, pod: Pod | None) -> Columns:
    """The apiserver's word on why the evicted pod goes: the reason of its condition DisruptionTarget, once it is seen.

    "EvictionByEvictionAPI" is an eviction, ours or another's; kube-scheduler, taints and the kubelet have their own.
    """
    return {"disruption": pod.disruption} if pod is not None and pod.disruption and not row.disruption else {}


def follow(ledger: Ledger, rows: Rows, pods: Pods, *, now_seconds: float) -> tuple[tuple[Row, Pod], ...]:
    """Adds to the ledger what the pods show of these evictions; the replacements found to be back where they left."""
    # Pods can still add that the evicted one has gone, and that its replacement is Ready.
    rows = [row for row in rows if row.gone_at_seconds is None or (row.owner_uid and row.ready_at_seconds is None)]
    if not rows:
        return ()
    known = set(ledger.landed_pods(now_seconds - FOLLOWED_SECONDS))
    sight = PodState.of(pods, {row.owner_uid for row in rows}, now_seconds)
    returned: list[tuple[Row, Pod]] = []
    for row in rows:
        columns = findings(row, sight, known)
        ledger.fill(row.id, **columns)
        landed = str(columns.get("landed_pod") or "")
        known.add(landed)
        if columns.get("returned"):
            returned.append((row, sight.by_uid[landed]))
            log.warning("replacement came back", workload=row.workload, node=row.node, run=row.run)
    return tuple(returned)


def findings(row: Row, sight: PodState, known: collections.abc.Collection[str]) -> Columns:
    """The columns that what is seen adds to a row; `known` are pods that replace other evicted ones already."""
    columns = disruption(row, sight.by_uid.get(row.pod_uid))
    if row.gone_at_seconds is None and row.pod_uid not in sight.by_uid:
        columns["gone_at_seconds"] = sight.at_seconds
    replacement = _replacement(row, sight, known)
    if replacement is not None and replacement.uid != row.landed_pod:
        columns |= {
            "landed_pod": replacement.uid,
            "landed_node": replacement.node_name,
            "landed_at_seconds": replacement.scheduled_at_seconds or sight.at_seconds,
            "returned": int(replacement.node_name == row.node and row.projected_ratio < row.before_ratio),
        }
    if replacement is not None and replacement.ready and row.ready_at_seconds is None:
        columns["ready_at_seconds"] = replacement.ready_since_seconds or sight.at_seconds
    return columns


class LookBack:
    """Asks what the load of nodes was until 30 minutes after an eviction from them: at those moments, however late.

    A moment is asked for once: what the source does not know of it, it will not learn.
    """

    def __init__(self) -> None:
        self._moments: set[float] = set()

    def fill(
        self, ledger: Ledger, unfinished: Rows, policy: LoadPolicy, ask: Ask, *, now_seconds: float
    ) -> collections.abc.Iterator[Look]:
        """Adds the figures whose moment has come, one by one, out of what `ask` knows of it; raises what that does."""
        self._moments = {moment for moment in self._moments if moment >= now_seconds - FOLLOWED_SECONDS}
        due = due_moments(unfinished, now_seconds)
        rows = {row.id: row for row in unfinished}
        for moment in sorted(due.keys() - self._moments)[:MOMENTS_A_RUN]:
            usages = ask(moment)
            self._moments.add(moment)
            for row, column in due[moment]:
                columns = load(row, column, usages, policy, moment=moment)
                after = prediction_errors.JUDGED.get(column)
                if column in columns and after is not None:  # a prediction is judged by it: what others moved counts
                    others = ledger.since(row.mode, row.at_seconds)
                    columns[f"moved_{after}_ratio"] = prediction_errors.moved_ratio(row, others, policy, moment)
                ledger.fill(row.id, **columns)
                rows[row.id] = Row(**{**rows[row.id]._asdict(), **columns})
                yield rows[row.id], column


def due_moments(rows: collections.abc.Iterable[Row], now_seconds: float) -> dict[float, list[tuple[Row, str]]]:
    """The moments gone by of which a row still lacks its node's load: the columns to fill, by moment."""
    by_moment: dict[float, list[tuple[Row, str]]] = {}
    for row in rows:
        for column, after_seconds in LOOK_BACKS.items():
            moment = row.at_seconds + after_seconds
            if getattr(row, column) is None and moment <= now_seconds:
                by_moment.setdefault(moment, []).append((row, column))
    return by_moment


def load(row: Row, column: str, usages: Usages, policy: LoadPolicy, *, moment: float) -> Columns:
    """The row's metric on its node at that moment, at last on the destination too; nothing where the data of then was
    stale or absent.
    """
    nodes = {column: row.node}
    if column == prediction_errors.LAST_LOOK:
        nodes["destination_30m_ratio"] = row.destination
    ratios = {name: usage.fresh_ratios(usages.get(node), moment, policy) for name, node in nodes.items()}
    return {name: by_metric[row.metric] for name, by_metric in ratios.items() if row.metric in by_metric}


def _replacement(row: Row, sight: PodState, known: collections.abc.Collection[str]) -> Pod | None:
    """The pod recorded as the replacement, else the oldest bound one of the same owner made since and not taken yet:
    also after one that was lost before it was Ready.

    Creation times are the apiserver's, in whole seconds; so they are compared with each other and not with this
    machine's clock.
    """
    if not row.owner_uid:
        return None
    recorded = sight.by_uid.get(row.landed_pod or "")
    if row.ready_at_seconds is not None or (recorded is not None and (recorded.ready or not recorded.deleting)):
        return recorded
    made_since = (
        pod
        for pod in sight.by_owner.get(row.owner_uid, ())
        if pod.uid not in known and pod.uid != row.pod_uid and _could_replace(row, pod)
    )
    return min(made_since, key=lambda pod: (pod.created_at_seconds, pod.uid), default=None)


def _could_replace(row: Row, pod: Pod) -> bool:
    if not pod.node_name or pod.namespace != row.namespace:
        return False
    if row.newest_sibling_at_seconds is None:
        return pod.created_at_seconds >= int(row.intended_at_seconds)
    return pod.created_at_seconds > row.newest_sibling_at_seconds


def _standing(row: Row, door: KubeDoor) -> Pod | None:
    """The pod that was to be evicted, None if it has gone."""
    try:
        pod = door.get(kinds.PODS, row.pod, namespace=row.namespace)
    except errors.NotFound:
        return None
    return pod if pod.uid == row.pod_uid else None
