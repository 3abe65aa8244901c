"""Whose turn it is: pods that wait for a node, in kube-scheduler's order.

`world` pushes new pods, tells of changes, and takes pods from it until none is ready. Ready pods go by priority, then
by how long they wait. A pod that fitted nowhere waits for a change that may help it (`scheduling.requeueing`), or five
minutes; then its back-off counts: 1 s doubling to 10 s from its last attempt, in whole seconds. As in 1.36 a pod that
is backing off is taken at once where no other pod is ready (SchedulerPopFromBackoffQ). Sources: kubernetes v1.36
pkg/scheduler/backend/queue (scheduling_queue.go, active_queue.go, backoff_queue.go).
"""

import dataclasses
import heapq
import math
from collections.abc import Iterable

from kube.objects import Pod
from runtime.clock import Clock
from simulator.scheduling import requeueing
from simulator.scheduling.requeueing import Change

FIRST_BACKOFF_SECONDS, LAST_BACKOFF_SECONDS = 1.0, 10.0
LONGEST_WAIT_SECONDS = 300.0
Turn = tuple[int, float, int]


@dataclasses.dataclass(slots=True)
class WaitingPods:
    """A pod, since when it waits, how often it fitted nowhere, and which plugins said so the last time."""

    pod: Pod
    since_seconds: float
    number: int
    attempts: int = 0
    rejected_by: frozenset[str] = frozenset()

    @property
    def turn(self) -> Turn:
        """Sorts who comes first."""
        return -self.pod.priority, self.since_seconds, self.number

    @property
    def ready_seconds(self) -> float:
        """When its back-off is over."""
        if not self.attempts:
            return -math.inf
        backoff_seconds = min(LAST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(self.attempts - 1, 10))
        return math.floor(self.since_seconds + backoff_seconds)


class Queue:
    """Pods by where they wait: `_awake` in one of two heaps, ready or backing off; `_asleep` for a change that helps.

    A pod that is forgotten stays in its heap until its turn comes, and is passed over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._number = 0
        self._awake: dict[str, WaitingPods] = {}
        self._asleep: dict[str, WaitingPods] = {}
        self._taken: dict[str, WaitingPods] = {}
        self._meanwhile: set[Change] = set()  # while a pod is taken: it does not sleep through what it waits for
        self._ready: list[tuple[Turn, WaitingPods]] = []
        self._backing_off: list[tuple[float, Turn, WaitingPods]] = []

    def __len__(self) -> int:
        return len(self._awake) + len(self._asleep)

    @property
    def is_idle(self) -> bool:
        """Whether no pod waits, or is taken: no change may help a pod."""
        return not (self._awake or self._asleep or self._taken)

    def push(self, pod: Pod) -> None:
        """A pod without a node came, or is there in a newer version, which keeps its place."""
        known = self._awake.get(pod.key) or self._asleep.get(pod.key) or self._taken.get(pod.key)
        if known is not None and known.pod.uid == pod.uid:
            known.pod = pod
            return
        self.forget(pod)
        self._number += 1
        self._wake(WaitingPods(pod, self._clock.now(), self._number))

    def pop(self) -> Pod | None:
        """The pod whose turn it is; None without any. It comes back by `failed`, or it is placed: `forget`."""
        now_seconds = math.floor(self._clock.now())
        while self._backing_off and self._backing_off[0][0] < now_seconds:
            _, turn, waiting = heapq.heappop(self._backing_off)
            heapq.heappush(self._ready, (turn, waiting))
        while self._ready or self._backing_off:
            waiting = heapq.heappop(self._ready)[-1] if self._ready else heapq.heappop(self._backing_off)[-1]
            name = waiting.pod.key
            if self._awake.get(name) is waiting:
                self._taken[name] = self._awake.pop(name)
                self._meanwhile.clear()
                return waiting.pod
        return None

    def failed(self, pod: Pod, rejected_by: frozenset[str]) -> None:
        """A pod that was taken fits nowhere. It sleeps until a change may help, or backs off if no plugin refused it.

        KeyError for a pod that was not taken.
        """
        waiting = self._taken.pop(pod.key)
        waiting.since_seconds, waiting.rejected_by = self._clock.now(), rejected_by
        waiting.attempts += 1
        if not rejected_by or any(requeueing.awaits(rejected_by, change) for change in self._meanwhile):
            self._wake(waiting)
        else:
            self._asleep[pod.key] = waiting

    def forget(self, pod: Pod) -> None:
        """The pod has a node, or is gone."""
        for pods in (self._awake, self._asleep, self._taken):
            pods.pop(pod.key, None)

    def changed(self, changes: Iterable[Change]) -> None:
        """Wakes the pods that changes of nodes or of bound pods may help."""
        for change in changes if self._asleep or self._taken else ():
            self._meanwhile.add(change)
            for waiting in [one for one in self._asleep.values() if requeueing.awaits(one.rejected_by, change)]:
                self._wake(waiting)

    def flush(self) -> None:
        """Wake those who have slept for over five minutes; to be called every 30 s."""
        limit_seconds = self._clock.now() - LONGEST_WAIT_SECONDS
        for waiting in [one for one in self._asleep.values() if one.since_seconds < limit_seconds]:
            self._wake(waiting)

    def _wake(self, waiting: WaitingPods) -> None:
        self._asleep.pop(waiting.pod.key, None)
        self._awake[waiting.pod.key] = waiting
        heapq.heappush(self._backing_off, (waiting.ready_seconds, waiting.turn, waiting))
