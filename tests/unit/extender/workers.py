"""A worker of the extender in a thread of the test: real sockets on loopback, and a clock that the test moves."""

import collections.abc
import contextlib
import http.client
import os
import selectors
import socket
import ssl
import threading
from typing import Any, Final
from wsgiref import types as wsgi

from gunicorn import config, glogging

from extender.http import gunicorn_server
from tests import clocks

LIMIT_SECONDS: Final = 60
LINGER_SECONDS: Final = 2
TURN_SECONDS: Final = 0.02
THREADS: Final = 2
SCHEDULER: Final = "127.0.0.1"
STRANGER: Final = "127.0.0.2"  # another pod, which means harm


def hello(_environment: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
    """Answers everything."""
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


class Poller(selectors.DefaultSelector):
    """Begins a turn of the worker's loop soon after the test moved the clock, instead of in up to a second."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready, after TURN_SECONDS at the latest."""
        return super().select(TURN_SECONDS if timeout is None else min(timeout, TURN_SECONDS))


class Working:
    """A worker of THREADS threads on a port of its own."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        alive: bool = True,
        application: wsgi.WSGIApplication = hello,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.port: int = listener.getsockname()[1]
        self.clock = clocks.ManualClock()
        settings = config.Config()
        settings.set("graceful_timeout", 2 * LIMIT_SECONDS)
        settings.set("threads", THREADS)
        settings.set("keepalive", gunicorn_server.KEEPALIVE_SECONDS)
        if context is not None:
            settings.set("certfile", __file__)  # turns TLS on
            settings.set("ssl_context", lambda _settings, _default: context)
            settings.set("do_handshake_on_connect", False)
        worker_class: Any = gunicorn_server.settings(":1")["worker_class"]
        self.worker = worker_class(0, os.getppid(), [listener], None, 30, settings, glogging.Logger(settings))
        self.dropped: list[str] = []
        self.worker.dropped = self.dropped.append
        self.worker.ticking = self.clock
        self.worker.wsgi = application
        self.worker.alive = alive
        self.thread = threading.Thread(target=self._run)

    def stop(self) -> None:
        """SIGTERM."""
        self.worker.handle_exit(None, None)

    def _run(self) -> None:
        self.worker.tpool = self.worker.get_thread_pool()
        self.worker.poller = Poller()
        self.worker.method_queue.init()
        self.worker.run()
        self.worker.tmp.close()

    def connect(self, address: str = SCHEDULER) -> socket.socket:
        """A new connection from an address of this machine."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_SECONDS, source_address=(address, 0))

    def ask(self, path: str = "/", body: bytes | None = None) -> tuple[int, str | None]:
        """Status and Connection header of a request on a new connection of the scheduler."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_SECONDS)
        try:
            connection.request("GET" if body is None else "POST", path, body)
            answer = connection.getresponse()
            return answer.status, answer.getheader("Connection")
        finally:
            connection.close()


@contextlib.contextmanager
def worker(**named: Any) -> collections.abc.Iterator[Working]:
    """A worker; its port is closed at the end, as the master would."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        made = Working(listener, **named)
        made.thread.start()
        try:
            yield made
        finally:
            made.stop()
            while made.thread.is_alive():
                made.clock.advance(LINGER_SECONDS)
                made.thread.join(0.1)


def answered(client: socket.socket, request: bytes = b"") -> int:
    """The status of the answer that comes next, to this request."""
    client.sendall(request)
    answer = http.client.HTTPResponse(client)
    answer.begin()
    answer.read()
    return answer.status
