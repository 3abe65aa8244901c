"""One pod's turn: filters, extenders, scores, the choice; victims where nothing fits.

`world` tells of every change and asks for pods in `queue`'s order; it binds what is chosen and deletes victims. A
decision depends on what was told and on the generator alone: ties are drawn by it, as the real scheduler draws lots.
Source: kubernetes v1.36 pkg/scheduler/schedule_one.go.
"""

import collections
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from kube.objects import DisruptionBudget, Namespace, Pod, ReplicaSet, ReplicationController, StatefulSet
from kube_scheduler import pod_requests, refusals
from kube_scheduler.arrays import Bools, Ints
from kube_scheduler.pod_requests import Demand
from simulator.scheduling import extenders, filtering, node_order, preemption, scoring
from simulator.scheduling.extenders import ExtenderPort, FilterResult
from simulator.scheduling.filtering import NodeRefusals
from simulator.scheduling.state import State

Workload = ReplicaSet | StatefulSet | ReplicationController
NO_NODES = "no nodes available to schedule pods"
UNNAMED = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
_NONE: Mapping[str, int] = MappingProxyType({})
_NO_TOTALS: Ints = np.zeros(0, np.int64)


class Placement(NamedTuple):
    """The result of a pod's scheduling cycle. `node` is "" where it fits nowhere; then `reasons` says how many nodes
    lack which resource, and `rejected_by` which plugins said so. `ties` are the best nodes, by the `totals` of the
    nodes `scored`; both are empty where a single node fits. `nominated` is the node that the leaving of `victims` makes
    room on, then `ties` are the nodes as good for that; "" clears, None leaves a former one; `unnominated` are pods
    whose nomination this takes away.
    """

    node: str = ""
    ties: tuple[str, ...] = ()
    scored: Sequence[str] = ()
    totals: Ints = _NO_TOTALS
    reasons: Mapping[str, int] = _NONE
    rejected_by: frozenset[str] = frozenset()
    victims: tuple[Pod, ...] = ()
    nominated: str | None = None
    unnominated: tuple[Pod, ...] = ()


class Scheduler:
    """kube-scheduler's default profile over the cluster as told."""

    def __init__(self, ports: Sequence[ExtenderPort], rng: np.random.Generator) -> None:
        self._extenders = tuple(ports)
        self._rng = rng
        self._state = State()
        self.node_changed, self.pod_changed = self._state.node_changed, self._state.pod_changed
        self._start = 0

    def budget_changed(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        """A disruption budget came, changed or went: preemption violates as few as it can."""
        if old is not None:
            self._state.budgets.pop(old.key, None)
        if new is not None:
            self._state.budgets[new.key] = new

    def workload_changed(self, old: Workload | None, new: Workload | None) -> None:
        """Handles an added, changed or deleted workload: its selector decides which pods are spread by default."""
        known = new or old
        if known is not None:
            key = known.namespace, type(known).__name__, known.name
            self._state.selectors.pop(key, None)
            if new is not None and new.selector is not None:
                self._state.selectors[key] = new.selector

    def namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        """A namespace came, changed or went: terms about pods may select namespaces by label."""
        if old is not None:
            self._state.namespaces.pop(old.name, None)
        if new is not None:
            self._state.namespaces[new.name] = new.labels

    def schedule(self, pod: Pod) -> Placement:
        """Where the pod goes, or why nowhere. The caller binds and tells of it before it asks again."""
        columns = self._state.columns
        if not columns.names:
            return Placement(reasons={NO_NODES: 1}, nominated="")
        demand = pod_requests.of_pod(pod)
        reasons = filtering.refusals(self._state, pod, demand)
        fits = filtering.fits(columns, reasons)
        if self._nominated(pod, fits):
            return Placement(pod.nominated_node, (pod.nominated_node,))
        rows = self._rows(pod)
        sample = node_order.sample(fits, rows, self._start)
        self._start = (self._start + sample.looked_at) % len(columns.names)
        names = tuple(map(columns.names.__getitem__, sample.rows.tolist()))
        answer = extenders.passed(self._extenders, pod, names)
        if answer.passed:
            return self._best(pod, demand, answer.passed, sample.rows if answer.passed is names else None)
        return self._failed(pod, filtering.refused(columns, reasons, rows), answer, len(columns.names) - len(rows))

    def _nominated(self, pod: Pod, fits: Bools | None) -> bool:
        """Whether the node on which room was made can be had: then nothing else is looked at."""
        row = self._state.columns.rows.get(pod.nominated_node)
        if row is None or (fits is not None and not fits[row]):
            return False
        return bool(extenders.passed(self._extenders, pod, (pod.nominated_node,)).passed)

    def _rows(self, pod: Pod) -> Ints:
        """The rows to look at: all, or those that required node affinity names."""
        columns, named = self._state.columns, filtering.only(pod)
        if named is None:
            return columns.all_rows
        return np.array(sorted(columns.rows[name] for name in named if name in columns.rows), np.int64)

    def _best(self, pod: Pod, demand: Demand, names: Sequence[str], rows: Ints | None) -> Placement:
        """A single node is taken unasked; of several, one of those with the most points, drawn by lot. `rows` are
        those of the names, if they are known.
        """
        if len(names) == 1:
            return Placement(names[0], (names[0],))
        if rows is None:
            rows = self._state.columns.rows_of(names)
        totals = scoring.total(self._state, pod, demand, rows)
        if self._extenders:
            totals += extenders.points(self._extenders, pod, names)
        ties = tuple(names[at] for at in np.flatnonzero(totals == totals.max()).tolist())
        chosen = ties[int(self._rng.integers(len(ties)))] if len(ties) > 1 else ties[0]
        return Placement(chosen, ties, names, totals)

    def _failed(self, pod: Pod, refused: NodeRefusals, answer: FilterResult, unnamed: int) -> Placement:
        columns = self._state.columns
        reasons = collections.Counter(refused.reasons)
        reasons.update([*answer.failed.values(), *answer.unresolvable.values()])
        plugins = refused.plugins
        if unnamed:
            reasons[UNNAMED] += unnamed
            plugins |= {refusals.NODE_AFFINITY}
        if answer.failed or answer.unresolvable:
            plugins |= {filtering.EXTENDER}
        maybe = [columns.rows[name] for name in answer.failed]
        hopeful = np.array(sorted((*refused.hopeful.tolist(), *maybe)), np.int64)
        preempted = preemption.preempt(self._state, pod, hopeful, ports=self._extenders, rng=self._rng)
        for one in preempted.unnominated:
            self._state.nominate(one, "")
        if preempted.nominated is not None:
            self._state.nominate(pod, preempted.nominated)
        return Placement(
            ties=preempted.ties,
            reasons=dict(reasons),
            rejected_by=plugins,
            victims=preempted.victims,
            nominated=preempted.nominated,
            unnominated=preempted.unnominated,
        )
