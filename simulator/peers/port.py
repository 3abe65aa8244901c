"""A formula as kube-scheduler asks an extender: names and a pod in, reasons and scores out.

The peers are plugins inside the scheduler, whose points go from 0 to 100; an extender's scores go from 0 to 10 and
count ten times, so that points / 10 with the weight of the plugin come to the same.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from kube.objects import Pod
from simulator.peers.formula import Formula, FormulaInput
from simulator.peers.observations import Floats, Observations
from simulator.scheduling.extenders import POINTS_PER_SCORE, FilterResult, Victims


class Peer:
    """An `ExtenderPort` by a formula."""

    def __init__(self, formula: Formula, seen: Observations, *, weight: int) -> None:
        self._formula, self._seen, self._weight = formula, seen, weight

    @property
    def weight(self) -> int:
        """The plugin's weight in the profile."""
        return self._weight

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """The nodes that the formula does not reject; no peer looks at what preemption could do."""
        if pod.is_daemonset:
            return FilterResult(names, {}, {})
        failed: dict[str, str] = {}
        for reason, mask in self._formula.rejected(self._asked(pod, names)).items():
            for at in np.flatnonzero(mask).tolist():
                failed.setdefault(names[at], reason)
        return FilterResult([name for name in names if name not in failed], failed, {})

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Floats:
        """Points of a tenth, so that a whole point of 100 counts."""
        return self._formula.points(self._asked(pod, names)) / POINTS_PER_SCORE

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """All of them: no peer has a say in preemption."""
        del pod
        return victims

    def _asked(self, pod: Pod, names: Sequence[str]) -> FormulaInput:
        amount = pod.requests
        request = np.array([amount.cpu_millicores, amount.memory_bytes], np.float64)
        return FormulaInput(self._seen, self._seen.rows(names), request, self._seen.bound())
