"""ManualClock: a Clock that moves only when a test moves it, or when something waits on it.

Unit tests of loops, the reflector and the lease pass it where services pass runtime.clock.WallClock.
"""

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
