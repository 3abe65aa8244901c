"""The oracle: a chooser that knows the use of every pod for the next hour.

A five-minute average is the step before the present one, so nothing is seen sooner than it could be measured;
maxima, means and deviations are over whole steps. Never the present, never interpolated. `formula.Peer` asks for
it on behalf of the formulas; `world`'s usage book says the truth, of which this is the past.
"""

import collections
import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from kube.objects import Pod
from policy import metrics
from runtime.clock import Clock
from simulator.scenario import Scenario

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

AVERAGING_SECONDS = 300.0
REMEMBERED_SECONDS = 1800.0  # no formula asks for pods bound longer ago


class Book(Protocol):
    """The part of `simulator.usage.node_usage.UsageBook` that is seen here."""

    def node_ratio(self, resource: str) -> npt.NDArray[np.float32]:
        """Mean use of every node during every step, as ratios of its capacity [steps, nodes], NaN where unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class BoundPods:
    """Pods bound a moment ago and still there, one behind the other: row of the node, when, requests [pods, 2]."""

    rows: Rows
    at_seconds: Floats
    requests: Floats

    def since(self, seconds: float) -> "BoundPods":
        """Those bound after a time."""
        late = self.at_seconds > seconds
        return BoundPods(self.rows[late], self.at_seconds[late], self.requests[late])

    def until(self, seconds: float) -> "BoundPods":
        """Those bound at a time or before."""
        early = self.at_seconds <= seconds
        return BoundPods(self.rows[early], self.at_seconds[early], self.requests[early])


class Observations:
    """Loads and placements of one run. Arrays are [nodes, 2]: CPU and memory, in the order of the scenario's machines.

    `pod_changed` hears of every change of a pod.
    """

    def __init__(self, scenario: Scenario, book: Book, clock: Clock) -> None:
        self._scenario, self._book, self._clock = scenario, book, clock
        self.row_of: Mapping[str, int] = {machine.name: row for row, machine in enumerate(scenario.machines)}
        capacities = [(each.capacity.cpu_millicores, each.capacity.memory_bytes) for each in scenario.machines]
        self.capacity = np.array(capacities, np.float64).reshape(-1, 2)
        self._statistics: dict[tuple[str, int], tuple[int, Floats]] = {}
        self._bound: dict[str, tuple[int, float, tuple[float, float]]] = collections.OrderedDict()

    @property
    def now_seconds(self) -> float:
        """Virtual Unix seconds."""
        return self._clock.now()

    @property
    def step_seconds(self) -> float:
        """How long a step is."""
        return self._scenario.step_seconds

    @property
    def step(self) -> int:
        """The step that is not over yet: only those before it can be seen."""
        return math.floor((self.now_seconds - self._scenario.start_seconds) / self.step_seconds)

    @property
    def seen_seconds(self) -> float:
        """When the last step that can be seen was over."""
        return self._scenario.start_seconds + self.step * self.step_seconds

    def steps(self, seconds: float) -> int:
        """How many steps a window covers, at least one."""
        return max(1, round(seconds / self.step_seconds))

    def mean(self, window_seconds: float) -> Floats:
        """Mean load over the last steps; NaN for nodes without a measurement."""
        return self._statistic("mean", self.steps(window_seconds), self.step)

    def deviation(self, window_seconds: float) -> Floats:
        """Standard deviation of five-minute means over the last steps."""
        return self._statistic("deviation", self._means(window_seconds), self.step)

    def maximum(self, window_seconds: float, every_seconds: float = 0.0) -> Floats:
        """The highest five-minute mean of the last steps, as it was when it was last looked up: every so many seconds,
        and as soon as there was anything to see.
        """
        every = self.steps(every_seconds)
        looked_up = max(self.step // every * every, min(self.step, 1))
        return self._statistic("maximum", self._means(window_seconds), looked_up)

    def _means(self, window_seconds: float) -> int:
        """How many five-minute means, one a step, end within a window."""
        return max(1, self.steps(window_seconds) - self.steps(AVERAGING_SECONDS) + 1)

    def _statistic(self, name: str, steps: int, end_step: int) -> Floats:
        kept_step, statistic = self._statistics.get((name, steps), (-1, self.capacity))
        if kept_step != end_step:
            averaging = 1 if name == "mean" else self.steps(AVERAGING_SECONDS)
            window = slice(max(0, end_step - steps - averaging + 1), max(0, end_step))
            loads = np.stack([self._book.node_ratio(resource)[window] for resource in metrics.RESOURCES], axis=2)
            statistic = _STATISTICS[name](_averaged(loads.astype(np.float64), averaging))
            self._statistics[name, steps] = end_step, statistic
        return statistic

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """A pod came, changed, was bound, finished or went."""
        pod = new or old
        if pod is None or pod.is_daemonset:
            return
        if new is None or new.finished:
            self._bound.pop(pod.uid, None)
        elif new.node_name and not (old is not None and old.node_name):
            amount = new.requests
            row = self.row_of[new.node_name]
            self._bound[new.uid] = row, self.now_seconds, (float(amount.cpu_millicores), float(amount.memory_bytes))

    def bound(self) -> BoundPods:
        """The pods bound a moment ago."""
        oldest_seconds = self.now_seconds - REMEMBERED_SECONDS
        while self._bound and next(iter(self._bound.values()))[1] <= oldest_seconds:
            self._bound.pop(next(iter(self._bound)))
        every = list(self._bound.values())
        return BoundPods(
            np.array([row for row, _, _ in every], np.intp),
            np.array([at_seconds for _, at_seconds, _ in every], np.float64),
            np.array([requests for _, _, requests in every], np.float64).reshape(-1, 2),
        )

    def rows(self, names: Sequence[str]) -> Rows:
        """The rows of nodes by name."""
        return np.array([self.row_of[name] for name in names], np.intp)


def _averaged(loads: Floats, steps: int) -> Floats:
    """Means over each so many steps in a row; over all where there are fewer."""
    if steps == 1 or not len(loads):
        return loads
    windows = np.lib.stride_tricks.sliding_window_view(loads, min(steps, len(loads)), axis=0)
    return _mean(np.moveaxis(windows, -1, 0))


def _known(loads: Floats) -> tuple[Floats, Floats]:
    """The loads with 0 for what is not known, and how many are known [nodes, 2], NaN for none."""
    known = np.isfinite(loads)
    number = known.sum(axis=0).astype(np.float64)
    return np.where(known, loads, 0.0), np.where(number > 0, number, np.nan)


def _mean(loads: Floats) -> Floats:
    values, number = _known(loads)
    return np.asarray(values.sum(axis=0) / number)


def _deviation(loads: Floats) -> Floats:
    away = np.where(np.isfinite(loads), loads - _mean(loads), 0.0)
    return np.asarray(np.sqrt((away**2).sum(axis=0) / _known(loads)[1]))


def _maximum(loads: Floats) -> Floats:
    return np.asarray(np.fmax.reduce(loads, axis=0, initial=np.nan))


_STATISTICS = {"mean": _mean, "deviation": _deviation, "maximum": _maximum}
