"""How long a client may take to send a request and to take its reply: sockets that end when its time is over.

`ops_server` makes every connection a `LimitedSocket` and answers one request on it. Reading head and body holds one of
few threads, and so does writing a reply that the client does not read; without a limit a few such clients would hold
them all. The time of a request counts from when it is first read, that of a reply, or of a piece of one that is sent
piece by piece, from when the buffers are full. The extender, whose port more clients reach, reads without threads
(`extender.http.gunicorn_worker`) and has these times in its poller.
"""

import collections.abc
import contextlib
import errno
import socket
from typing import TYPE_CHECKING, Final, TypeVar

from runtime import clock

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

T = TypeVar("T")

REQUEST_SECONDS: Final = 5.0  # whole ones take milliseconds; kube-scheduler waits no longer for the answer
REPLY_SECONDS: Final = 20.0  # what the buffers do not hold is megabytes: GET /nodes of thousands, for a person far away


class LimitedSocket(socket.socket):
    """A socket that reads a request within REQUEST_SECONDS and writes a reply within REPLY_SECONDS. It is `answering`
    after each byte of its client until it waits for the next one, or for the client to take the reply.
    """

    ticking: clock.Clock = clock.WallClock()
    address: str = ""
    answering: bool = False
    answered: bool = False
    _read_until_seconds: float | None = None
    _written_until_seconds: float | None = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read as ever, but when the time is over shut the connection and raise ConnectionResetError.

        Of a connection that is not shut `http_exchange.end` would wait 2 s for the client's end.
        """
        if self._read_until_seconds is None:
            self._read_until_seconds = self.ticking.monotonic() + REQUEST_SECONDS
        return self._until(self._read_until_seconds, "the request did not come in time", super().recv, buflen, flags)

    def send(self, data: "ReadableBuffer", flags: int = 0) -> int:
        """Write as ever, with the same end as `recv`."""
        if self._written_until_seconds is None:
            self._written_until_seconds = self.ticking.monotonic() + REPLY_SECONDS
        return self._until(self._written_until_seconds, "the reply was not read in time", super().send, data, flags)

    def sendall(self, data: "ReadableBuffer", flags: int = 0) -> None:
        """Write everything within the limit; nearly always the buffer takes it at once, without a look at the clock."""
        self.answered = True
        whole, sent = memoryview(data).cast("B"), 0
        with contextlib.suppress(BlockingIOError):
            sent = super().send(data, flags | socket.MSG_DONTWAIT)
        while sent < len(whole):
            sent += self.send(whole[sent:], flags)
        self._written_until_seconds = None  # a stream's next piece has a time of its own

    @classmethod
    def of(cls, taken: socket.socket, address: str) -> "LimitedSocket":
        """Returns the connection of a client with limits; `taken` is detached."""
        timeout_seconds = taken.gettimeout()
        connection = cls(taken.family, taken.type, taken.proto, fileno=taken.detach())
        connection.settimeout(timeout_seconds)
        connection.address = address
        return connection

    def drop(self) -> None:
        """End the connection for the thread that reads or writes it."""
        with contextlib.suppress(OSError):  # the client was quicker
            self.shutdown(socket.SHUT_RDWR)

    def _until(
        self, until_seconds: float, otherwise: str, work: collections.abc.Callable[..., T], *arguments: object
    ) -> T:
        asked_seconds, left_seconds = self.gettimeout(), until_seconds - self.ticking.monotonic()
        if left_seconds <= 0:
            raise self._overdue(otherwise)
        self.settimeout(left_seconds if asked_seconds is None else min(asked_seconds, left_seconds))
        self.answering = False
        try:
            return work(*arguments)
        except TimeoutError as error:
            if asked_seconds is not None:
                raise
            raise self._overdue(otherwise) from error
        finally:
            self.answering = True
            self.settimeout(asked_seconds)

    def _overdue(self, why: str) -> ConnectionResetError:
        self.drop()
        return ConnectionResetError(errno.ECONNRESET, why)
