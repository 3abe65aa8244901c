"""Requests in the very form in which Go's client writes them, taken from a kept connection without gunicorn's parser.

kube-scheduler sends the same head each time; only its length differs. `serving.Worker` tries `answer` first: a head
that is this form to the byte, on a connection without TLS, goes to the same WSGI application with an environ made
here, and the reply leaves in one piece. Anything else, the first request of a connection and those of a stopping worker
among them, is put back and is gunicorn's, which stays the one that knows HTTP. Nothing is interpreted here that could
be understood in two ways: one length, no transfer coding, no continuation lines.
"""

import collections.abc
import email.utils
import functools
import io
import re
import socket
import sys
from typing import Any, Final, Protocol
from wsgiref import types as wsgi

from extender import app
from runtime import reading

FORM: Final = re.compile(
    rb"POST (/filter|/prioritize) HTTP/1\.1\r\n"
    rb"Host: ([0-9A-Za-z.:\[\]-]{1,255})\r\n"
    rb"User-Agent: ([ -~]{1,255})\r\n"
    rb"Content-Length: (0|[1-9][0-9]{0,8})\r\n"
    rb"Content-Type: application/json\r\n"
    rb"Accept-Encoding: gzip\r\n\r\n"
)
_PIECE_BYTES: Final = 2**16
_REPLY: Final = "HTTP/1.1 {}\r\nServer: gunicorn\r\nDate: {}\r\nConnection: keep-alive\r\n"
_FOR_ALL: Final[dict[str, Any]] = {
    "REQUEST_METHOD": "POST",
    "SCRIPT_NAME": "",
    "QUERY_STRING": "",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "CONTENT_TYPE": "application/json",
    "HTTP_ACCEPT_ENCODING": "gzip",
    "wsgi.version": (1, 0),
    "wsgi.url_scheme": "http",
    "wsgi.errors": sys.stderr,
    "wsgi.multithread": True,
    "wsgi.multiprocess": False,
    "wsgi.run_once": False,
    "wsgi.input_terminated": True,
}


class Connection(Protocol):
    """What is read of gunicorn's connection: its socket, both addresses, and the parser that bytes are put back to."""

    sock: Any
    client: Any
    server: Any
    parser: Any
    initialized: bool


def answer(connection: Connection, application: wsgi.WSGIApplication, now_seconds: float) -> bool:
    """Answer the next request of a connection; False, with all its bytes put back, if it is not of the form.

    Errors: OSError of the socket. The connection is at the next request afterwards, or of no use.
    """
    sock = connection.sock
    if not (connection.initialized and isinstance(sock, reading.Plain)) or connection.parser.unreader.buf.getvalue():
        return False
    if sock.gettimeout() is not None:  # only after gunicorn's main thread had it
        sock.setblocking(True)
    begun = sock.at_hand(_PIECE_BYTES)
    head = FORM.match(begun)
    length = 0 if head is None else int(head[4])
    if head is None or length > app.BODY_LIMIT_BYTES:
        connection.parser.unreader.unread(begun)
        return False
    body = _body(sock, begun[head.end() :], length)
    connection.parser.unreader.unread(body[length:])  # the next request, if the client did not wait
    _reply(sock, application, _environ(connection, head, body[:length]), now_seconds)
    return True


def _body(sock: reading.Plain, begun: bytes, length: int) -> bytes:
    pieces, missing = [begun], length - len(begun)
    while missing > 0:
        piece = sock.recv(missing)
        if not piece:
            raise ConnectionResetError("the client went away in the middle of a request")
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces)


def _environ(connection: Connection, head: "re.Match[bytes]", body: bytes) -> wsgi.WSGIEnvironment:
    path, host, agent = (head[at].decode("ascii") for at in (1, 2, 3))
    return {
        **_FOR_ALL,
        "PATH_INFO": path,
        "RAW_URI": path,
        "HTTP_HOST": host,
        "HTTP_USER_AGENT": agent,
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": str(connection.client[0]),
        "SERVER_NAME": str(connection.server[0]),
        "SERVER_PORT": str(connection.server[1]),
        "wsgi.input": io.BytesIO(body),
    }


def _reply(
    sock: socket.socket, application: wsgi.WSGIApplication, environ: wsgi.WSGIEnvironment, now_seconds: float
) -> None:
    """Send what the application answers, then close it: what it does then, nobody waits for."""
    said: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: object = None) -> Any:
        said.append((status, headers))

    result = application(environ, start_response)
    try:
        body = b"".join(result)
        status, headers = said[-1]
        sock.sendall(_head(status, headers, len(body), now_seconds) + body)
    finally:
        close: collections.abc.Callable[[], None] | None = getattr(result, "close", None)
        if close is not None:
            close()


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)


def _head(status: str, headers: list[tuple[str, str]], length: int, now_seconds: float) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers if name != "Content-Length"]
    begun = _REPLY.format(status, _date(int(now_seconds)))
    return "".join([begun, *lines, f"Content-Length: {length}\r\n\r\n"]).encode("latin-1")
