"""Waits for a condition."""

import threading
import time
from collections.abc import Callable

from lab.cluster import errors

_NEVER = threading.Event()


def until(is_so: Callable[[], bool], what: str, seconds: float) -> None:
    """Asks ten times a second; ComponentError names what did not happen in so many seconds."""
    limit = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > limit:
            raise errors.ComponentError(f"waited {seconds:g} s for {what}")
        _NEVER.wait(0.1)
