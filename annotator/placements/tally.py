"""Every scheduling result is judged once: at its moment, or a little later where that moment had no leader.

`annotator.service` hands in the changes of its Pod watch, and calls `begin` and `settle` around each sync. Two threads,
so there is a lock. Placements without a leader are found in the cluster: the pods bound since the last renewal of the
previous Lease. Such results, and those of a process that has not read anything yet, wait for the first levels and are
judged by them if they were read soon enough; else they are counted as left out. After regaining the Lease a replica
skips the placements that it judged after its last renewal.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Final

from annotator.placements import effectiveness, hot_counts
from kube.pods.pod_view import PodView
from policy.rules.hotspots import Binding

# Averages over five minutes that were read so long after a placement show at most a tenth of what the pod uses.
LATE_SECONDS: Final = 30.0
REMEMBERED_SECONDS: Final = 60.0  # longer than a leader may act after its last renewal
LONGEST_GAP_SECONDS: Final = 3600.0  # what was placed longer ago belongs to a time without an annotator


class Results:
    """The tally and what waits to be judged."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._judging = False
        self._taken: frozenset[str] = frozenset()  # uids that `begin` found: the watch may still tell of them
        self._waiting: list[Binding] = []
        self._judged: dict[str, float] = {}  # uids of the last minute's results with their times, about in order
        self._look_back = effectiveness.LookBack()
        self.tally = effectiveness.Tally()
        self.stayed = effectiveness.LookbackTally()

    def begin(self, pods: Callable[[], Iterable[PodView]], *, since_seconds: float, now_seconds: float) -> None:
        """Judge from now on, and take up what was placed since a moment; nothing if that has begun already.

        `pods` is asked while the watch has to wait: a pod is either in its answer or will be told of after it.
        """
        with self._lock:
            if self._judging:
                return
            since_seconds = max(since_seconds, now_seconds - LONGEST_GAP_SECONDS)
            every = (hot_counts.scheduling_result(None, pod, since_seconds=since_seconds) for pod in pods())
            self._waiting = [placed for placed in every if placed is not None and placed.uid not in self._judged]
            self._taken = frozenset(placed.uid for placed in self._waiting)
            self._judging = True

    def end(self) -> None:
        """Another judges from now on: what waited is its business."""
        with self._lock:
            self._judging, self._waiting = False, []
            self._look_back = effectiveness.LookBack()

    def add(self, placed: Binding, levels: effectiveness.Levels | None) -> None:
        """Judge a result by the levels of this moment; without any it waits for the next ones."""
        with self._lock:
            if not self._judging or placed.uid in self._taken:
                return
            if levels is None:
                self._waiting.append(placed)
            else:
                self._judge(placed, levels)

    def settle(self, levels: effectiveness.Levels | None, *, now_seconds: float) -> None:
        """Judge what waited by new levels, leave out what waited for too long."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for placed in waiting:
                if levels is not None and abs(levels.at_seconds - placed.at_seconds) <= LATE_SECONDS:
                    self._judge(placed, levels)
                elif now_seconds - placed.at_seconds > LATE_SECONDS:
                    self._judge(placed, None)
                else:
                    self._waiting.append(placed)

    def look_back(self, sample: effectiveness.Look | None, *, now_seconds: float, looks_per_hour: float) -> None:
        """Follow the placements of the last hour, with a look where there is one to be had."""
        with self._lock:
            if sample is not None:
                self._look_back.look(sample)
            self.stayed = self.stayed.plus(self._look_back.over(now_seconds=now_seconds, looks_per_hour=looks_per_hour))

    def _judge(self, placed: Binding, levels: effectiveness.Levels | None) -> None:
        self._judged[placed.uid] = placed.at_seconds
        while next(iter(self._judged.values())) < placed.at_seconds - REMEMBERED_SECONDS:
            del self._judged[next(iter(self._judged))]
        before = self.tally.total_schedule_count
        self.tally = self.tally.with_placement(placed.node, levels)
        if self.tally.total_schedule_count > before:
            self.stayed = self.stayed.plus(self._look_back.follow(placed))
