"""The extender's replicas as a source of decisions: their addresses by DNS, and a page of GET /decisions of each.

`ledger.decisions` asks them. An answer has limits in time and in bytes, whatever a replica sends and however slowly.
"""

import http.client
import io
import socket
import ssl
import types
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib import parse

import msgspec

from policy.contract.decision_page import DecisionPage
from runtime.clock import Clock

ANSWER_SECONDS: Final = 5.0
PAGE_BYTES: Final = 8 * 2**20
PIECE_BYTES: Final = 1 << 16


class ReplicaError(Exception):
    """A replica, or all of them, cannot be asked; the text says why."""


class Replicas(NamedTuple):
    """A host at whose every address a replica listens. By TLS with `secret`, a directory as a Secret is mounted: ca.crt
    vouches for `server_name`, and tls.crt with tls.key are the client's, where a replica wants one.
    """

    host: str
    port: int
    server_name: str = ""
    secret: Path | None = None

    def addresses(self) -> list[str]:
        """Every address of the host. Raises ReplicaError."""
        try:
            every = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # an empty or too long part of a name is the latter
            raise ReplicaError(f"no address: {error}") from error
        return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in every))

    def page(self, address: str, after: str, ticking: Clock) -> DecisionPage:
        """The page behind `after` of one replica. Raises ReplicaError."""
        try:
            received = io.BytesIO(self._received(address, after, ticking))
            socket_like: Any = types.SimpleNamespace(makefile=lambda _mode: received)
            response = http.client.HTTPResponse(socket_like)
            response.begin()
            body = response.read()
            if response.status != http.client.OK:
                raise ReplicaError(f"answers {response.status}: {body[:200].decode(errors='replace')}")
            return msgspec.json.decode(body, type=DecisionPage)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ReplicaError(f"no page of decisions: {str(error) or type(error).__name__}") from error

    def _received(self, address: str, after: str, ticking: Clock) -> bytes:
        """The bytes of an answer, to its end."""
        end_seconds = ticking.monotonic() + ANSWER_SECONDS
        query, received = parse.urlencode({"after": after}), bytearray()
        request = f"GET /decisions?{query} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nConnection: close\r\n\r\n"
        with (
            socket.create_connection((address, self.port), ANSWER_SECONDS) as plain,
            self._secured(plain) as connection,
        ):
            connection.sendall(request.encode())
            while piece := connection.recv(PIECE_BYTES):
                received += piece
                if len(received) > PAGE_BYTES:
                    raise ReplicaError(f"answers more than {PAGE_BYTES >> 20} MiB")
                if (left_seconds := end_seconds - ticking.monotonic()) <= 0:
                    raise ReplicaError(f"answers more slowly than in {ANSWER_SECONDS:g} s")
                connection.settimeout(left_seconds)
        return bytes(received)

    def _secured(self, plain: socket.socket) -> socket.socket:
        """The connection, by TLS where there is a Secret; its files are read each time, as they are renewed in place"""
        if self.secret is None:
            return plain
        context = ssl.create_default_context(cadata=(self.secret / "ca.crt").read_text())
        if (self.secret / "tls.crt").exists():
            context.load_cert_chain(self.secret / "tls.crt", self.secret / "tls.key")
        return context.wrap_socket(plain, server_hostname=self.server_name or self.host)
