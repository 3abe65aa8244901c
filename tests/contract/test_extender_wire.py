"""The wire between kube-scheduler and the extender, byte by byte: no apiserver is needed for answers' form."""

import collections.abc
import contextlib
import http.client
import json
import re
import socket
import threading
import time
from concurrent import futures

import pytest

from extender import protocol
from extender.http import connection_limits, gunicorn_server
from runtime import http_limits
from tests import hostile_http
from tests.contract import test_extender_connections as connections
from tests.e2e import waiting

ARGS = connections.ASKED
VICTIMS = '{"Pod": {"metadata": {"name": "p"}}, "NodeNameToMetaVictims": {"a": {"Pods": [], "NumPDBViolations": 0}}}'
JSON = "application/json"
SLOW = 2 * int(str(gunicorn_server.settings(":1")["threads"]))
AS_GO_SENDS_IT = (
    f"POST /filter HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: Go-http-client/1.1\r\nContent-Length: {len(ARGS)}\r\n"
    f"Content-Type: {JSON}\r\nAccept-Encoding: gzip\r\n\r\n{ARGS}"
).encode()
ROOM_BYTES = (512 - 209 + 58) << 20  # a pod may have 512 MiB; with 5,000 nodes and 100,000 pods it has 209, here 58
NEVER = threading.Event()
HOLD_SECONDS = 2.0  # over the deadline and under reading.REQUEST_SECONDS, both with room for a machine that is slow
ANSWERS = [
    ("POST", "/filter", ARGS, JSON, 200),
    ("POST", "/prioritize", ARGS, JSON, 200),
    ("POST", "/preempt", VICTIMS, JSON, 200),
    ("POST", "/explain", ARGS, JSON, 200),
    ("GET", "/decisions", None, None, 200),
    ("GET", "/nodes", None, None, 200),
    ("GET", "/livez", None, None, 200),
    ("GET", "/readyz?verbose", None, None, 503),
    ("GET", "/metrics", None, None, 200),
    ("GET", "/configz", None, None, 200),
    ("GET", "/version", None, None, 200),
    ("POST", "/filter", "{", JSON, 400),
    ("POST", "/filter", "{}", JSON, 422),
    ("POST", "/filter", ARGS, "text/plain", 415),
    ("GET", "/filter", None, None, 405),
    ("POST", "/bind", ARGS, JSON, 404),
]


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> collections.abc.Iterator[connections.Replica]:
    place = connections.Place(tmp_path_factory.mktemp("wire"))
    with connections.Replica(place) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path", "body", "media_type", "status"), ANSWERS, ids=[f"{a[0]} {a[1]} {a[4]}" for a in ANSWERS]
)
def test_every_answer_is_whole_and_says_its_length(
    replica: connections.Replica, method: str, path: str, body: str | None, media_type: str | None, status: int
) -> None:
    with contextlib.closing(replica.connect()) as connection:
        connection.request(method, path, body, {"Content-Type": media_type} if media_type else {})
        answer = connection.getresponse()
        content = answer.read()
    assert answer.status == status, content
    assert answer.getheader("Transfer-Encoding") is None
    assert answer.getheader("Content-Length") == str(len(content))


@pytest.mark.parametrize("before", [b"", AS_GO_SENDS_IT], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("stream", hostile_http.STREAMS.values(), ids=hostile_http.STREAMS)
def test_a_hostile_request_is_refused_and_nothing_in_it_is_a_request(
    replica: connections.Replica, stream: hostile_http.Stream, before: bytes
) -> None:
    answers = hostile_http.converse(("127.0.0.1", replica.port), stream.sent, before=before)
    assert tuple(answer.status for answer in answers) == stream.statuses, answers
    assert not any(answer.path == "/hidden" for answer in answers)


def test_requests_sent_at_once_are_answered_in_order(replica: connections.Replica) -> None:
    wrong = hostile_http.post(b"Content-Length: 1\r\n", body=b"{")
    sent = AS_GO_SENDS_IT + wrong + AS_GO_SENDS_IT + hostile_http.HIDDEN
    answers = hostile_http.converse(("127.0.0.1", replica.port), sent, before=AS_GO_SENDS_IT)
    assert [(answer.status, answer.path) for answer in answers] == [
        (200, ""),
        (400, "/filter"),
        (200, ""),
        (404, "/hidden"),
    ]


def test_an_absolute_target_and_a_client_that_waits_for_a_go_ahead_are_answered(replica: connections.Replica) -> None:
    lines = b"Expect: 100-continue\r\n", b"Content-Length: %d\r\n" % len(ARGS)
    sent = hostile_http.post(*lines, body=ARGS.encode(), path=b"http://elsewhere/filter")
    with socket.create_connection(("127.0.0.1", replica.port), timeout=hostile_http.PATIENCE_SECONDS) as client:
        client.sendall(sent)
        assert names(client) == ["a", "b"]  # http.client skips the 100 before it


def test_a_request_within_a_body_is_none(replica: connections.Replica) -> None:
    body = hostile_http.HIDDEN
    sent = hostile_http.post(b"Content-Length: %d\r\n" % len(body), body=body) + AS_GO_SENDS_IT
    answers = hostile_http.converse(("127.0.0.1", replica.port), sent)
    assert [(answer.status, answer.path) for answer in answers] == [(400, "/filter"), (200, "")]


def test_no_refusal_left_a_traceback_or_what_was_sent_in_the_log(replica: connections.Replica) -> None:
    answers = hostile_http.converse(("127.0.0.1", replica.port), b"GET / HTTP/1.1\r\nCookie s3cr3t\r\n\r\n")
    assert [answer.status for answer in answers] == [400]
    assert "Traceback" not in replica.log()
    assert "s3cr3t" not in replica.log()


def test_a_request_that_comes_too_slowly_is_answered_neutrally(replica: connections.Replica) -> None:
    """A body that a machine standing still cannot read in time ends the connection: then another round is made."""
    waiting.eventually(
        lambda: all_late(replica), waiting.START_SECONDS, "all to be late", lambda: late_answers(replica)
    )
    decided = json.loads(replica.status("GET", "/decisions?namespace=late")[1])["decisions"]
    assert decided[0]["degraded"] == ["deadline"]


def all_late(replica: connections.Replica) -> bool:
    """Whether all requests of one round were counted as late; who is answered passes all names in any case."""
    before, began_seconds = late_answers(replica), time.monotonic()
    try:
        assert answers_to_slow_requests(replica) == [["a", "b"]] * SLOW
    except (OSError, http.client.HTTPException):  # ended rightly, as a request took longer than it may
        assert time.monotonic() - began_seconds >= http_limits.REQUEST_SECONDS, "a connection ended before its time"
    return late_answers(replica) == before + SLOW


def answers_to_slow_requests(replica: connections.Replica) -> list[list[str]]:
    """More requests than there are threads without their last bytes; then these, and what all are told."""
    whole = ARGS.replace('"namespace": "d"', '"namespace": "late"').encode()
    head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {len(whole)}\r\n\r\n"
    request = head.encode() + whole
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", replica.port), timeout=90)) for _ in range(SLOW)
        ]
        for client in clients:
            client.sendall(request[:-1])
        NEVER.wait(HOLD_SECONDS)
        for client in clients:
            client.sendall(request[-1:])
        return [names(client) for client in clients]


def names(client: socket.socket) -> list[str]:
    """The names that passed, from the answer on a connection."""
    answer = http.client.HTTPResponse(client)
    answer.begin()
    passed: list[str] = json.load(answer)["NodeNames"]
    return passed


def late_answers(replica: connections.Replica) -> int:
    """How many answers were given neutrally because it was late."""
    series = 'evenload_extender_degraded_total{cause="deadline"} '
    found = [line for line in replica.status("GET", "/metrics")[1].splitlines() if line.startswith(series)]
    return int(float(found[0].split()[-1])) if found else 0


GREEDY_BYTES = 15_600_000
PREEMPTED = b'{"Pod":{"metadata":{"name":"p","uid":"u"}},"NodeNameToMetaVictims":{"a":{"Pods":[', b"]}}}"
LISTED = b'{"Pod":{"metadata":{"name":"p","uid":"u"}},"Nodes":{"items":[', b"]}}"
NAMED = b'{"Pod":{"metadata":{"name":"p","uid":"u"}},"NodeNames":[', b"]}"
GREEDY = {
    "victims": ("/preempt", PREEMPTED, b"{}"),
    "nodes": ("/filter", LISTED, b"{}"),
    "names": ("/prioritize", NAMED, b'"a"'),
}


@pytest.mark.parametrize(("path", "around", "value"), GREEDY.values(), ids=GREEDY)
def test_no_body_takes_more_memory_than_the_pod_has(
    replica: connections.Replica, path: str, around: tuple[bytes, bytes], value: bytes
) -> None:
    body = around[0] + b",".join([value] * (GREEDY_BYTES // (len(value) + 1))) + around[1]
    with contextlib.closing(replica.connect()) as connection:
        connection.request("POST", path, body, {"Content-Type": JSON})
        answer = connection.getresponse()
        assert (answer.status, "values" in json.loads(answer.read())["message"]) == (413, True)
    assert replica.peak_bytes() < ROOM_BYTES


def test_large_bodies_at_once_take_no_more_memory_than_the_pod_has(replica: connections.Replica) -> None:
    """Each is just within what is decoded. Those that were dropped for what they held may ask again."""
    value = b'{"UID":"%s"}' % (b"0" * protocol.BYTES_OF_A_VALUE)
    body = PREEMPTED[0] + b",".join([value] * (GREEDY_BYTES // (len(value) + 1))) + PREEMPTED[1]

    def ask(_number: int) -> int:
        with contextlib.closing(replica.connect()) as connection:
            try:
                connection.request("POST", "/preempt", body, {"Content-Type": JSON})
                return connection.getresponse().status
            except (OSError, http.client.HTTPException):
                return 0

    with futures.ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(ask, range(16)))
    assert set(statuses) <= {0, 200}
    assert 200 in statuses
    assert replica.status("POST", "/filter")[0] == 200
    assert replica.peak_bytes() < ROOM_BYTES


def test_more_silent_connections_than_a_worker_takes_lock_nobody_out(replica: connections.Replica) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1100):
            another = socket.create_connection(("127.0.0.1", replica.port), timeout=90, source_address=("127.0.0.2", 0))
            stack.enter_context(another)
        assert replica.status("POST", "/filter")[0] == 200
        assert replica.status("GET", "/livez")[0] == 200
        dropped = re.findall(
            r'connections_dropped_total{reason="connections"} (\S+)', replica.status("GET", "/metrics")[1]
        )
    assert float(dropped[0]) >= 1100 - connection_limits.OPEN_LIMIT_OF_ADDRESS
