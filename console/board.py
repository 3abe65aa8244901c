"""The newest answer of each topic, and its changes as server-sent events to a bounded number of browsers.

`polling` publishes, a `Stream` sends every topic once and then each change as it comes. A body is JSON in bytes, made
once however many browsers look; the same body twice is no change. The format of events is the HTML standard's (9.2,
server-sent events); a comment every few seconds lets a proxy keep the connection and lets this side notice that the
browser is gone.
"""

import collections.abc
import contextlib
import threading
from typing import Final, NamedTuple

QUIET_SECONDS: Final = 10.0
STREAMS: Final = 16  # of the 32 connections that one address may have
RESERVED: Final = 4  # of these, for people before the page
RETRY_MILLISECONDS: Final = 2000


class Topic(NamedTuple):
    """A topic's body and the revision in which it became so."""

    name: str
    revision: int
    body: bytes


class Board:
    """The topics. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._topics: dict[str, Topic] = {}
        self._revision = 0
        self._closed = False

    def publish(self, name: str, body: bytes) -> None:
        """Replace a topic's body and wake who waits."""
        with self._changed:
            known = self._topics.get(name)
            if known is not None and known.body == body:
                return
            self._revision += 1
            self._topics[name] = Topic(name, self._revision, body)
            self._changed.notify_all()

    def newest(self, name: str) -> bytes | None:
        """The body of a topic; None before its first."""
        with self._changed:
            topic = self._topics.get(name)
            return None if topic is None else topic.body

    def after(self, revision: int, timeout_seconds: float) -> collections.abc.Sequence[Topic] | None:
        """The topics that changed after a revision, oldest first; none after the timeout; None when it is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._revision > revision, timeout_seconds)
            if self._closed:
                return None
            topics = [topic for topic in self._topics.values() if topic.revision > revision]
        return sorted(topics, key=lambda topic: topic.revision)

    def close(self) -> None:
        """End every wait, now and later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class Streams:
    """Hands out streams of a board, at most `limit` at a time, the last RESERVED of them to people only."""

    def __init__(self, topics: Board, *, limit: int = STREAMS, quiet_seconds: float = QUIET_SECONDS) -> None:
        self._topics = topics
        self._quiet_seconds = quiet_seconds
        self._lock = threading.Lock()
        self._limit, self._open = limit, 0

    def open(self, *, own: bool = True) -> "Stream | None":
        """A new stream, of a person before the page if it is `own`; None when there are enough."""
        with self._lock:
            if self._open >= self._limit - (0 if own else RESERVED):
                return None
            self._open += 1
        return Stream(self._topics, self._quiet_seconds, self._release)

    def _release(self) -> None:
        with self._lock:
            self._open -= 1


class Stream(contextlib.ExitStack):
    """One browser's events, as bytes; `close` ends them and gives its place back, whether or not it was read."""

    def __init__(self, topics: Board, quiet_seconds: float, release: collections.abc.Callable[[], None]) -> None:
        super().__init__()
        self._events = _events(topics, quiet_seconds)
        self.callback(release)
        self.callback(self._events.close)

    def __iter__(self) -> collections.abc.Iterator[bytes]:
        return self._events


def _events(topics: Board, quiet_seconds: float) -> collections.abc.Generator[bytes, None, None]:
    revision = 0
    yield b"retry: %d\n\n" % RETRY_MILLISECONDS
    while (changed := topics.after(revision, quiet_seconds)) is not None:
        for topic in changed:
            revision = topic.revision
            yield b"event: %b\ndata: %b\n\n" % (topic.name.encode(), topic.body)
        if not changed:
            yield b": quiet\n\n"
