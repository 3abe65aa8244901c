"""One connection of the extender's port: its state, shared by `http.gunicorn_worker` and gunicorn, and its steps
that never wait.

A connection is silent, shakes hands (TLS), sends a request, is answered on a thread, takes the reply, and is kept or
ended. Each step but the answer is made by `http.gunicorn_worker` in its poller, in as many turns as the client needs,
within a time.
"""

import collections.abc
import selectors
import socket
import ssl
from typing import Any, Final

from extender.http import nonblocking_sockets, request_framing, tls

LARGE_BYTES: Final = 2 * 2**20  # a request with the names of 15,000 nodes is a quarter of it
DISCARDED_BYTES: Final = 2**16  # after the last answer, while the client ends what it sends
_GO_AHEAD: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection:
    """A client; `sock`, `client` and `server` are what gunicorn and `direct` read of it."""

    def __init__(self, accepted: socket.socket, client: tuple[Any, ...], settings: Any) -> None:
        self.sock: nonblocking_sockets.Plain | tls.Socket = nonblocking_sockets.Plain.of(accepted)
        self.client, self.address = client, str(client[0])
        self.server = self.sock.getsockname()
        self.incoming = request_framing.Incoming(settings, client)
        self.until_seconds = 0.0  # when the step it is in must be over
        self.events = 0  # for which it is registered in the poller
        self.answering = False  # a thread has it
        self.answered = False  # a request of it was whole
        self.ending = False  # its last answer is sent
        self.closed = False
        self.shaken = False  # its handshake is done
        self._left_bytes = DISCARDED_BYTES

    def watch(self, poller: selectors.BaseSelector, events: int, step: collections.abc.Callable[[Any], None]) -> None:
        """Register it in the poller for these events, or for none; `step` is what the poller calls."""
        if events == self.events:
            return
        if self.events:
            poller.unregister(self.sock)
        if events:
            poller.register(self.sock, events, step)
        self.events = events

    @property
    def held_bytes(self) -> int:
        """Memory that its request and its reply take."""
        return len(self.incoming.buffer) + len(self.sock.unsent)

    @property
    def large(self) -> bool:
        """Whether its request is one of those that are answered one at a time."""
        return self.incoming.size_bytes > LARGE_BYTES

    @property
    def idle(self) -> bool:
        """Whether nothing of a request is there."""
        return self.incoming.begun_seconds is None

    def shake(self, context: ssl.SSLContext, now_seconds: float, refusal: tls.Refusal) -> bool:
        """Go on with the handshake; True when it is done. Of a client with a `refusal` no body is read then. Errors:
        OSError.
        """
        if isinstance(self.sock, nonblocking_sockets.Plain):
            self.incoming.begun_seconds = now_seconds  # until it is done it is like a request that comes slowly
            self.sock = tls.wrapped(self.sock, context)
        if not self.sock.shake():
            return False
        self.incoming.begun_seconds = None
        self.incoming.bodies = refusal(self.sock.client_name) is None
        self.shaken = True
        return True

    def receive(self, now_seconds: float) -> bool:
        """Read what is there; True when a thread can go on, or when nothing can."""
        if self.incoming.receive(self.sock.recv, now_seconds):
            return True
        if self.incoming.take_go_ahead():
            self.sock.sendall(_GO_AHEAD)
        return False

    @property
    def gone(self) -> bool:
        """Whether the client left and nothing of a request is there."""
        return self.incoming.ended and not self.incoming.buffer

    def end(self) -> None:
        """Say that nothing more will be sent. The client may be sending still: closed now, the kernel would reset the
        connection, and the last answer might be lost (RFC 9112, 9.6).
        """
        self.ending = True
        self.incoming.clear()
        self.sock.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Read what comes after the end and forget it; True when the client has ended, too, or sends too much."""
        piece = b"more"
        while piece and self._left_bytes > 0:
            try:
                piece = self.sock.recv(request_framing.PIECE_BYTES)
            except nonblocking_sockets.FULL:
                return False
            except OSError:
                return True
            self._left_bytes -= len(piece)
        return True

    def close(self) -> None:
        """Close it now, and let go of what it holds: whatever still refers to it keeps no bytes of a request."""
        self.closed = True
        self.incoming.clear()
        self.sock.unsent = memoryview(b"")
        self.sock.close()
