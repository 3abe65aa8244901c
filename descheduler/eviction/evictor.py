"""Carries a plan out: relief hint, intent row, last look, Eviction call, outcome row, Events; nothing else disturbs a
pod.

`service.py` calls `Evictor.carry_out` with the plan of the run. The three modes take the same way and differ in the
call: Observe makes none, DryRun sends dryRun=All (budgets and admission are really asked), Enforce evicts, and it alone
writes the hint, for pods of an owner. The hint comes first, because kube-scheduler asks the extender about the
replacement within milliseconds of an eviction. What the apiserver answers is final; `eviction.api_results` has the rule
for each status.
"""

import collections.abc
from typing import NamedTuple

from descheduler.eviction import api_results, eviction_events
from descheduler.eviction.api_results import EvictionResult
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Run
from descheduler.planning.plans import Eviction, EvictionPlan
from descheduler.snapshot import usage
from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Node
from policy.contract import relief_hint
from policy.contract.relief_hint import Relief
from policy.schema.load_policy import LoadPolicy
from runtime import logs
from runtime.clock import Clock

log = logs.get(__name__)


class EvictionOutcome(NamedTuple):
    """The result of one planned eviction: the apiserver's answer."""

    eviction: Eviction
    answer: EvictionResult

    @property
    def result(self) -> str:
        """The ledger's word for it."""
        return self.answer.result

    @property
    def accepted(self) -> bool:
        """Whether the eviction took place, or would have, in the run's mode."""
        return self.result in ("evicted", "dry_run", "observed")


class ExecutionContext(NamedTuple):
    """Under what a plan is carried out: the run, how long relief hints hold, whether to go on, the last look, and the
    policy's grace period.
    """

    run: Run
    relief_seconds: float
    may_go_on: collections.abc.Callable[[float], bool]  # whether the run may last so many seconds more
    look: collections.abc.Callable[[Eviction], EvictionResult | str]
    grace_period_seconds: float | None = None


class Evictor:
    """Works through plans, one eviction at a time."""

    def __init__(self, door: KubeDoor, ledger: Ledger, announcer: EventPublisher, *, clock: Clock) -> None:
        self._door = door
        self._ledger = ledger
        self._announcer = announcer
        self._clock = clock
        self._hinted: dict[str, str | None] = {}  # this run's hints by node

    def carry_out(self, plan: EvictionPlan, terms: ExecutionContext) -> tuple[EvictionOutcome, ...]:
        """Evicts what the plan says, in its order, until it is through or must stop; gives what happened."""
        nodes = {one.node.name: one.node for one in plan.nodes}
        spent: set[tuple[str, str]] = set()
        outcomes: list[EvictionOutcome] = []
        goes: dict[tuple[str, str], bool] = {}  # by group, once its first pod was tried
        in_a_row = 0
        self._hinted = {name: node.annotations.get(relief_hint.KEY) for name, node in nodes.items()}
        for eviction in plan.evictions:
            budget = (eviction.pod.namespace, eviction.budget)
            group = (eviction.pod.namespace, eviction.group)
            if (eviction.budget and budget in spent) or not goes.get(group, True):
                continue
            if not terms.may_go_on(0.0):
                log.info("run cut short", run=terms.run.run, left=len(plan.evictions) - len(outcomes))
                break
            self.hint(eviction, terms)
            asks = plan.evictions if eviction.group and group not in goes else ()
            trials = (self._trial(one, terms) for one in asks if (one.pod.namespace, one.group) == group)
            asked_at_seconds = self._clock.monotonic()
            barred = next(filter(None, trials), None)
            took_seconds = self._clock.monotonic() - asked_at_seconds
            if asks and barred is None and not terms.may_go_on(took_seconds):  # its evictions will take as long
                barred = EvictionResult("not_done", None, "not all of its group would leave before the run ends")
            outcome = self._evict(eviction, terms, barred)
            goes.setdefault(group, outcome.accepted or not eviction.group)
            outcomes.append(outcome)
            self._tell(outcome, nodes[eviction.overload.node], terms.run)
            if outcome.result == "refused":
                spent.add(budget)
            in_a_row = in_a_row + 1 if outcome.answer.trouble else 0
            if in_a_row == api_results.MOST_IN_A_ROW:
                log.warning("run ended, evictions in a row without effect", count=in_a_row, run=terms.run.run)
            if outcome.answer.stops or in_a_row == api_results.MOST_IN_A_ROW:
                break
        return tuple(outcomes)

    def _trial(self, mate: Eviction, terms: ExecutionContext) -> EvictionResult | None:
        """Why a pod of a group may not leave, before the first of it goes: by a last look, and a dry run in Enforce."""
        run = terms.run._replace(mode="DryRun") if terms.run.mode == "Enforce" else terms.run
        answer = self._call(mate, terms._replace(run=run))
        other = answer._replace(message=f"{mate.pod.name} of its group: {answer.message}")
        return None if answer.result in ("dry_run", "observed") else other

    def _evict(self, eviction: Eviction, terms: ExecutionContext, barred: EvictionResult | None) -> EvictionOutcome:
        run = terms.run
        row_id, refusal = self._ledger.intend(run, eviction, at_seconds=self._clock.now())
        answer = EvictionResult("not_done", None, refusal) if refusal else barred or self._call(eviction, terms)
        log.info(  # before the outcome's row: should the ledger fail now, this line still tells
            "eviction",
            result=answer.result,
            status=answer.status,
            mode=run.mode,
            pod=eviction.pod.key,
            node=eviction.overload.node,
            metric=eviction.overload.metric,
            value=round(eviction.overload.value_ratio, 3),
            projected=round(eviction.projected_ratio, 3),
            message=answer.message,
            run=run.run,
        )
        self._ledger.decide(
            row_id, answer.result, status=answer.status, message=answer.message, at_seconds=self._clock.now()
        )
        return EvictionOutcome(eviction, answer)

    def _call(self, eviction: Eviction, terms: ExecutionContext) -> EvictionResult:
        """Makes the call of the mode; another API may take the place of the Eviction API here."""
        look, pod, mode = terms.look(eviction), eviction.pod, terms.run.mode
        if not isinstance(look, str):
            return look
        if mode == "Observe":
            return EvictionResult("observed", None, "")
        try:
            answer = self._door.evict(
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                resource_version=look,
                dry_run=mode != "Enforce",
                grace_period_seconds=terms.grace_period_seconds,
            )
        except errors.KubeError as error:
            return api_results.of_error(error)
        return api_results.of_answer(answer, mode)

    def _tell(self, outcome: EvictionOutcome, node: Node, run: Run) -> None:
        if outcome.accepted:
            self._announcer.post(*eviction_events.evicted(outcome.eviction, node, run))
        elif outcome.result == "refused":
            self._announcer.post(eviction_events.refused(outcome.eviction, node, run, message=outcome.answer.message))

    def hint(self, eviction: Eviction, terms: ExecutionContext) -> None:
        """Asks the extender, by an annotation on the node, not to put the replacement back where it came from.

        Before the eviction: its controller makes the replacement within moments, and the scheduler places it. A hint
        for an eviction that is then refused costs nothing: it keeps new pods of a workload off a hot node for a while.
        """
        if terms.run.mode != "Enforce" or eviction.pod.owner is None:
            return
        node = eviction.overload.node
        hint = merged(self._hinted[node], eviction.pod.owner.uid, terms, self._clock.now())
        text = relief_hint.encode(hint)
        try:
            self._door.merge_patch(kinds.NODES, node, {"metadata": {"annotations": {relief_hint.KEY: text}}})
            self._hinted[node] = text
        except errors.KubeError as error:  # without the hint the replacement may come back; the ledger will see it
            log.warning("relief hint not written", node=node, error=str(error))


def merged(text: str | None, owner_uid: str, terms: ExecutionContext, now_seconds: float) -> Relief:
    """The hint on a node with this owner added; the others keep their own time, and go when it is over."""
    before = relief_hint.decode(text)
    held = before.untils_seconds.items() if before is not None else ()
    still = {uid: until_seconds for uid, until_seconds in held if until_seconds > now_seconds}
    return Relief({**still, owner_uid: now_seconds + terms.relief_seconds})


def relief_seconds(policy: LoadPolicy) -> float:
    """How long a relief hint holds: the longer of both cool-downs, and at least as long as the windows remember the
    pod.
    """
    cooldown = policy.descheduler.cooldown
    return max(cooldown.workload_seconds, cooldown.node_seconds, *usage.pod_windows(policy).values())
