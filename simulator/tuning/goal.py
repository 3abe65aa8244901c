"""The goal of tuning a policy, and the distance of a run from it.

Pure: from the outcomes of one policy over several seeds or spans to two numbers, the one to make small and the one that
must stay under its limit.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.results.outcome import Outcome

DAY_SECONDS = 86400.0


class Aim(enum.StrEnum):
    """The figure to minimise."""

    HOT = "hot-node-minutes"  # over 80 %, CPU and memory added up
    WARM = "warm-node-minutes"  # over 65 %
    P99 = "p99"  # the mean of both resources' 99th percentiles, over nodes and time
    SPREAD = "spread"  # the mean of both resources' standard deviations between nodes


@dataclass(frozen=True, slots=True)
class Goal:
    """The aim, and the most evictions a day that it may cost."""

    aim: Aim = Aim.HOT
    evictions_per_day: float = 24.0

    def __str__(self) -> str:
        return f"least {self.aim} with at most {self.evictions_per_day:g} evictions a day"


class Score(NamedTuple):
    """Of one policy: the aim's figure and evictions a day (means over the runs), pods that never found a node in all,
    and the aim's figure of every run.
    """

    value: float
    evictions_per_day: float
    unplaced: int
    values: tuple[float, ...]

    def excess(self, goal: Goal) -> float:
        """How far it is over the limit: at most 0 keeps it."""
        return self.evictions_per_day - goal.evictions_per_day


def score(outcomes: Sequence[Outcome], goal: Goal) -> Score:
    """The runs of one policy, judged. Unplaced pods count as a figure of their own: a policy that keeps pods out has
    cool nodes, too.
    """
    values = tuple(_value(one, goal.aim) for one in outcomes)
    evictions = [one.figures.evictions / _days(one) for one in outcomes]
    unplaced = sum(len(one.unplaced) for one in outcomes)
    return Score(float(np.mean(values)), float(np.mean(evictions)), unplaced, values)


def _value(outcome: Outcome, aim: Aim) -> float:
    cpu, memory = outcome.figures.cpu, outcome.figures.memory
    return {
        Aim.HOT: cpu.hot_node_minutes + memory.hot_node_minutes,
        Aim.WARM: cpu.warm_node_minutes + memory.warm_node_minutes,
        Aim.P99: (cpu.p99_ratio + memory.p99_ratio) / 2,
        Aim.SPREAD: (cpu.spread_ratio + memory.spread_ratio) / 2,
    }[aim]


def _days(outcome: Outcome) -> float:
    return len(outcome.timeline.cpu_ratio) * outcome.timeline.step_seconds / DAY_SECONDS
