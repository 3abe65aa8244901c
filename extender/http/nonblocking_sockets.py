"""Sockets of the extender's port that never wait: what the kernel does not take of a reply is kept, not waited for.

`connection` makes every connection a `Plain` one or, with TLS, a `tls.Socket`. gunicorn and `http.raw_requests` write a
reply with `sendall` on a thread; where the client reads slowly, `http.gunicorn_worker` sends the rest from its poller
with `flush`, so that no thread is held by a client that does not read.
"""

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_CORK: Final[int | None] = getattr(socket, "TCP_CORK", None)
FULL: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)  # the kernel has nothing, or takes nothing


class Sending(socket.socket):
    """A non-blocking socket that keeps what it could not send; a mixin, in front of the class that reads and writes."""

    unsent: memoryview = memoryview(b"")

    def sendall(self, data: "ReadableBuffer", flags: int = 0) -> None:
        """Send what the kernel takes now and keep the rest, behind what is kept already. Errors: OSError."""
        assert not flags  # noqa: S101 - TLS has none
        if self.unsent:
            self.unsent = memoryview(b"".join((self.unsent, data)))
        else:
            self.unsent = memoryview(data).cast("B")
            self.flush()
        if self.unsent and not isinstance(data, bytes):
            self.unsent = memoryview(bytes(self.unsent))  # the caller may use its buffer again

    def flush(self) -> bool:
        """Send more of what is kept; True when nothing is left. Errors: OSError."""
        with contextlib.suppress(*FULL):
            while self.unsent:
                self.unsent = self.unsent[self.send(self.unsent) :]
        return not self.unsent


class Plain(Sending):
    """A connection without TLS, or the one under it."""

    @classmethod
    def of(cls, accepted: socket.socket) -> "Plain":
        """Returns the connection as a non-blocking one; `accepted` is closed to it."""
        plain = cls(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        plain.setblocking(False)
        return plain


def cork(connection: socket.socket | None, on: bool) -> None:
    """Let the kernel hold what is written to a connection until it fills a packet, or send what it holds. Only Linux
    can; a connection that is gone needs neither.
    """
    if connection is not None and _CORK is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, _CORK, on)
