"""The pods that wait for a node, as the Pod watch knows them, the winners that answers named before it did, and the
nominated nodes that were refused.

A request is not proof: any client that reaches the port may make up a pod of 100,000 cores. So `state.cluster_view`
assumes a winner only for a pod that the watch has without a node, and with what the apiserver says that it requests.
kube-scheduler has a watch of its own and may ask first; the winner of such an answer is kept for AWAITED_SECONDS and
takes effect when the watch brings a pod of the same uid, namespace and name that still waits. Not thread-safe: the view
has the lock. `NominatedRefusals` has its own.
"""

import functools
from typing import Final, NamedTuple

from extender import deadline
from kube.api import identifiers
from kube.pods.pod_view import PodView

AWAITED_SECONDS: Final = 5.0  # a watch event under load
WINNERS_KEPT: Final = 1024  # 200 pods a second for AWAITED_SECONDS
REFUSALS_KEPT: Final = 1024  # of nominated nodes: between two requests of a cycle, some milliseconds
LONGEST_KEY: Final = identifiers.LONGEST_LABEL + len("/") + identifiers.LONGEST_NAME  # no uid, no name is longer


class Winner(NamedTuple):
    """The node that an answer named, for which pod ("namespace/name"), and when (Unix)."""

    pod_key: str
    node: str
    at_seconds: float


class UnboundPods:
    """Pods without a node by uid, and winners by the uid of a pod that the watch has not brought."""

    def __init__(self) -> None:
        self._pods: dict[str, PodView] = {}
        self._winners: dict[str, Winner] = {}

    def awaited(self, now_seconds: float) -> int:
        """How many pods of answers of the last AWAITED_SECONDS the watch has not brought."""
        return sum(map(functools.partial(_is_recent, now_seconds=now_seconds), self._winners.values()))

    def find(self, pod: PodView) -> PodView | None:
        """The watch's own version of a question's pod, if it waits for a node there; uid, namespace and name agree."""
        watched = self._pods.get(pod.uid)
        return watched if watched is not None and watched.key == pod.key else None

    def expect(self, pod: PodView, node: str, at_seconds: float) -> None:
        """Keep a winner until the watch brings its pod ("": none won); the oldest goes when there are too many."""
        if max(map(len, (pod.uid, pod.key, node))) > LONGEST_KEY:
            return
        self._winners.pop(pod.uid, None)
        if not node:
            return
        self._winners[pod.uid] = Winner(pod.key, node, at_seconds)
        if len(self._winners) > WINNERS_KEPT:
            del self._winners[next(iter(self._winners))]

    def changed(self, old: PodView | None, new: PodView | None, now_seconds: float) -> Winner | None:
        """Follow a change from the Pod watch. The winner of an answer about the pod, if it came a moment ago."""
        if old is not None and (new is None or new.uid != old.uid):
            self._pods.pop(old.uid, None)
        if new is None:
            return None
        winner = self._winners.pop(new.uid, None)
        if new.node_name or new.deleting or new.finished:
            self._pods.pop(new.uid, None)
            return None
        self._pods[new.uid] = new
        if winner is None or winner.pod_key != new.key or not _is_recent(winner, now_seconds):
            return None
        return winner


def is_nominated(old: PodView | None, new: PodView) -> bool:
    """Returns whether the scheduler has just nominated a node for a pod that waits."""
    if new.node_name or not new.nominated_node:
        return False
    return old is None or (old.uid, old.nominated_node) != (new.uid, new.nominated_node)


def _is_recent(winner: Winner, now_seconds: float) -> bool:
    return now_seconds - winner.at_seconds < AWAITED_SECONDS


class NominatedRefusals:
    """The pods whose nominated node was refused in their last answer, by uid; the oldest goes when there are too many.

    kube-scheduler asks about the nominated node alone, and about all nodes if that fails. For a pod that can run on
    that node only the second request is the first one again: it passes. Thread-safe.
    """

    def __init__(self) -> None:
        self._lock = deadline.Lock()
        self._refused: dict[str, None] = {}

    def refuse(self, uid: str) -> bool:
        """Returns whether the node is to be refused: not where it just was, nor where that cannot be remembered."""
        with self._lock:
            if self._refused.pop(uid, uid) is None or not 0 < len(uid) <= LONGEST_KEY:
                return False
            self._refused[uid] = None
            if len(self._refused) > REFUSALS_KEPT:
                del self._refused[next(iter(self._refused))]
            return True

    def forget(self, uid: str) -> None:
        """The pod had another answer since."""
        with self._lock:
            self._refused.pop(uid, None)
