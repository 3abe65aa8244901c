"""Requests that two readers of HTTP might understand differently, or that cost too much, and what is right.

`STREAMS` is what RFC 9112 and gunicorn 27 say of each: the statuses of the answers before the connection ends. Every
stream that must be refused ends with a whole request for `HIDDEN`, so that a server that loses its place answers it:
`converse` gives all answers, and a test looks whether any is about it. The three ports are held to the same table:
`tests/unit/runtime/test_ops.py` (annotator, descheduler) and `tests/contract/test_extender_wire.py` (extender).
"""

import http.client
import io
import json
import socket
from typing import Any, Final, NamedTuple

HIDDEN: Final = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
PATIENCE_SECONDS: Final = 90.0  # every end comes far sooner; a server that hangs fails the test
REFUSED: Final = (400,)
_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
_ONE_CHUNK: Final = b"2\r\n{}\r\n0\r\n\r\n"


class Answer(NamedTuple):
    """One answer of a connection."""

    status: int
    body: bytes

    @property
    def path(self) -> str:
        """The path that a refusal names; "" for any other answer."""
        try:
            said: Any = json.loads(self.body)
        except ValueError:
            return ""
        return str(said.get("path", "")) if isinstance(said, dict) else ""


class Stream(NamedTuple):
    """Bytes of one connection and the statuses of their answers; () where the end comes without one."""

    sent: bytes
    statuses: tuple[int, ...] = REFUSED


def post(*lines: bytes, body: bytes = b"", path: bytes = b"/filter", version: bytes = b"HTTP/1.1") -> bytes:
    """A request with JSON and further header lines."""
    head = b"POST " + path + b" " + version + b"\r\nHost: x\r\nContent-Type: application/json\r\n"
    return head + b"".join(lines) + b"\r\n" + body


def converse(address: tuple[str, int], sent: bytes, *, before: bytes = b"") -> list[Answer]:
    """All answers until the server ends the connection. `before` is sent and answered first: the connection is kept.

    The client's half is closed after the last byte, so that a server that waits for more sees that none comes.
    """
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        if before:
            client.sendall(before)
            _answer(client.makefile("rb"))
        try:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it was refused before it was whole
        return _answers(client)


def _answers(client: socket.socket) -> list[Answer]:
    received = io.BytesIO()
    try:
        while piece := client.recv(1 << 16):
            received.write(piece)
    except ConnectionResetError:
        pass  # an end as good as any; what came before it counts
    received.seek(0)
    found = []
    while received.tell() < len(received.getbuffer()):
        found.append(_answer(received))
    return found


class _Source:
    def __init__(self, file: Any) -> None:
        self._file = file

    def makefile(self, _mode: str) -> Any:
        return _Unclosed(self._file)


class _Unclosed:
    """http.client closes what it has read an answer from; the next answer comes from the same file."""

    def __init__(self, file: Any) -> None:
        self.read, self.readline, self.readinto, self.flush = file.read, file.readline, file.readinto, file.flush

    def close(self) -> None:
        """Leave the file open."""


def _answer(file: Any) -> Answer:
    answer = http.client.HTTPResponse(_Source(file), method="POST")  # type: ignore[arg-type]
    answer.begin()
    return Answer(answer.status, answer.read())


def _length(value: bytes) -> bytes:
    return post(b"Content-Length: " + value + b"\r\n", body=b"{}" + HIDDEN)


def _coding(value: bytes, *, version: bytes = b"HTTP/1.1") -> bytes:
    return post(b"Transfer-Encoding: " + value + b"\r\n", body=_ONE_CHUNK + HIDDEN, version=version)


def _chunks(body: bytes) -> bytes:
    return post(_CHUNKED, body=body)


FRAMING: Final = {
    "a length and chunks": Stream(post(b"Content-Length: 4\r\n", _CHUNKED, body=_ONE_CHUNK + HIDDEN)),
    "chunks and a length": Stream(post(_CHUNKED, b"Content-Length: 12\r\n", body=_ONE_CHUNK + HIDDEN)),
    "two lengths": Stream(post(b"Content-Length: 2\r\n", b"Content-Length: 36\r\n", body=b"{}" + HIDDEN)),
    "the same length twice": Stream(post(b"Content-Length: 2\r\n" * 2, body=b"{}" + HIDDEN)),
    "two lengths in one": Stream(_length(b"2, 2")),
    "a length with a sign": Stream(_length(b"+2")),
    "a negative length": Stream(_length(b"-2")),
    "a length in hexadecimal": Stream(_length(b"0x2")),
    "a length with an underscore": Stream(_length(b"0_2")),
    "a length that is a digit but no number": Stream(_length(b"\xb2")),
    "an empty length": Stream(_length(b"")),
    "a length of spaces": Stream(_length(b"2 2")),
    "chunked twice": Stream(_coding(b"chunked, chunked")),
    "two transfer codings": Stream(post(_CHUNKED, _CHUNKED, body=_ONE_CHUNK + HIDDEN)),
    "chunked, then something else": Stream(_coding(b"chunked, identity")),
    "no coding at all": Stream(_coding(b"identity")),
    "an unknown coding": Stream(_coding(b"xchunked"), (501,)),
    "a coding with a control character": Stream(_coding(b"\x0bchunked")),
    "chunks in HTTP/1.0": Stream(_coding(b"chunked", version=b"HTTP/1.0")),
    "a space before the colon": Stream(post(b"Transfer-Encoding : chunked\r\n", body=_ONE_CHUNK + HIDDEN)),
    "a folded line": Stream(post(b"X-A: b\r\n Content-Length: 2\r\n", body=b"{}" + HIDDEN)),
    "a folded transfer coding": Stream(post(b"Transfer-Encoding:\r\n chunked\r\n", body=_ONE_CHUNK + HIDDEN)),
    "a first line that is folded": Stream(b"POST /filter HTTP/1.1\r\n Host: x\r\n\r\n" + HIDDEN),
    "bare line feeds": Stream(post(b"Content-Length: 2\r\n").replace(b"\r\n", b"\n") + b"{}" + HIDDEN),
    "one bare line feed": Stream(post(b"X-A: b\nContent-Length: 2\r\n", body=b"{}" + HIDDEN)),
    "a bare carriage return": Stream(post(b"X-A: b\rContent-Length: 2\r\n", body=b"{}" + HIDDEN)),
    "a line without a colon": Stream(post(b"Content-Length 2\r\n", body=b"{}" + HIDDEN)),
    "a nameless header": Stream(post(b": 2\r\n", body=b"{}" + HIDDEN)),
}
CHUNKS: Final = {
    "a chunk size with a prefix": Stream(_chunks(b"0x2\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a negative chunk size": Stream(_chunks(b"-2\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size with spaces": Stream(_chunks(b"2 \r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size of letters": Stream(_chunks(b"zz\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "no chunk size": Stream(_chunks(b"\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size with an underscore": Stream(_chunks(b"0_2\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size of more bits than any": Stream(_chunks(b"F" * 40 + b"\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size line without end": Stream(_chunks(b"2;" + b"x" * 20_000)),
    "a chunk longer than it says": Stream(_chunks(b"2\r\n{} \r\n0\r\n\r\n" + HIDDEN)),
    "a chunk size ended by a line feed": Stream(_chunks(b"2\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a chunk extension with a carriage return": Stream(_chunks(b"2;a\rb\r\n{}\r\n0\r\n\r\n" + HIDDEN)),
    "a length among the trailers": Stream(_chunks(b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n" + HIDDEN)),
    "chunks that break off": Stream(_chunks(b"2\r\n{}\r\n")),
}
LIMITS: Final = {
    "an endless request line": Stream(b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN, (414,)),
    "an endless header line": Stream(post(b"X-A: " + b"a" * 70_000 + b"\r\n") + HIDDEN, (431,)),
    "a header line without end": Stream(post()[:-2] + b"X-A: " + b"a" * 2_000_000, (431,)),
    "very many headers": Stream(post(*(b"X-%d: a\r\n" % n for n in range(2000))) + HIDDEN, (431,)),
    "a body that never comes": Stream(post(b"Content-Length: 10\r\n", body=b"{}")),
}
FORMS: Final = {
    "a NUL in the target": Stream(b"GET /li\0vez HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN),
    "a NUL in a name": Stream(b"GET /livez HTTP/1.1\r\nHo\0st: x\r\n\r\n" + HIDDEN),
    "a NUL in a value": Stream(b"GET /livez HTTP/1.1\r\nHost: x\0y\r\n\r\n" + HIDDEN),
    "a NUL first": Stream(b"\0" + HIDDEN),
    "two hosts": Stream(b"GET /livez HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n" + HIDDEN),
    "no version": Stream(b"GET /livez\r\n\r\n" + HIDDEN),
    "a version of the future": Stream(b"GET /livez HTTP/2.0\r\nHost: x\r\n\r\n" + HIDDEN),
    "HTTP/2's preface": Stream(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + HIDDEN),
    "three spaces": Stream(b"GET  /livez HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN),
    "a target of another kind": Stream(b"GET x:80 HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN),
    "an asterisk": Stream(b"GET * HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN),
    "a target that is not ASCII": Stream(b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n" + HIDDEN),
    "an expectation nobody knows": Stream(post(b"Expect: wonders\r\n", b"Content-Length: 2\r\n") + HIDDEN, (417,)),
    "a greeting of TLS": Stream(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    "nothing but line ends": Stream(b"\r\n\r\n\r\n\r\n" + HIDDEN),
    "nothing": Stream(b"", ()),
    "half a request": Stream(b"GET /livez HTTP/1.1\r\nHo", ()),
}
STREAMS: Final = {**FRAMING, **CHUNKS, **LIMITS, **FORMS}
