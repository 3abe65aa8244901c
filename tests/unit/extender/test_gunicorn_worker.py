"""Clients that are slow, silent, many or greedy hold no thread, whatever the time; no other client waits for them."""

import collections.abc
import contextlib
import http.client
import pathlib
import select
import socket
import ssl
import threading
from wsgiref import types as wsgi

import pytest

from extender.http import connection, connection_limits, gunicorn_worker, tls
from runtime import certificates, clock, http_limits
from tests.e2e import waiting
from tests.unit.extender import workers
from tests.unit.extender.workers import answered

MANY = 16  # more than the worker has threads
REQUEST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcde"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
SLOW = {
    "half a head": (REQUEST[:12], REQUEST[12:]),
    "half a body": (REQUEST[:-2], REQUEST[-2:]),
    "half a chunk": (CHUNKED[:-12], CHUNKED[-12:]),
    "no last chunk": (CHUNKED[:-4], CHUNKED[-4:]),
}


@pytest.fixture
def working() -> collections.abc.Iterator[workers.Working]:
    with workers.worker() as made:
        yield made


@contextlib.contextmanager
def strangers(
    working: workers.Working, count: int, sent: bytes = b"", address: str = workers.STRANGER
) -> collections.abc.Iterator[list[socket.socket]]:
    """Connections from one address, each of which sends this."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(working.connect(address)) for _ in range(count)]
        for one in opened:
            one.sendall(sent)
        yield opened


def ended(client: socket.socket) -> bool:
    """Whether the server ended or reset a connection on which it sent nothing."""
    return bool(select.select([client], [], [], 0)[0])


@pytest.mark.parametrize(("first", "rest"), SLOW.values(), ids=SLOW)
def test_requests_that_come_slowly_hold_no_thread(working: workers.Working, first: bytes, rest: bytes) -> None:
    with strangers(working, MANY, first) as slow:
        assert working.ask() == (200, "keep-alive")
        assert not any(map(ended, slow)), "answered after them, and not while they were open"
        for one in slow:
            one.sendall(rest)
        assert [answered(one) for one in slow] == [200] * MANY


@pytest.mark.parametrize("later", [False, True], ids=["with the first", "while the thread waits for it still"])
def test_a_connection_that_asked_once_holds_no_thread_by_half_a_request(working: workers.Working, later: bool) -> None:
    with strangers(working, MANY, REQUEST if later else REQUEST + REQUEST[:-2]) as slow:
        for one in slow:
            assert answered(one) == 200
            one.sendall(REQUEST[:-2] if later else b"")
        assert working.ask() == (200, "keep-alive")
        assert not any(map(ended, slow))
        for one in slow:
            one.sendall(REQUEST[-2:])
        assert [answered(one) for one in slow] == [200] * MANY


def test_a_thread_keeps_the_connection_of_a_scheduler_that_pauses_and_gives_it_back_in_the_end(
    working: workers.Working,
) -> None:
    handed: list[connection.Connection] = []
    hand = working.worker.enqueue_req

    def enqueue(client: connection.Connection) -> None:
        handed.append(client)
        hand(client)

    working.worker.enqueue_req = enqueue
    with working.connect() as scheduler:
        for _ in range(2):
            assert answered(scheduler, REQUEST) == 200
            assert not select.select([scheduler], [], [], 2 * gunicorn_worker.LOOK_SECONDS)[0]  # a pause
        assert len(handed) == 1
        (client,) = handed
        working.clock.advance(gunicorn_worker.STAY_SECONDS)
        waiting.eventually(lambda: not client.answering, waiting.LIMIT_SECONDS, "the thread to give it back")
        assert answered(scheduler, REQUEST) == 200
    assert len(handed) == 2


def test_what_does_not_come_in_time_is_dropped_and_idle_connections_are_not(working: workers.Working) -> None:
    with strangers(working, 2, REQUEST[:-2]) as slow, working.connect() as silent, working.connect() as idle:
        assert answered(idle, REQUEST) == 200
        assert working.ask() == (200, "keep-alive")
        working.clock.advance(http_limits.REQUEST_SECONDS)
        assert [one.recv(1) for one in slow] == [b"", b""]
        assert working.dropped == ["late", "late"]
        for one in (silent, idle):
            assert answered(one, REQUEST) == 200


def test_who_has_most_connections_gives_way_to_others_and_not_they_to_him(working: workers.Working) -> None:
    with contextlib.ExitStack() as stack:
        scheduler = stack.enter_context(working.connect())
        assert answered(scheduler, REQUEST) == 200
        for number in range(2, 6):  # each of them asks, and so looks as honest as the scheduler
            many = stack.enter_context(
                strangers(working, connection_limits.OPEN_LIMIT // 3, REQUEST, f"127.0.0.{number}")
            )
            assert answered(many[-1]) == 200
        assert working.ask() == (200, "keep-alive")
        assert answered(scheduler, REQUEST) == 200
    assert set(working.dropped) == {"connections"}


def test_connections_that_were_never_used_go_before_those_that_were(working: workers.Working) -> None:
    with working.connect(workers.STRANGER) as used:
        assert answered(used, REQUEST) == 200
        with strangers(working, connection_limits.OPEN_LIMIT_OF_ADDRESS) as silent:
            assert silent[0].recv(1) == b""
            assert answered(used, REQUEST) == 200


BIG = connection.LARGE_BYTES + 1


def post(length: int) -> bytes:
    """A head that announces so much."""
    return b"POST /big HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % length


def test_who_makes_the_worker_hold_most_bytes_is_dropped_and_not_a_slow_scheduler(working: workers.Working) -> None:
    with working.connect() as scheduler, contextlib.ExitStack() as stack:
        scheduler.sendall(post(BIG) + bytes(BIG - 1))
        for _ in range(4):
            greedy = stack.enter_context(working.connect(workers.STRANGER))
            with contextlib.suppress(OSError):
                greedy.sendall(post(2**24) + bytes(2**24 - 1))
        waiting.eventually(lambda: "bytes" in working.dropped, workers.LIMIT_SECONDS, "somebody to be dropped")
        assert not ended(scheduler)
        scheduler.sendall(b"x")
        assert answered(scheduler) == 200


class Gate:
    """An application that answers when it is let, and notes in which order it was asked, and how many at once."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.at_once: list[int] = []
        self._inside: list[str] = []
        self._opened = threading.Semaphore(0)

    def open(self, times: int) -> None:
        """Let so many requests be answered."""
        self._opened.release(times)

    def __call__(
        self, environ: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse
    ) -> collections.abc.Iterable[bytes]:
        path = environ["PATH_INFO"]
        self.order.append(path)
        self._inside.append(path)
        self.at_once.append(self._inside.count("/big"))
        if path != "/now":
            assert self._opened.acquire(timeout=workers.LIMIT_SECONDS)
        self._inside.remove(path)
        return workers.hello(environ, start_response)


def test_one_large_body_at_a_time_and_the_small_ones_beside_it() -> None:
    gate = Gate()
    with workers.worker(application=gate) as working, strangers(working, 3, post(BIG) + bytes(BIG)) as large:
        waiting.eventually(lambda: gate.order == ["/big"], workers.LIMIT_SECONDS, "the first", lambda: gate.order)
        assert [working.ask("/now") for _ in range(3)] == [(200, "keep-alive")] * 3
        gate.open(3)
        assert [answered(one) for one in large] == [200] * 3
        assert max(gate.at_once) == 1


def test_the_next_thread_is_for_the_address_with_fewest_requests() -> None:
    gate = Gate()
    slow = REQUEST.replace(b"POST / ", b"POST /slow ")
    with workers.worker(application=gate) as working, strangers(working, MANY, slow) as many:
        waiting.eventually(lambda: len(gate.order) == 2, workers.LIMIT_SECONDS, "both threads to be busy")
        with working.connect() as scheduler:
            scheduler.sendall(REQUEST.replace(b"POST / ", b"POST /now "))
            NEVER.wait(0.2)  # it is there
            gate.open(1)
            assert answered(scheduler) == 200
            assert gate.order[:3] == ["/slow", "/slow", "/now"]
        gate.open(MANY)
        assert [answered(one) for one in many] == [200] * MANY


NEVER = threading.Event()
LONG = b"x" * (16 << 20)  # more than the kernel takes; one for each thread may be held


def long(_environment: wsgi.WSGIEnvironment, start_response: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
    """Answers POST with more than every buffer holds."""
    body = LONG if _environment["REQUEST_METHOD"] == "POST" else b"hi"
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]


def test_replies_that_are_not_read_hold_no_thread() -> None:
    with workers.worker(application=long) as working, strangers(working, workers.THREADS, REQUEST) as deaf:
        for one in deaf:
            assert one.recv(1) == b"H"
        assert working.ask() == (200, "keep-alive")
        arrived = 0
        while arrived < len(LONG):
            piece = deaf[-1].recv(1 << 20)
            assert piece
            arrived += len(piece)


def test_a_client_that_does_not_end_after_the_last_answer_is_ended(working: workers.Working) -> None:
    closing = REQUEST.replace(b"\r\nContent", b"\r\nConnection: close\r\nContent")
    with strangers(working, MANY, closing) as open_still:
        assert [answered(one) for one in open_still] == [200] * MANY
        assert working.ask() == (200, "keep-alive")
        open_still[0].sendall(b"x")  # the server reads on
        assert working.ask() == (200, "keep-alive")
        open_still[0].sendall(b"x")
        working.clock.advance(workers.LINGER_SECONDS)
        waiting.eventually(lambda: len(list(working.worker._open)) <= 3, workers.LIMIT_SECONDS, "their end")
    assert working.dropped == []


def test_a_client_that_waits_for_a_go_ahead_gets_it_before_the_body_comes(working: workers.Working) -> None:
    with working.connect() as client:
        client.sendall(REQUEST[:-9] + b"\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abcde")
        assert client.recv(12) == b"HTTP/1.1 200"


def test_a_bug_behind_the_port_is_answered_and_ends_nothing_else() -> None:
    def broken(environ: wsgi.WSGIEnvironment, _start: wsgi.StartResponse) -> collections.abc.Iterable[bytes]:
        raise ZeroDivisionError(environ["PATH_INFO"])

    with workers.worker(application=broken) as working:
        assert [working.ask()[0] for _ in range(3)] == [500] * 3


NOW = clock.WallClock().now()  # OpenSSL judges by the real clock


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of the server and of a client."""
    directory: pathlib.Path = tmp_path_factory.mktemp("tls")
    authority = certificates.Authority.create(now_seconds=NOW)
    pair = authority.serving(["127.0.0.1"], now_seconds=NOW)
    files = tls.Files(directory / "tls.crt", directory / "tls.key")
    files.certificate.write_text(pair.certificate, encoding="utf-8")
    files.key.write_text(pair.key, encoding="utf-8")
    return tls.context(files), ssl.create_default_context(cadata=authority.pair.certificate)


HALVES = {"no greeting": b"", "half a greeting": b"\x16\x03\x01"}


@pytest.mark.parametrize("sent", HALVES.values(), ids=HALVES)
def test_slow_handshakes_hold_no_thread(contexts: tuple[ssl.SSLContext, ssl.SSLContext], sent: bytes) -> None:
    with workers.worker(context=contexts[0]) as working, strangers(working, MANY, sent) as slow:
        with contexts[1].wrap_socket(working.connect(), server_hostname="127.0.0.1") as scheduler:
            assert answered(scheduler, REQUEST) == 200
            assert not any(map(ended, slow))
            if sent:  # one greeting is read in a turn, and the scheduler's before most of these
                begun = lambda: sum(not one.idle for one in working.worker._open) >= MANY  # noqa: E731
                waiting.eventually(begun, workers.LIMIT_SECONDS, "every greeting to be read")
            working.clock.advance(http_limits.REQUEST_SECONDS)
            assert answered(scheduler, REQUEST) == 200
        if sent:
            assert [one.recv(1) for one in slow] == [b""] * MANY


def test_slow_requests_with_tls_hold_no_thread(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with workers.worker(context=contexts[0]) as working, contextlib.ExitStack() as stack:
        slow = [
            stack.enter_context(contexts[1].wrap_socket(working.connect(workers.STRANGER), server_hostname="127.0.0.1"))
            for _ in range(MANY)
        ]
        for one in slow:
            one.sendall(REQUEST[:-2])
        with contexts[1].wrap_socket(working.connect(), server_hostname="127.0.0.1") as scheduler:
            assert answered(scheduler, REQUEST) == 200
        for one in slow:
            one.sendall(REQUEST[-2:])
        assert [answered(one) for one in slow] == [200] * MANY


def test_a_long_reply_with_tls_arrives_whole(contexts: tuple[ssl.SSLContext, ssl.SSLContext]) -> None:
    with (
        workers.worker(context=contexts[0], application=long) as working,
        contexts[1].wrap_socket(working.connect(), server_hostname="127.0.0.1") as client,
    ):
        client.sendall(REQUEST)
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.read() == LONG
