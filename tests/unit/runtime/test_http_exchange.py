"""The port of annotator and descheduler refuses what is ambiguous or too much, and gives one answer a connection."""

import collections.abc
import contextlib
import socket
import threading
from typing import Final

import flask
import pytest

from runtime import http_exchange, http_limits, ops_server
from tests import hostile_http

Address = tuple[str, int]
STAND: Final = threading.Event()  # lets requests for /stand be answered


@pytest.fixture(scope="module")
def application() -> flask.Flask:
    """A verb that echoes what it was sent, beside a plain route."""
    made = flask.Flask("test")

    @made.post("/filter")
    def echo() -> flask.Response:
        return ops_server.json_response({"body": flask.request.get_data().decode(), "from": flask.request.remote_addr})

    @made.get("/livez")
    def livez() -> flask.Response:
        return flask.Response("ok\n", mimetype="text/plain")

    @made.get("/long")
    def long() -> flask.Response:
        return flask.Response(bytes(LONG))

    @made.get("/stand")
    def stand() -> flask.Response:
        STAND.wait()
        return flask.Response("ok\n", mimetype="text/plain")

    @made.errorhandler(400)
    def refuse(_error: object) -> flask.Response:
        return ops_server.json_response({"path": flask.request.path}, 400)

    @made.errorhandler(404)
    def unknown(_error: object) -> flask.Response:
        return ops_server.json_response({"path": flask.request.path}, 404)

    return made


@pytest.fixture(scope="module")
def address(application: flask.Flask) -> collections.abc.Iterator[Address]:
    with ops_server.serve(application, "127.0.0.1:0", default_port=1) as running:
        yield "127.0.0.1", running.port


@pytest.mark.parametrize("stream", hostile_http.STREAMS.values(), ids=hostile_http.STREAMS)
def test_a_hostile_request_is_refused_and_nothing_in_it_is_a_request(
    address: Address, stream: hostile_http.Stream
) -> None:
    answers = hostile_http.converse(address, stream.sent)
    assert tuple(answer.status for answer in answers) == stream.statuses, answers
    assert not any(answer.path == "/hidden" for answer in answers)


def test_what_follows_the_answer_is_not_read(address: Address) -> None:
    whole = hostile_http.post(b"Content-Length: 2\r\n", body=b"{}")
    answers = hostile_http.converse(address, whole + hostile_http.HIDDEN)
    assert [(answer.status, b'"body": "{}"' in answer.body) for answer in answers] == [(200, True)]


@pytest.mark.parametrize("size", [b"2", b"0002", b"2;a", b'2;a="b"'])
def test_chunks_as_they_should_be_are_read(address: Address, size: bytes) -> None:
    body = size + b"\r\n{}\r\n0\r\nX-Trailer: a\r\n\r\n"
    (answer,) = hostile_http.converse(address, hostile_http.post(b"Transfer-Encoding: chunked\r\n", body=body))
    assert answer.status == 200
    assert b'"body": "{}"' in answer.body


def test_a_client_that_waits_to_be_asked_for_its_body_is_asked(address: Address) -> None:
    with socket.create_connection(address, timeout=hostile_http.PATIENCE_SECONDS) as client:
        client.sendall(hostile_http.post(b"Expect: 100-continue\r\n", b"Content-Length: 2\r\n"))
        assert client.recv(64) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"{}")
        assert client.recv(64).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_absolute_target_is_the_path_in_it(address: Address) -> None:
    (answer,) = hostile_http.converse(address, b"GET http://elsewhere/livez HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer == (200, b"ok\n")


def test_nobody_may_say_where_a_request_came_from_or_what_was_asked(address: Address) -> None:
    said = b"X-Forwarded-For: 10.0.0.9\r\n", b"SCRIPT_NAME: /filter\r\n", b"Forwarded: for=10.0.0.9\r\n"
    (answer,) = hostile_http.converse(
        address, hostile_http.post(*said, b"Content-Length: 2\r\n", body=b"{}", path=b"/filter")
    )
    assert answer.status == 200
    assert b'"from": "127.0.0.1"' in answer.body


def test_a_head_has_no_body(address: Address) -> None:
    with socket.create_connection(address, timeout=hostile_http.PATIENCE_SECONDS) as client:
        client.sendall(b"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        received = b""
        while piece := client.recv(4096):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n\r\n")


LONG: Final = 2**24  # bytes, more than the kernel takes
MANY: Final = 2 * ops_server.CONNECTION_LIMIT
PROBE: Final = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
# What many clients send and how many addresses they have; the kubelet's is one of them.
CROWDS: Final[dict[str, tuple[bytes, int]]] = {
    "silent clients of the kubelet's own address": (b"", 1),
    "silent clients of some addresses": (b"", 8),
    "silent clients of an address each": (b"", MANY),
    "half heads": (PROBE[:-2], 1),
    "half bodies": (hostile_http.post(b"Content-Length: 9\r\n", body=b"{}"), 1),
    "replies that are not read": (PROBE.replace(b"livez", b"long"), 1),
    "requests without an end of another address": (PROBE.replace(b"livez", b"stand"), -1),
}


@pytest.mark.parametrize(("sent", "addresses"), CROWDS.values(), ids=CROWDS)
def test_a_crowd_does_not_keep_the_port_from_the_kubelet(
    application: flask.Flask, monkeypatch: pytest.MonkeyPatch, sent: bytes, addresses: int
) -> None:
    """No time passes: whatever the others do is still going on when the probe is answered."""
    monkeypatch.setattr(http_limits, "REQUEST_SECONDS", 3600.0)
    monkeypatch.setattr(http_limits, "REPLY_SECONDS", 3600.0)
    with ops_server.serve(application, "127.0.0.1:0", default_port=1) as running, contextlib.ExitStack() as clients:
        address = "127.0.0.1", running.port
        clients.callback(STAND.set)
        STAND.clear()
        for number in range(MANY):
            own = f"127.0.0.{1 + number % addresses}" if addresses > 0 else "127.0.0.2"
            client = clients.enter_context(socket.create_connection(address, source_address=(own, 0)))
            with contextlib.suppress(OSError):  # it had to go already
                client.sendall(sent)
        (answer,) = hostile_http.converse(address, PROBE)
        assert answer.status == 200


def test_a_refusal_says_the_mistake_to_the_client_and_its_kind_only_to_the_log(
    address: Address, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        (answer,) = hostile_http.converse(address, b"GET / HTTP/1.1\r\nAuthorization Bearer s3cr3t\r\n\r\n")
    assert b"s3cr3t" in answer.body
    assert "InvalidHeader" in caplog.text
    assert "s3cr3t" not in caplog.text + "".join(capsys.readouterr())


def test_another_error_is_no_refusal() -> None:
    assert http_exchange.refusal(("127.0.0.1", 1), ValueError("a bug")) is None
