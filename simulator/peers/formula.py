"""What a peer's formula is asked, and what it answers; `port.Peer` asks it on behalf of kube-scheduler.

The formulas are pure: arrays over the nodes asked about in, reasons and points out. Points are 0 to 100 as those of a
scheduler's own plugins.
"""

import dataclasses
from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from simulator.peers.observations import BoundPods, Floats, Observations, Rows

Mask = npt.NDArray[np.bool_]

MAX_POINTS = 100.0


@dataclasses.dataclass(frozen=True, slots=True)
class FormulaInput:
    """One question: `rows` of the nodes in `seen`, the pod's `request` [2] (0 is none), what was bound a moment ago."""

    seen: Observations
    rows: Rows
    request: Floats
    bound: BoundPods

    @property
    def capacity(self) -> Floats:
        """Of the nodes asked about [nodes, 2]."""
        return np.asarray(self.seen.capacity[self.rows])

    def summed(self, bound: BoundPods, amounts: Floats) -> Floats:
        """Amounts of pods [pods, 2] added up by the nodes asked about [nodes, 2]."""
        total = np.zeros_like(self.seen.capacity)
        np.add.at(total, bound.rows, amounts)
        return np.asarray(total[self.rows])

    def counted(self, bound: BoundPods) -> Floats:
        """How many pods there are on the nodes asked about [nodes]."""
        numbers = np.bincount(bound.rows, minlength=len(self.seen.capacity))
        return np.asarray(numbers[self.rows], np.float64)


class Formula(Protocol):
    """One way to judge nodes."""

    def rejected(self, asked: FormulaInput) -> Mapping[str, Mask]:
        """Which nodes [nodes] may not take the pod, by reason."""

    def points(self, asked: FormulaInput) -> Floats:
        """How good each node is [nodes], 0 to 100."""
