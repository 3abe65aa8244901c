"""ManualClock: a Clock that moves only when a test moves it, or when something waits on it."""

import queue
import threading
from collections.abc import Callable

START_SECONDS = 1_795_233_600.0  # 2026-11-21T04:00:00Z


class ManualClock:
    """`wait` advances at once instead of sleeping and is recorded in `waits`; `on_wait` may stop a loop from inside."""

    def __init__(self, now: float = START_SECONDS, *, on_wait: Callable[[float], None] | None = None) -> None:
        self._now = now
        self._monotonic = 1000.0
        self.waits: list[float] = []
        self.on_wait = on_wait

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds since some start; `jump` does not move it."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the machine's clock: now() moves, monotonic() does not."""
        self._now += seconds

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Advance by `seconds` without sleeping."""
        if stop.is_set():
            return True
        self.waits.append(seconds)
        self.advance(seconds)
        if self.on_wait is not None:
            self.on_wait(seconds)
        return stop.is_set()


class BreakingClock(ManualClock):
    """The first wait of each thread raises as one of twenty digits; `threads_again` has those that waited again."""

    def __init__(self) -> None:
        super().__init__()
        self._broken: set[str] = set()
        self._threads_again: queue.Queue[str] = queue.Queue()

    def wait(self, stop: threading.Event, seconds: float) -> bool:
        """Raise, or hold the thread until `stop` is set."""
        name = threading.current_thread().name
        if name not in self._broken:
            self._broken.add(name)
            raise OverflowError("timestamp too large to convert to C PyTime_t")
        self._threads_again.put(name)
        return stop.wait(60)

    def threads_again(self, count: int) -> set[str]:
        """The first so many of them."""
        return {self._threads_again.get(timeout=60) for _ in range(count)}
