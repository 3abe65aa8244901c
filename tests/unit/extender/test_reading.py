"""A request is read within its time, whatever the client does; between two requests there is no limit."""

import collections.abc
import socket

import pytest

from extender import reading
from tests import clocks

Pair = tuple[reading.Plain, socket.socket]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> clocks.ManualClock:
    ticking = clocks.ManualClock()
    monkeypatch.setattr(reading.Limited, "ticking", ticking)
    return ticking


@pytest.fixture
def pair(ticking: clocks.ManualClock) -> collections.abc.Iterator[Pair]:
    ours, theirs = socket.socketpair()
    connection = reading.Plain.of(ours)
    with connection, theirs:
        yield connection, theirs


def test_a_client_that_trickles_is_shut_out_when_its_time_is_over(pair: Pair, ticking: clocks.ManualClock) -> None:
    ours, theirs = pair
    for _ in range(4):
        theirs.sendall(b"x")
        assert ours.recv(8192) == b"x"
        ticking.advance(reading.REQUEST_SECONDS / 4)
    theirs.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        ours.recv(8192)
    assert theirs.recv(1) == b""


def test_a_silent_client_is_waited_for_no_longer_than_is_left(pair: Pair, ticking: clocks.ManualClock) -> None:
    ours, theirs = pair
    theirs.sendall(b"x")
    ours.recv(8192)
    ticking.advance(reading.REQUEST_SECONDS - 0.01)
    with pytest.raises(ConnectionResetError):
        ours.recv(8192)
    assert theirs.recv(1) == b""


def test_a_kept_connection_may_be_idle_for_longer(pair: Pair, ticking: clocks.ManualClock) -> None:
    ours, theirs = pair
    for _ in range(3):
        theirs.sendall(b"request")
        ours.expect()
        assert ours.recv(8192) == b"request"
        ticking.advance(120.0)


def test_a_shorter_limit_of_the_caller_stays_and_ends_as_he_expects(pair: Pair) -> None:
    ours, _ = pair
    ours.settimeout(0.01)
    with pytest.raises(TimeoutError):
        ours.recv(8192)
    assert ours.gettimeout() == 0.01


def test_it_is_the_same_connection_with_the_same_timeout() -> None:
    taken, theirs = socket.socketpair()
    taken.setblocking(False)
    number = taken.fileno()
    with reading.Plain.of(taken) as ours, theirs:
        assert (ours.fileno(), ours.gettimeout(), taken.fileno()) == (number, 0.0, -1)
