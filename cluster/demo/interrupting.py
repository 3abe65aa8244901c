"""Ctrl-C that cannot get lost.

Python raises KeyboardInterrupt wherever the main thread happens to be, and where that is a destructor or a weak
reference's callback it is printed and dropped: `make run` then went on to its end. So the handler also sets an event,
and `phases` waits on that event between its steps.
"""

import signal
import threading
from types import FrameType

from runtime import clock as clocks


def noticed() -> threading.Event:
    """An event that SIGINT and SIGTERM set, besides raising KeyboardInterrupt; call it on the main thread."""
    interrupted = threading.Event()

    def handle(_number: int, _frame: FrameType | None) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, handle)
    signal.signal(signal.SIGTERM, handle)
    return interrupted


def pause(clock: clocks.Clock, interrupted: threading.Event, seconds: float) -> None:
    """Waits; raises KeyboardInterrupt at once when the event is set, however long ago the signal came."""
    if clock.wait(interrupted, seconds):
        raise KeyboardInterrupt
