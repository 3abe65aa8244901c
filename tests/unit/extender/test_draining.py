"""A stopping worker serves connections that come after the signal, until its linger is over by the clock it has."""

import collections.abc
import contextlib
import http.client
import selectors
import socket
import threading
from wsgiref import types as wsgi

import pytest
from gunicorn import config, glogging

from extender import serving
from tests import clocks

LIMIT_SECONDS = 60
LINGER_SECONDS = 2


def hello(_environment: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
    """Answers everything."""
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


class Stopping:
    """A worker on a port of its own that got SIGTERM before anybody was connected."""

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.clock = clocks.ManualClock()
        settings = config.Config()
        settings.set("graceful_timeout", 2 * LIMIT_SECONDS)
        settings.set("threads", 2)
        self._worker = serving.Worker(0, 0, [listener], None, 30, settings, glogging.Logger(settings))
        self._worker.ticking = self.clock
        self._worker.wsgi = hello
        self._worker.alive = False
        self.thread = threading.Thread(target=self._drain)

    def _drain(self) -> None:
        self._worker.tpool = self._worker.get_thread_pool()
        self._worker.poller = selectors.DefaultSelector()
        self._worker.method_queue.init()
        self._worker.run()
        self._worker.tmp.close()

    def ask(self) -> tuple[int, str | None]:
        """Status and Connection header of a request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_SECONDS)
        try:
            connection.request("GET", "/")
            answer = connection.getresponse()
            return answer.status, answer.getheader("Connection")
        finally:
            connection.close()


@pytest.fixture
def stopping() -> collections.abc.Iterator[Stopping]:
    """A worker that is draining; its port is closed at the end, as the master would."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        worker = Stopping(listener)
        worker.thread.start()
        yield worker
        worker.clock.advance(LIMIT_SECONDS)
        worker.thread.join(LIMIT_SECONDS)


def test_connections_that_come_after_the_signal_are_answered_and_closed(stopping: Stopping) -> None:
    assert [stopping.ask() for _ in range(3)] == [(200, "close")] * 3
    assert stopping.thread.is_alive(), "it left while a Service may still send connections"


def test_after_the_linger_it_leaves_by_itself(stopping: Stopping) -> None:
    stopping.ask()
    stopping.clock.advance(LINGER_SECONDS)
    stopping.thread.join(LIMIT_SECONDS)
    assert not stopping.thread.is_alive()


def test_an_endless_stream_of_connections_does_not_hold_the_exit(stopping: Stopping) -> None:
    stopping.ask()
    stopping.clock.advance(LINGER_SECONDS)
    while stopping.thread.is_alive():
        with contextlib.suppress(OSError, http.client.HTTPException):
            stopping.ask()
    assert not stopping.thread.is_alive()
