"""Server-sent events: every topic once, then each change as it comes, to a bounded number of browsers.

The format is the HTML standard's (9.2, server-sent events). A comment every few seconds lets a proxy keep the
connection and lets this side notice that the browser is gone.
"""

import collections.abc
import threading
from typing import Final

from console import board

QUIET_SECONDS: Final = 10.0
STREAMS: Final = 16  # of the 32 connections that one address may have
RETRY_MILLISECONDS: Final = 2000


class TooMany(Exception):
    """As many browsers as allowed look already."""


class Streams:
    """Hands out streams of a board, at most `limit` at a time."""

    def __init__(self, topics: board.Board, *, limit: int = STREAMS, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._topics = topics
        self._quiet_seconds = quiet_seconds
        self._slots = threading.BoundedSemaphore(limit)

    def open(self) -> "Stream":
        """A new stream; TooMany when there are enough."""
        if not self._slots.acquire(blocking=False):
            raise TooMany
        return Stream(self._topics, self._quiet_seconds, self._slots.release)


class Stream:
    """One browser's events, as bytes; `close` gives its place back, whether or not it was read."""

    def __init__(self, topics: board.Board, quiet_seconds: float, release: collections.abc.Callable[[], None]) -> None:
        self._events = _events(topics, quiet_seconds)
        self._release: collections.abc.Callable[[], None] | None = release

    def __iter__(self) -> collections.abc.Iterator[bytes]:
        return self._events

    def close(self) -> None:
        """End the stream; once or more often."""
        self._events.close()
        release, self._release = self._release, None
        if release is not None:
            release()


def _events(topics: board.Board, quiet_seconds: float) -> collections.abc.Generator[bytes, None, None]:
    revision = 0
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while (changed := topics.after(revision, quiet_seconds)) is not None:
        for topic in changed:
            revision = topic.revision
            yield b"event: %b\ndata: %b\n\n" % (topic.name.encode(), topic.body)
        if not changed:
            yield b": quiet\n\n"
