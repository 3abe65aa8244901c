"""The descheduler's run: read, follow up, decide, act, record; and what stays between two runs.

`__main__.py` wires a `Service` and lets runtime.loop call `run` every `interval`; `previews` asks it for plans on
demand, `run_journal` follows up and records. Only the leader acts. A run that cannot read the cluster or its usage
plans nothing and says why; it never acts on what it remembers of the run before.
"""

import collections
import collections.abc
import dataclasses
import functools
import random
import threading
from typing import NamedTuple

from descheduler import overload_recovery, run_schedule
from descheduler.eviction import evictor
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.eviction.evictor import Evictor, ExecutionContext
from descheduler.eviction.last_look import LastLook
from descheduler.eviction.surges import Surges
from descheduler.ledger import retention
from descheduler.ledger.database import LedgerCorrupt, LedgerError, LedgerReplaced
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Run
from descheduler.metrics import Telemetry
from descheduler.planning import mean_lines, overload, planner
from descheduler.planning.departed_load import Departures
from descheduler.planning.overload import Memory, Overload
from descheduler.run_journal import Report, RunJournal
from descheduler.snapshot import usage
from descheduler.snapshot.cluster_reader import Reader
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.snapshot import Snapshot
from kube import policy_events
from kube.door import ScalesDoor
from kube.errors import KubeError, MetricsServerError, NotListed
from policy.schema.load_policy import LoadPolicy
from promql.errors import PromqlError
from runtime import logs
from runtime.clock import Clock
from runtime.reloading import Reloading

log = logs.get(__name__)

MOMENT_SECONDS = 1.0
SURGE_SECONDS = 10.0  # between runs while a surge is open


class Rules(NamedTuple):
    """The policy that a run obeys from its beginning to its end, and its name (`Reloading.content_hash`)."""

    name: str
    policy: LoadPolicy


class RunInput(NamedTuple):
    """Input of a run: the name of its rules, the cluster, the policy that the run obeys on each node (its lines over
    the mean are fixed ones there), those lines, the known overloads, those to act on, and the pods that have gone.
    """

    policy_hash: str
    taken: Snapshot
    policies: NodePolicies
    lines: tuple[mean_lines.MeanLine, ...]
    memory: Memory
    overloads: tuple[Overload, ...]
    departures: Departures


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """The parts of the service."""

    policy: Reloading[LoadPolicy]
    reader: Reader
    ledger: Ledger
    evicter: Evictor
    announcer: EventPublisher
    telemetry: Telemetry
    door: ScalesDoor
    clock: Clock
    rng: random.Random
    leads: collections.abc.Callable[[], bool]
    holds_lease: collections.abc.Callable[[], bool]  # the same by a new look at the Lease itself
    stopping: threading.Event
    why_observe: str = ""  # why Enforce only observes in this process, "" if it need not
    news: policy_events.PolicyEventPublisher | None = None
    kept_days: int = retention.KEPT_DAYS


class Service:
    """Runs the descheduler; `run` is called by one thread, what `previews` asks for by any."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._memory: Memory | None = None
        self._departures = Departures()
        self._unlisted = False
        self._memory_at_seconds = 0.0  # when the memory was made, by the monotonic clock
        self._journal = RunJournal(parts.ledger, parts.door, parts.reader.source, parts.announcer, parts.telemetry)
        doors = parts.door, parts.ledger, parts.announcer, parts.clock, parts.telemetry.surges.labels
        self._surges = Surges(*doors, leads=not parts.why_observe)
        self._pruning = retention.Pruning(parts.ledger, parts.kept_days)
        self.last: Report | None = None
        self.trouble: str | None = None

    def run(self, *, headroom: bool = True) -> Report | None:
        """One whole run; None for a follower and while paused. Raises what the doors and the ledger raise.

        The loop's runs leave out `headroom`: GET /plan makes a plan of its own.
        """
        parts, rules = self.parts, self.rules()
        policy = rules.policy
        if not parts.leads():
            log.debug("not the leader, nothing done")
            return None
        began, now_seconds = parts.clock.monotonic(), parts.clock.now()
        self._surges.begin_run(began, policy.descheduler.interval_seconds)
        self._journal.reconcile(now_seconds)
        view = parts.reader.view()
        self._journal.follow(view, now_seconds)
        self._surges.carry_on(view.pods, policy)
        if policy.descheduler.paused:
            self._journal.look_back(policy, view, now_seconds)
            parts.telemetry.nothing_seen()
            log.info("paused by the policy, nothing done")
            return None
        inputs = self.run_input(rules, view, now_seconds)
        policy = inputs.policies.whole
        self._journal.look_back(policy, view, now_seconds)
        for failure in inputs.taken.owner_failures.values():
            parts.telemetry.owners_failed.labels(failure.reason).inc()
        self._memory, self._memory_at_seconds = inputs.memory, parts.clock.monotonic()
        self._departures = inputs.departures
        report = self._act(self.decided(inputs, headroom=headroom), policy, inputs.taken, began)
        enforced = inputs.memory.nodes if report.run.mode == "Enforce" else ()
        self._surges.carry_on(view.pods, policy, enforced)
        self._journal.record(report)
        self.last = report
        if _clock_is_confirmed(inputs.taken, policy):
            self._pruning.prune(policy, now_seconds=now_seconds)
        parts.telemetry.ended(parts.clock.monotonic() - began, parts.clock.now())
        return report

    def run_input(self, rules: Rules, view: ClusterView, now_seconds: float) -> RunInput:
        """The usage of the nodes, the overloads that are known with it, and the usage of the pods that may leave."""
        reader, source, policy = self.parts.reader, self.parts.reader.source, rules.policy
        node_usage = source.node_usage(view.nodes, policy)
        lines = mean_lines.lines(policy, view.nodes, node_usage, now_seconds=now_seconds)
        policies = NodePolicies(mean_lines.in_run(policy, lines), view.nodes)
        clock_seconds, bridged_seconds = self.parts.clock.monotonic(), overload.bridged_seconds(policy)
        # Not after a gap (another replica led, a pause, an outage): a node may have been relieved and loaded again.
        before = self._memory if clock_seconds - self._memory_at_seconds <= bridged_seconds else None
        if before is None:
            before = overload_recovery.memory(
                source, self.parts.ledger, view.nodes, node_usage, policies=policies, now_seconds=now_seconds
            )
        memory = overload.observe(before, node_usage, policies, now_seconds=now_seconds)
        overloads = overload.confirmed(memory, node_usage, policies, now_seconds=now_seconds)
        source.follow(memory.nodes, until_seconds=self.parts.clock.monotonic() + bridged_seconds)
        known = self.parts.ledger.surges(now_seconds - retention.DAY_SECONDS)
        taken = reader.snapshot(view, node_usage, policies.whole, memory.nodes, now_seconds=now_seconds, surges=known)
        return RunInput(rules.name, taken, policies, lines, memory, overloads, self._departures.after(taken, policy))

    def period_seconds(self) -> float:
        """Until the next run: the policy's interval, or a moment before the first lists and for a replica that may
        become the leader.
        """
        if self._unlisted or not self.parts.leads():
            return MOMENT_SECONDS
        interval_seconds = self.parts.policy.current.descheduler.interval_seconds
        return min(interval_seconds, SURGE_SECONDS) if self._surges.are_open else interval_seconds

    def poll(self) -> None:
        """Takes up a changed policy file, then the Event; an invalid one is refused, as /readyz and /configz show."""
        self.parts.policy.poll()
        if self.parts.news is not None and (news := self.parts.news.tell()):
            self.parts.announcer.record_policy(*news)

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
            self.parts.telemetry.failed("ledger")
            _begin_anew(self.parts, error)
        except (KubeError, PromqlError, LedgerError) as error:
            self.trouble = str(error)
            self.parts.telemetry.failed(_door(error))
            log.warning("run aborted, nothing is evicted", error=str(error))

    def rules(self) -> Rules:
        """The policy in force. Its name is read first: a file that changes between the two ends a run in `_cut`,
        where the other order would give an old policy the new one's name.
        """
        return Rules(self.parts.policy.content_hash, self.parts.policy.current)

    def decided(self, inputs: RunInput, *, headroom: bool = True) -> Report:
        """Plans for the nodes of each mode, by the history of that mode; mostly all nodes have one."""
        permissions = self.permissions(inputs.policies.whole, inputs.taken.at_seconds)
        by_mode: dict[run_schedule.Mode, list[Overload]] = {permissions.strongest: []}
        for one in inputs.overloads:
            by_mode.setdefault(permissions.at(inputs.policies.place(one.node)).mode, []).append(one)
        first, *others = (
            self._decided_in(mode, tuple(by_mode[mode]), inputs, headroom=headroom)
            for mode in reversed(run_schedule.STRENGTH)
            if mode in by_mode
        )
        report = dataclasses.replace(first, others=tuple(others), why=permissions.why(permissions.strongest))
        return dataclasses.replace(report, permissions=permissions, stale=inputs.taken.stale(), mean_lines=inputs.lines)

    def _decided_in(
        self, mode: run_schedule.Mode, overloads: tuple[Overload, ...], inputs: RunInput, *, headroom: bool
    ) -> Report:
        parts, policy, now_seconds = self.parts, inputs.policies.whole, inputs.taken.at_seconds
        run = Run(f"{parts.rng.getrandbits(32):08x}", now_seconds, mode, inputs.policy_hash)
        window_seconds = retention.looks_back_seconds(policy)
        history = parts.ledger.history(mode, now_seconds=now_seconds, window_seconds=window_seconds)
        history, elsewhere = inputs.departures.beside(history), frozenset(one.node for one in inputs.overloads)
        taken = inputs.taken.in_mode(mode)
        draft = functools.partial(planner.plan, taken, overloads, inputs.policies, history)
        hour_left = max(0, policy.descheduler.limits.per_hour - history.in_last_hour)
        return Report(run, "", draft(headroom=headroom, elsewhere=elsewhere, early=self._surges.early), hour_left)

    def permissions(self, policy: LoadPolicy, now_seconds: float) -> run_schedule.Permissions:
        """The modes in force now: Enforce observes where the ledger, or this process, is a reason to."""
        why = self.parts.why_observe
        if policy.evicts and not why:
            why = retention.why_observe(self.parts.ledger, policy, now_seconds=now_seconds)
        return run_schedule.permissions(policy, now_seconds, why_observe=why)

    def _act(self, report: Report, policy: LoadPolicy, planned: Snapshot, began: float) -> Report:
        parts = self.parts
        seconds = parts.clock.monotonic() - began
        plans = [one.plan for one in report.parts]
        parts.telemetry.planned(plans, hour_left=report.hour_left, seconds=seconds)
        first, *others = (self._acted(one, policy, planned, began) for one in report.parts)
        return dataclasses.replace(first, others=tuple(others))

    def _acted(self, report: Report, policy: LoadPolicy, planned: Snapshot, began: float) -> Report:
        """Carries out the plan of one mode."""
        parts, cuts = self.parts, list[run_schedule.Cut]()

        def goes_on(leads: collections.abc.Callable[[], bool], more_seconds: float = 0.0) -> bool:
            cut = self._cut(report.run, policy, began - more_seconds, leads)
            cuts.extend([cut] if cut is not None else [])
            return cut is None

        may_go_on, may_act = (functools.partial(goes_on, leads) for leads in (parts.leads, parts.holds_lease))
        look = LastLook(parts.door, parts.reader.source, planned, policy, parts.clock, may_act)
        relief_seconds, grace_seconds = evictor.relief_seconds(policy), policy.descheduler.grace_period_seconds
        terms = ExecutionContext(report.run, relief_seconds, may_go_on, look, grace_period_seconds=grace_seconds)
        outcomes = parts.evicter.carry_out(report.plan, terms)
        self._surges.begin(report.plan, terms, parts.evicter)
        for cut in cuts:
            parts.telemetry.cut_short.labels(cut.reason).inc()
        parts.telemetry.carried_out(outcomes, report.run.mode)
        moved = [one.eviction.overload for one in outcomes if one.result == "evicted"]
        if moved and self._memory is not None:
            keys = [(one.node, one.metric) for one in moved]
            self._memory = overload.with_relief(self._memory, keys, now_seconds=planned.at_seconds)
        verdicts = {one.eviction.pod.uid: one.answer.verdict for one in outcomes if one.answer.verdict is not None}
        plan, words = report.plan.with_verdicts(verdicts), "".join(cut.words for cut in cuts)
        return dataclasses.replace(report, outcomes=outcomes, plan=plan, cut_short=words)

    def _cut(
        self, run: Run, policy: LoadPolicy, began: float, leads: collections.abc.Callable[[], bool]
    ) -> run_schedule.Cut | None:
        """Why a run that began then (monotonic) ends before its next eviction: a lost Lease, SIGTERM, another policy
        (a pause, too), the end of a time window, or a snapshot that is too old to be acted on; None if it goes on.
        """
        parts = self.parts
        permissions = self.permissions(parts.policy.current, parts.clock.now()).every
        if parts.policy.content_hash != run.policy_hash or run.mode not in [one.mode for one in permissions]:
            return run_schedule.Cut("policy", "the policy or its mode changed")
        if not leads():
            return run_schedule.Cut("lease", "another replica may lead")
        if parts.stopping.is_set():
            return run_schedule.Cut("stopping", "the service stops")
        age_seconds, most_seconds = parts.clock.monotonic() - began, policy.descheduler.limits.max_snapshot_age_seconds
        if age_seconds <= most_seconds:
            return None
        words = f"the snapshot is {age_seconds:.0f} s old, {most_seconds:g} s allowed (limits.maxSnapshotAge)"
        return run_schedule.Cut("snapshot_age", words)


def _begin_anew(parts: Parts, error: LedgerError) -> None:
    try:
        parts.ledger.begin_again(error, at_seconds=parts.clock.now())
    except LedgerError as failure:
        log.warning("ledger not replaced, the next run tries again", error=str(failure))
    else:
        parts.telemetry.set_aside.set(parts.ledger.set_aside_at_seconds() or 0.0)


def _clock_is_confirmed(taken: Snapshot, policy: LoadPolicy) -> bool:
    """Returns whether the readings are of about that time: a clock a year ahead would empty the ledger."""
    stale_after_seconds = policy.sync.stale_after_seconds
    readings = taken.node_usage.values()
    return any(usage.fresh(one.at_seconds, taken.at_seconds, stale_after_seconds) for one in readings)


def _door(error: KubeError | PromqlError | LedgerError) -> str:
    """Returns the door that did not answer, in the words of `metrics.DOORS`."""
    if isinstance(error, LedgerError):
        return "ledger"
    if isinstance(error, MetricsServerError):
        return "metrics-server"
    return "apiserver" if isinstance(error, KubeError) else "prometheus"
