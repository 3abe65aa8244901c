"""What stands on the wire between kube-scheduler and the extender, byte by byte, from the process that users run.

No apiserver answers beside it: it serves neutrally, which is all that the form of an answer needs.
"""

import collections.abc
import contextlib
import http.client
import json
import socket
import threading

import pytest

from extender import app, serving
from tests.contract import test_extender_connections as connections

ARGS = connections.ASKED
VICTIMS = '{"Pod": {"metadata": {"name": "p"}}, "NodeNameToMetaVictims": {"a": {"Pods": [], "NumPDBViolations": 0}}}'
JSON = "application/json"
THREADS = int(str(serving.settings(":1")["threads"]))
NEVER = threading.Event()
OVER = str(app.BODY_LIMIT_BYTES + 1)
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


def test_a_body_that_says_it_is_over_the_limit_is_refused_before_it_comes(replica: connections.Replica) -> None:
    with socket.create_connection(("127.0.0.1", replica.port), timeout=30) as client:
        head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {OVER}\r\n\r\n"
        client.sendall(head.encode())
        answer = http.client.HTTPResponse(client)
        answer.begin()
        assert answer.status == 413
        assert json.loads(answer.read())["code"] == 413
    assert replica.status("POST", "/filter")[0] == 200


def test_a_request_that_no_thread_took_in_time_is_answered_neutrally(replica: connections.Replica) -> None:
    """All threads wait for the ends of bodies meanwhile; the longer that lasts, the surer the next one is late."""
    for hold_seconds in (1, 2, 4, 8, 16, 32):
        before = late_answers(replica)
        assert answers_while_all_threads_wait(replica, hold_seconds) == [["a", "b"]] * (THREADS + 1)
        if late_answers(replica) == before + THREADS + 1:
            break
    else:
        raise AssertionError(f"{late_answers(replica)} late answers, not {THREADS + 1} at a time")
    decided = json.loads(replica.status("GET", "/decisions?namespace=late")[1])["decisions"]
    assert decided[0]["degraded"] == ["deadline"]


def answers_while_all_threads_wait(replica: connections.Replica, hold_seconds: float) -> list[list[str]]:
    """Half a request for each thread and a whole one behind them; then the other halves, and what all are told."""
    whole = ARGS.replace('"namespace": "d"', '"namespace": "late"').encode()
    head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {len(whole)}\r\n\r\n"
    request = head.encode() + whole
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", replica.port), timeout=90))
            for _ in range(THREADS + 1)
        ]
        for client in clients[:-1]:
            client.sendall(request[:-1])
        NEVER.wait(0.2)  # so that they are first; if they are not, the next round waits longer
        clients[-1].sendall(request)
        NEVER.wait(hold_seconds)
        for client in clients[:-1]:
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


def test_a_body_in_chunks_is_read_up_to_the_limit_and_no_further(replica: connections.Replica) -> None:
    def chunks() -> collections.abc.Iterator[bytes]:
        yield from (part.encode() for part in (ARGS[:20], ARGS[20:]))

    with contextlib.closing(replica.connect()) as connection:
        connection.request("POST", "/filter", chunks(), {"Content-Type": JSON}, encode_chunked=True)
        answer = connection.getresponse()
        assert (answer.status, json.load(answer)["NodeNames"]) == (200, ["a", "b"])
        over = (b" " * 2**20 for _ in range(17))
        connection.request("POST", "/filter", over, {"Content-Type": JSON}, encode_chunked=True)
        assert connection.getresponse().status == 413
    assert replica.status("POST", "/filter")[0] == 200
