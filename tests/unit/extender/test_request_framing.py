"""Where a request ends is found without waiting, in whatever pieces it comes, and never against gunicorn's reading."""

import collections
from typing import Any, NamedTuple

import hypothesis
import pytest
from gunicorn.http import errors
from hypothesis import strategies as st

from extender import protocol
from extender.http import request_framing
from runtime import http_exchange
from tests import hostile_http

CLIENT = ("127.0.0.1", 4242)
GO = (
    b"POST /filter HTTP/1.1\r\nHost: 127.0.0.1:8900\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: 5\r\n"
    b"Content-Type: application/json\r\nAccept-Encoding: gzip\r\n\r\n{   }"
)
LENGTH = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"
CHUNKED = b"POST /b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n3\r\ncde\r\n0\r\n\r\n"
TRAILERS = CHUNKED[:-2] + b"X-A: b\r\n\r\n"
BARE = b"GET /c HTTP/1.1\r\nHost: x\r\n\r\n"
AFTER_LINE = b"\r\nGET /d HTTP/1.1\r\nHost: x\r\n\r\n"
WHOLE = {
    "a form": GO,
    "a length": LENGTH,
    "chunks": CHUNKED,
    "chunks and trailers": TRAILERS,
    "no body": BARE,
    "a line before it": AFTER_LINE,
}


class Pieces:
    """A socket that has these pieces, then nothing yet, or the end."""

    def __init__(self, *pieces: bytes, ends: bool = False) -> None:
        self._pieces, self._ends = collections.deque(piece for piece in pieces if piece), ends

    def recv(self, size: int) -> bytes:
        """The next piece, or as much of it as is wanted."""
        if not self._pieces:
            if self._ends:
                return b""
            raise BlockingIOError
        piece = self._pieces.popleft()
        if piece[size:]:
            self._pieces.appendleft(piece[size:])
        return piece[:size]


class Read(NamedTuple):
    """What a thread makes of a connection: method, path and body of each request, and the error that ended it."""

    requests: tuple[tuple[str, str, bytes], ...]
    error: str


def read(pieces: Pieces) -> Read:
    """Let a thread take all requests; what is not whole is left."""
    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    requests = []
    while coming.receive(pieces.recv, 1.0):
        try:
            request = coming.request()
            requests.append((request.method, request.path, request.body.read()))
            if request.should_close() or not coming.proceed(2.0):
                return Read(tuple(requests), "closed")
        except (errors.ParseException, errors.NoMoreData, StopIteration) as error:
            return Read(tuple(requests), type(error).__name__)
    return Read(tuple(requests), "")


@pytest.mark.parametrize("sent", WHOLE.values(), ids=WHOLE)
def test_a_request_is_whole_with_its_last_byte_and_not_before(sent: bytes) -> None:
    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    ready = [coming.receive(Pieces(sent[at : at + 1]).recv, 1.0) for at in range(len(sent))]
    assert ready == [False] * (len(sent) - 1) + [True]
    assert coming.whole
    assert not coming.ended


@pytest.mark.parametrize("sent", WHOLE.values(), ids=WHOLE)
def test_requests_sent_at_once_are_read_one_after_the_other(sent: bytes) -> None:
    found = read(Pieces(sent + LENGTH + CHUNKED + BARE))
    assert found.error == ""
    assert [path for _, path, _ in found.requests][1:] == ["/a", "/b", "/c"]
    assert found.requests[1:3] == (("POST", "/a", b"abcde"), ("POST", "/b", b"abcde"))


@pytest.mark.parametrize("stream", hostile_http.STREAMS.values(), ids=hostile_http.STREAMS)
def test_a_hostile_stream_is_read_the_same_in_one_piece_and_in_small_ones(stream: hostile_http.Stream) -> None:
    sent = stream.sent if len(stream.sent) < 100_000 else stream.sent[:600_000]
    small = Pieces(*[sent[at : at + 7] for at in range(0, len(sent), 7)], ends=True)
    assert read(small) == read(Pieces(sent, ends=True))
    assert not any(path == "/hidden" for _, path, _ in read(Pieces(sent, ends=True)).requests)


STREAMS = [stream.sent for stream in hostile_http.STREAMS.values() if len(stream.sent) < 4000]


@hypothesis.settings(deadline=None)
@hypothesis.given(sent=st.sampled_from([*STREAMS, *WHOLE.values()]), data=st.data())
def test_no_bytes_raise_anything_but_the_parsers_errors(sent: bytes, data: st.DataObject) -> None:
    changed = bytearray(sent + LENGTH)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=3)):
        changed[at] = byte
    by_bytes = Pieces(*[bytes(changed[at : at + 1]) for at in range(len(changed))], ends=True)
    whole, small = read(Pieces(bytes(changed), ends=True)), read(by_bytes)
    # A line feed alone is refused as it comes: of the bytes before it the parser may name another error.
    assert (whole.requests, bool(whole.error)) == (small.requests, bool(small.error))


@pytest.mark.parametrize(
    "sent",
    [
        LENGTH.replace(b": 5", b": %d" % (protocol.BODY_LIMIT_BYTES + 1)),
        GO.replace(b": 5", b": %d" % (protocol.BODY_LIMIT_BYTES + 1)),
    ],
    ids=["a length", "a form"],
)
def test_what_is_too_large_is_refused_before_it_comes(sent: bytes) -> None:
    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    assert coming.receive(Pieces(sent).recv, 1.0)
    assert not coming.whole
    assert coming.request().method == "POST"
    assert not coming.proceed(1.0), "where the next request begins is unknown"


def test_chunks_are_read_up_to_the_limit_and_no_further() -> None:
    chunk = b"100000\r\n" + bytes(2**20) + b"\r\n"
    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    pieces = Pieces(CHUNKED[: CHUNKED.index(b"2;")], *[chunk] * 30)
    assert any(coming.receive(pieces.recv, 1.0) for _ in range(1000)), "a body without end is waited for"
    assert not coming.whole
    assert len(coming.buffer) < request_framing.CHUNKED_LIMIT_BYTES + request_framing.TURN_BYTES
    assert len(coming.request().body.read(protocol.BODY_LIMIT_BYTES)) == protocol.BODY_LIMIT_BYTES
    assert not coming.proceed(1.0)


def test_one_turn_reads_no_more_than_its_share() -> None:
    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    pieces = Pieces(LENGTH[:-5].replace(b": 5", b": 9000000"), bytes(9_000_000))
    assert not coming.receive(pieces.recv, 1.0)
    assert len(coming.buffer) <= 2 * request_framing.TURN_BYTES


@pytest.mark.parametrize("where", [LENGTH[:30], CHUNKED[:-3]], ids=["the head", "a chunk"])
def test_work_grows_with_what_comes_and_not_with_its_square(where: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that sends byte by byte must not make each byte cost a look at all the others."""
    searched: list[int] = []

    class Counting(bytearray):
        def find(self, what: Any, start: Any = 0, end: Any = None) -> int:
            searched.append(len(self) - start)
            return super().find(what, start, len(self) if end is None else end)

    coming = request_framing.Incoming(http_exchange.settings(), CLIENT)
    coming.buffer = coming._parser.unreader.sock._buffer = Counting()
    coming.receive(Pieces(where).recv, 1.0)
    searched.clear()
    for _ in range(1000):
        assert not coming.receive(Pieces(b"0").recv, 1.0)
    assert sum(searched) < 1000 * len(where)
