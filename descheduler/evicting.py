"""Carries a plan out: relief hint, intent row, Eviction call, outcome row, Events; the only module that disturbs a pod.

`service.py` calls `Evicter.carry_out` with the plan of the run. The three modes take the same way and differ in the
one call: Observe makes none, DryRun sends dryRun=All (budgets and admission are really asked), Enforce evicts. What
the apiserver answers is final:

| answer | result | and then |
|---|---|---|
| 201, 200 | evicted, dry_run | Events on pod, node and workload |
| 429 | refused | no further eviction under the same budget in this run |
| 404 | gone | nothing to do, it left by itself |
| 409 | replaced | another pod has its name now, or a race: not ours to evict |
| 5xx, 403 … | failed | the run goes on; the breaker counts it |
| none | unknown | the run stops; the next one looks whether the pod still stands |
"""

import collections.abc
import dataclasses
from typing import NamedTuple, Protocol

from descheduler import telling
from descheduler.ledger import Ledger, Run
from descheduler.planning import Eviction, EvictionPlan
from descheduler.telling import Announcer
from kube import errors, kinds
from kube.door import EvictionAnswer, KubeDoor
from kube.objects import Node
from policy import relief
from policy.relief import Relief
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)

RESULT_OF_STATUS = {404: "gone", 409: "replaced", 429: "refused"}


@dataclasses.dataclass(frozen=True, slots=True)
class EvictionOutcome:
    """What became of one planned eviction: its ledger row, the result word, and the apiserver's status and message."""

    eviction: Eviction
    row_id: int
    result: str
    http_status: int | None
    message: str

    @property
    def accepted(self) -> bool:
        """Whether the eviction took place, or would have, in the run's mode."""
        return self.result in ("evicted", "dry_run", "observed")


class Call(Protocol):
    """The last call of an eviction: the one place where modes differ, and where another API may take its place."""

    def __call__(self, eviction: Eviction) -> EvictionAnswer | None:
        """Asks for the eviction; None if nothing was asked."""
        ...


class Terms(NamedTuple):
    """Under what a plan is carried out: the run, how long relief hints hold, and whether to go on."""

    run: Run
    relief_seconds: float
    may_go_on: collections.abc.Callable[[], bool]


def call_for(mode: str, door: KubeDoor) -> Call:
    """The last call of a mode."""

    def ask(eviction: Eviction) -> EvictionAnswer | None:
        pod = eviction.pod
        return door.evict(namespace=pod.namespace, name=pod.name, uid=pod.uid, dry_run=mode != "Enforce")

    return ask if mode in ("Enforce", "DryRun") else lambda eviction: None


class Evicter:
    """Works through plans, one eviction at a time."""

    def __init__(self, door: KubeDoor, ledger: Ledger, announcer: Announcer, *, clock: Clock) -> None:
        self._door = door
        self._ledger = ledger
        self._announcer = announcer
        self._clock = clock

    def carry_out(self, plan: EvictionPlan, terms: Terms) -> tuple[EvictionOutcome, ...]:
        """Evicts what the plan says, in its order, until it is through or must stop; gives what happened."""
        call = call_for(terms.run.mode, self._door)
        nodes = {one.node.name: one.node for one in plan.nodes}
        spent: set[tuple[str, str]] = set()
        outcomes: list[EvictionOutcome] = []
        hinted: dict[str, str | None] = {name: node.annotations.get(relief.KEY) for name, node in nodes.items()}
        for eviction in plan.evictions:
            budget = (eviction.pod.namespace, eviction.budget)
            if eviction.budget and budget in spent:
                continue
            if not terms.may_go_on():
                log.info("run cut short", run=terms.run.run, left=len(plan.evictions) - len(outcomes))
                break
            self._hint(eviction, nodes[eviction.overload.node], terms, hinted)
            outcome = self._evict(eviction, terms.run, call)
            outcomes.append(outcome)
            self._tell(outcome, nodes[eviction.overload.node], terms.run)
            if outcome.result == "refused":
                spent.add(budget)
            if outcome.result == "unknown":
                break
        return tuple(outcomes)

    def _evict(self, eviction: Eviction, run: Run, call: Call) -> EvictionOutcome:
        row_id = self._ledger.intend(run, eviction, at_seconds=self._clock.now())
        result, status, message = self._asked(eviction, run.mode, call)
        self._ledger.decide(row_id, result, status=status, message=message, at_seconds=self._clock.now())
        log.info(
            "eviction",
            result=result,
            status=status,
            mode=run.mode,
            pod=eviction.pod.key,
            node=eviction.overload.node,
            metric=eviction.overload.metric,
            value=round(eviction.overload.value_ratio, 3),
            projected=round(eviction.projected_ratio, 3),
            message=message,
            run=run.run,
        )
        return EvictionOutcome(eviction, row_id, result, status, message)

    def _asked(self, eviction: Eviction, mode: str, call: Call) -> tuple[str, int | None, str]:
        try:
            answer = call(eviction)
        except errors.ApiError as error:
            return "failed", error.status, str(error)
        except errors.KubeError as error:  # no answer, or none that can be read: it may have taken place
            return "unknown", None, str(error)
        if answer is None:
            return "observed", None, ""
        if answer.accepted:
            return ("evicted" if mode == "Enforce" else "dry_run"), answer.status, answer.message
        return RESULT_OF_STATUS.get(answer.status, "failed"), answer.status, answer.message

    def _tell(self, outcome: EvictionOutcome, node: Node, run: Run) -> None:
        if outcome.accepted:
            for said in telling.evicted(outcome.eviction, node, run):
                self._announcer.post(said)
        elif outcome.result == "refused":
            self._announcer.post(telling.refused(outcome.eviction, node, run, message=outcome.message))

    def _hint(self, eviction: Eviction, node: Node, terms: Terms, hinted: dict[str, str | None]) -> None:
        """Asks the extender, by an annotation on the node, not to put the replacement back where it came from.

        Before the eviction: its controller makes the replacement within moments, and the scheduler places it. A hint
        for an eviction that is then refused costs nothing: it keeps new pods of a workload off a hot node for a while.
        """
        if terms.run.mode != "Enforce" or eviction.pod.owner is None:
            return
        hint = merged(hinted[node.name], {eviction.pod.owner.uid}, terms, self._clock.now())
        text = relief.encode(hint)
        try:
            self._door.merge_patch(kinds.NODES, node.name, {"metadata": {"annotations": {relief.KEY: text}}})
            hinted[node.name] = text
        except errors.KubeError as error:  # without the hint the replacement may come back; the ledger will see it
            log.warning("relief hint not written", node=node.name, error=str(error))


def merged(text: str | None, uids: collections.abc.Collection[str], terms: Terms, now_seconds: float) -> Relief:
    """The hint on a node with these owners added; an earlier one that still holds keeps its own."""
    until_seconds = now_seconds + terms.relief_seconds
    before = relief.decode(text)
    if before is None or before.until_seconds <= now_seconds:
        return Relief(until_seconds, frozenset(uids))
    return Relief(max(until_seconds, before.until_seconds), before.workloads | frozenset(uids))
