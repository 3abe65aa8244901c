"""The client against a local HTTP server that misbehaves in every way we know of."""

import collections.abc
import socket
from pathlib import Path

import pytest
import requests
import werkzeug
from pytest_httpserver import HTTPServer

from promql import errors
from promql.http import client, proxied_transport, response_limits
from tests import clocks

GOOD = '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"a"},"value":[7,"0.5"]}]}}'
PATH = "/prefix/api/v1/query"


@pytest.fixture
def door(httpserver: HTTPServer) -> collections.abc.Iterator[client.Client]:
    made = client.connect(httpserver.url_for("/prefix/"), timeout_seconds=5.0)
    yield made
    made.close()


def requests_seen(httpserver: HTTPServer) -> list[werkzeug.Request]:
    return [request for request, _ in httpserver.log]


def test_a_query_is_asked_for_its_moment_and_within_a_time(httpserver: HTTPServer, door: client.Client) -> None:
    httpserver.expect_request(PATH).respond_with_data(GOOD)
    assert door.query("up", at_seconds=12.5).samples[0].value == 0.5
    seen = requests_seen(httpserver)[0].args
    assert (seen["query"], seen["time"], seen["timeout"]) == ("up", "12.500", "5s")


def test_a_query_too_long_for_an_address_is_sent_as_a_form(httpserver: HTTPServer, door: client.Client) -> None:
    httpserver.expect_request(PATH).respond_with_data(GOOD)
    long = "up{" + ",".join(f'a{number}="x"' for number in range(300)) + "}"
    door.query("up")
    door.query(long, at_seconds=7.0)
    short, form = requests_seen(httpserver)
    assert (short.method, short.args["query"]) == ("GET", "up")
    assert (form.method, form.form["query"], form.form["time"], dict(form.args)) == ("POST", long, "7.000", {})


@pytest.mark.parametrize("beside", ['"isPartial":true', '"warnings":["one store is down"]'])
def test_a_partial_answer_is_an_error_that_names_server_query_reason_and_next_step(
    httpserver: HTTPServer, door: client.Client, beside: str
) -> None:
    httpserver.expect_request(PATH).respond_with_data(f"{GOOD[:-1]},{beside}}}")
    for ask in (door.query, door.measure):
        with pytest.raises(
            errors.Partial, match=r"/prefix has only a part of the answer to `up`: .*look at the stores"
        ):
            ask("up")
    assert (door.traffic.queries, door.traffic.partial_answers) == (2, 2)


def test_a_long_list_of_stores_does_not_fill_the_log(httpserver: HTTPServer, door: client.Client) -> None:
    httpserver.expect_request(PATH).respond_with_data(f'{GOOD[:-1]},"warnings":["{"store " * 5000}"]}}')
    with pytest.raises(errors.Partial) as caught:
        door.query("up")
    assert len(str(caught.value)) < 600


def test_an_answer_that_was_fetched_elsewhere_is_partial_all_the_same() -> None:
    body = f'{GOOD[:-1]},"isPartial":true}}'.encode()
    door = client.connect(
        "http://prometheus.monitoring.svc:9090", fetch=lambda _path, _query: proxied_transport.ProxyResponse(200, body)
    )
    with pytest.raises(errors.Partial, match="isPartial is true"):
        door.query("up")


def test_the_library_decodes_no_second_copy_of_an_answer(
    httpserver: HTTPServer, door: client.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[object] = []
    plain = requests.Response.json

    def noted(response: requests.Response) -> object:
        decoded.append(plain(response))
        return decoded[-1]

    monkeypatch.setattr(requests.Response, "json", noted)
    httpserver.expect_request(PATH).respond_with_data(GOOD)
    assert len(door.query("up").samples) == 1
    assert decoded == [{"status": "success", "data": {"result": []}}]


def test_queries_and_bytes_are_counted_also_of_refused_answers(httpserver: HTTPServer, door: client.Client) -> None:
    httpserver.expect_ordered_request(PATH).respond_with_data(GOOD)
    httpserver.expect_ordered_request(PATH).respond_with_data("sorry", status=503)
    door.query("up")
    with pytest.raises(errors.Unavailable):
        door.query("up")
    assert (door.traffic.queries, door.traffic.received_bytes) == (2, len(GOOD) + len("sorry"))


def test_a_range_is_asked_with_its_exact_ends(httpserver: HTTPServer, door: client.Client) -> None:
    httpserver.expect_request(PATH + "_range").respond_with_data(
        '{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}}'
    )
    answer = door.query_range("up", start_seconds=10.25, end_seconds=20.75, step_seconds=0.5)
    assert answer.series[0].points == ((1.0, 2.0),)
    seen = requests_seen(httpserver)[0].args
    assert (seen["start"], seen["end"], seen["step"]) == ("10.250", "20.750", "0.5")


@pytest.mark.parametrize(
    ("status", "body", "expected", "message"),
    [
        pytest.param(200, "<html>Sign in</html>", errors.Garbage, "login page", id="a login page with status 200"),
        pytest.param(200, GOOD[:60], errors.Garbage, "truncated", id="JSON that breaks off"),
        pytest.param(200, '{"status":"success"}', errors.Garbage, "without data", id="success without data"),
        pytest.param(200, "null", errors.Garbage, "Expected `object`", id="null"),
        pytest.param(400, '{"status":"error","error":"parse error"}', errors.BadQuery, "parse error", id="bad query"),
        pytest.param(401, "no", errors.Refused, "token", id="unknown caller"),
        pytest.param(403, "no", errors.Refused, "403", id="forbidden"),
        pytest.param(404, "page not found", errors.BadQuery, "path prefix", id="no query API at that path"),
        pytest.param(418, "teapot", errors.Garbage, "expected 200", id="a status nobody expects"),
        pytest.param(429, "slow down", errors.Unavailable, "slow down", id="too many requests"),
        pytest.param(500, "boom", errors.Unavailable, "boom", id="a server error"),
        pytest.param(503, "warming up", errors.Unavailable, "warming up", id="not ready"),
    ],
)
def test_every_bad_answer_has_its_error_and_its_next_step(
    httpserver: HTTPServer,
    door: client.Client,
    status: int,
    body: str,
    expected: type[errors.PromqlError],
    message: str,
) -> None:
    httpserver.expect_request(PATH).respond_with_data(body, status=status)
    with pytest.raises(expected, match=message) as caught:
        door.query("sum(up)")
    assert "/prefix" in str(caught.value)
    assert "`sum(up)`" in str(caught.value)


def test_a_connection_refused_is_unreachable_and_says_what_to_check() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))  # and does not listen; nobody else can meanwhile
        door = client.connect(f"http://user:hush@127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(errors.Unreachable, match="check --prometheus") as caught:
            door.query("up")
    assert "hush" not in str(caught.value)
    assert "refused" in str(caught.value)
    door.close()


def test_a_server_that_never_answers_is_given_up(httpserver: HTTPServer) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        door = client.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=0.05)
        with pytest.raises(errors.Unreachable, match=r"within 0\.05 s"):
            door.query("up")
        door.close()


class Hurrying(clocks.ManualClock):
    """Two seconds pass whenever it is looked at."""

    def monotonic(self) -> float:
        self.advance(2.0)
        return super().monotonic()


SPACES = " " * 4 * response_limits.PIECE_BYTES


@pytest.mark.parametrize("status", [200, 302, 503])
def test_a_body_that_does_not_end_in_time_is_given_up(httpserver: HTTPServer, status: int) -> None:
    httpserver.expect_ordered_request("/api/v1/query").respond_with_data(SPACES + GOOD, status=status)
    httpserver.expect_ordered_request("/api/v1/query").respond_with_data(GOOD)
    door = client.connect(httpserver.url_for(""), timeout_seconds=5.0, clock=Hurrying())
    with pytest.raises(errors.Unreachable, match=r"bytes in 5 s, and not all.*raise the time limit"):
        door.query("up")
    assert len(door.query("up").samples) == 1, "on another connection"
    door.close()


def test_a_query_that_forgot_to_aggregate_costs_no_more_memory_than_there_is(
    httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    httpserver.expect_request(PATH).respond_with_data(SPACES + GOOD)
    httpserver.expect_request(PATH + "_range").respond_with_data(SPACES + GOOD.replace("vector", "matrix"))
    door = client.connect(httpserver.url_for("/prefix"))
    assert len(door.query("node_cpu_seconds_total").samples) == 1
    monkeypatch.setattr(response_limits, "LARGEST_VECTOR_BYTES", 3 * response_limits.PIECE_BYTES)
    with pytest.raises(
        errors.Garbage, match=r"over 0\.1875 MiB\) to `node_cpu_seconds_total`; expected one series per"
    ):
        door.query("node_cpu_seconds_total")
    with pytest.raises(errors.Garbage, match="missing required field `values`"):  # read whole: histories are long
        door.query_range("up", start_seconds=1.0, end_seconds=2.0, step_seconds=1.0)
    door.close()


def test_the_token_file_is_read_again_for_every_query(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_data(GOOD)
    token = tmp_path / "token"
    token.write_text("first\n")
    door = client.connect(httpserver.url_for(""), token_file=token, headers={"X-Scope-OrgID": "team-a"})
    door.query("up")
    token.write_text("second\n")
    door.query("up")
    seen = requests_seen(httpserver)
    assert [request.headers["Authorization"] for request in seen] == ["Bearer first", "Bearer second"]
    assert seen[0].headers["X-Scope-OrgID"] == "team-a"
    token.unlink()
    with pytest.raises(errors.ConfigError, match="cannot be read"):
        door.query("up")
    door.close()


def test_basic_authentication_comes_from_the_address_or_a_password_file(httpserver: HTTPServer, tmp_path: Path) -> None:
    httpserver.expect_request("/api/v1/query").respond_with_data(GOOD)
    password = tmp_path / "password"
    password.write_text("p:w")
    by_file = client.connect(httpserver.url_for(""), username="reader", password_file=password)
    by_address = client.connect(httpserver.url_for("").replace("http://", "http://reader:p%3Aw@"))
    for door in (by_file, by_address):
        door.query("up")
        door.close()
    users = [request.authorization for request in requests_seen(httpserver)]
    assert [(user.username, user.password) for user in users if user] == [("reader", "p:w")] * 2


@pytest.mark.parametrize(
    "url", ["prometheus:9090", "ftp://prometheus", "http://", "http://a:port", "http://prometheus:9090/?x=1", ""]
)
def test_an_address_that_cannot_work_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"expected http\(s\)://"):
        client.connect(url)


@pytest.mark.parametrize("setting", ["token_file", "ca_file", "certificate_file", "key_file"])
def test_a_file_that_is_not_there_is_named(setting: str, tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="absent"):
        client.connect("http://prometheus:9090", **{setting: tmp_path / "absent"})  # type: ignore[arg-type]


def test_two_ways_to_log_in_are_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.ConfigError, match="one of a token file"):
        client.connect("http://user:pw@prometheus:9090", token_file=tmp_path / "token")


STATS = '"stats":{"timings":{"execTotalTime":0.25},"samples":{"totalQueryableSamples":1234,"peakSamples":7}}'


@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        pytest.param(f",{STATS}", (0.25, 1234), id="Prometheus' own"),
        pytest.param("", (None, None), id="none"),
        pytest.param(',"stats":{"seriesFetched":"3"}', (None, None), id="another server's"),
        pytest.param(',"stats":[]', (None, None), id="of another shape"),
    ],
)
def test_a_measured_query_tells_what_it_cost_where_the_server_does(
    httpserver: HTTPServer, door: client.Client, stats: str, expected: tuple[object, object]
) -> None:
    httpserver.expect_request(PATH).respond_with_data(GOOD[:-2] + stats + "}}")
    measured = door.measure("up")
    assert (measured.seconds, measured.samples) == expected
    assert measured.answer.samples[0].value == 0.5
    assert requests_seen(httpserver)[0].args["stats"] == "all"


def through_somebody(status: int, body: str, entries: list[object]) -> client.Client:
    def fetch(path: str, query: tuple[tuple[str, str], ...]) -> proxied_transport.ProxyResponse:
        entries.append((path, dict(query)["query"]))
        return proxied_transport.ProxyResponse(status, body.encode())

    return client.connect("http://prometheus.monitoring.svc:9090/prefix", fetch=fetch)


def test_queries_can_go_through_somebody_else() -> None:
    asked: list[object] = []
    made = through_somebody(200, GOOD, asked)
    assert made.query("up").samples[0].value == 0.5
    assert asked == [(PATH, "up")]
    made.close()


def test_a_refusal_on_the_way_is_a_refusal() -> None:
    made = through_somebody(403, "you may not get services/proxy", [])
    with pytest.raises(errors.Refused, match="services/proxy"):
        made.query("up")


def test_nobody_on_the_way_is_unreachable() -> None:
    def fetch(path: str, query: tuple[tuple[str, str], ...]) -> proxied_transport.ProxyResponse:
        raise OSError("the apiserver is gone")

    with pytest.raises(errors.Unreachable, match="the apiserver is gone"):
        client.connect("http://prometheus", fetch=fetch).query("up")
