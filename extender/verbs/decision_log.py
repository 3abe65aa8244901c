"""The decisions of the last hour, in a fixed amount of memory, for GET /decisions and for people who ask "why there?".

`app` notes one `Decision` per filter, prioritize and preempt answer. What it was made from stays as references to the
request's own arrays: noting costs next to nothing, `verbs.explain` computes the factors on request. The newest
keep all their nodes; older ones lose what they were made from, and keep the best nodes with their scores and how many
nodes each reason rejected; then whole decisions go, oldest first.
"""

import collections
import collections.abc
import dataclasses
import itertools
import threading
from typing import Final

import msgspec

from extender.state.candidates import AnyCandidates, CandidateRows, Candidates
from extender.verbs import decided_pod, documents
from kube import objects
from policy.contract import owner_usage

KEPT_SECONDS: Final = 3600.0
LIMIT_BYTES: Final = 32 * 2**20  # of the 300 MiB that an extender of 5,000 nodes may take
WHOLE_BYTES: Final = 8 * 2**20  # of these, for decisions with all their nodes: some 200 of 500 nodes
BEST_KEPT: Final = 5
REASONS_KEPT: Final = 16

# Approximate sizes on CPython 3.11, measured with tracemalloc (tests/unit/extender/test_decisions.py).
_DECISION_BYTES: Final = 1000
_RANKED_BYTES: Final = 150
_REASON_BYTES: Final = 100
_OBJECTS_BYTES: Final = 1500  # the dataclasses and the headers of their arrays


@dataclasses.dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of a decision: the nodes at that moment, the pod, and the reason of each rejected node.

    Everything is shared with the request that made it, which may only have marked rows of what stood for all nodes
    (`CandidateRows`), except the pod, which is a `decided_pod.slim` one; `mean` is what the pod's owner was known to
    use.
    """

    selection: AnyCandidates = dataclasses.field(compare=False)  # arrays have no single truth value
    pod: objects.Pod
    rejected: collections.abc.Mapping[str, str]
    mean: owner_usage.Mean | None = None

    @property
    def candidates(self) -> Candidates:
        """The nodes with their arrays; made now if the request only marked their rows."""
        return self.selection if isinstance(self.selection, Candidates) else self.selection.candidates()

    def size_bytes(self) -> int:
        """About how much memory it holds, without what it shares with its neighbours (`shared`)."""
        selection = self.selection
        own = _OBJECTS_BYTES + decided_pod.size_bytes(self.pod) + _REASON_BYTES * len(self.rejected)
        own += selection.rows.nbytes
        if isinstance(selection, CandidateRows):
            return own
        arrays = (selection.fresh, selection.values, selection.expected, selection.counts)
        return own + decided_pod.texts_bytes(selection.names) + sum(array.nbytes for array in arrays)

    def shared(self) -> list[tuple[object, int]]:
        """Returns the objects shared with the decisions before and after it, each with its size: the readings of all
        nodes, and the view of all of them at that moment.
        """
        loads = self.selection.every.loads
        arrays = loads.values.nbytes + loads.effective_seconds.nbytes + loads.per_allocatable.nbytes
        arrays += sum(column.nbytes for column in (loads.own_limits, loads.pools) if column is not None)
        parts: list[tuple[object, int]] = [(loads, arrays + 8 * len(loads.names))]
        if isinstance(self.selection, CandidateRows):
            every = self.selection.every  # of each class of pods another one, over the same arrays
            parts.append((every.expected, every.values.nbytes + every.expected.nbytes + every.counts.nbytes))
        return parts


class Decision(documents.DecisionFields, frozen=True):
    """A decision with what it was made from; `tied` has a bit for each row of the cluster's nodes: set where the score
    was the best. A node keeps its row while it exists, so that of one with the pod on it today's row is that of then.
    """

    inputs: Inputs | None = None
    tied: bytes = b""

    @property
    def ties(self) -> int:
        """How many nodes share the best score."""
        return int.from_bytes(self.tied).bit_count()

    def was_best(self, row: int | None) -> bool | None:
        """True if the node of this row shared the best score; None without scores, or without a row."""
        if row is None or not self.tied:
            return None
        return row >> 3 < len(self.tied) and bool(self.tied[row >> 3] & 0x80 >> (row & 7))

    def size_bytes(self) -> int:
        """About how much memory it holds with its inputs."""
        own = _DECISION_BYTES + _RANKED_BYTES * len(self.best) + _REASON_BYTES * len(self.rejected) + len(self.tied)
        if self.inputs is None:  # a neutral answer, or an older one: its texts are not shared
            return own + decided_pod.texts_bytes((self.namespace, self.pod, self.uid))
        return own + self.inputs.size_bytes()


@dataclasses.dataclass(slots=True)
class _StoredDecision:
    """A decision in the ring with what it was counted as; `shared_bytes` is 0 where the one before counts them."""

    decision: Decision
    own_bytes: int
    shared_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        return self.own_bytes + self.shared_bytes


class DecisionLog:
    """The decisions of the last KEPT_SECONDS that fit; oldest dropped first. Safe from any thread. `begun` is another
    one in each process: the numbers of decisions begin again with it.
    """

    def __init__(self, begun: str = "", *, limit_bytes: int = LIMIT_BYTES, whole_bytes: int = WHOLE_BYTES) -> None:
        self.begun = begun
        self._added = 0
        self._lock = threading.Lock()
        self._limit_bytes, self._whole_limit_bytes = limit_bytes, whole_bytes
        self._entries: collections.deque[_StoredDecision] = collections.deque()
        self._whole: collections.deque[_StoredDecision] = collections.deque()
        self._bytes = self._whole_bytes = 0
        self._last_shared: list[object] = []

    @property
    def size_bytes(self) -> int:
        """About how much memory the decisions hold now."""
        with self._lock:
            return self._bytes

    def add(self, decision: Decision) -> None:
        """Note a decision, and make room for it."""
        with self._lock:
            entry = _StoredDecision(decision, decision.size_bytes())
            if decision.inputs is not None:
                entry.shared_bytes = self._shared_bytes(decision.inputs)
                self._whole.append(entry)
                self._whole_bytes += entry.size_bytes
            self._entries.append(entry)
            self._added += 1
            self._bytes += entry.size_bytes
            while self._whole_bytes > self._whole_limit_bytes:  # 3 us each; by a new table some 20 to 80 at once
                self._condense_oldest()
            while self._bytes > self._limit_bytes:
                self._drop_oldest()
            self._forget(decision.at_seconds)

    def find(self, namespace: str, pod: str, limit: int, *, now_seconds: float) -> list[Decision]:
        """The newest first, of one namespace and pod where they are given, at most `limit`."""
        with self._lock:
            self._forget(now_seconds)
            newest_first = [entry.decision for entry in reversed(self._entries)]
        matches = (
            decision for decision in newest_first if namespace in ("", decision.namespace) and pod in ("", decision.pod)
        )
        return [decision for decision, _ in zip(matches, range(limit), strict=False)]

    def after(self, number: int, limit: int, *, now_seconds: float) -> tuple[int, list[Decision]]:
        """At most `limit` decisions after the first `number` that were ever added, oldest first, and how many came
        before them: more than `number` where some of those in between were dropped.
        """
        with self._lock:
            self._forget(now_seconds)
            dropped = self._added - len(self._entries)
            start = max(number, dropped)
            entries = itertools.islice(self._entries, start - dropped, start - dropped + limit)
            return start, [entry.decision for entry in entries]

    def _shared_bytes(self, inputs: Inputs) -> int:
        """Returns the bytes that decisions share; between two changes they count with the first decision.

        When that one goes and the others stay, the oldest version kept is not counted: one at most.
        """
        parts = inputs.shared()
        new = sum(size for part, size in parts if not any(part is last for last in self._last_shared))
        self._last_shared = [part for part, _ in parts]
        return new

    def _condense_oldest(self) -> None:
        entry = self._whole.popleft()
        self._whole_bytes -= entry.size_bytes
        self._bytes -= entry.size_bytes
        entry.decision = msgspec.structs.replace(entry.decision, inputs=None)
        entry.own_bytes, entry.shared_bytes = entry.decision.size_bytes(), 0
        self._bytes += entry.size_bytes

    def _drop_oldest(self) -> None:
        entry = self._entries.popleft()
        self._bytes -= entry.size_bytes
        if self._whole and self._whole[0] is entry:
            self._whole.popleft()
            self._whole_bytes -= entry.size_bytes

    def _forget(self, now_seconds: float) -> None:
        while self._entries and self._entries[0].decision.at_seconds <= now_seconds - KEPT_SECONDS:
            self._drop_oldest()
        if not self._whole:
            self._last_shared = []  # or they would stay until the next decision


def histogram(reasons: collections.abc.Iterable[str]) -> dict[str, int]:
    """How many nodes each reason rejected, the most frequent first, at most REASONS_KEPT of them."""
    return dict(collections.Counter(reasons).most_common(REASONS_KEPT))
