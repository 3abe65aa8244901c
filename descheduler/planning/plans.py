"""The plan of a run as values: every candidate with its verdict, every eviction with its figures, and what is left.

`planning.planner` makes an `EvictionPlan`; `eviction.evictor` carries it out, the Events, the ledger, the metrics and
GET /plan repeat it.
"""

import collections.abc
import dataclasses
from typing import NamedTuple

from descheduler.planning import verdicts
from descheduler.planning.disruption_budgets import BudgetLeft
from descheduler.planning.overload import Overload
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot.eviction_history import PendingReplacement
from descheduler.snapshot.usage import PodUsage
from descheduler.snapshot.workloads import Workload
from kube.objects import Node, Pod


class ConsideredPod(NamedTuple):
    """A candidate, its one verdict, and what it uses where that is known."""

    pod: Pod
    workload: Workload | None
    verdict: Verdict
    used: PodUsage | None = None


class Headroom(NamedTuple):
    """The rest after the plan: of the run's and the hour's caps, of the budgets over candidates, and per node that
    takes pods the distance to each target line (negative: over it), coolest node first.
    """

    run: int = 0
    hour: int = 0
    budgets: tuple[BudgetLeft, ...] = ()
    destinations: tuple[tuple[str, collections.abc.Mapping[str, float]], ...] = ()


NO_HEADROOM = Headroom()


@dataclasses.dataclass(frozen=True, slots=True)
class Eviction:
    """One eviction of a plan with its figures: ratios of the node before, after, and of the destination with the pod
    on it. `newest_sibling_at_seconds`: when the newest pod of its owner was made, by the apiserver's clock; whatever is
    made later may be its replacement. `replacement`: the pod that a surge made before.
    """

    pod: Pod
    workload: Workload | None
    overload: Overload
    used: PodUsage
    before_ratio: float
    projected_ratio: float
    destination: str
    destination_ratio: float | None  # None: not known, of a `replacement`
    budget: str
    flow: str = ""  # key of the flow rule that let it pass
    newest_sibling_at_seconds: float | None = None
    expected_5m_ratio: float | None = None  # `departed_load`
    expected_30m_ratio: float | None = None
    pool: str = ""  # of the node that it leaves, "" without one
    group: str = ""  # that leaves as a whole, "" for a pod alone
    replacement: Pod | None = None
    surges: bool = False  # it gets another pod first, and is evicted by a later run


@dataclasses.dataclass(frozen=True, slots=True)
class NodePlan:
    """One overloaded node: the projected ratio per metric after the plan, every candidate's verdict, why it is left
    alone (""), and its pool ("" without one).
    """

    node: Node
    overloads: tuple[Overload, ...]
    projected: collections.abc.Mapping[str, float]
    candidates: tuple[ConsideredPod, ...] = ()
    left_alone: str = ""
    pool: str = ""

    @property
    def chosen(self) -> int:
        """How many pods would leave this node."""
        return sum(1 for one in self.candidates if one.verdict.cause is Cause.CHOSEN)

    @property
    def summary(self) -> str:
        """Returns the plan for the node in one line."""
        if self.left_alone:
            return f"left alone: {self.left_alone}"
        return verdicts.summary(self.chosen, (one.verdict.cause for one in self.candidates), verb="to evict")


@dataclasses.dataclass(frozen=True, slots=True)
class EvictionPlan:
    """Everything one run decided; `blocked` says why the run as a whole does nothing ("" if it may act), `unreplaced`
    which evictions before it still wait for a Ready replacement (None: workloads were not read), `surges` which pods
    get another one first.
    """

    at_seconds: float
    nodes: tuple[NodePlan, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    blocked: str = ""
    headroom: Headroom = NO_HEADROOM
    unreplaced: tuple[PendingReplacement, ...] | None = None
    surges: tuple[Eviction, ...] = ()

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The verdicts of all candidates of all overloaded nodes."""
        return tuple(one.verdict.cause for node in self.nodes for one in node.candidates)

    def with_verdicts(self, verdicts: collections.abc.Mapping[str, Verdict]) -> "EvictionPlan":
        """The plan with these verdicts, by uid, of candidates that stay after all."""
        nodes = (
            dataclasses.replace(
                node,
                candidates=tuple(
                    one._replace(verdict=verdicts.get(one.pod.uid, one.verdict)) for one in node.candidates
                ),
            )
            for node in self.nodes
        )
        return dataclasses.replace(self, nodes=tuple(nodes)) if verdicts else self

    def summary(self, *, verb: str = "to evict", count: int | None = None) -> str:
        """One line such as "0 to evict: 41 protected, 3 PDB, 7 without a destination"; `count` if not all left."""
        evicted = len(self.evictions) if count is None else count
        blocked = f"; blocked: {self.blocked}" if self.blocked else ""
        return verdicts.summary(evicted, self.causes, verb=verb) + blocked
