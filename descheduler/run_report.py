"""Report of one run of the descheduler: its plan, and the outcome of each eviction.

Where pools of the policy have several modes, a run has a plan for each of them: the report is of the strongest, and
`others` has those of the weaker ones.
"""

import collections
import dataclasses
from typing import Final

from descheduler import run_schedule
from descheduler.eviction.evictor import EvictionOutcome
from descheduler.ledger.rows import Run
from descheduler.planning.mean_lines import MeanLine
from descheduler.planning.plans import EvictionPlan

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
