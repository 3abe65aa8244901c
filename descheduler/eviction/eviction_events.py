"""The Events the descheduler writes, one constructor each: on the pod that leaves, on the node that is relieved or not.

`eviction.evictor` and `service.py` post them through kube.events. Notes carry the figures a reader needs without
another tool: reading, line, target, the pod's own use, run and policy. Nothing may depend on Events, which a cluster
forgets after an hour: each is kept in the ledger, too (GET /events).
"""

import collections.abc
import json
from typing import NamedTuple

from descheduler.ledger.database import LedgerError
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import RecordedEvent, Row, Run
from descheduler.planning import verdicts
from descheduler.planning.plans import Eviction, NodePlan
from descheduler.planning.verdicts import Cause
from descheduler.surges import Surge
from kube import events, kinds
from kube.events import Reason
from kube.objects import Node, Pod, Reference
from policy.explain import wording
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)

CONTROLLER = "evenload.io/descheduler"
DECISION = "evenload.io/decision"
PREFIX = {"Observe": "OBSERVE ONLY: ", "DryRun": "DRY RUN: ", "Enforce": ""}
GIB = float(2**30)
API_VERSIONS = {kind.name: kind.api_version for kind in kinds.ALL}


class EventDraft(NamedTuple):
    """An Event to be: everything but who says it and when."""

    reason: Reason
    note: str
    regarding: Reference
    related: Reference | None = None
    warning: bool = False
    annotations: collections.abc.Mapping[str, str] | None = None


class EventPublisher:
    """Posts announcements as Events of this process and records them; best effort, it never raises."""

    def __init__(self, writer: events.EventWriter, ledger: Ledger, clock: Clock) -> None:
        self._writer = writer
        self._ledger = ledger
        self._clock = clock

    def post(self, *drafts: EventDraft) -> None:
        """Writes Events."""
        for draft in drafts:
            self._record(draft)
            self._writer.write(action="Evict", **draft._asdict())

    def record_policy(self, reason: Reason, note: str, regarding: Reference) -> None:
        """Writes what `kube.policy_events` posted into the ledger."""
        self._record(EventDraft(reason, note, regarding, warning=reason is Reason.POLICY_REFUSED))

    def _record(self, draft: EventDraft) -> None:
        """Writes it into the ledger; a ledger that fails here fails again where nothing may go on without it."""
        regarding, related = draft.regarding, draft.related
        event = RecordedEvent(
            self._clock.now(),
            draft.reason,
            int(draft.warning),
            regarding.kind,
            regarding.namespace,
            regarding.name,
            f"{related.kind}/{related.name}" if related is not None else "",
            draft.note,
        )
        try:
            self._ledger.tell(event)
        except LedgerError as error:
            log.warning("event not kept", reason=draft.reason, error=str(error))


def figures(eviction: Eviction, run: Run) -> str:
    """The figures: "memory_avg_5m 0.87 > 0.80 on node-7, until 0.60; pod uses 90m and 1.20Gi; node then at 0.71 …"."""
    over, used = eviction.overload, eviction.used
    sign = " > " if over.value_ratio > over.evict_above_ratio else " relieving, line "
    reading = f"{over.metric} {wording.compared(over.value_ratio, sign, over.evict_above_ratio)}"
    uses = f"{used.cpu_millicores:.0f}m and {used.memory_bytes / GIB:.2f}Gi"
    pool = f" of pool {eviction.pool}" if eviction.pool else ""
    return (
        f"{reading} on {over.node}{pool}, until {over.evict_until_ratio:.2f}; pod uses {uses}, "
        f"node then at {eviction.projected_ratio:.2f}; "
        f"run {run.run}, policy {run.policy_hash}"
    )


def evicted(eviction: Eviction, node: Node, run: Run) -> tuple[EventDraft, ...]:
    """The Events for an accepted eviction: regarding the pod, its node, and the workload that replaces it."""
    from_pod, from_node = events.reference(kinds.PODS, eviction.pod), events.reference(kinds.NODES, node)
    decision = {DECISION: json.dumps(structured(eviction, run), separators=(",", ":"))}
    prefix, text = PREFIX[run.mode], figures(eviction, run)
    note = f"{prefix}{text}"
    named = f"{prefix}{eviction.pod.key} {'would be evicted' if prefix else 'evicted'}: {text}"
    drafts = [
        EventDraft(Reason.NODE_OVERLOADED, note, from_pod, from_node, annotations=decision),
        EventDraft(Reason.NODE_OVERLOADED, named, from_node, from_pod),
    ]
    if (workload := eviction.workload) is not None:
        version = workload.api_version or API_VERSIONS.get(workload.kind, "")
        owner = Reference(workload.kind, workload.name, workload.namespace, workload.uid, version)
        drafts.append(EventDraft(Reason.NODE_OVERLOADED, named, owner, from_pod))
    return tuple(drafts)


def unconfirmed(row: Row) -> tuple[EventDraft, ...]:
    """The Events for an eviction whose end was not in its answer: regarding the node that the pod left, and its
    workload.
    """
    then = "went on in the background" if row.result == "in_progress" else "was asked for when the answer was lost"
    note = (
        f"{row.namespace}/{row.pod} has gone; its eviction for {row.metric} {row.value_ratio:.2f} {then}; "
        f"run {row.run}, policy {row.policy_hash}"
    )
    return tuple(EventDraft(Reason.NODE_OVERLOADED, note, one) for one in (_node_of(row), _owner_of(row)) if one)


def refused(eviction: Eviction, node: Node, run: Run, *, message: str) -> EventDraft:
    """An Event on the pod whose eviction the apiserver refused for a budget."""
    note = f"{PREFIX[run.mode]}{message}; {figures(eviction, run)}"
    return EventDraft(
        Reason.EVICTION_BLOCKED_BY_PDB,
        note,
        events.reference(kinds.PODS, eviction.pod),
        events.reference(kinds.NODES, node),
        warning=True,
    )


def returned(row: Row, pod: Pod) -> tuple[EventDraft, ...]:
    """The Events on a replacement that came back to the node its predecessor was evicted from, and on its workload."""
    note = (
        f"came back to {row.node}, from which {row.namespace}/{row.pod} was evicted for {row.metric} "
        f"{row.value_ratio:.2f}; {row.workload or 'its workload'} rests longer; run {row.run}, policy {row.policy_hash}"
    )
    concerned = (events.reference(kinds.PODS, pod), _owner_of(row))
    return tuple(EventDraft(Reason.EVICTION_LOOP, note, one, _node_of(row), warning=True) for one in concerned if one)


def surge(row: Surge, reason: Reason) -> EventDraft:
    """The Event on the pod for which its Deployment surges."""
    note = f"{row.workload}, surge {row.state}: {row.message}; run {row.run}, policy {row.policy_hash}"
    pod = Reference("Pod", row.pod, row.namespace, row.pod_uid, "v1")
    return EventDraft(reason, note, pod, _node_of(row), warning=reason in (Reason.SURGE_ABANDONED, Reason.SURGE_STUCK))


def _node_of(row: Row | Surge) -> Reference:
    return Reference(kind="Node", name=row.node, api_version="v1")


def _owner_of(row: Row) -> Reference | None:
    written, _, name = row.workload.partition("/")
    if not name:
        return None
    kind = written.partition(".")[0]  # a group is written where the kind alone is one of Kubernetes' own
    return Reference(kind, name, row.namespace, row.workload_uid, API_VERSIONS.get(written, ""))


def stuck(plan: NodePlan, run: Run, *, run_evicts: bool = False) -> EventDraft | None:
    """An Event on an overloaded node from which nothing can be evicted; None if nothing is wrong there but waiting.

    `run_evicts`: pods leave other nodes in this run, and their replacements are waited for next.
    """
    reason = stuck_reason(one.verdict.cause for one in plan.candidates)
    if plan.chosen or plan.left_alone:
        return None
    if reason is None or (run_evicts and reason is Reason.REPLACEMENTS_NOT_READY):
        return None
    over = max(plan.overloads, key=lambda one: one.excess_ratio)
    verdict = next((one.verdict for one in plan.candidates if one.verdict.cause is DETAILED.get(reason)), None)
    detail = f"; {verdict.detail}" if verdict is not None and verdict.detail else ""
    note = (
        f"{over.metric} {over.value_ratio:.2f}, until {over.evict_until_ratio:.2f}: {plan.summary}"
        f"{detail}; run {run.run}, policy {run.policy_hash}"
    )
    return EventDraft(reason, note, events.reference(kinds.NODES, plan.node), warning=True)


def stuck_reason(causes: collections.abc.Iterable[Cause]) -> Reason | None:
    """Which reason tells why a node got no relief: replacements that are not Ready, a load that does not fall, no
    destination, budgets, protections; None while it only waits.
    """
    distinct = set(causes)
    if named := [reason for reason, cause in DETAILED.items() if cause in distinct]:
        return named[0]
    if Cause.NOT_NEEDED in distinct or any(one.group in (verdicts.WAITING, verdicts.CAPS) for one in distinct):
        return None
    if Cause.NO_DESTINATION in distinct:
        return Reason.NO_FITTING_NODE
    if distinct & {Cause.BUDGET, Cause.SEVERAL_BUDGETS}:
        return Reason.EVICTION_BLOCKED_BY_PDB
    return Reason.NODE_OVERLOADED


DETAILED = {
    Reason.REPLACEMENTS_NOT_READY: Cause.UNREPLACED,
    Reason.NODE_LOAD_NOT_FALLING: Cause.LOAD_NOT_FALLING,
}


def structured(eviction: Eviction, run: Run) -> dict[str, object]:
    """The decision as data, for the Event's annotation."""
    return {
        "run": run.run,
        "policy": run.policy_hash,
        "mode": run.mode,
        "metric": eviction.overload.metric,
        "value": round(eviction.overload.value_ratio, 4),
        "above": eviction.overload.evict_above_ratio,
        "until": eviction.overload.evict_until_ratio,
        "projected": round(eviction.projected_ratio, 4),
        "destination": eviction.destination,
        "workload": str(eviction.workload or ""),
        **({"pool": eviction.pool} if eviction.pool else {}),
    }
