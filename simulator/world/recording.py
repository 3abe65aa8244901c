"""Recording of a run: counts and samples while it happens, an `Outcome` at its end.

`world.world` tells a `Recorder` of every change of a pod and of every placement; the ledger tells what was evicted and
where the replacements went. What a service counts itself (the annotator's effectiveness) is taken from it.
"""

import collections.abc
import dataclasses
import math

from annotator.placements.effectiveness import Tally
from descheduler.eviction.evictor import EvictionOutcome
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query
from kube.objects import Pod
from policy import metrics
from simulator.results import figures
from simulator.results.figures import Effectiveness
from simulator.results.outcome import EvictedPod, Outcome, Progress, ScheduledPod, Timeline
from simulator.scenario import Scenario
from simulator.usage.node_usage import UsageBook
from simulator.world import setup
from simulator.world.setup import Setup

EVERY_ROW = 1_000_000_000
LeastReady = collections.abc.Callable[[Pod], int | None]  # a pod's -> how many of its like a budget wants to be ready
Around = collections.abc.Callable[[Pod], collections.abc.Iterable[Pod]]  # a pod's -> the pods of its namespace, now


@dataclasses.dataclass(slots=True)
class Record:
    """Counts of one run."""

    pods_bound: int = 0
    evictions: int = 0
    waiting: dict[str, Pod] = dataclasses.field(default_factory=dict)  # without a node, by key
    # Those of them that had a scheduling cycle. One that goes before, as the successor of an evicted pod whose replica
    # leaves at that moment, is none that found no node.
    sought: set[str] = dataclasses.field(default_factory=set)
    given_up: list[str] = dataclasses.field(default_factory=list)  # those that went without having had one
    violations: list[str] = dataclasses.field(default_factory=list)

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Every write of a pod, in order."""
        if new is None:
            if old is not None and self.waiting.pop(old.key, None) is not None and old.key in self.sought:
                self.sought.discard(old.key)
                self.given_up.append(old.key)
        elif not new.node_name:
            self.waiting[new.key] = new
        elif old is None or not old.node_name:
            self.waiting.pop(new.key, None)
            self.sought.discard(new.key)
            self.pods_bound += 1

    def evicted(
        self, outcomes: collections.abc.Iterable[EvictionOutcome], least_ready: LeastReady, around: Around
    ) -> None:
        """A run of the descheduler is over: what it evicted, and whether the budgets of those were kept.

        Judged by the run's own count of ready pods, not by the budgets' status that the eviction was allowed by.
        """
        for one in outcomes:
            if one.result != "evicted":
                continue
            self.evictions += 1
            pod = one.eviction.pod
            least, owner = least_ready(pod), pod.owner
            if least is None or owner is None:
                continue
            ready = sum(1 for other in around(pod) if _serves(other, owner.uid))
            if ready < least:
                self.violations.append(
                    f"{pod.key} was evicted from {pod.node_name} although {least} of {owner.kind}/{owner.name} have to "
                    f"be ready: {ready} are"
                )


def _serves(pod: Pod, owner_uid: str) -> bool:
    """Whether it is one of the owner's that count."""
    theirs = pod.owner is not None and pod.owner.uid == owner_uid
    return theirs and pod.ready and not pod.deleting and not pod.finished


class Remarks:
    """Which placements are explained: some spread over all, and those of pods that replace evicted ones."""

    def __init__(self, most: int, placements: int) -> None:
        self._most = most
        self._every = max(1, 2 * placements // max(1, most))
        self._turns = 0
        self._evicted: set[str] = set()  # uids of owners
        self._pending: dict[str, ScheduledPod] = {}
        self.explained: list[ScheduledPod] = []

    def evicted(self, outcomes: collections.abc.Iterable[EvictionOutcome]) -> None:
        """The pods that will replace these are of interest."""
        owners = (one.eviction.pod.owner for one in outcomes if one.result == "evicted")
        self._evicted.update(owner.uid for owner in owners if owner is not None)

    def wanted(self, pod: Pod) -> bool:
        """Whether the turn of this pod is to be explained."""
        self._turns += 1
        if len(self.explained) >= self._most or pod.is_daemonset:
            return False
        owner = pod.owner
        if owner is not None and owner.uid in self._evicted:
            self._evicted.discard(owner.uid)
            return True
        return self._turns % self._every == 0

    def explain(self, pod: Pod, body: dict[str, object], at_seconds: float) -> None:
        """Returns the extender's explanation of a pod in its scheduling cycle."""
        self._pending[pod.key] = ScheduledPod(at_seconds, pod.key, "", body)

    def placed(self, pod: Pod, node: str) -> None:
        """Where it went."""
        decision = self._pending.pop(pod.key, None)
        if decision is not None:
            self.explained.append(dataclasses.replace(decision, node=node))


class Recorder:
    """Records one run: its counts, its remarks and the use of its nodes become an `Outcome`."""

    def __init__(self, scenario: Scenario, conditions: Setup, book: UsageBook) -> None:
        self._scenario, self._setup, self._book = scenario, conditions, book
        self.counts = Record()
        self.remarks = Remarks(conditions.explained, len(scenario.replicas))

    def evicted(
        self, outcomes: collections.abc.Sequence[EvictionOutcome], least_ready: LeastReady, around: Around
    ) -> None:
        """Counts what a run of the descheduler evicted, and marks the pods that will come in its place."""
        self.counts.evicted(outcomes, least_ready, around)
        self.remarks.evicted(outcomes)

    def progress(self, now_seconds: float) -> Progress:
        """Returns where the run stands after the step that ends now."""
        scenario, counts = self._scenario, self.counts
        done = round((now_seconds - scenario.start_seconds) / scenario.step_seconds)
        return Progress(
            steps_done=done,
            steps=scenario.steps,
            at_seconds=now_seconds,
            cpu_ratio=self._book.node_ratio(metrics.CPU)[done - 1],
            memory_ratio=self._book.node_ratio(metrics.MEMORY)[done - 1],
            pods_bound=counts.pods_bound,
            pods_pending=len(counts.waiting),
            evictions=counts.evictions,
        )

    def outcome(self, ledger: Ledger, tally: Tally, *, preempted_pods: int) -> Outcome:
        """Returns the outcome of a finished run."""
        scenario, counts, conditions = self._scenario, self.counts, self._setup
        timeline = Timeline(
            scenario.start_seconds,
            scenario.step_seconds,
            tuple(machine.name for machine in scenario.machines),
            *(self._book.node_ratio(resource).copy() for resource in metrics.RESOURCES),
        )
        return Outcome(
            variant=conditions.name,
            seed=conditions.seed,
            figures=figures.Figures(
                effectiveness=effectiveness(tally),
                cpu=figures.load_over(timeline.cpu_ratio, scenario.step_seconds),
                memory=figures.load_over(timeline.memory_ratio, scenario.step_seconds),
                evictions=counts.evictions,
                pdb_violations=len(counts.violations),
                pods_bound=counts.pods_bound,
                pods_pending=len(counts.waiting),
            ),
            timeline=timeline,
            moved=moved(ledger),
            explained=tuple(self.remarks.explained),
            unplaced=(*counts.given_up, *counts.waiting),
            preempted_pods=preempted_pods,
            violations=tuple(counts.violations),
            assumptions=(
                *scenario.assumptions,
                *setup.notes(conditions, scenario.step_seconds, scenario.end_seconds - scenario.start_seconds),
                *self._unknown(),
            ),
        )

    def _unknown(self) -> tuple[str, ...]:
        pods, steps = self._book.unknown
        return (f"What {pods} pods used is not known for {steps} steps of a pod: they count as nothing then.",) * bool(
            pods
        )


def moved(ledger: Ledger) -> tuple[EvictedPod, ...]:
    """The evictions that took place, in order of time."""
    rows = ledger.rows(Query(outcome="evicted", limit=EVERY_ROW))
    return tuple(
        EvictedPod(
            at_seconds=row.at_seconds,
            pod=f"{row.namespace}/{row.pod}",
            workload=row.workload,
            node=row.node,
            metric=row.metric,
            value=row.value_ratio,
            threshold=row.threshold_ratio,
            target=row.target_ratio,
            projected=row.projected_ratio,
            landed_on=row.landed_node or "",
        )
        for row in reversed(rows)
    )


def effectiveness(tally: Tally) -> Effectiveness:
    """The annotator's five figures; where no placement was judged, there is no mean and no ratio (NaN)."""
    judged = tally.total_schedule_count > 0
    return Effectiveness(
        tally.cpu_utilization_total_avg if judged else math.nan,
        tally.memory_utilization_total_avg if judged else math.nan,
        tally.effective_dynamic_schedule_count,
        tally.total_schedule_count,
        tally.effective_schedule_ratio if judged else math.nan,
    )
