"""A worker gives its threads to those who ask; stopping, it serves new connections until its linger is over."""

import collections.abc
import contextlib
import http.client

import pytest
from gunicorn.workers import gthread

from tests.unit.extender import workers


@pytest.fixture
def stopping() -> collections.abc.Iterator[workers.Working]:
    """A worker that got SIGTERM before anybody was connected."""
    with workers.worker(alive=False) as made:
        yield made


@pytest.fixture
def serving_on() -> collections.abc.Iterator[workers.Working]:
    """A worker that nobody stops."""
    with workers.worker(alive=True) as made:
        yield made


def test_connections_on_which_nothing_comes_hold_no_thread(
    serving_on: workers.Working, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gthread, "DEFAULT_WORKER_DATA_TIMEOUT", 10.0 * workers.LIMIT_SECONDS)  # gunicorn's, of a thread
    silent = [serving_on.connect() for _ in range(5)]
    assert serving_on.ask() == (200, "keep-alive")
    silent[0].sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    assert silent[0].recv(8) == b"HTTP/1.1", "who speaks at last is heard"
    for one in silent:
        one.close()


def test_connections_on_which_nothing_comes_do_not_hold_the_exit(serving_on: workers.Working) -> None:
    with serving_on.connect():
        serving_on.ask()  # accepted after the silent one
        serving_on.stop()
        for _ in range(workers.LIMIT_SECONDS):
            serving_on.clock.advance(workers.LINGER_SECONDS)
            serving_on.thread.join(1)
        assert not serving_on.thread.is_alive()


def test_connections_that_come_after_the_signal_are_answered_and_closed(stopping: workers.Working) -> None:
    assert [stopping.ask() for _ in range(3)] == [(200, "close")] * 3
    assert stopping.thread.is_alive(), "it left while a Service may still send connections"


def test_after_the_linger_it_leaves_by_itself(stopping: workers.Working) -> None:
    stopping.ask()
    stopping.clock.advance(workers.LINGER_SECONDS)
    stopping.thread.join(workers.LIMIT_SECONDS)
    assert not stopping.thread.is_alive()


def test_an_endless_stream_of_connections_does_not_hold_the_exit(stopping: workers.Working) -> None:
    stopping.ask()
    stopping.clock.advance(workers.LINGER_SECONDS)
    while stopping.thread.is_alive():
        with contextlib.suppress(OSError, http.client.HTTPException):
            stopping.ask()
    assert not stopping.thread.is_alive()
