"""Requests of the one form are answered as gunicorn would; everything else is left to it."""

import collections.abc
import contextlib
import http.client
import io
import select
import socket
from typing import Any, NamedTuple
from wsgiref import types as wsgi
from wsgiref import validate

import hypothesis
import pytest
from gunicorn import http as parsing
from gunicorn.http import errors
from hypothesis import strategies as st

from extender.http import connection, raw_requests
from runtime import http_exchange
from tests import hostile_http

NOW = 1_763_733_600.5
BODY = b'{"Pod":{},"NodeNames":["a"]}'


def request(body: bytes = BODY, *, path: str = "/filter", length: int | None = None, more: str = "") -> bytes:
    """A request as Go's client writes it, with `more` header lines."""
    lines = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:8900\r\nUser-Agent: Go-http-client/1.1\r\n"
    lines += f"Content-Length: {len(body) if length is None else length}\r\n"
    lines += f"Content-Type: application/json\r\n{more}Accept-Encoding: gzip\r\n\r\n"
    return lines.encode() + body


class OpenConnection:
    """A connection, and the client's end."""

    def __init__(self) -> None:
        ours, self.client_end = socket.socketpair()
        self.connection = connection.Connection(ours, ("127.0.0.1", 4242), http_exchange.settings())
        self.connection.server = ("127.0.0.1", 8900)

    def answer(self, application: wsgi.WSGIApplication) -> bool:
        """Receive until the request is whole or no more comes now, and let `direct` answer."""
        while not self.connection.receive(1.0) and select.select([self.connection.sock], [], [], 0)[0]:
            pass
        return raw_requests.answer(self.connection, application, NOW)

    def left(self) -> bytes:
        """What the next reader of the connection finds first."""
        return bytes(self.connection.incoming.buffer)

    def replied(self) -> tuple[http.client.HTTPResponse, bytes]:
        """The reply, read as a client reads it."""
        answer = http.client.HTTPResponse(self.client_end, method="POST")
        answer.begin()
        return answer, answer.read()

    def close(self) -> None:
        """Both ends."""
        self.connection.close()
        self.client_end.close()


@pytest.fixture
def open_connection() -> collections.abc.Iterator[OpenConnection]:
    with contextlib.closing(OpenConnection()) as made:
        yield made


class Application:
    """Echoes the body, and notes what happened in which order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.environ: dict[str, Any] = {}

    def __call__(
        self, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> collections.abc.Iterable[bytes]:
        self.environ = dict(environ)
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return Reply(body, self.events)


class Reply:
    """A reply that has something left to do."""

    def __init__(self, body: bytes, events: list[str]) -> None:
        self._body, self._events = body, events

    def __iter__(self) -> collections.abc.Iterator[bytes]:
        self._events.append("read")
        return iter((self._body,))

    def close(self) -> None:
        """The rest."""
        self._events.append("closed")


def test_a_request_of_the_form_is_answered_whole_and_the_rest_is_done_afterwards(
    open_connection: OpenConnection,
) -> None:
    application = Application()
    open_connection.client_end.sendall(request())
    assert open_connection.answer(application)
    answer, body = open_connection.replied()
    assert (answer.status, body, application.events) == (200, BODY, ["read", "closed"])
    assert answer.getheader("Connection") == "keep-alive"
    assert answer.getheader("Date") == "Fri, 21 Nov 2025 14:00:00 GMT"
    assert open_connection.left() == b""


def test_the_environ_is_what_wsgi_asks_for(open_connection: OpenConnection) -> None:
    application = Application()
    open_connection.client_end.sendall(request(path="/prioritize"))
    assert open_connection.answer(validate.validator(application))
    seen = {key: application.environ[key] for key in ("PATH_INFO", "CONTENT_LENGTH", "HTTP_HOST", "SERVER_PORT")}
    assert seen == {
        "PATH_INFO": "/prioritize",
        "CONTENT_LENGTH": str(len(BODY)),
        "HTTP_HOST": "127.0.0.1:8900",
        "SERVER_PORT": "8900",
    }


def test_the_status_and_the_headers_are_the_applications(open_connection: OpenConnection) -> None:
    def refusing(_environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
        start_response("422 UNPROCESSABLE ENTITY", [("X-Why", "no pod")])
        return [b"no ", b"pod"]

    open_connection.client_end.sendall(request())
    assert open_connection.answer(refusing)
    answer, body = open_connection.replied()
    assert (answer.status, answer.getheader("X-Why"), answer.getheader("Content-Length")) == (422, "no pod", "6")
    assert body == b"no pod"


def test_a_body_that_comes_in_pieces_is_waited_for(open_connection: OpenConnection) -> None:
    body = b"x" * 100_000  # more than one piece, less than the kernel holds
    open_connection.client_end.sendall(request(body))
    assert open_connection.answer(Application())
    assert open_connection.replied()[1] == body


def test_a_request_that_came_at_once_with_the_next_leaves_that_one(open_connection: OpenConnection) -> None:
    open_connection.client_end.sendall(request() + request(path="/prioritize"))
    assert open_connection.answer(Application())
    assert open_connection.left() == request(path="/prioritize")


def test_half_a_request_is_left_to_gunicorn_which_finds_its_end(open_connection: OpenConnection) -> None:
    open_connection.client_end.sendall(request(length=1000))
    open_connection.client_end.shutdown(socket.SHUT_WR)
    assert not open_connection.answer(Application())
    assert open_connection.left() == request(length=1000)


OTHERS = {
    "another path": request(path="/preempt"),
    "a query": request(path="/filter?x"),
    "chunks": request(more="Transfer-Encoding: chunked\r\n"),
    "two lengths": request(more="Content-Length: 5\r\n"),
    "a length with a sign": request().replace(b"Content-Length: ", b"Content-Length: +"),
    "a length with a zero before it": request().replace(b"Content-Length: ", b"Content-Length: 0"),
    "a body over the limit": request(length=2**28),
    "a continuation line": request(more=" folded\r\n"),
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "HTTP/1.0": request().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a wish to close": request(more="Connection: close\r\n"),
    "an Expect": request(more="Expect: 100-continue\r\n"),
    "part of a head": request()[:40],
    "nothing": b"",
}


@pytest.mark.parametrize("sent", OTHERS.values(), ids=OTHERS)
def test_anything_else_is_left_to_gunicorn(open_connection: OpenConnection, sent: bytes) -> None:
    application = Application()
    open_connection.client_end.sendall(sent)
    assert not open_connection.answer(application)
    assert application.environ == {}


@hypothesis.settings(deadline=None)
@hypothesis.given(at=st.integers(0, len(request(b"")) - 1), byte=st.integers(0, 255))
def test_a_changed_byte_of_the_head_is_taken_only_where_any_text_may_stand(at: int, byte: int) -> None:
    changed = bytearray(request())
    changed[at] = byte
    application = Application()
    with contextlib.closing(OpenConnection()) as open_connection:
        open_connection.client_end.sendall(bytes(changed))
        open_connection.client_end.shutdown(socket.SHUT_WR)
        head = bytes(changed).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        assert not open_connection.answer(application) or _fields(head) == _fields(request(b""))


def _fields(head: bytes) -> list[str]:
    """The names of the header fields, as Python's own parser of HTTP reads them."""
    return list(http.client.parse_headers(io.BytesIO(head.partition(b"\r\n")[2])))


LIMITS = http_exchange.settings()
AT_ONCE_BYTES = 2**16  # a pair of sockets holds more, so that nobody waits for a reader


class Understood(NamedTuple):
    """What one reader of HTTP makes of the first request on a connection."""

    method: str
    path: str
    query: str
    body: bytes
    rest: bytes


def by_direct(sent: bytes) -> Understood | None:
    """As `direct` understands it; None where it leaves the request to gunicorn."""
    application = Application()
    with contextlib.closing(OpenConnection()) as open_connection:
        open_connection.client_end.sendall(sent[:AT_ONCE_BYTES])
        open_connection.client_end.shutdown(socket.SHUT_WR)
        if not open_connection.answer(application):
            return None
        said = application.environ
        rest = open_connection.left()
        body = said["wsgi.input"].getvalue()
        assert said["CONTENT_LENGTH"] == str(len(body))
        return Understood(said["REQUEST_METHOD"], said["PATH_INFO"], said["QUERY_STRING"], body, rest)


def by_gunicorn(sent: bytes) -> Understood | None:
    """As gunicorn understands it, with the limits it has here; None where it refuses."""
    parser = parsing.get_parser(LIMITS, iter([sent]), ("127.0.0.1", 4242))
    try:
        request = next(parser)
        body = request.body.read()
    except (errors.ParseException, errors.NoMoreData, StopIteration):
        return None
    rest = parser.unreader.buf.getvalue()
    return Understood(request.method, request.path, request.query, body, rest)


LINES = request(b"").split(b"\r\n")[:-2]
HOSTILE_LINES = st.sampled_from(
    [
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding : chunked",
        b"Content-Length: 0",
        b"Content-Length: 5, 5",
        b"Content-Length:\t5",
        b" folded",
        b"Expect: 100-continue",
        b"Connection: close",
        b"Host: y",
        b"X-A: b\nContent-Length: 3",
        b"",
        b"\0",
    ]
)
EDITS = st.lists(
    st.tuples(st.integers(0, len(LINES)), st.one_of(HOSTILE_LINES, st.sampled_from(LINES), st.none())), max_size=3
)
ENDS = st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" \r\n"])
BODIES = st.sampled_from([b"", BODY, b"0\r\n\r\n", b"5\r\nabcde\r\n0\r\n\r\n", hostile_http.HIDDEN])


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Go's request with lines put in, doubled or left out, other line ends, a length that may lie, changed bytes."""
    body = draw(BODIES)
    lines = [line for line in LINES if not line.startswith(b"Content-Length")]
    lines.insert(3, b"Content-Length: %d" % (len(body) + draw(st.sampled_from([0, 0, 0, -1, 1, -len(body)]))))
    for at, line in draw(EDITS):
        if line is None:
            del lines[at : at + 1]
        else:
            lines.insert(at, line)
    head = b"".join(line + (draw(ENDS) if draw(st.integers(0, 9)) == 0 else b"\r\n") for line in lines) + b"\r\n"
    changed = bytearray(head + body + draw(st.sampled_from([b"", hostile_http.HIDDEN, request()])))
    for at, byte in draw(st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=2)):
        changed[at] = byte
    return bytes(changed)


@hypothesis.settings(max_examples=300)
@hypothesis.given(sent=requests())
def test_what_is_taken_means_to_gunicorn_the_same_to_the_byte(sent: bytes) -> None:
    taken = by_direct(sent)
    hypothesis.event("taken" if taken else "left to gunicorn")
    assert taken is None or taken == by_gunicorn(sent)


@pytest.mark.parametrize("stream", hostile_http.STREAMS.values(), ids=hostile_http.STREAMS)
def test_no_hostile_request_is_taken(stream: hostile_http.Stream) -> None:
    assert by_direct(stream.sent) is None


def test_both_readers_are_asked_for_something() -> None:
    whole = Understood("POST", "/filter", "", BODY, hostile_http.HIDDEN)
    assert by_direct(request() + hostile_http.HIDDEN) == by_gunicorn(request() + hostile_http.HIDDEN) == whole
