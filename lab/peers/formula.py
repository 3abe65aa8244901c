"""Input and result of a peer's formula, and the extender port that calls it for kube-scheduler.

The formulas are pure: arrays over the nodes asked about in, reasons and points out. Points are 0 to 100 as those of a
scheduler's own plugins. An extender's scores go from 0 to 10 and count ten times: points / 10 with the weight of the
plugin come to the same.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kube.objects import Pod
from lab.peers.observations import BoundPods, Floats, Observations, Rows
from simulator.scheduling.extenders import POINTS_PER_SCORE, FilterResult, Victims

Mask = npt.NDArray[np.bool_]

MAX_POINTS = 100.0


@dataclasses.dataclass(frozen=True, slots=True)
class FormulaInput:
    """One question: `rows` of the nodes in `observations`, the pod's `request` [2] (0 is none), the latest bindings."""

    observations: Observations
    rows: Rows
    request: Floats
    bound: BoundPods

    @property
    def capacity(self) -> Floats:
        """Of the nodes asked about [nodes, 2]."""
        return np.asarray(self.observations.capacity[self.rows])

    def summed(self, bound: BoundPods, amounts: Floats) -> Floats:
        """Amounts of pods [pods, 2] added up by the nodes asked about [nodes, 2]."""
        total = np.zeros_like(self.observations.capacity)
        np.add.at(total, bound.rows, amounts)
        return np.asarray(total[self.rows])

    def counted(self, bound: BoundPods) -> Floats:
        """How many pods there are on the nodes asked about [nodes]."""
        numbers = np.bincount(bound.rows, minlength=len(self.observations.capacity))
        return np.asarray(numbers[self.rows], np.float64)


class Formula(Protocol):
    """One way to judge nodes."""

    def rejected(self, inputs: FormulaInput) -> Mapping[str, Mask]:
        """Which nodes [nodes] may not take the pod, by reason."""

    def points(self, inputs: FormulaInput) -> Floats:
        """How good each node is [nodes], 0 to 100."""


class Peer:
    """An `ExtenderPort` by a formula."""

    def __init__(self, formula: Formula, observations: Observations, *, weight: int) -> None:
        self._formula, self._observations, self._weight = formula, observations, weight

    @property
    def weight(self) -> int:
        """The plugin's weight in the profile."""
        return self._weight

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """The nodes that the formula does not reject; no peer looks at what preemption could do."""
        if pod.is_daemonset:
            return FilterResult(names, {}, {})
        failed: dict[str, str] = {}
        for reason, mask in self._formula.rejected(self._inputs(pod, names)).items():
            for at in np.flatnonzero(mask).tolist():
                failed.setdefault(names[at], reason)
        return FilterResult([name for name in names if name not in failed], failed, {})

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Floats:
        """Points of a tenth, so that a whole point of 100 counts."""
        return self._formula.points(self._inputs(pod, names)) / POINTS_PER_SCORE

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """All of them: no peer has a say in preemption."""
        del pod
        return victims

    def _inputs(self, pod: Pod, names: Sequence[str]) -> FormulaInput:
        amount = pod.requests
        request = np.array([amount.cpu_millicores, amount.memory_bytes], np.float64)
        return FormulaInput(self._observations, self._observations.rows(names), request, self._observations.bound())
