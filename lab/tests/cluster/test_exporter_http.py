"""Every request gets a deliberate answer; a control that is not understood changes nothing."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from lab.cluster import exporter_fleet, exporter_http, exporter_load, exporter_text
from simulator import contention
from tests import clocks


@pytest.fixture
def clock() -> clocks.ManualClock:
    """Time that stands still."""
    return clocks.ManualClock()


@pytest.fixture
def exporter(clock: clocks.ManualClock) -> exporter_http.Exporter:
    """An exporter with one idle node."""
    fleet = exporter_fleet.Fleet(exporter_load.Clock(clock.now()), exporter_load.curves())
    made = exporter_http.Exporter(fleet, exporter_text.Page(), clock)
    idle = contention.SystemLoad(0.0, 0.0)
    made.set_node(exporter_fleet.NodeFacts("node-0", "10.0.0.1", contention.Load(8000.0, 32e9), idle))
    return made


def truth(exporter: exporter_http.Exporter) -> dict[str, dict[str, object]]:
    """GET /nodes, decoded."""
    answer = exporter.answer_get("/nodes")
    assert answer.status == HTTPStatus.OK
    found: dict[str, dict[str, object]] = json.loads(answer.body)
    return found


def test_a_control_shows_in_the_truth_and_is_answered_with_what_is_in_force(exporter: exporter_http.Exporter) -> None:
    answer = exporter.answer_post("/nodes/node-0", b'{"cpu_ratio": 0.9, "memory_ratio": 0.5}')
    assert answer.status == HTTPStatus.OK
    assert json.loads(answer.body) == {"node-0": {"cpu_ratio": 0.9, "memory_ratio": 0.5}}
    assert truth(exporter)["node-0"]["cpu_ratio"] == 0.9


def test_a_star_means_every_node_there_is(exporter: exporter_http.Exporter) -> None:
    exporter.set_node(
        exporter_fleet.NodeFacts("node-1", "10.0.0.2", contention.Load(8000.0, 32e9), contention.SystemLoad())
    )
    exporter.answer_post("/nodes/*", b'{"cpu_ratio": 0.4}')
    assert [node["cpu_ratio"] for node in truth(exporter).values()] == [0.4, 0.4]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        pytest.param("/nodes/node-0", b"{", HTTPStatus.BAD_REQUEST, id="truncated JSON"),
        pytest.param("/nodes/node-0", b"\xff", HTTPStatus.BAD_REQUEST, id="no text at all"),
        pytest.param("/nodes/node-0", b"[]", HTTPStatus.BAD_REQUEST, id="a list"),
        pytest.param("/nodes/node-0", b'{"cpu": 0.9}', HTTPStatus.BAD_REQUEST, id="an unknown key"),
        pytest.param("/nodes/node-0", b'{"cpu_ratio": -0.1}', HTTPStatus.BAD_REQUEST, id="a negative load"),
        pytest.param("/nodes/node-0", b'{"garbage": "much"}', HTTPStatus.BAD_REQUEST, id="an unknown garbage"),
        pytest.param("/clock", b'{"trace_seconds": "now"}', HTTPStatus.BAD_REQUEST, id="a word for a time"),
        pytest.param("/nodes/", b"{}", HTTPStatus.NOT_FOUND, id="no name"),
        pytest.param("/elsewhere", b"{}", HTTPStatus.NOT_FOUND, id="no such path"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason_and_changes_nothing(
    exporter: exporter_http.Exporter, path: str, body: bytes, status: HTTPStatus
) -> None:
    before = truth(exporter)
    answer = exporter.answer_post(path, body)
    assert answer.status == status
    assert json.loads(answer.body)["error"]
    assert truth(exporter) == before


def test_a_scrape_counts_up_to_its_own_time(exporter: exporter_http.Exporter, clock: clocks.ManualClock) -> None:
    clock.advance(10)
    first = exporter.answer_get("/metrics").body.decode()
    assert 'node_cpu_seconds_total{cpu="0",instance="10.0.0.1:9100",mode="idle"} 10.000' in first


@pytest.fixture
def url(exporter: exporter_http.Exporter) -> Iterator[str]:
    """The exporter behind a real socket."""
    server = exporter_http.Server(("127.0.0.1", 0), exporter)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_wire_carries_scrapes_controls_and_refusals(url: str) -> None:
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert b"node_memory_MemTotal_bytes" in answer.read()
    request = urllib.request.Request(f"{url}/nodes/node-0", b'{"hidden": true}', method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.loads(answer.read()) == {"node-0": {"hidden": True}}
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        assert b"10.0.0.1" not in answer.read()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{url}/nothing", timeout=60)
    assert refused.value.code == 404
    refused.value.close()


def test_a_body_that_is_too_long_is_refused_unread(url: str) -> None:
    request = urllib.request.Request(f"{url}/nodes/node-0", b"{" + b" " * 70_000 + b"}", method="POST")
    with pytest.raises((urllib.error.HTTPError, ConnectionError, urllib.error.URLError)) as refused:
        urllib.request.urlopen(request, timeout=60)
    if isinstance(refused.value, urllib.error.HTTPError):
        assert refused.value.code == 413
        refused.value.close()
