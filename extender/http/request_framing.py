"""The bytes of one connection up to the end of its next request: read without waiting, framed, then parsed.

`connection` lets an `Incoming` receive when the poller says that something came; `http.gunicorn_worker` gives the
connection to a thread only when the head and all of the body are there, or gunicorn's parser refuses what is there, or
nothing more comes. The thread takes the request by `form` (`http.raw_requests`) or by `request` (gunicorn's parser,
which stays the one that knows HTTP). The parser reads from here: it never waits, and where it wants more than is there,
it finds the end of the stream, and the connection ends after the answer. So a mistake in finding the end of a request
can make a client wait or lose its connection; it cannot make bytes of a body a request.
"""

import collections.abc
import enum
import io
import re
from typing import Any, Final

from gunicorn import http as parsing
from gunicorn.http import body as bodies
from gunicorn.http import errors

from extender import protocol
from extender.http import nonblocking_sockets

HEAD_LIMIT_BYTES: Final = 2**20  # over the parser's own limit of a head, so that it is the parser which refuses
CHUNK_LINE_LIMIT_BYTES: Final = 2**14  # the same for the line with a chunk's size
CHUNKED_LIMIT_BYTES: Final = protocol.BODY_LIMIT_BYTES + 2**16  # with what chunks add
TURN_BYTES: Final = 2**18  # read in one turn of the poller, so that a fast client leaves time for others
PIECE_BYTES: Final = 2**16  # over a record of TLS, the rest of which would be in no poller's sight

FORM: Final = re.compile(
    rb"POST (/filter|/prioritize) HTTP/1\.1\r\n"
    rb"Host: ([0-9A-Za-z.:\[\]-]{1,255})\r\n"
    rb"User-Agent: ([ -~]{1,255})\r\n"
    rb"Content-Length: (0|[1-9][0-9]{0,8})\r\n"
    rb"Content-Type: application/json\r\n"
    rb"Accept-Encoding: gzip\r\n\r\n"
)
_LINE_FEED_ALONE: Final = re.compile(rb"(?<!\r)\n")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;|$)")


class Head(enum.Enum):
    """Framing of a request: how its end is found."""

    OPEN = enum.auto()  # no head yet
    LENGTH = enum.auto()
    CHUNKS = enum.auto()
    TRAILERS = enum.auto()
    REFUSED = enum.auto()  # more than is ever read, or nothing that the parser would take


class _Source:
    """The stream that gunicorn's parser reads. It has the buffer and not the connection, so that no cycle of references
    keeps a closed connection's bytes until the garbage is collected.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = buffer

    def recv(self, size: int) -> bytes:
        """The bytes that are there; b"" for none, which is the end of the stream to the parser."""
        piece = bytes(self._buffer[:size])
        del self._buffer[:size]
        return piece


class Incoming:
    """Unanswered bytes of a connection."""

    def __init__(self, settings: Any, client: Any) -> None:
        self.buffer = bytearray()  # the same object to the end
        self.bodies = True  # whether bodies are read; else a request is whole with its head, and is the last
        self.ended = False  # nothing more will come
        self.begun_seconds: float | None = None  # when the first byte of this request was there
        self._parser: Any = parsing.get_parser(settings, _Source(self.buffer), client)
        self._start()

    def _start(self) -> None:
        self._by = Head.OPEN
        self._end = 0  # of the request in the buffer, or of the chunks walked over
        self._searched = 0
        self._message: Any = None
        self._error: Exception | None = None
        self.form: re.Match[bytes] | None = None

    @property
    def whole(self) -> bool:
        """Whether the request is there to its last byte."""
        return self._by is Head.LENGTH and len(self.buffer) >= self._end

    @property
    def size_bytes(self) -> int:
        """How large the request is, as far as that is known and read."""
        return max(self._end if self._by is Head.LENGTH and self.bodies else 0, len(self.buffer))

    def take_go_ahead(self) -> bool:
        """Whether the client waits for 100 Continue before it sends the rest; True once for a request."""
        if self._message is None or not self._message._expected_100_continue:
            return False
        self._message._expected_100_continue = False
        return True

    def receive(self, recv: collections.abc.Callable[[int], bytes], now_seconds: float) -> bool:
        """Read what is there, about TURN_BYTES at most; `recv` gives b"" at the end, or raises one of
        `nonblocking_sockets.FULL`. True when a thread can go on: see the module.
        """
        left_bytes = TURN_BYTES
        while not self._settled():
            if left_bytes <= 0:
                return False
            try:
                piece = recv(min(max(self._end - len(self.buffer), PIECE_BYTES), TURN_BYTES))
            except nonblocking_sockets.FULL:
                return False
            except OSError:  # a reset, broken TLS: who sent it reads no answer
                self.buffer.clear()
                piece = b""
            if not piece:
                self.ended = True
                return True
            if self.begun_seconds is None:
                self.begun_seconds = now_seconds
            self.buffer += piece
            left_bytes -= len(piece)
        return True

    def clear(self) -> None:
        """Forget what came. An error refers by its traceback to this object."""
        self.buffer.clear()
        self._forget_message()
        self._start()

    def _forget_message(self) -> None:
        """Let go of the last request. Else its body would stay as long as the connection; a body in chunks even longer,
        as its reader and the request refer to each other.
        """
        if self._parser.mesg is not None:
            self._parser.mesg.body = None
            self._parser.mesg = None

    def request(self) -> Any:
        """gunicorn's request. Errors: those of its parser."""
        if self._error is not None:
            raise self._error
        unread = not (self.bodies or self.whole)
        message = self._message or next(self._parser)
        if unread:
            message.force_close()
            message._expected_100_continue = False
        if self._message is not None and isinstance(message.body.reader, bodies.LengthReader) and self.whole:
            message.body = io.BytesIO(self._take(0))  # the parser's own would copy it several times
        return message

    def body(self) -> bytes:
        """The body of a request of the `form`, which is used up by it."""
        assert self.form is not None  # noqa: S101 - for `direct` alone
        return self._take(self.form.end())

    def _take(self, begin: int) -> bytes:
        """The rest of the request from there."""
        with memoryview(self.buffer) as view:
            content = bytes(view[begin : self._end])
        del self.buffer[: self._end]
        return content

    def proceed(self, now_seconds: float) -> bool:
        """Go on to the next request; False where it is unknown where that begins."""
        if self._by is Head.REFUSED or self.ended:
            return False
        if self._parser.mesg is not None:
            if not self._parser.finish_body():
                return False
            self.buffer[:0] = self._parser.unreader.take_buffered()
            self._forget_message()
        self._start()
        self.begun_seconds = now_seconds if self.buffer else None
        return True

    def _settled(self) -> bool:
        """Whether nothing needs to be read any more."""
        if self._by is Head.OPEN:
            self._find_head()
        if self._by is Head.CHUNKS:
            self._walk_chunks()
        if self._by is Head.TRAILERS:
            self._find_trailers()
        return self._by is Head.REFUSED or self.whole or not (self.bodies or self._by is Head.OPEN)

    def _find_head(self) -> None:
        end = self.buffer.find(b"\r\n\r\n", max(0, self._searched - 3))
        if end >= 0:
            self.form = FORM.match(self.buffer)
            if self.form is None:
                self._parse()
            else:
                self._has_length(self.form.end(), int(self.form[4]))
        elif len(self.buffer) > HEAD_LIMIT_BYTES or _LINE_FEED_ALONE.search(self.buffer, self._searched):
            self._by = Head.REFUSED
        self._searched = len(self.buffer) if self._by is Head.OPEN else 0

    def _parse(self) -> None:
        """Let gunicorn read the head; what it refuses is raised in the thread, where refusals are answered."""
        try:
            self._message = next(self._parser)
        except (errors.ParseException, OSError, StopIteration, ValueError) as error:
            self._error, self._by = error, Head.REFUSED
            return
        self.buffer[:0] = self._parser.unreader.take_buffered()
        reader = self._message.body.reader
        if isinstance(reader, bodies.ChunkedReader):
            self._by = Head.CHUNKS
        else:
            self._has_length(0, reader.length)

    def _has_length(self, head_bytes: int, length: int) -> None:
        self._by = Head.REFUSED if length > protocol.BODY_LIMIT_BYTES else Head.LENGTH
        self._end = head_bytes + length

    def _walk_chunks(self) -> None:
        """Follow the sizes of chunks to the last one; what is no size is left to the parser."""
        while self._by is Head.CHUNKS:
            if self._end > CHUNKED_LIMIT_BYTES:
                self._by = Head.REFUSED
                return
            line_end = self.buffer.find(b"\r\n", max(self._end, self._searched))
            if line_end < 0:
                self._searched = max(self._end, len(self.buffer) - 1)
                if len(self.buffer) - self._end > CHUNK_LINE_LIMIT_BYTES:
                    self._by = Head.REFUSED
                return
            size = _CHUNK_SIZE.match(self.buffer, self._end, line_end)
            if size is None:
                self._by = Head.REFUSED
            elif int(size[1], 16):
                self._end = line_end + 2 + int(size[1], 16) + 2
            else:
                self._by, self._end, self._searched = Head.TRAILERS, line_end, line_end

    def _find_trailers(self) -> None:
        end = self.buffer.find(b"\r\n\r\n", max(self._end, self._searched - 3))
        if end >= 0:
            self._by, self._end = Head.LENGTH, end + 4
        elif len(self.buffer) - self._end > HEAD_LIMIT_BYTES or _LINE_FEED_ALONE.search(self.buffer, self._searched):
            self._by = Head.REFUSED
        else:
            self._searched = len(self.buffer)
