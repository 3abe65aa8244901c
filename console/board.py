"""The newest answer of each topic, with a revision by which browsers are told of changes.

`polling` publishes, `stream` waits. A body is JSON in bytes, made once however many browsers look; the same body twice
is no change.
"""

import collections.abc
import threading
from typing import NamedTuple


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
