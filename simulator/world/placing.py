"""kube-scheduler's loop: whatever waits for a node gets its turn at the moment it may, pod by pod.

`world.world` makes one `Placing`; it hears of everything through the apiserver, takes pods from the model's queue, asks
the model of the scheduler where each goes, and carries out what it says: binds, deletes victims, nominates.
"""

import collections.abc
import contextlib
from collections.abc import Callable

import numpy as np

from kube import errors, kinds
from kube.objects import Node, Pod
from simulator.apiserver import ApiServer
from simulator.kernel import Kernel
from simulator.scheduling import requeueing
from simulator.scheduling.extenders import ExtenderPort
from simulator.scheduling.queue import Queue
from simulator.scheduling.requeueing import Change
from simulator.scheduling.scheduler import Placement, Scheduler

RANK = 1  # after everything else of a moment


class Placing:
    """`before` is told of a pod whose turn it is, `placed` of one that is about to be bound, and to which node."""

    def __init__(
        self,
        api: ApiServer,
        kernel: Kernel,
        extenders: collections.abc.Sequence[ExtenderPort],
        rng: np.random.Generator,
        *,
        before: Callable[[Pod], None],
        placed: Callable[[Pod, str], None],
        stood: Callable[[Pod], str],
    ) -> None:
        self._api, self._kernel = api, kernel
        self._scheduler = Scheduler(extenders, rng)
        self._queue = Queue(kernel.clock)
        self._before, self._placed, self._stood = before, placed, stood
        self._planned = False
        self.preempted_pods = 0
        api.subscribe(kinds.NODES, self._node_changed)
        api.subscribe(kinds.PODS, self._pod_changed)
        api.subscribe(kinds.BUDGETS, self._scheduler.budget_changed)
        api.subscribe(kinds.NAMESPACES, self._scheduler.namespace_changed)
        api.subscribe(kinds.REPLICA_SETS, self._scheduler.workload_changed)
        api.subscribe(kinds.STATEFUL_SETS, self._scheduler.workload_changed)
        api.subscribe(kinds.REPLICATION_CONTROLLERS, self._scheduler.workload_changed)

    def flush(self) -> None:
        """Wake who has slept for too long; `running` calls it at every step."""
        self._queue.flush()
        self._turns_soon()

    def readings_changed(self) -> None:
        """Requeues refused pods after the readings of nodes changed: no Node event reports it here."""
        self._queue.changed((Change.NODE_OTHERWISE,))
        self._turns_soon()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._scheduler.node_changed(old, new)
        if not self._queue.is_idle:  # most changes are the annotator's, when no pod waits
            self._queue.changed(requeueing.of_node(old, new))
            self._turns_soon()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._scheduler.pod_changed(old, new)
        waits = new is not None and not (new.node_name or new.deleting or new.finished)
        pod = new or old
        if pod is not None and (waits or not self._queue.is_idle):
            self._queue.changed(requeueing.of_pod(old, new))
            if waits:
                self._queue.push(pod)
            else:
                self._queue.forget(pod)
            self._turns_soon()

    def _turns_soon(self) -> None:
        if not self._planned and len(self._queue):
            self._planned = True
            self._kernel.after(0.0, self._turns, rank=RANK)

    def _turns(self) -> None:
        """All ready pods; none twice at one moment, or a pod that no plugin refuses would be asked for ever."""
        self._planned = False
        had: set[str] = set()
        again: list[tuple[Pod, frozenset[str]]] = []
        while (pod := self._queue.pop()) is not None:
            if pod.uid in had:
                again.append((pod, frozenset()))
                continue
            had.add(pod.uid)
            self._turn(pod)
        for pod, rejected_by in again:
            self._queue.failed(pod, rejected_by)

    def _turn(self, pod: Pod) -> None:
        if node := self._stood(pod):
            self._api.bind(pod.namespace, pod.name, node)
            return
        self._before(pod)
        placement = self._scheduler.schedule(pod)
        if placement.node:
            self._placed(pod, placement.node)
            self._api.bind(pod.namespace, pod.name, placement.node)
        else:
            self._queue.failed(pod, placement.rejected_by)
            self._make_room(pod, placement)

    def _make_room(self, pod: Pod, placement: Placement) -> None:
        """Victims are told to end, and the pod stands first on their node."""
        if placement.nominated is not None and placement.nominated != pod.nominated_node:
            self._nominate(pod, placement.nominated)
        for other in placement.unnominated:
            self._nominate(other, "")
        for victim in placement.victims:
            with contextlib.suppress(errors.NotFound):  # it went by itself
                self._api.delete(kinds.PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
                self.preempted_pods += 1

    def _nominate(self, pod: Pod, node: str) -> None:
        status = {"status": {"nominatedNodeName": node or None}}
        self._api.merge_patch(kinds.PODS, pod.name, status, namespace=pod.namespace, subresource="status")
