"""When a request must be answered, whatever stands in the way: its time limit, and locks that keep to it.

kube-scheduler gives up after `httpTimeout` (500 ms in the shipped stanza) and takes that for an error. So a request
that would be late is answered neutrally instead, by `app`, when `Overrun` is raised. `http.gunicorn_server` tells how
long a request waited for a thread, `DeadlineApplication` stands in front of the application and sets the thread's
limit, `Lock` is what the tables and the view guard themselves with. Threads without a limit, the watches and the policy
loop, wait as long as it takes.

No timer and no thread watches a request: it is looked at when it begins and where it would wait. What computes is
bounded by its size. What waits in the kernel, before gunicorn has seen it, is unknown here.
"""

import collections.abc
import threading
from types import TracebackType
from typing import Final
from wsgiref import types as wsgi

from runtime import clock

DEFAULT_SECONDS: Final = 0.25  # half of httpTimeout: the other is the way there and back, and what is invisible here
CAUSE: Final = "deadline"


class Overrun(Exception):
    """The time for this request is over; no error, as the answer is a neutral one."""


class _Thread(threading.local):
    """State of the request that this thread is answering."""

    left_seconds: collections.abc.Callable[[], float] | None = None  # until the answer is due, 0 or less when it was
    waited_seconds: float = 0.0


_thread: Final = _Thread()


def waited(seconds: float) -> None:
    """The request that this thread answers next has waited for it for so long."""
    _thread.waited_seconds = seconds


def check() -> None:
    """Overrun when the time of this thread's request is over."""
    if _thread.left_seconds is not None and _thread.left_seconds() <= 0:
        raise Overrun


class Lock:
    """As threading.Lock in a `with`, except that a thread with a limit waits no longer than that: Overrun."""

    __slots__ = ("_release", "_take")

    def __init__(self) -> None:
        lock = threading.Lock()
        self._take, self._release = lock.acquire, lock.release

    def __enter__(self) -> None:
        if not self._take(False):
            self._wait()

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._release()

    def _wait(self) -> None:
        left_seconds = _thread.left_seconds
        if left_seconds is None:
            self._take()
        elif not self._take(timeout=max(0.0, left_seconds())):
            raise Overrun


class DeadlineApplication:
    """A WSGI application whose requests to some paths have `limit_seconds`, counted from when they were seen."""

    def __init__(
        self,
        application: wsgi.WSGIApplication,
        paths: collections.abc.Collection[str],
        *,
        limit_seconds: float,
        ticking: clock.Clock,
    ) -> None:
        self._application, self._paths = application, frozenset(paths)
        self._limit_seconds, self._clock = limit_seconds, ticking

    def __call__(
        self, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> collections.abc.Iterable[bytes]:
        """One request. What is done when the reply is closed has no limit."""
        if environ["PATH_INFO"] in self._paths:
            until_seconds = self._clock.monotonic() - _thread.waited_seconds + self._limit_seconds
            _thread.left_seconds = lambda: until_seconds - self._clock.monotonic()
        try:
            return self._application(environ, start_response)
        finally:
            _thread.left_seconds, _thread.waited_seconds = None, 0.0
