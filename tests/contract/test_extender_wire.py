"""What stands on the wire between kube-scheduler and the extender, byte by byte, from the process that users run.

No apiserver answers beside it: it serves neutrally, which is all that the form of an answer needs.
"""

import collections.abc
import contextlib
import http.client
import json
import socket

import pytest

from extender import app
from tests.contract import test_extender_connections as connections

ARGS = connections.ASKED
VICTIMS = '{"Pod": {"metadata": {"name": "p"}}, "NodeNameToMetaVictims": {"a": {"Pods": [], "NumPDBViolations": 0}}}'
JSON = "application/json"
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
