"""Requests in the very form in which Go's client writes them, answered without gunicorn's parser.

kube-scheduler sends the same head each time; only its length differs. `http.gunicorn_worker` tries `answer` first: a
head that is `request_framing.FORM` to the byte, with TLS or without, goes to the same WSGI application with an environ
made here, and the reply leaves in one piece. Anything else, requests to a stopping worker among them, is
gunicorn's, which stays the one that knows HTTP. Nothing is interpreted here that could be understood in two ways: one
length, no transfer coding, no continuation lines.
"""

import collections.abc
import email.utils
import functools
import io
import sys
from typing import Any, Final
from wsgiref import types as wsgi

from extender.http import connection, tls

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


def answer(client: connection.Connection, application: wsgi.WSGIApplication, now_seconds: float) -> bool:
    """Answer the request of a connection; False if it is not of the form, or not whole. The answer is closed after its
    last byte: no request waits for what is done then.

    Errors: OSError of the socket. The connection is of no use then.
    """
    head = client.incoming.form
    if head is None or not client.incoming.whole:
        return False
    path, host, agent = (head[at].decode("ascii") for at in (1, 2, 3))
    body = client.incoming.body()
    environ = {
        **_FOR_ALL,
        "PATH_INFO": path,
        "RAW_URI": path,
        "HTTP_HOST": host,
        "HTTP_USER_AGENT": agent,
        "CONTENT_LENGTH": str(len(body)),
        "REMOTE_ADDR": str(client.client[0]),
        "SERVER_NAME": str(client.server[0]),
        "SERVER_PORT": str(client.server[1]),
        "wsgi.input": io.BytesIO(body),
    }
    if isinstance(client.sock, tls.Socket):
        environ |= {"wsgi.url_scheme": "https", tls.CLIENT_NAME: client.sock.client_name}
    heads: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(status: str, headers: list[tuple[str, str]], _error: object = None) -> Any:
        heads.append((status, headers))

    result = application(environ, start_response)
    try:
        body = b"".join(result)
        status, headers = heads[-1]
        client.sock.sendall(_head(status, headers, len(body), now_seconds) + body)
    finally:
        close: collections.abc.Callable[[], None] | None = getattr(result, "close", None)
        if close is not None:
            close()
    return True


@functools.lru_cache(maxsize=1)
def _date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)


def _head(status: str, headers: list[tuple[str, str]], length: int, now_seconds: float) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers if name != "Content-Length"]
    begun = _REPLY.format(status, _date(int(now_seconds)))
    return "".join([begun, *lines, f"Content-Length: {length}\r\n\r\n"]).encode("latin-1")
