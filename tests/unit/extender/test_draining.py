"""A worker gives its threads to those who ask; stopping, it serves connections that come after the signal, until its
linger is over by the clock it has.
"""

import collections.abc
import contextlib
import http.client
import os
import selectors
import socket
import threading
from wsgiref import types as wsgi

import pytest
from gunicorn import config, glogging
from gunicorn.workers import gthread

from extender import serving
from tests import clocks

LIMIT_SECONDS = 60
LINGER_SECONDS = 2


def hello(_environment: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
    """Answers everything."""
    start_response("200 OK", [("Content-Length", "2")])
    return [b"hi"]


class Working:
    """A worker of two threads on a port of its own."""

    def __init__(self, listener: socket.socket, *, alive: bool) -> None:
        self.port: int = listener.getsockname()[1]
        self.clock = clocks.ManualClock()
        settings = config.Config()
        settings.set("graceful_timeout", 2 * LIMIT_SECONDS)
        settings.set("threads", 2)
        self._worker = serving.Worker(0, os.getppid(), [listener], None, 30, settings, glogging.Logger(settings))
        self._worker.ticking = self.clock
        self._worker.wsgi = hello
        self._worker.alive = alive
        self.thread = threading.Thread(target=self._run)

    def stop(self) -> None:
        """SIGTERM."""
        self._worker.handle_exit(None, None)

    def _run(self) -> None:
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

    def silent(self) -> socket.socket:
        """A new connection on which nothing comes."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_SECONDS)


@contextlib.contextmanager
def worker(*, alive: bool) -> collections.abc.Iterator[Working]:
    """A worker; its port is closed at the end, as the master would."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Working(listener, alive=alive)
        made.thread.start()
        yield made
        made.stop()
        while made.thread.is_alive():
            made.clock.advance(LINGER_SECONDS)
            made.thread.join(0.1)


@pytest.fixture
def stopping() -> collections.abc.Iterator[Working]:
    """A worker that got SIGTERM before anybody was connected."""
    with worker(alive=False) as made:
        yield made


@pytest.fixture
def serving_on() -> collections.abc.Iterator[Working]:
    """A worker that nobody stops."""
    with worker(alive=True) as made:
        yield made


def test_connections_on_which_nothing_comes_hold_no_thread(
    serving_on: Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gthread, "DEFAULT_WORKER_DATA_TIMEOUT", 10.0 * LIMIT_SECONDS)  # gunicorn's, of a thread
    silent = [serving_on.silent() for _ in range(5)]
    assert serving_on.ask() == (200, "keep-alive")
    silent[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert silent[0].recv(8) == b"HTTP/1.1", "who speaks at last is heard"
    for one in silent:
        one.close()


def test_connections_on_which_nothing_comes_do_not_hold_the_exit(serving_on: Working) -> None:
    with serving_on.silent():
        serving_on.ask()  # accepted after the silent one
        serving_on.stop()
        for _ in range(LIMIT_SECONDS):
            serving_on.clock.advance(LINGER_SECONDS)
            serving_on.thread.join(1)
        assert not serving_on.thread.is_alive()


def test_connections_that_come_after_the_signal_are_answered_and_closed(stopping: Working) -> None:
    assert [stopping.ask() for _ in range(3)] == [(200, "close")] * 3
    assert stopping.thread.is_alive(), "it left while a Service may still send connections"


def test_after_the_linger_it_leaves_by_itself(stopping: Working) -> None:
    stopping.ask()
    stopping.clock.advance(LINGER_SECONDS)
    stopping.thread.join(LIMIT_SECONDS)
    assert not stopping.thread.is_alive()


def test_an_endless_stream_of_connections_does_not_hold_the_exit(stopping: Working) -> None:
    stopping.ask()
    stopping.clock.advance(LINGER_SECONDS)
    while stopping.thread.is_alive():
        with contextlib.suppress(OSError, http.client.HTTPException):
            stopping.ask()
    assert not stopping.thread.is_alive()
