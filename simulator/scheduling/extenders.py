"""The scheduler's side of its extenders: in which order they are asked, and what their answers do.

`scheduler` asks `passed` after its own filters and `points` after its own scores, `preemption` asks `agreed`. An
extender of the simulation never fails: `world` gives Evenload's own verbs as an `ExtenderPort`.
Source: kubernetes v1.36 pkg/scheduler/schedule_one.go (findNodesThatPassExtenders, prioritizeNodes), extender.go.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from kube.objects import Pod
from kube_scheduler.arrays import Ints

POINTS_PER_SCORE = 10  # MaxNodeScore / MaxExtenderPriority
Scores = npt.NDArray[np.float64] | Ints


class FilterResult(NamedTuple):
    """Names that pass, in order; names that fail by reason, `failed` where pods' leaving may help."""

    passed: Sequence[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Victims(NamedTuple):
    """Pods that would have to leave a node, the most important first, and how many of them against a budget."""

    pods: tuple[Pod, ...]
    violations: int


class ExtenderPort(Protocol):
    """kube-scheduler's calls of an extender: filter, prioritize, preempt."""

    @property
    def weight(self) -> int:
        """How much its scores count."""

    def filter(self, pod: Pod, names: Sequence[str]) -> FilterResult:
        """Which of the nodes may take the pod."""

    def prioritize(self, pod: Pod, names: Sequence[str]) -> Scores:
        """0 to 10 for each node, of which peers that are plugins use tenths."""

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The nodes on which victims may be made."""


def passed(extenders: Sequence[ExtenderPort], pod: Pod, names: Sequence[str]) -> FilterResult:
    """Returns the nodes that pass all extenders, each asked for those that passed the one before; no call without
    nodes.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    for extender in extenders:
        if not names:
            break
        answer = extender.filter(pod, names)
        failed |= answer.failed
        unresolvable |= answer.unresolvable
        names = answer.passed
    return FilterResult(names, {name: why for name, why in failed.items() if name not in unresolvable}, unresolvable)


def points(extenders: Sequence[ExtenderPort], pod: Pod, names: Sequence[str]) -> Ints:
    """score x weight x 10, whole points, of all extenders together, for each of the names."""
    totals = np.zeros(len(names), np.int64)
    for extender in extenders:
        scores = extender.prioritize(pod, names)
        totals += np.rint(scores * (extender.weight * POINTS_PER_SCORE)).astype(np.int64)
    return totals


def agreed(extenders: Sequence[ExtenderPort], pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
    """The nodes that every extender leaves on the list."""
    for extender in extenders:
        if victims:
            victims = extender.preempt(pod, victims)
    return victims
