"""The report of a run, and the journal that records each run and what became of the evictions of earlier ones.

`service.py` makes a report of its plan and the outcome of each eviction, and calls the journal in every run, which
writes to the ledger, announces Events and counts metrics; it decides nothing. Where pools of the policy have several
modes, a run has a plan for each of them: the report is of the strongest, and `others` has those of the weaker ones.
"""

import collections
import dataclasses
from typing import Final

from descheduler import run_schedule
from descheduler.eviction import eviction_events, followup
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.eviction.evictor import EvictionOutcome
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Run
from descheduler.metrics import Telemetry
from descheduler.planning.mean_lines import MeanLine
from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.eviction_history import FOLLOWED_SECONDS
from descheduler.snapshot.usage import UsageSource
from kube.door import KubeDoor
from policy.schema.load_policy import LoadPolicy
from runtime import logs

log = logs.get(__name__)

REPEAT_SECONDS = 1800.0  # the same Event about the same node again after this long
VERBS: Final = {"Enforce": "evicted", "DryRun": "would be evicted (dry run)", "Observe": "would be evicted (observing)"}


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """One run: its name, why its mode is not the policy's ("" if it is), the plan, and what became of it.

    `permissions` are those of all pools, None where no plan was made by them.
    """

    run: Run
    why: str
    plan: EvictionPlan
    hour_left: int = 0
    outcomes: tuple[EvictionOutcome, ...] | None = None  # None: a preview, nothing was tried
    partial: bool = False
    cut_short: str = ""  # why it ended before its last eviction
    stale: str = ""  # which watch had heard nothing for too long, so that nothing was planned
    others: "tuple[Report, ...]" = ()
    permissions: run_schedule.Permissions | None = None
    mean_lines: tuple[MeanLine, ...] = ()

    @property
    def parts(self) -> "tuple[Report, ...]":
        """The reports of all modes, the strongest first."""
        return (self, *self.others)

    @property
    def summary(self) -> str:
        """The run in one line; after it acted, by what really happened."""
        return "; ".join((self.own_summary, *(f"{one.run.mode} elsewhere: {one.own_summary}" for one in self.others)))

    @property
    def own_summary(self) -> str:
        """The plan of this mode in one line."""
        if self.outcomes is None:
            return self.plan.summary()
        accepted = sum(1 for one in self.outcomes if one.accepted)
        others = collections.Counter(one.result for one in self.outcomes if not one.accepted)
        verb = ", ".join([VERBS[self.run.mode], *(f"{count} {result}" for result, count in sorted(others.items()))])
        cut_short = f"; cut short: {self.cut_short}" if self.cut_short else ""
        return self.plan.summary(verb=verb, count=accepted) + cut_short


@dataclasses.dataclass(slots=True)
class RunJournal:
    """The ledger, the Events and the metrics of one process's runs; used by the thread that runs."""

    ledger: Ledger
    door: KubeDoor
    source: UsageSource
    announcer: EventPublisher
    telemetry: Telemetry
    _stuck: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)  # the last Event, by node and reason
    _looks_back: followup.LookBack = dataclasses.field(default_factory=followup.LookBack)

    def reconcile(self, now_seconds: float) -> None:
        """Ends the intents of a process that stopped amid an eviction."""
        for row in followup.reconcile(self.ledger, self.door, now_seconds=now_seconds):
            self.announcer.post(*eviction_events.unconfirmed(row))

    def follow(self, view: ClusterView, now_seconds: float) -> None:
        """Learns from the pods what became of earlier evictions; a paused descheduler does, too."""
        rows = self.ledger.unfinished(now_seconds - FOLLOWED_SECONDS)
        returned = followup.follow(self.ledger, rows, view.pods, now_seconds=now_seconds)
        self.telemetry.returned.inc(len(returned))
        for row, pod in returned:
            self.announcer.post(*eviction_events.returned(row, pod))

    def look_back(self, policy: LoadPolicy, view: ClusterView, now_seconds: float) -> None:
        """Asks the source what the load of nodes was after earlier evictions from them."""
        rows = self.ledger.unfinished(now_seconds - FOLLOWED_SECONDS)
        usage_at = lambda moment: self.source.node_usage(view.nodes, policy, at_seconds=moment)  # noqa: E731
        known_until_seconds = self.source.known_until_seconds(now_seconds)
        looks = self._looks_back.fill(self.ledger, rows, policy, usage_at, now_seconds=known_until_seconds)
        self.telemetry.predictions.count(looks)

    def record(self, report: Report) -> None:
        """Records a run that has ended, and announces the nodes that it could not relieve."""
        if report.stale:
            self.telemetry.failures.labels("apiserver").inc()
            log.warning("a watch is silent, nothing is evicted", error=report.stale)
        self._stuck = {key: at for key, at in self._stuck.items() if report.run.at_seconds - at < REPEAT_SECONDS}
        for one in report.parts:
            run, plan, summary = one.run, one.plan, one.own_summary
            self.ledger.record_run(run, plan, summary)
            for node in plan.nodes:
                draft = eviction_events.stuck(node, run, run_evicts=bool(plan.evictions))
                if draft is not None and (key := (node.node.name, draft.reason)) not in self._stuck:
                    self._stuck[key] = run.at_seconds
                    self.announcer.post(draft)
            mode = run.mode if not one.why else f"{run.mode} ({one.why})"
            log.info("run", summary=summary, overloaded=len(plan.nodes), mode=mode, run=run.run)
