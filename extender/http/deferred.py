"""Deferred bookkeeping per connection: runs when no request waits.

`http.fast_path` hands over the bookkeeping of an answer with `do`. A thread of `http.gunicorn_server` that is `keeping`
puts it off and lets `some` of it be done whenever no request waits; at most LIMIT are put off, and all are done before
the thread leaves the connection, so that nothing is lost at a graceful end. Any other thread does it at once.
"""

import collections
import collections.abc
import contextlib
import threading
from typing import Final

from runtime import loop

LIMIT: Final = 16  # each holds a score table of its moment, half a MiB at 5,000 nodes

Work = collections.abc.Callable[[], None]


class _Thread(threading.local):
    """The work that this thread has deferred; None while it does not defer."""

    put_off: "collections.deque[Work] | None" = None


_thread: Final = _Thread()


def do(work: Work) -> None:
    """Do this now or a moment later, on this thread. An exception is logged and ends nothing else."""
    put_off = _thread.put_off
    if put_off is None:
        _attempt(work)
        return
    put_off.append(work)
    if len(put_off) > LIMIT:
        some()


def pending() -> int:
    """How many things this thread has put off."""
    return len(_thread.put_off or ())


def some() -> None:
    """Do the oldest thing put off, if there is one."""
    if _thread.put_off:
        _attempt(_thread.put_off.popleft())


@contextlib.contextmanager
def keeping() -> collections.abc.Iterator[None]:
    """Put off what this thread is to do within the block; all of it is done at its end."""
    _thread.put_off = collections.deque()
    try:
        yield
    finally:
        while pending():
            some()
        _thread.put_off = None


def _attempt(work: Work) -> None:
    loop.attempt("note an answer", work)
