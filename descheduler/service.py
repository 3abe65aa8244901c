"""The descheduler's run: read, follow up, decide, act, record; and what stays between two runs.

`__main__.py` wires a `Service` and lets runtime.loop call `run` every `interval`; `http.app` asks it for plans on
demand. Only the leader acts. A run that cannot read the cluster or its usage plans nothing and says why; it never
acts on what it remembers of the run before.
"""

import collections
import collections.abc
import dataclasses
import functools
import random
import threading
from typing import NamedTuple

from descheduler import overload_recovery, run_schedule
from descheduler.eviction import eviction_events, evictor, followup
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.eviction.evictor import Evictor, ExecutionContext
from descheduler.eviction.last_look import LastLook
from descheduler.ledger import retention
from descheduler.ledger.database import LedgerCorrupt, LedgerError, LedgerReplaced
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Run
from descheduler.metrics import Telemetry
from descheduler.planning import breakers, mean_lines, overload, planner
from descheduler.planning.breakers import Breaker
from descheduler.planning.overload import Memory, Overload
from descheduler.planning.plans import EvictionPlan, NodePlan
from descheduler.run_report import Report
from descheduler.snapshot import usage
from descheduler.snapshot.cluster_reader import Reader
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube import policy_events
from kube.door import KubeDoor
from kube.errors import KubeError, MetricsServerError, NotListed
from policy.schema.load_policy import LoadPolicy
from promql.errors import Partial, PromqlError
from runtime import logs
from runtime.clock import Clock
from runtime.reloading import Reloading

log = logs.get(__name__)

MOMENT_SECONDS = 1.0
PREVIEW_SECONDS = 2.0
REPEAT_SECONDS = 1800.0  # the same complaint about the same node again after this long


class Rules(NamedTuple):
    """The policy that a run obeys from its beginning to its end, and its name (`Reloading.content_hash`)."""

    name: str
    policy: LoadPolicy


class RunInput(NamedTuple):
    """Input of a run: the cluster, the policy by the lines of this run, the known overloads, and those to act on."""

    taken: Snapshot
    policies: NodePolicies
    lines: tuple[mean_lines.MeanLine, ...]
    memory: Memory
    overloads: tuple[Overload, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the service."""

    policy: Reloading[LoadPolicy]
    reader: Reader
    ledger: Ledger
    evicter: Evictor
    announcer: EventPublisher
    telemetry: Telemetry
    door: KubeDoor
    clock: Clock
    rng: random.Random
    leads: collections.abc.Callable[[], bool]
    holds_lease: collections.abc.Callable[[], bool]  # the same by a new look at the Lease itself
    stopping: threading.Event
    why_observe: str = ""  # why Enforce only observes in this process, "" if it need not
    news: policy_events.PolicyEventPublisher | None = None
    kept_days: int = retention.KEPT_DAYS


class Service:
    """Runs the descheduler; `run` is called by one thread, `preview` and `last` by any."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._memory: Memory | None = None
        self._unlisted = False
        self._seen_at_seconds = 0.0  # when the memory was made, by the monotonic clock
        self._told: dict[str, tuple[str, float]] = {}
        self._previewing = threading.Lock()
        self._preview: tuple[float, str, Report] | None = None  # when asked (monotonic), policy, answer
        self._looks_back = followup.LookBack()
        self._pruning = retention.Pruning(parts.ledger, parts.kept_days)
        self.last: Report | None = None
        self.trouble: str | None = None

    def run(self, *, headroom: bool = True) -> Report | None:
        """One whole run; None for a follower and while paused. Raises what the doors and the ledger raise.

        The loop's runs leave out `headroom`: GET /plan makes a plan of its own.
        """
        parts, rules = self._parts, self._rules()
        policy = rules.policy
        if not parts.leads():
            log.debug("not the leader, nothing done")
            return None
        began, now_seconds = parts.clock.monotonic(), parts.clock.now()
        for row in followup.reconcile(parts.ledger, parts.door, now_seconds=now_seconds):
            self._post(eviction_events.unconfirmed(row))
        view = parts.reader.view()
        self._follow(policy, view, now_seconds)
        if policy.descheduler.paused:
            self._look_back(policy, view, now_seconds)
            parts.telemetry.nothing_seen()
            log.info("paused by the policy, nothing done")
            return None
        inputs = self._run_input(policy, view, now_seconds)
        policy = inputs.policies.whole
        self._look_back(policy, view, now_seconds)
        parts.telemetry.owners_failed(inputs.taken.owner_failures.values())
        self._memory, self._seen_at_seconds = inputs.memory, parts.clock.monotonic()
        report = self._act(self._decided(inputs, rules.name, headroom=headroom), policy, inputs.taken, began)
        self._record(report)
        if self._clock_is_confirmed(inputs.taken, policy):
            self._pruning.prune(policy, now_seconds=now_seconds)
        parts.telemetry.ended(parts.clock.monotonic() - began, parts.clock.now())
        return report

    def _run_input(self, policy: LoadPolicy, view: ClusterView, now_seconds: float) -> RunInput:
        """The usage of the nodes, the overloads that are known with it, and the usage of the pods that may leave."""
        reader, source = self._parts.reader, self._parts.reader.source
        node_usage = source.node_usage(view.nodes, policy)
        lines = mean_lines.lines(policy, view.nodes, node_usage, now_seconds=now_seconds)
        policies = NodePolicies(mean_lines.in_run(policy, lines), view.nodes)
        before = self._remembered(policy)
        if before is None:
            before = overload_recovery.memory(
                source, self._parts.ledger, view.nodes, node_usage, policies=policies, now_seconds=now_seconds
            )
        memory = overload.observe(before, node_usage, policies, now_seconds=now_seconds)
        overloads = overload.confirmed(memory, node_usage, policies, now_seconds=now_seconds)
        until_seconds = self._parts.clock.monotonic() + overload.bridged_seconds(policy)
        names = frozenset(one.node for one in overloads)
        source.follow(memory.nodes, until_seconds=until_seconds)
        taken = reader.snapshot(view, node_usage, policies.whole, names, now_seconds=now_seconds)
        return RunInput(taken, policies, lines, memory, overloads)

    def _remembered(self, policy: LoadPolicy) -> Memory | None:
        """Returns the state of the previous run; None before the first, and after a gap (another replica led, a pause,
        an outage), in which a node may have been relieved and loaded again.
        """
        unseen_seconds = self._parts.clock.monotonic() - self._seen_at_seconds
        return self._memory if unseen_seconds <= overload.bridged_seconds(policy) else None

    def _clock_is_confirmed(self, taken: Snapshot, policy: LoadPolicy) -> bool:
        """Returns whether the readings are of about that time: a clock a year ahead would empty the ledger."""
        stale_after_seconds = policy.sync.stale_after_seconds
        seen = taken.node_usage.values()
        return any(usage.fresh(one.at_seconds, taken.at_seconds, stale_after_seconds) for one in seen)

    def period_seconds(self) -> float:
        """Until the next run: the policy's interval, or a moment before the first lists and for a replica that may
        become the leader.
        """
        waits = self._unlisted or not self._parts.leads()
        return MOMENT_SECONDS if waits else self._parts.policy.current.descheduler.interval_seconds

    def poll(self) -> None:
        """Takes up a changed policy file, then the Event; an invalid one is refused, as /readyz and /configz show."""
        self._parts.policy.poll()
        if self._parts.news is not None:
            self._parts.news.tell()

    def cycle(self) -> None:
        """One run for the loop: a door that does not answer is a reason to do nothing, not a crash."""
        self._unlisted = False
        try:
            report = self.run(headroom=False)
            self.trouble = report.stale or None if report is not None else None
        except NotListed as error:
            self._unlisted, self.trouble = True, str(error)
            log.info("no run before the first lists", error=str(error))
        except (LedgerCorrupt, LedgerReplaced) as error:
            self.trouble = str(error)
            self._parts.telemetry.failed("ledger")
            self._begin_anew(error)
        except (KubeError, PromqlError, LedgerError) as error:
            self.trouble = str(error)
            self._parts.telemetry.failed(_door(error))
            log.warning("run aborted, nothing is evicted", error=str(error))

    def preview(self) -> Report:
        """Plans a run at this moment without doing or recording it. Raises the errors of the doors.

        A plan costs queries, so those who ask at the same time, or again within moments, get the same one.
        """
        parts = self._parts
        with self._previewing:
            asked_at, name = parts.clock.monotonic(), parts.policy.content_hash
            if self._preview is None or self._preview[1] != name or asked_at - self._preview[0] >= PREVIEW_SECONDS:
                self._preview = (asked_at, name, self._previewed())
            return self._preview[2]

    def _previewed(self) -> Report:
        """The plan; where Prometheus answers in part, one that does nothing and says so."""
        rules, now_seconds = self._rules(), self._parts.clock.now()
        try:
            view = self._parts.reader.view()
            return self._decided(self._run_input(rules.policy, view, now_seconds), rules.name)
        except Partial as problem:
            permissions = self._permissions(rules.policy, now_seconds)
            mode = permissions.strongest
            plan = EvictionPlan(now_seconds, blocked=f"the data is not whole: {problem}")
            run = Run("", now_seconds, mode, rules.name)
            return Report(run, permissions.why(mode), plan, partial=True, permissions=permissions)

    def _rules(self) -> Rules:
        """The policy in force. Its name is read first: a file that changes between the two ends a run in `_cut`,
        where the other order would give an old policy the new one's name.
        """
        return Rules(self._parts.policy.content_hash, self._parts.policy.current)

    def breakers(self) -> tuple[Breaker, ...]:
        """The workloads whose evictions failed in the mode of this moment, the strongest of all pools. Raises
        LedgerError.
        """
        parts, policy, now_seconds = self._parts, self._parts.policy.current, self._parts.clock.now()
        mode = self._permissions(policy, now_seconds).strongest
        history = parts.ledger.history(mode, now_seconds=now_seconds, window_seconds=0.0)
        return breakers.standing(history.failures, self._named, policy.descheduler, now_seconds=now_seconds)

    def _named(self, workload_uid: str) -> tuple[str, str]:
        row = next(iter(self._parts.ledger.rows(Query(workload=workload_uid, limit=1))), None)
        return (row.namespace, row.workload or f"Pod/{row.pod}") if row is not None else ("", "")

    def _decided(self, inputs: RunInput, policy_hash: str, *, headroom: bool = True) -> Report:
        """A plan for the nodes of each mode, by the history of that mode; mostly all nodes have one."""
        permissions = self._permissions(inputs.policies.whole, inputs.taken.at_seconds)
        by_mode: dict[run_schedule.Mode, list[Overload]] = {permissions.strongest: []}
        for one in inputs.overloads:
            by_mode.setdefault(permissions.at(inputs.policies.place(one.node)).mode, []).append(one)
        first, *others = (
            self._decided_in(mode, tuple(by_mode[mode]), inputs, policy_hash, headroom=headroom)
            for mode in reversed(run_schedule.STRENGTH)
            if mode in by_mode
        )
        found = dataclasses.replace(first, others=tuple(others), why=permissions.why(permissions.strongest))
        return dataclasses.replace(found, permissions=permissions, stale=inputs.taken.stale(), mean_lines=inputs.lines)

    def _decided_in(
        self,
        mode: run_schedule.Mode,
        overloads: tuple[Overload, ...],
        inputs: RunInput,
        policy_hash: str,
        *,
        headroom: bool,
    ) -> Report:
        parts, policy, now_seconds = self._parts, inputs.policies.whole, inputs.taken.at_seconds
        run = Run(f"{parts.rng.getrandbits(32):08x}", now_seconds, mode, policy_hash)
        window_seconds = retention.looks_back_seconds(policy)
        history = parts.ledger.history(mode, now_seconds=now_seconds, window_seconds=window_seconds)
        elsewhere = frozenset(one.node for one in inputs.overloads)
        plan = planner.plan(inputs.taken, overloads, inputs.policies, history, headroom=headroom, elsewhere=elsewhere)
        hour_left = max(0, policy.descheduler.limits.per_hour - history.in_last_hour)
        return Report(run, "", plan, hour_left)

    def _permissions(self, policy: LoadPolicy, now_seconds: float) -> run_schedule.Permissions:
        why = self._parts.why_observe
        if policy.evicts and not why:
            why = retention.why_observe(self._parts.ledger, policy, now_seconds=now_seconds)
        return run_schedule.permissions(policy, now_seconds, why_observe=why)

    def _begin_anew(self, error: LedgerError) -> None:
        ledger = self._parts.ledger
        try:
            ledger.begin_again(error, at_seconds=self._parts.clock.now())
        except LedgerError as failure:
            log.warning("ledger not replaced, the next run tries again", error=str(failure))
        else:
            self._parts.telemetry.set_aside(ledger.set_aside_at_seconds() or 0.0)

    def _act(self, report: Report, policy: LoadPolicy, planned: Snapshot, began: float) -> Report:
        parts = self._parts
        seconds = parts.clock.monotonic() - began
        plans = [one.plan for one in report.parts]
        parts.telemetry.planned(plans, hour_left=report.hour_left, seconds=seconds)
        first, *others = (self._acted(one, policy, planned, began) for one in report.parts)
        return dataclasses.replace(first, others=tuple(others))

    def _acted(self, report: Report, policy: LoadPolicy, planned: Snapshot, began: float) -> Report:
        """Carries out the plan of one mode."""
        parts, cuts = self._parts, list[run_schedule.Cut]()

        def goes_on(leads: collections.abc.Callable[[], bool]) -> bool:
            cut = self._cut(report.run, policy, began, leads)
            cuts.extend([cut] if cut is not None else [])
            return cut is None

        may_go_on, may_act = (functools.partial(goes_on, leads) for leads in (parts.leads, parts.holds_lease))
        look = LastLook(parts.door, parts.reader.source, planned, policy, parts.clock, may_act)
        outcomes = parts.evicter.carry_out(
            report.plan, ExecutionContext(report.run, evictor.relief_seconds(policy), may_go_on, look)
        )
        for cut in cuts:
            parts.telemetry.cut_short(cut.reason)
        parts.telemetry.carried_out(outcomes, report.run.mode)
        moved = [one.eviction.overload for one in outcomes if one.result == "evicted"]
        if moved and self._memory is not None:
            keys = [(one.node, one.metric) for one in moved]
            self._memory = overload.with_relief(self._memory, keys, now_seconds=planned.at_seconds)
        verdicts = {one.eviction.pod.uid: one.told.verdict for one in outcomes if one.told.verdict is not None}
        plan, words = report.plan.with_verdicts(verdicts), "".join(cut.words for cut in cuts)
        return dataclasses.replace(report, outcomes=outcomes, plan=plan, cut_short=words)

    def _cut(
        self, run: Run, policy: LoadPolicy, began: float, leads: collections.abc.Callable[[], bool]
    ) -> run_schedule.Cut | None:
        """Why a run that began then (monotonic) ends before its next eviction: a lost Lease, SIGTERM, another policy
        (a pause, too), the end of a time window, or a snapshot that is too old to be acted on; None if it goes on.
        """
        parts = self._parts
        permissions = self._permissions(parts.policy.current, parts.clock.now()).every
        if parts.policy.content_hash != run.policy_hash or run.mode not in [one.mode for one in permissions]:
            return run_schedule.Cut("policy", "the policy or its mode changed")
        if not leads():
            return run_schedule.Cut("lease", "another replica may lead")
        if parts.stopping.is_set():
            return run_schedule.Cut("stopping", "the service stops")
        return run_schedule.too_old(policy, parts.clock.monotonic() - began)

    def _record(self, report: Report) -> None:
        if report.stale:
            self._parts.telemetry.view_stale()
            log.warning("a watch is silent, nothing is evicted", error=report.stale)
        for one in report.parts:
            run, plan, summary = one.run, one.plan, one.own_summary
            self._parts.ledger.record_run(run, plan, summary)
            for node in plan.nodes:
                self._complain(eviction_events.stuck(node, run, run_evicts=bool(plan.evictions)), node, run)
            mode = run.mode if not one.why else f"{run.mode} ({one.why})"
            log.info("run", summary=summary, overloaded=len(plan.nodes), mode=mode, run=run.run)
        self.last = report

    def _complain(self, draft: eviction_events.EventDraft | None, node: NodePlan, run: Run) -> None:
        """An Event on a node that cannot be relieved, once per reason and half hour."""
        if draft is None:
            return
        before = self._told.get(node.node.name)
        if before is not None and before[0] == draft.reason and run.at_seconds - before[1] < REPEAT_SECONDS:
            return
        self._told[node.node.name] = (draft.reason, run.at_seconds)
        self._parts.announcer.post(draft)

    def _follow(self, policy: LoadPolicy, view: ClusterView, now_seconds: float) -> None:
        """Learns from the pods what became of earlier evictions; a paused descheduler does, too."""
        ledger = self._parts.ledger
        rows = followup.unfinished(ledger, now_seconds=now_seconds)
        returned = followup.follow(ledger, rows, view.pods, now_seconds=now_seconds)
        self._parts.telemetry.came_back(len(returned))
        for one in returned:
            self._post(eviction_events.returned(one.row, one.pod))

    def _look_back(self, policy: LoadPolicy, view: ClusterView, now_seconds: float) -> None:
        """Asks the source what the load of nodes was after earlier evictions from them."""
        ledger, source = self._parts.ledger, self._parts.reader.source
        rows = followup.unfinished(ledger, now_seconds=now_seconds)

        def usage_at(moment: float) -> followup.Usages:
            return source.node_usage(view.nodes, policy, at_seconds=moment)

        known_until_seconds = source.known_until_seconds(now_seconds)
        looks = self._looks_back.fill(ledger, rows, policy, usage_at, now_seconds=known_until_seconds)
        self._parts.telemetry.looked_back(looks)

    def _post(self, drafts: tuple[eviction_events.EventDraft, ...]) -> None:
        for said in drafts:
            self._parts.announcer.post(said)


def _door(error: KubeError | PromqlError | LedgerError) -> str:
    """Returns the door that did not answer, in the words of `metrics.DOORS`."""
    if isinstance(error, LedgerError):
        return "ledger"
    if isinstance(error, MetricsServerError):
        return "metrics-server"
    return "apiserver" if isinstance(error, KubeError) else "prometheus"
