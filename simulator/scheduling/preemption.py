"""DefaultPreemption: chooses victims and their node when a pod fits nowhere.

`scheduler` asks with the nodes whose refusal is not final. Nothing is evicted here: the victims are named, and the
caller deletes them; the node is the pod's nominated one until it is there.
Sources: kubernetes v1.36 pkg/scheduler/framework/preemption/preemption.go and plugins/defaultpreemption. The real one
deletes victims in the background (async preemption); here they are named in the same call. Of a terminating pod it
asks whether the scheduler made it leave; the model takes any terminating pod of lower priority for one of those.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from kube.objects import DisruptionBudget, Pod
from kube_scheduler import pod_requests
from kube_scheduler.arrays import Ints
from kube_scheduler.columns import NodeRoom
from kube_scheduler.pod_requests import Demand
from simulator.scheduling import extenders, filtering
from simulator.scheduling.extenders import ExtenderPort, Victims
from simulator.scheduling.state import State

CANDIDATES_PERCENT, CANDIDATES = 10, 100
ABOVE_PRIORITIES = 2**31  # makes every priority positive, so that few victims are better than many of low priority


class Preemption(NamedTuple):
    """`nominated`: the node on which room is made; "" if there is none; None to leave a former nomination alone.
    `ties`: the nodes it was drawn from; `unnominated`: pods of lower priority that were to go to that node and must
    look again.
    """

    victims: tuple[Pod, ...] = ()
    nominated: str | None = ""
    ties: tuple[str, ...] = ()
    unnominated: tuple[Pod, ...] = ()


def preempt(
    state: State, pod: Pod, hopeful: Ints, *, ports: Sequence[ExtenderPort], rng: np.random.Generator
) -> Preemption:
    """Victims for a pod; `hopeful` are the rows where others' leaving may help, in order."""
    if not pod.preempts or _waits(state, pod, hopeful):
        return Preemption(nominated=None)
    candidates = _candidates(state, pod, hopeful, rng)
    if not candidates:
        return Preemption()
    candidates = dict(extenders.agreed(ports, pod, candidates))
    if not candidates:
        return Preemption(nominated=None)
    badness = {node: _badness(victims) for node, victims in candidates.items()}
    least = min(badness.values())
    ties = tuple(node for node in candidates if badness[node] == least)
    node = ties[int(rng.integers(len(ties)))] if len(ties) > 1 else ties[0]
    others = state.nominated.get(node, {}).values()
    return Preemption(candidates[node].pods, node, ties, tuple(one for one in others if one.priority < pod.priority))


def _waits(state: State, pod: Pod, hopeful: Ints) -> bool:
    """Whether victims of an earlier attempt are still leaving the nominated node, which may yet do."""
    row = state.columns.rows.get(pod.nominated_node, -1)
    if row not in hopeful:
        return False
    return any(one.deleting for one in state.less_important(pod, pod.nominated_node))


def _candidates(state: State, pod: Pod, hopeful: Ints, rng: np.random.Generator) -> dict[str, Victims]:
    """Nodes on which it would work, from a random one on; at most so many as are worth comparing."""
    if not len(hopeful):
        return {}
    wanted = min(len(hopeful), max(CANDIDATES, len(hopeful) * CANDIDATES_PERCENT // 100))
    demand = pod_requests.of_pod(pod)
    candidates: dict[str, Victims] = {}
    for row in np.roll(hopeful, -int(rng.integers(len(hopeful)))).tolist():
        lower = state.less_important(pod, state.columns.names[row])
        victims = Trial(state, pod, demand, row).victims(lower) if lower else None
        if victims is not None:
            candidates[state.columns.names[row]] = victims
        if len(candidates) >= wanted and any(not one.violations for one in candidates.values()):
            break
    return dict(sorted(candidates.items(), key=lambda entry: entry[1].violations > 0))


class Trial:
    """Tries one node without some of its pods. Numbers decide for most pods; for pods with rules about others the state
    itself is changed, and put back.
    """

    def __init__(self, state: State, pod: Pod, demand: Demand, row: int) -> None:
        self._state, self._pod, self._demand, self._row = state, pod, demand, row
        self._room = NodeRoom(state.columns, row, demand)
        self._node = state.columns.names[row]
        self._plain = filtering.is_plain(state, pod)
        self._gone: list[Pod] = []

    def victims(self, lower: Sequence[Pod]) -> Victims | None:
        """The fewest and least important of these whose leaving makes room; None if there are not enough."""
        others = filtering.waiting(self._state, self._pod, self._node)
        for one in others:
            self._room.take(pod_requests.of_pod(one))
        with self._state.with_pods(others, self._node) if not self._plain else contextlib.nullcontext():
            return self._spared(sorted(lower, key=rank))

    def _spared(self, lower: list[Pod]) -> Victims | None:
        """Takes all away, then lets back those that leave room: first those whose budget would be violated."""
        violating, harmless = _by_budgets(lower, self._state.budgets.values())
        for one in lower:
            self._take_away(one)
        enough = self._fits()
        for one in (*violating, *harmless) if enough else ():
            self._put_back(one)
            if not self._fits():
                self._take_away(one)
        gone = list(self._gone)
        for one in gone:
            self._put_back(one)
        if not enough or not gone:
            return None
        against = {one.uid for one in violating}
        return Victims(tuple(sorted(gone, key=rank)), sum(one.uid in against for one in gone))

    def _take_away(self, pod: Pod) -> None:
        self._gone.append(pod)
        self._room.take(self._state.demand(pod), -1)
        if not self._plain:
            self._state.take_away(pod)

    def _put_back(self, pod: Pod) -> None:
        self._gone.remove(pod)
        if not self._plain:
            self._state.put(pod)
        self._room.take(self._state.demand(pod))

    def _fits(self) -> bool:
        if self._room.lacking():
            return False
        return self._plain or filtering.passes(self._state, self._pod, self._demand, self._row)


def rank(pod: Pod) -> tuple[int, float]:
    """Sorts the most important pods first: by priority, then by how long they have run."""
    return -pod.priority, _started(pod)


def _started(pod: Pod) -> float:
    """Seconds; a pod that has not started counts as the newest."""
    started = pod.started_at_seconds
    return math.inf if started is None else started


def _by_budgets(lower: Sequence[Pod], budgets: Iterable[DisruptionBudget]) -> tuple[list[Pod], list[Pod]]:
    """Pods whose leaving would be against a budget, and the others; budgets are used up in the order of the pods."""
    known = list(budgets)
    allowed = [budget.status.disruptions_allowed for budget in known]
    violating: list[Pod] = []
    harmless: list[Pod] = []
    for pod in lower:
        against = False
        for number, budget in enumerate(known):
            if _protects(budget, pod):
                allowed[number] -= 1
                against = against or allowed[number] < 0
        (violating if against else harmless).append(pod)
    return violating, harmless


def _protects(budget: DisruptionBudget, pod: Pod) -> bool:
    """An empty selector protects no pod from preemption, and a pod that is already counted out does not count again."""
    selector = budget.spec.selector
    if budget.namespace != pod.namespace or selector is None or not pod.labels:
        return False
    if pod.name in (budget.status.disrupted_pods or {}):
        return False
    return bool(selector.match_labels or selector.match_expressions) and selector.matches(pod.labels)


def _badness(victims: Victims) -> tuple[float, ...]:
    """Sorts best nodes first: fewest budgets violated; least important first victim; smallest sum of priorities; fewest
    victims; first victims that started last.
    """
    first = victims.pods[0].priority
    return (
        victims.violations,
        first,
        sum(one.priority + ABOVE_PRIORITIES for one in victims.pods),
        len(victims.pods),
        -min(_started(one) for one in victims.pods if one.priority == first),
    )
