"""Shadow mode's comparison: the verdicts on a pod that kube-scheduler was not told, and the node that it chose itself.

`http.app` remembers the verdicts of the last answer about a pod, `service` reports each binding of the Pod watch, and
the node of the binding is counted by its verdict (`metrics.SHADOW_VERDICTS`): the sum of kube-scheduler's own scores is
not known, so nothing says which node would have won. An answer's bookkeeping may be later than the binding that follows
it (`http.deferred`), so bindings are remembered for a while, too.

A pod has a byte for each node of the cluster. What never binds is forgotten after KEPT_SECONDS, or when LIMIT_BYTES are
reached, the oldest first: requests may name pods that do not exist.
"""

import collections.abc
import threading
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender import metrics
from extender.state import node_cache
from extender.verbs import decided_pod
from kube.pods import pod_view
from policy.rules import scoring

KEPT_SECONDS: Final = 900.0  # over the 10 minutes for which kube-scheduler waits for a volume before it binds
LIMIT_BYTES: Final = 8 * 2**20  # some 1,500 pods of 5,000 nodes
BOUND_KEPT_SECONDS: Final = 60.0
BOUND_KEPT: Final = 1000
_NOT_ASKED: Final = -2
_REJECTED: Final = -1
_VERDICT_BYTES: Final = 600  # without points and texts, measured with tracemalloc


class PodVerdicts(NamedTuple):
    """The verdicts on one pod by row, as in `row_of`: a score, or that the node was rejected or no candidate.

    `best` is the highest score of a node that was not rejected; None where load decided nothing: no node that passed
    has a usable reading, or none passed.
    """

    uid: str
    at_seconds: float
    row_of: collections.abc.Mapping[str, int]
    points: npt.NDArray[np.int8]
    best: int | None

    @classmethod
    def of(
        cls,
        uid: str,
        at_seconds: float,
        loads: node_cache.NodeLoads,
        candidates: node_cache.Rows,
        *,
        passed: node_cache.Rows,
        ranking: scoring.Ranking | None,
    ) -> "PodVerdicts":
        """The verdicts of an answer; without a `ranking` all that passed are equal, as a single node is."""
        points = np.full(len(loads.names), _NOT_ASKED, dtype=np.int8)
        points[candidates] = _REJECTED
        points[passed] = scoring.MAX_SCORE if ranking is None else ranking.scores
        points[node_cache.UNKNOWN] = _NOT_ASKED
        blind = ranking is not None and bool(ranking.neutral.all())
        best = None if blind or not len(passed) else int(points.take(passed).max())
        return cls(uid, at_seconds, loads.index, points, best)

    def verdict(self, node: str) -> tuple[str, int | None]:
        """The verdict on a node, and by how many points it is worse than the best; None if it has no score."""
        points = int(self.points[self.row_of.get(node, node_cache.UNKNOWN)])
        if points == _NOT_ASKED:
            return metrics.NOT_ASKED, None
        if points == _REJECTED:
            return metrics.REJECTED, None
        if self.best is None:
            return metrics.UNJUDGED, None
        return (metrics.BEST if points == self.best else metrics.LOWER), self.best - points

    @property
    def size_bytes(self) -> int:
        """About how much memory it holds; `row_of` is shared."""
        return _VERDICT_BYTES + self.points.nbytes + decided_pod.texts_bytes((self.uid,))


class ShadowLog:
    """The verdicts on pods that are not bound yet, each pod's last ones. Safe from any thread."""

    def __init__(self, counted: metrics.Metrics, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._metrics = counted
        self._limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._verdicts: dict[str, PodVerdicts] = {}  # by uid, the oldest first
        self.size_bytes = 0  # about how much memory the verdicts hold now
        self._bound: dict[str, tuple[str, float]] = {}  # by uid the node and when, the oldest first

    def __len__(self) -> int:
        return len(self._verdicts)

    def remember(self, verdicts: PodVerdicts) -> None:
        """Keep the verdicts of an answer until the pod is bound; if it was bound a moment ago, count it now."""
        with self._lock:
            self._drop(verdicts.uid)
            node, _ = self._bound.pop(verdicts.uid, ("", 0.0))
            if not node:
                self._verdicts[verdicts.uid] = verdicts
                self.size_bytes += verdicts.size_bytes
                self._forget(verdicts.at_seconds)
        if node:
            self._count(verdicts, node)

    def pod_changed(self, old: pod_view.PodView | None, new: pod_view.PodView | None, now_seconds: float) -> None:
        """A change from the Pod watch: count a binding, forget a pod that goes without one."""
        bound = new is not None and new.node_name and (old is None or old.uid != new.uid or not old.node_name)
        with self._lock:
            if old is not None and (new is None or new.uid != old.uid):
                self._drop(old.uid)
            verdicts = self._drop(new.uid) if new is not None and (new.node_name or new.deleting) else None
            if new is not None and bound and verdicts is None:
                self._bound[new.uid] = new.node_name, now_seconds
            self._forget(now_seconds)
        if new is not None and bound and verdicts is not None:
            self._count(verdicts, new.node_name)

    def _count(self, verdicts: PodVerdicts, node: str) -> None:
        verdict, missed_points = verdicts.verdict(node)
        self._metrics.shadow_placements.labels(verdict).inc()
        if missed_points is not None:
            self._metrics.shadow_missed_points.observe(missed_points)

    def _drop(self, uid: str) -> PodVerdicts | None:
        dropped = self._verdicts.pop(uid, None)
        self.size_bytes -= 0 if dropped is None else dropped.size_bytes
        return dropped

    def _forget(self, now_seconds: float) -> None:
        while self._verdicts:
            oldest = next(iter(self._verdicts.values()))
            if self.size_bytes <= self._limit_bytes and oldest.at_seconds > now_seconds - KEPT_SECONDS:
                break
            self._drop(oldest.uid)
        while self._bound:
            uid, (_, at_seconds) = next(iter(self._bound.items()))
            if len(self._bound) <= BOUND_KEPT and at_seconds > now_seconds - BOUND_KEPT_SECONDS:
                break
            del self._bound[uid]
