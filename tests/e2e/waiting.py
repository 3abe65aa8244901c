"""Waiting for something to become true, with a limit and a sentence for when it does not.

A limit is for what will never happen: on a busy machine everything may take twenty times as long. What has to be *soon*
is proved by what else must not have happened before.
"""

import collections.abc
import threading
import time
from typing import TypeVar

LIMIT_SECONDS = 90.0
START_SECONDS = 150.0  # a process of ours on a machine that also starts three control planes
T = TypeVar("T")
_NEVER = threading.Event()


def eventually(
    probe: collections.abc.Callable[[], T | None],
    timeout_seconds: float,
    what: str,
    describe: collections.abc.Callable[[], object] | None = None,
    *,
    pause_seconds: float = 0.2,
) -> T:
    """The first true answer of `probe`, asked five times a second or after other pauses.

    After the limit an AssertionError says `what` was waited for, and what `item` (else the last answer) shows instead.
    """
    limit = time.monotonic() + timeout_seconds
    while True:
        answer = probe()
        if answer:
            return answer
        if time.monotonic() >= limit:
            raise AssertionError(
                f"waited {timeout_seconds:g} s for {what}; describe: {describe() if describe else answer!r}"
            )
        _NEVER.wait(pause_seconds)


def until(
    probe: collections.abc.Callable[[], T | None],
    what: str,
    describe: collections.abc.Callable[[], object] | None = None,
) -> T:
    """`eventually`, within `LIMIT_SECONDS`."""
    return eventually(probe, LIMIT_SECONDS, what, describe)
