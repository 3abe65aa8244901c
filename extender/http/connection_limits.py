"""Memory of connections and order of requests, so that no client's address keeps the others from the port.

`http.gunicorn_worker` asks `Open` after every new connection (`runtime.connection_limits`) and every byte that it
holds, `Handshakes` for the next handshake, and `Turns` for the next request that a thread is to answer. All are fair by
address: who has most must give way.
"""

import collections
import math
from typing import Final

from extender.http import connection
from runtime import connection_limits, logs

OPEN_LIMIT: Final = 640  # gunicorn would stop accepting at 1,000, and many systems allow 1,024 files
OPEN_LIMIT_OF_ADDRESS: Final = OPEN_LIMIT // 2
HELD_LIMIT_BYTES: Final = 2 * (2**24 + 2**16)  # two of the largest requests, or 200 of 5,000 nodes

DROP_LOGGED_SECONDS: Final = 60.0

log = logs.get(__name__)


class Open(connection_limits.Open[connection.Connection]):
    """The open connections, and the bytes that they hold."""

    def __init__(self) -> None:
        super().__init__(OPEN_LIMIT)
        self._sizes: dict[connection.Connection, int] = {}
        self._held_bytes = 0

    def remove(self, old: connection.Connection) -> None:
        """A connection was closed."""
        super().remove(old)
        self._held_bytes -= self._sizes.pop(old, 0)

    def hold(self, client: connection.Connection) -> connection.Connection | None:
        """Count the bytes that it holds now; the connection that must go, if they are too many in all."""
        held_bytes = client.held_bytes
        self._held_bytes += held_bytes - self._sizes.get(client, 0)
        self._sizes[client] = held_bytes
        if not held_bytes:
            del self._sizes[client]
        return self._largest() if self._held_bytes > HELD_LIMIT_BYTES else None

    def _largest(self) -> connection.Connection | None:
        """Of the address that holds most, the connection that holds most and that no thread has."""
        of_address: collections.Counter[str] = collections.Counter()
        for one, held_bytes in self._sizes.items():
            of_address[one.address] += held_bytes
        free = (one for one in self._sizes if not one.answering)
        return max(free, key=lambda one: (of_address[one.address], self._sizes[one]), default=None)


class Queue:
    """Connections that wait, in the order in which they began to."""

    def __init__(self) -> None:
        self._waiting: dict[connection.Connection, None] = {}

    def wait(self, client: connection.Connection) -> None:
        """It waits from now on, where it did not yet."""
        self._waiting[client] = None

    def forget(self, client: connection.Connection) -> None:
        """It waits no longer."""
        self._waiting.pop(client, None)


class Turns(Queue):
    """Whole requests that wait for a thread. The next is of the address with fewest requests in progress; of large ones
    one at a time is in progress, as their decoding takes memory and time in which no other thread can run.
    """

    def __init__(self, threads: int) -> None:
        super().__init__()
        self._free = threads
        self._in_progress: collections.Counter[str] = collections.Counter()
        self._large: connection.Connection | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self) -> connection.Connection | None:
        """The next for a thread; None while there is none of either."""
        ready = [one for one in self._waiting if not (self._large and one.large)] if self._free else []
        if not ready:
            return None
        chosen = min(ready, key=lambda one: self._in_progress[one.address])
        self.forget(chosen)
        self._free -= 1
        self._in_progress[chosen.address] += 1
        if chosen.large:
            self._large = chosen
        return chosen

    def done(self, client: connection.Connection) -> None:
        """A thread has answered it."""
        self._free += 1
        self._in_progress[client.address] -= 1
        self._in_progress += collections.Counter()  # without those that have none
        if self._large is client:
            self._large = None


class Handshakes(Queue):
    """Connections whose handshake can go on. The address that waits for longest is next, so that another's hundreds do
    not come before a scheduler's one.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turns: dict[str, int] = {}  # by address, when it last had one
        self._turn = 0

    def take(self) -> connection.Connection | None:
        """The next; the poller names the others again."""
        self._turn += 1
        client = min(self._waiting, key=lambda one: self._turns.get(one.address, 0), default=None)
        self._waiting.clear()
        if client is None:
            self._turns.clear()
        else:
            self._turns[client.address] = self._turn
        return client


class DropLog:
    """Logs one dropped connection a minute for people: who is in the way is worth a line, and not a line each time."""

    def __init__(self) -> None:
        self._next_seconds = -math.inf

    def add(self, address: str, reason: str, now_seconds: float) -> None:
        """A connection was dropped."""
        if now_seconds >= self._next_seconds:
            self._next_seconds = now_seconds + DROP_LOGGED_SECONDS
            log.warning("connection dropped, others too if the metric rises", client=address, reason=reason)
        else:
            log.debug("connection dropped", client=address, reason=reason)
