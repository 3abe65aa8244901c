"""The journal of runs: it records each run, and what became of the evictions of earlier ones.

`service.py` calls it in every run. It writes to the ledger, announces Events and counts metrics; it decides nothing.
"""

import dataclasses

from descheduler.eviction import eviction_events, followup
from descheduler.eviction.eviction_events import EventPublisher
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Run
from descheduler.metrics import Telemetry
from descheduler.planning.plans import NodePlan
from descheduler.run_report import Report
from descheduler.snapshot.cluster_watch import ClusterView
from descheduler.snapshot.eviction_history import FOLLOWED_SECONDS
from descheduler.snapshot.usage import UsageSource
from kube.door import KubeDoor
from policy.schema.load_policy import LoadPolicy
from runtime import logs

log = logs.get(__name__)

REPEAT_SECONDS = 1800.0  # the same Event about the same node again after this long


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
                self._announce(eviction_events.stuck(node, run, run_evicts=bool(plan.evictions)), node, run)
            mode = run.mode if not one.why else f"{run.mode} ({one.why})"
            log.info("run", summary=summary, overloaded=len(plan.nodes), mode=mode, run=run.run)

    def _announce(self, draft: eviction_events.EventDraft | None, node: NodePlan, run: Run) -> None:
        """An Event on a node that cannot be relieved, once per reason and half hour."""
        if draft is not None and (key := (node.node.name, draft.reason)) not in self._stuck:
            self._stuck[key] = run.at_seconds
            self.announcer.post(draft)
