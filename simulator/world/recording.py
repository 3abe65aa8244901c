"""What a run leaves behind: counted and remembered while it happens, an `Outcome` when it is over.

`running` tells a `Record` of every change of a pod and of every placement; the ledger tells what was evicted and where
the replacements went. What a service counts itself (the annotator's effectiveness) is taken from it.
"""

import collections
import dataclasses

from annotator.effectiveness import Tally
from descheduler.ledger import Ledger
from descheduler.rows import Query, Row
from kube.objects import Pod
from simulator.figures import Effectiveness
from simulator.outcome import Explained, Moved

EVERY_ROW = 1_000_000_000


@dataclasses.dataclass(slots=True)
class Record:
    """Counts and remarks of one run; `budgets` is how many pods must stay ready, by namespace and owner's name."""

    budgets: dict[tuple[str, str], int] = dataclasses.field(default_factory=dict)
    pods_bound: int = 0
    evictions: int = 0
    waiting: dict[str, Pod] = dataclasses.field(default_factory=dict)  # without a node, by key
    unplaced: list[str] = dataclasses.field(default_factory=list)
    explained: list[Explained] = dataclasses.field(default_factory=list)
    violations: list[str] = dataclasses.field(default_factory=list)
    ready: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)  # by owner's uid

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Every write of a pod, in order."""
        if new is None:
            if old is not None and self.waiting.pop(old.key, None) is not None:
                self.unplaced.append(old.key)
        elif not new.node_name:
            self.waiting[new.key] = new
        elif old is None or not old.node_name:
            self.waiting.pop(new.key, None)
            self.pods_bound += 1
        self._count_ready(old, new)

    def _count_ready(self, old: Pod | None, new: Pod | None) -> None:
        before, after = old is not None and _serves(old), new is not None and _serves(new)
        pod = new or old
        if before != after and pod is not None and pod.owner is not None:
            self.ready[pod.owner.uid] += 1 if after else -1

    def evicted(self, row: Row, min_available: int | None) -> None:
        """An eviction took place; `min_available` pods of its owner must be ready now, if it has a budget."""
        self.evictions += 1
        left = self.ready[row.owner_uid]
        if min_available is not None and left < min_available:
            self.violations.append(
                f"{row.namespace}/{row.pod} was evicted from {row.node} although {min_available} of {row.workload} "
                f"must be ready: {left} are"
            )


def _serves(pod: Pod) -> bool:
    return pod.ready and not pod.deleting and not pod.finished


def moved(ledger: Ledger) -> tuple[Moved, ...]:
    """The evictions that took place, in order of time."""
    rows = ledger.rows(Query(outcome="evicted", limit=EVERY_ROW))
    return tuple(
        Moved(
            at_seconds=row.at_seconds,
            pod=f"{row.namespace}/{row.pod}",
            workload=row.workload,
            node=row.node,
            metric=row.metric,
            value=row.value_ratio,
            threshold=row.threshold_ratio,
            projected=row.projected_ratio,
            landed_on=row.landed_node or "",
        )
        for row in reversed(rows)
    )


def effectiveness(tally: Tally) -> Effectiveness:
    """The annotator's five figures."""
    return Effectiveness(
        tally.cpu_utilization_total_avg,
        tally.memory_utilization_total_avg,
        tally.effective_dynamic_schedule_count,
        tally.total_schedule_count,
        tally.effective_schedule_ratio,
    )
