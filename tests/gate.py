"""An HTTP proxy in front of a real server, which passes everything until a test tells it to misbehave.

`calls` lists what arrived, so it also proves who wrote when. Towards the service it speaks plain HTTP.
"""

import contextlib
import http.client
import http.server
import pathlib
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib import parse

import yaml

from lab import cluster
from lab.cluster.demo import permissions

_PIECE_BYTES: Final = 65536
_NOT_FORWARDED: Final = ("transfer-encoding", "content-length", "connection", "keep-alive")


class Call(NamedTuple):
    """One request as it arrived; `at_seconds` is monotonic."""

    method: str
    path: str
    at_seconds: float

    @property
    def writes(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"

    @property
    def watches(self) -> bool:
        """Whether it waits for what changes."""
        return "watch=true" in self.path


class Reply(NamedTuple):
    """An answer in place of the server's."""

    status: int
    body: str
    headers: Mapping[str, str] = {}


class Stall:
    """Holds the first call it is given to at the door until `release`; later ones pass."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._first = threading.Lock()  # taken by the first call and never given back: two at once are not both first
        self._released = threading.Event()
        self._passes = False

    def release(self, *, passes: bool) -> None:
        """Let the held call through to the server, or drop it."""
        self._passes = passes
        self._released.set()

    def hold(self) -> bool:
        """Whether the call may pass, once that is known."""
        if not self._first.acquire(blocking=False):
            return True
        self.reached.set()
        self._released.wait()
        return self._passes


class Changed(NamedTuple):
    """The server's own answer with another body."""

    change: Callable[[bytes], bytes]


Rule = Callable[[Call], "Reply | Stall | Changed | None"]


def apiserver_reply(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Reply:
    """A failure as the apiserver words it."""
    body = f'{{"kind":"Status","apiVersion":"v1","code":{status},"reason":"{reason}","message":"said the gate"}}'
    return Reply(status, body, {"Content-Type": "application/json", **(headers or {})})


class Gate(http.server.ThreadingHTTPServer):
    """Listens on the loopback; `rule` says what becomes of a call, None passes it."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, target: str, *, authority: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._target = target
        self._context = ssl.create_default_context(cadata=authority) if authority else None
        self._open: set[_Handler] = set()
        self.over = threading.Event()
        self.rule: Rule = passing
        self.calls: list[Call] = []

    @property
    def url(self) -> str:
        """http://127.0.0.1:PORT."""
        return f"http://127.0.0.1:{self.server_port}"

    def kill_open_connections_silently(self) -> None:
        """What is connected now gets nothing more and is told nothing; new connections work."""
        for handler in tuple(self._open):
            handler.dead = True

    def settled(self) -> bool:
        """Whether a client that was killed has nothing under way any more: what it sent has arrived, or never will.

        A watch does not count: it changes nothing, and learns of its client's end when it has something to tell.
        """
        return all(handler.watches or handler.dead for handler in tuple(self._open))

    def upstream(self) -> http.client.HTTPConnection:
        """A new connection to the server, wherever it listens now."""
        parts = parse.urlsplit(self._target)
        if self._context is not None:
            return http.client.HTTPSConnection(parts.hostname or "", parts.port, context=self._context, timeout=600)
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=600)

    def entered(self, handler: "_Handler") -> None:
        """A connection was made."""
        self._open.add(handler)

    def left(self, handler: "_Handler") -> None:
        """A connection ended."""
        self._open.discard(handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are what the tests are about."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 0
    dead = False
    watches = False

    def handle(self) -> None:
        self.gate.entered(self)
        try:
            super().handle()
        finally:
            self.gate.left(self)

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._die_if_dead()
        call = Call(self.command, self.path, time.monotonic())
        self.watches = call.watches
        self.gate.calls.append(call)
        verdict = self.gate.rule(call)
        if isinstance(verdict, Reply):
            self._answer(verdict)
        elif isinstance(verdict, Changed):
            self._forward(body, verdict.change)
        elif verdict is None or verdict.hold():
            self._forward(body)
        else:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - the names are http.server's

    def _answer(self, reply: Reply) -> None:
        content = reply.body.encode()
        self.send_response(reply.status)
        for name, value in {**reply.headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def _forward(self, body: bytes, change: Callable[[bytes], bytes] | None = None) -> None:
        self.close_connection = True  # until the answer is whole
        with contextlib.closing(self.gate.upstream()) as upstream:
            left_out = _NOT_FORWARDED if change is None else (*_NOT_FORWARDED, "accept-encoding")
            headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
            upstream.request(self.command, self.path, body or None, headers)
            with upstream.getresponse() as answer:  # which holds the socket of a server that ends the connection
                if change is None:
                    self._pass_on(answer)
                else:
                    kind = {"Content-Type": answer.getheader("Content-Type", "")}
                    self._answer(Reply(answer.status, change(answer.read()).decode(), kind))
        self.close_connection = False

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _NOT_FORWARDED:
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := answer.read1(_PIECE_BYTES):
            self._die_if_dead()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def _die_if_dead(self) -> None:
        if self.dead:
            self.gate.over.wait()
            raise ConnectionAbortedError("the test is over")

    @property
    def gate(self) -> Gate:
        """The server, by its own type."""
        assert isinstance(self.server, Gate)
        return self.server

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def before(target: str, *, authority: str | None = None) -> Iterator[Gate]:
    """A gate before `target` (a URL; `authority` is the PEM of its CA where it speaks TLS) while the body runs."""
    with Gate(target, authority=authority) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.over.set()
            made.shutdown()
            thread.join()


def passing(_: Call) -> None:
    """The rule of a gate that lets everything through."""


def kubeconfig(running: cluster.Cluster, service: str, item: Gate, folder: pathlib.Path) -> pathlib.Path:
    """A service's own kubeconfig, but to the apiserver behind a gate."""
    document = yaml.safe_load(permissions.kubeconfig(running, service).read_text(encoding="utf-8"))
    document["clusters"][0]["cluster"] = {"server": item.url}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@contextlib.contextmanager
def around(running: cluster.Cluster, *, replicas: int) -> Iterator[tuple[Gate, list[Gate]]]:
    """A gate before the cluster's Prometheus, and for each replica one of its own before the apiserver."""
    authority = (running.directory / "pki" / "ca.crt").read_text(encoding="ascii")
    with contextlib.ExitStack() as stack:
        prometheus = stack.enter_context(before(running.prometheus_url))
        yield prometheus, [stack.enter_context(before(running.api_url, authority=authority)) for _ in range(replicas)]
