"""A request is read and its reply written within their times, whatever the client does."""

import collections.abc
import socket
import ssl
import threading

import pytest

from runtime import http_limits
from tests import clocks

Pair = tuple[http_limits.LimitedSocket, socket.socket]


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> clocks.ManualClock:
    ticking = clocks.ManualClock()
    monkeypatch.setattr(http_limits.LimitedSocket, "ticking", ticking)
    return ticking


@pytest.fixture
def pair(ticking: clocks.ManualClock) -> collections.abc.Iterator[Pair]:
    ours, theirs = socket.socketpair()
    connection = http_limits.LimitedSocket.of(ours, "")
    with connection, theirs:
        yield connection, theirs


def test_a_client_that_trickles_is_shut_out_when_its_time_is_over(pair: Pair, ticking: clocks.ManualClock) -> None:
    ours, theirs = pair
    for _ in range(4):
        theirs.sendall(b"x")
        assert ours.recv(8192) == b"x"
        ticking.advance(http_limits.REQUEST_SECONDS / 4)
    theirs.sendall(b"x")
    with pytest.raises(ConnectionResetError):
        ours.recv(8192)
    assert theirs.recv(1) == b""


def test_a_silent_client_is_waited_for_no_longer_than_is_left(pair: Pair, ticking: clocks.ManualClock) -> None:
    ours, theirs = pair
    theirs.sendall(b"x")
    ours.recv(8192)
    ticking.advance(http_limits.REQUEST_SECONDS - 0.01)
    with pytest.raises(ConnectionResetError):
        ours.recv(8192)
    assert theirs.recv(1) == b""


def test_a_shorter_limit_of_the_caller_stays_and_ends_as_he_expects(pair: Pair) -> None:
    ours, _ = pair
    ours.settimeout(0.01)
    with pytest.raises(TimeoutError):
        ours.recv(8192)
    assert ours.gettimeout() == 0.01


MORE_THAN_BUFFERS = b"x" * (16 << 20)


def test_a_client_that_does_not_read_is_shut_out_when_the_time_for_the_reply_is_over(
    pair: Pair, ticking: clocks.ManualClock
) -> None:
    ours, theirs = pair
    ours.settimeout(0.0)
    with pytest.raises((BlockingIOError, ssl.SSLWantWriteError)):
        ours.sendall(MORE_THAN_BUFFERS)  # the time for a reply begins when the client no longer takes it
    ours.settimeout(None)
    ticking.advance(http_limits.REPLY_SECONDS - 0.01)
    with pytest.raises(ConnectionResetError, match="the reply was not read in time"):
        ours.sendall(MORE_THAN_BUFFERS)
    while theirs.recv(1 << 20):
        pass  # and then the end


def test_a_reply_larger_than_every_buffer_arrives_whole(pair: Pair) -> None:
    ours, theirs = pair
    reply = bytes(range(256)) * (1 << 16)
    arrived: list[bytes] = []
    reader = threading.Thread(target=lambda: arrived.append(read(theirs, len(reply))))
    reader.start()
    ours.sendall(reply[:100])
    ours.sendall(reply[100:])
    reader.join(60)
    assert arrived == [reply]


def test_each_piece_of_a_stream_has_its_time(pair: Pair, ticking: clocks.ManualClock) -> None:
    """A page that is sent events reads each at once, for hours: a large one fills the buffers now and then."""
    ours, theirs = pair
    for _ in range(3):
        reading = threading.Thread(target=read, args=(theirs, len(MORE_THAN_BUFFERS)))
        reading.start()
        ours.sendall(MORE_THAN_BUFFERS)
        reading.join(60)
        ticking.advance(http_limits.REPLY_SECONDS)


def read(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or those until the end."""
    pieces = []
    while size > 0 and (piece := connection.recv(min(size, 1 << 20))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def test_it_is_the_same_connection_with_the_same_timeout() -> None:
    taken, theirs = socket.socketpair()
    taken.setblocking(False)
    number = taken.fileno()
    with http_limits.LimitedSocket.of(taken, "") as ours, theirs:
        assert (ours.fileno(), ours.gettimeout(), taken.fileno()) == (number, 0.0, -1)
