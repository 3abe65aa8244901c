"""How long a client may take to send one request: sockets whose reads end when its time is over.

`serving` makes every connection a `Plain` one or, with TLS, a `tls.Connection`, and says when a request is expected.
Reading head and body holds one of the 8 threads; without a limit 8 clients that fall silent would hold them all. The
time counts from when something of the request is there, so a kept connection may be idle for as long as it likes.
"""

import contextlib
import errno
import socket
from typing import Final

from runtime import clock

REQUEST_SECONDS: Final = 5.0  # whole ones take milliseconds; kube-scheduler waits no longer for the answer


class Limited(socket.socket):
    """A socket that reads a request within REQUEST_SECONDS; a mixin, in front of the class that reads."""

    ticking: clock.Clock = clock.WallClock()
    _until_seconds: float | None = None

    def expect(self) -> None:
        """Another request begins with the next read."""
        self._until_seconds = None

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Read as ever, but when the time is over shut the connection and raise ConnectionResetError.

        gunicorn takes that for a client that is gone. Of a connection that is not shut it would wait 2 s for the
        client's goodbye, and in its main thread.
        """
        asked_seconds, left_seconds = self.gettimeout(), self._left_seconds()
        if left_seconds <= 0:
            raise self._overdue()
        self.settimeout(left_seconds if asked_seconds is None else min(asked_seconds, left_seconds))
        try:
            return super().recv(buflen, flags)
        except TimeoutError as error:
            if asked_seconds is not None:
                raise
            raise self._overdue() from error
        finally:
            self.settimeout(asked_seconds)

    def at_hand(self, most_bytes: int) -> bytes:
        """What has come already, without waiting; b"" for nothing, and at the end."""
        try:
            return super().recv(most_bytes, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return b""

    def _left_seconds(self) -> float:
        now_seconds = self.ticking.monotonic()
        if self._until_seconds is None:
            self._until_seconds = now_seconds + REQUEST_SECONDS
        return self._until_seconds - now_seconds

    def _overdue(self) -> ConnectionResetError:
        with contextlib.suppress(OSError):  # the client was quicker
            self.shutdown(socket.SHUT_RDWR)
        return ConnectionResetError(errno.ECONNRESET, "the request did not come in time")


class Plain(Limited):
    """A connection without TLS, or the one under it."""

    @classmethod
    def of(cls, taken: socket.socket) -> "Plain":
        """The same connection; `taken` is left without it."""
        timeout_seconds = taken.gettimeout()
        made = cls(taken.family, taken.type, taken.proto, fileno=taken.detach())
        made.settimeout(timeout_seconds)
        return made
