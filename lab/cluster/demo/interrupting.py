"""Ctrl-C that cannot get lost.

Python raises KeyboardInterrupt wherever the main thread happens to be, and where that is a destructor or a weak
reference's callback it is printed and dropped: `make run` then went on to its end. So the handler also sets an event,
and `phases` waits on that event between its steps. Nor may it come while a process is being started: `services` holds
it back until the process is known to its owner, which will end it.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

from runtime import clock as clocks

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def noticed() -> threading.Event:
    """An event that SIGINT and SIGTERM set, besides raising KeyboardInterrupt; call it on the main thread."""
    interrupted = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    for number in SIGNALS:
        signal.signal(number, handle)
    return interrupted


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the body is over, however it ends; use it on the main thread."""
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: came.append(number)) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def pause(clock: clocks.Clock, interrupted: threading.Event, seconds: float) -> None:
    """Waits; raises KeyboardInterrupt at once when the event is set, however long ago the signal came."""
    if clock.wait(interrupted, seconds):
        raise KeyboardInterrupt
