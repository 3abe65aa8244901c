"""A small HTTP server that answers to order: in place of the apiserver in unit tests, beside it in contract tests."""

import contextlib
import http.server
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib import parse

from tests import kubeconfigs


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, handler: "_Handler") -> None:
        self._handler = handler
        split = parse.urlsplit(handler.path)
        self.method = handler.command
        self.path = split.path
        self.query = dict(parse.parse_qsl(split.query))
        self.headers = handler.headers
        length = int(handler.headers.get("Content-Length") or 0)
        self.body: Any = json.loads(handler.rfile.read(length)) if length else None
        self.released = handler.scripted.released

    def answer(self, body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """A whole answer; text and bytes as they are, anything else as JSON."""
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        content = text.encode() if isinstance(text, str) else text
        self._start(status, {"Content-Length": str(len(content)), **(headers or {})})
        self._handler.wfile.write(content)

    def status(
        self, code: int, reason: str, message: str = "", headers: Mapping[str, str] | None = None, **more: object
    ) -> None:
        """A failure as the apiserver words it."""
        body = {"kind": "Status", "code": code, "reason": reason, "message": message, **more}
        self.answer(body, code, headers)

    def raw(self, content: bytes, length: int | None = None) -> None:
        """Bytes as the body, with a Content-Length that may promise more than comes."""
        self._start(200, {"Content-Length": str(len(content) if length is None else length), "Connection": "close"})
        self._handler.wfile.write(content)
        self._handler.close_connection = True

    def stream(self, *pieces: bytes, status: int = 200) -> None:
        """Begin a chunked answer and send some pieces."""
        self._start(status, {"Transfer-Encoding": "chunked"})
        self.more(*pieces)

    def more(self, *pieces: bytes) -> None:
        """Further pieces of a chunked answer."""
        for piece in pieces:
            self._handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

    def end(self) -> None:
        """End a chunked answer as it should."""
        self._handler.wfile.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Drop the connection without another word."""
        self._handler.close_connection = True
        with contextlib.suppress(OSError):
            self._handler.connection.shutdown(socket.SHUT_RDWR)

    def hang(self) -> None:
        """Say nothing until the test is over."""
        self.released.wait()
        self._handler.close_connection = True

    def _start(self, status: int, headers: Mapping[str, str]) -> None:
        respond = self._handler.send_response_only if "Date" in headers else self._handler.send_response
        respond(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


Script = Callable[[Exchange], None]


class ScriptedServer(http.server.ThreadingHTTPServer):
    """Answers by `script`, which may be replaced at any time; `seen` lists the exchanges in order."""

    daemon_threads = True

    def __init__(self, script: Script, address: tuple[str, int], tls: ssl.SSLContext | None) -> None:
        super().__init__(address, _Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.script = script
        self.seen: list[Exchange] = []
        self.released = threading.Event()

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave early are what the tests are about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    disable_nagle_algorithm = True  # headers and body are two writes: each answer would wait 40 ms for an ACK

    def _answer(self) -> None:
        exchange = Exchange(self)
        self.scripted.seen.append(exchange)
        self.scripted.script(exchange)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 - the names are http.server's

    @property
    def scripted(self) -> ScriptedServer:
        """The server, by its own type."""
        assert isinstance(self.server, ScriptedServer)
        return self.server

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def serving(
    script: Script, *, address: tuple[str, int] = ("127.0.0.1", 0), tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedServer]:
    """Serve while the body runs, by TLS with a context; hanging answers are released at the end."""
    with ScriptedServer(script, address, tls) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()


def having(objects: Mapping[str, object]) -> Script:
    """Answers as an apiserver that has these objects by their paths, and no others; a list is one of its resource."""

    def answer(exchange: Exchange) -> None:
        body = objects.get(exchange.path)
        if body is None:
            exchange.status(404, "NotFound", f"{exchange.path} not found")
        else:
            listed = {"metadata": {"resourceVersion": "1"}, "items": body}
            exchange.answer(listed if isinstance(body, list) else body)

    return answer


def kubeconfig(directory: Path, url: str, *, user: Mapping[str, object] | None = None) -> Path:
    """A kubeconfig for a server, with a token unless the user says otherwise."""
    path = directory / "kubeconfig"
    path.write_text(kubeconfigs.text(url, user={"token": "s3cret"} if user is None else user))
    return path
