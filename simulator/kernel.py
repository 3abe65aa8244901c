"""The virtual clock, and what happens when: a heap of events that runs as fast as it can.

`world` puts the arrivals, the kubelet's delays and the services' loops on it. Everything happens on one thread, in
order of time, at one time in order of rank (0 unless said otherwise, lower first), and within a rank in the order in
which it was put there, so that a run repeats itself exactly. What is planned when a run begins is sorted once, and only
what is added meanwhile is on the heap, which stays small: a world plans tens of thousands of arrivals.
"""

import heapq
import itertools
import threading
from collections.abc import Callable

Action = Callable[[], None]
Event = tuple[float, int, int, Action]  # Unix seconds, rank, number, what to do


class Kernel:
    """Events in order of time. `clock` is the time that everything simulated reads."""

    def __init__(self, start_seconds: float) -> None:
        self.clock = VirtualClock(start_seconds)
        self._planned: list[Event] = []  # the next one last
        self._heap: list[Event] = []
        self._numbers = itertools.count()

    @property
    def now_seconds(self) -> float:
        """Virtual Unix seconds."""
        return self.clock.now()

    def at(self, at_seconds: float, action: Action, *, rank: int = 0) -> None:
        """Do something at a time; ValueError for one that is over."""
        if not at_seconds >= self.now_seconds:
            raise ValueError(f"an event at {at_seconds!r}: expected now ({self.now_seconds!r}) or later")
        heapq.heappush(self._heap, (at_seconds, rank, next(self._numbers), action))

    def after(self, seconds: float, action: Action, *, rank: int = 0) -> None:
        """Do something so many seconds from now."""
        self.at(self.now_seconds + seconds, action, rank=rank)

    def every(self, seconds: float, action: Action, *, first_seconds: float, rank: int = 0) -> None:
        """Do something at `first_seconds` and then periodically, for as long as the kernel runs."""

        def again() -> None:
            action()
            self.after(seconds, again, rank=rank)

        self.at(first_seconds, again, rank=rank)

    def run(self, until_seconds: float) -> None:
        """Let everything happen up to and including a time, at which the clock then stands."""
        self._planned.extend(self._heap)
        self._planned.sort(reverse=True)
        self._heap.clear()
        while (event := self._next(until_seconds)) is not None:
            self.clock.move_to(event[0])
            event[-1]()
        self.clock.move_to(until_seconds)

    def close(self) -> None:
        """Nothing of what is still planned will happen."""
        self._planned.clear()
        self._heap.clear()

    def _next(self, until_seconds: float) -> Event | None:
        """Take the event whose turn it is, if its time is not later."""
        planned, heap = self._planned, self._heap
        if planned and not (heap and heap[0] < planned[-1]):
            return planned.pop() if planned[-1][0] <= until_seconds else None
        return heapq.heappop(heap) if heap and heap[0][0] <= until_seconds else None


class VirtualClock:
    """A `runtime.clock.Clock` that stands until the kernel moves it."""

    def __init__(self, start_seconds: float) -> None:
        self._now_seconds = start_seconds

    def now(self) -> float:
        """Virtual Unix seconds."""
        return self._now_seconds

    def monotonic(self) -> float:
        """Returns the virtual time: it never jumps."""
        return self._now_seconds

    def wait(self, stop: threading.Event, _seconds: float) -> bool:
        """No thread waits on virtual time: waiting is an event of the kernel. Whether `stop` is set."""
        return stop.is_set()

    def move_to(self, at_seconds: float) -> None:
        """Go forward; only the kernel does."""
        self._now_seconds = max(self._now_seconds, at_seconds)
