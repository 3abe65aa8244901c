"""Metrics of the descheduler: names and help texts, each saying what a rise means.

`service.py` feeds it after every run. No pod or node is a label: their number has no bound. Workloads are labels of one
metric, up to MOST_WORKLOADS of them.
"""

import collections
import collections.abc
import math
from typing import Final

from prometheus_client import CollectorRegistry

from descheduler.eviction import api_results
from descheduler.eviction.evictor import EvictionOutcome
from descheduler.eviction.followup import Look
from descheduler.eviction.surges import RESULTS
from descheduler.ledger import prediction_errors
from descheduler.planning.plans import Eviction, EvictionPlan
from descheduler.snapshot import scaled_owners
from runtime.metric_families import MetricFamilies

DOORS: Final = ("apiserver", "prometheus", "metrics-server", "ledger")
RUN_BUCKETS_SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
RUN_RESULTS: Final = ("planned", "blocked", "failed")
CUTS: Final = ("policy", "lease", "stopping", "snapshot_age")
SIDES: Final = ("hotter", "cooler")
MOST_WORKLOADS: Final = 500  # of one process
OTHER: Final = ("other", "other", "other")
RELIEF: Final = {True: "under_line", False: "over_line", None: "unknown"}


class PredictionMetrics:
    """The metrics of how evictions turned out: the load of their node, as predicted and as measured."""

    def __init__(self, families: MetricFamilies) -> None:
        text = "Load measured after an eviction against what the plan expected; large and hotter: relief does not come."
        self._errors = families.histogram(
            "evenload_descheduler_prediction_error_ratio",
            text,
            buckets=(0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3),
            after=prediction_errors.PREDICTED,
            side=SIDES,
        )
        name = "evenload_descheduler_predictions_unmeasured_total"
        text = "Predictions without a fresh reading at their moment; a rise means that no error is known."
        self._unmeasured = families.counter(name, text, after=prediction_errors.PREDICTED)
        text = "Evictions by whether their node was at or under its line at every look until 30 minutes later."
        self._relief = families.counter("evenload_descheduler_relief_total", text, result=RELIEF.values())

    def count(self, looks: collections.abc.Iterable[Look]) -> None:
        """The load of nodes some time after evictions from them; a look is one of `rows.LOOK_BACKS`."""
        for row, column in looks:
            after = prediction_errors.JUDGED.get(column)
            if after is not None and getattr(row, column) is None:
                self._unmeasured.labels(after).inc()
            if after is not None and (error_ratio := prediction_errors.error_ratio(row, after)) is not None:
                self._errors.labels(after, SIDES[error_ratio <= 0]).observe(abs(error_ratio))
            if column == prediction_errors.LAST_LOOK:
                self._relief.labels(RELIEF[prediction_errors.stayed_under_line(row)]).inc()


class WorkloadMetrics:
    """Evictions by workload: the first MOST_WORKLOADS have a label set each, all further ones OTHER."""

    def __init__(self, families: MetricFamilies) -> None:
        name = "evenload_descheduler_workload_evictions_total"
        text = "Evictions that took place; a rise of one workload means that it is disturbed again and again."
        self._evictions = families.counter(name, text, workload_namespace=(), kind=(), workload=())
        self._labels: set[tuple[str, str, str]] = set()

    def count(self, eviction: Eviction) -> None:
        """An eviction that took place; a bare pod has neither kind nor workload."""
        kind, _, name = str(eviction.workload or "").partition("/")
        labels = eviction.pod.namespace, kind, name
        if len(self._labels) < MOST_WORKLOADS:
            self._labels.add(labels)
        self._evictions.labels(*(labels if labels in self._labels else OTHER)).inc()


class Telemetry:
    """The metrics of one process, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        families = MetricFamilies(registry)
        text = "Evictions by what became of them; dry_run and observed disturbed no pod."
        self._evictions = families.counter("evenload_evictions_total", text, mode=(), result=(), metric=())
        text = "Evictions and dry runs that were refused, or not answered (unanswered); a rise means planning in vain."
        self._refusals = families.counter("evenload_eviction_refusals_total", text, refused_by=api_results.REFUSERS)
        text = "Replacements that came back to the node they had left; a rise means evictions in vain."
        self.returned = families.counter("evenload_eviction_returned_total", text)
        text = (
            "Owners of pods on hot nodes that could not be looked up; their pods stay, by verdict owner_lookup_failed."
        )
        self.owners_failed = families.counter(
            "evenload_owner_lookup_failures_total", text, reason=scaled_owners.REASONS
        )
        text = "Surges by what became of them; undone, abandoned: no pod left for it, see the Events of its pods."
        self.surges = families.counter("evenload_descheduler_surges_total", text, result=RESULTS.values())
        self._export_plans(families)
        text = (
            "When a corrupt ledger was last set aside, 0 if none was; Enforce observes for at least an hour after it."
        )
        self.set_aside = families.gauge("evenload_ledger_set_aside_timestamp_seconds", text)
        self.predictions = PredictionMetrics(families)
        self._workloads = WorkloadMetrics(families)
        self._export_runs(families)

    def _export_plans(self, families: MetricFamilies) -> None:
        text = "Pods of overloaded nodes by verdict in the last run; says why nothing is evicted."
        self._candidates = families.gauge("evenload_eviction_candidates", text, "verdict")
        text = "Nodes confirmed as overloaded in the last run."
        self._overloaded = families.gauge("evenload_overloaded_nodes", text)
        text = "Evictions still allowed in this hour; 0 means perHour holds evictions back."
        self._left = families.gauge("evenload_eviction_budget_remaining", text, "scope")
        text = "Evictions whose replacement is not Ready yet, in the last run with an overload; see limits.unreplaced."
        self._unreplaced = families.gauge("evenload_evictions_unreplaced", text)

    def _export_runs(self, families: MetricFamilies) -> None:
        text = "Runs by result: planned, blocked (a reason holds for the whole run) or failed (a door did not answer)."
        self._runs = families.counter("evenload_descheduler_runs_total", text, result=RUN_RESULTS)
        text = "Runs given up by what did not answer; ledger: a full disk, missing rights, or a file set aside."
        self.failures = families.counter("evenload_descheduler_failures_total", text, door=DOORS)
        text = (
            "Runs that ended before their last eviction, by why; snapshot_age: limits.maxSnapshotAge, doors are slow."
        )
        self.cut_short = families.counter("evenload_descheduler_runs_cut_short_total", text, reason=CUTS)
        name, text = "evenload_descheduler_run_duration_seconds", "How long a run takes, evictions included."
        self._duration = families.histogram(name, text, buckets=RUN_BUCKETS_SECONDS)
        name = "evenload_descheduler_plan_duration_seconds"
        text = "How long a run takes until its plan is made: usage from its source and the decision, without evictions."
        self._planning = families.histogram(name, text, buckets=RUN_BUCKETS_SECONDS)
        text = "1 while this replica acts; no 1 anywhere means that no replica does."
        self.leader = families.gauge("evenload_descheduler_leader", text)
        text = "When the last run ended well."
        self._last = families.gauge("evenload_descheduler_last_run_timestamp_seconds", text)

    def planned(self, plans: collections.abc.Collection[EvictionPlan], *, hour_left: int, seconds: float) -> None:
        """A run's plans, one for each mode, made in so many seconds."""
        self._planning.observe(seconds)
        self._runs.labels("blocked" if all(plan.blocked for plan in plans) else "planned").inc()
        self._candidates.clear()
        for cause, count in collections.Counter(cause for plan in plans for cause in plan.causes).items():
            self._candidates.labels(str(cause)).set(count)
        nodes = [node for plan in plans for node in plan.nodes]
        self._overloaded.set(len(nodes))
        self._unreplaced.set(sum(len(plan.unreplaced or ()) for plan in plans) if nodes else math.nan)
        self._left.labels("hour").set(hour_left)

    def nothing_seen(self) -> None:
        """A pause: no run looks, so what the last one saw does not stand for the cluster, and no alert may go by it."""
        self._candidates.clear()
        self._overloaded.set(math.nan)
        self._unreplaced.set(math.nan)
        self._left.labels("hour").set(math.nan)

    def carried_out(self, outcomes: collections.abc.Iterable[EvictionOutcome], mode: str) -> None:
        """The results of the evictions of a plan."""
        for outcome in outcomes:
            self._evictions.labels(mode, outcome.result, outcome.eviction.overload.metric).inc()
            if outcome.result == "evicted":
                self._workloads.count(outcome.eviction)
            refuser = api_results.refused_by(outcome.answer)
            if refuser is not None:
                self._refusals.labels(refuser).inc()

    def ended(self, seconds: float, now_seconds: float) -> None:
        """A run that ended well."""
        self._duration.observe(seconds)
        self._last.set(now_seconds)

    def failed(self, door: str) -> None:
        """A run that did not, because of one of DOORS: nothing was evicted in it after the failure."""
        self._runs.labels("failed").inc()
        self.failures.labels(door).inc()
