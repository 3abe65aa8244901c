"""kube-scheduler's loop: whatever waits for a node gets its turn at the moment it waits, pod by pod.

`running` makes one `Placing`; it hears of everything through the apiserver, asks the model of the scheduler for one pod
at a time in the queue's order, and carries out what it says: binds, deletes victims, nominates.
"""

import collections.abc
from collections.abc import Callable

import numpy as np

from kube import errors, kinds
from kube.door import KubeDoor
from kube.objects import Node, Pod
from simulator.apiserver import ApiServer
from simulator.kernel import Kernel
from simulator.scheduling.extenders import ExtenderPort
from simulator.scheduling.scheduler import Placement, Scheduler

RANK = 1  # after everything else of a moment
RETRY_SECONDS = 300.0


class Placing:
    """`before` is told of a pod whose turn is next, `placed` of one that was bound (before the binding is written)."""

    def __init__(
        self,
        api: ApiServer,
        kernel: Kernel,
        asked: collections.abc.Sequence[ExtenderPort],
        rng: np.random.Generator,
        *,
        before: Callable[[Pod], None],
        placed: Callable[[Pod, str], None],
    ) -> None:
        self._api, self._kernel = api, kernel
        self._door: KubeDoor = api.door(waits=False)
        self._scheduler = Scheduler(asked, rng)
        self._before, self._placed = before, placed
        self._active: dict[str, Pod] = {}
        self._waiting: dict[str, Pod] = {}
        self._planned = False
        api.subscribe(kinds.NODES, self._node_changed)
        api.subscribe(kinds.PODS, self._pod_changed)
        api.subscribe(kinds.BUDGETS, self._scheduler.budget_changed)
        api.subscribe(kinds.NAMESPACES, self._scheduler.namespace_changed)
        api.subscribe(kinds.REPLICA_SETS, self._scheduler.workload_changed)
        api.subscribe(kinds.STATEFUL_SETS, self._scheduler.workload_changed)
        api.subscribe(kinds.REPLICATION_CONTROLLERS, self._scheduler.workload_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        self._scheduler.node_changed(old, new)
        self._wake()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._scheduler.pod_changed(old, new)
        pod = new or old
        if pod is None:
            return
        if new is None or new.node_name or new.deleting:
            self._active.pop(pod.key, None)
            self._waiting.pop(pod.key, None)
            if new is None or new.finished:
                self._wake()
        elif pod.key in self._waiting:
            self._waiting[pod.key] = pod
        else:
            self._active[pod.key] = pod
            self._turn_soon()

    def _wake(self) -> None:
        if self._waiting:
            self._active.update(self._waiting)
            self._waiting.clear()
            self._turn_soon()

    def _turn_soon(self) -> None:
        if not self._planned:
            self._planned = True
            self._kernel.after(0.0, self._turns, rank=RANK)

    def _turns(self) -> None:
        self._planned = False
        while self._active:
            key = max(self._active, key=lambda key: self._active[key].priority)
            pod = self._active.pop(key)
            self._turn(pod)

    def _turn(self, pod: Pod) -> None:
        self._before(pod)
        placement = self._scheduler.schedule(pod)
        if placement.node:
            self._placed(pod, placement.node)
            self._api.bind(pod.namespace, pod.name, placement.node)
            return
        self._waiting[pod.key] = pod
        self._make_room(pod, placement)

    def _make_room(self, pod: Pod, placement: Placement) -> None:
        for victim in placement.victims:
            try:
                self._door.delete(kinds.PODS, victim.name, namespace=victim.namespace, uid=victim.uid)
            except errors.NotFound:
                continue
