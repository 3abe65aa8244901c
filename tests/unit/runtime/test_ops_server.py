import contextlib
import http.client
import json
import socket
from collections.abc import Iterator

import flask
import prometheus_client
import pytest

from runtime import health, ops_server, version


@pytest.fixture
def app() -> flask.Flask:
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.Counter("evenload_test_total", "Grows in tests.", registry=registry).inc(3)
    made = flask.Flask("test")
    made.register_blueprint(
        ops_server.ops_blueprint(
            livez=[health.Check("loop", lambda: None)],
            readyz=[health.Check("cache", lambda: "not listed yet"), health.Check("policy", lambda: None)],
            registry=registry,
            configz=lambda: {"policy": {"hash": "9c1e"}, "path": made.root_path},
        )
    )

    @made.get("/fails")
    def fails() -> str:
        raise RuntimeError("a bug")

    return made


@pytest.fixture
def server(app: flask.Flask) -> Iterator[ops_server.Server]:
    with ops_server.serve(app, "127.0.0.1:0", default_port=8901) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/livez", 200, "ok\n"),
        ("/healthz?verbose", 200, "[+]loop ok\ncheck passed\n"),
        ("/readyz", 503, "[-]cache failed: not listed yet\n[+]policy ok\ncheck failed\n"),
        ("/readyz?verbose&exclude=cache", 200, "[+]cache excluded: ok\n[+]policy ok\ncheck passed\n"),
    ],
)
def test_probes_answer(app: flask.Flask, path: str, status: int, text: str) -> None:
    answer = app.test_client().get(path)
    assert (answer.status_code, answer.text, answer.mimetype) == (status, text, "text/plain")


def test_metrics_are_in_the_text_format(app: flask.Flask) -> None:
    answer = app.test_client().get("/metrics")
    assert "evenload_test_total 3.0" in answer.text
    assert answer.content_type.startswith("text/plain; version=")


def test_metrics_speak_openmetrics_when_asked(app: flask.Flask) -> None:
    answer = app.test_client().get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.content_type.startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_configz_and_version_are_json(app: flask.Flask) -> None:
    client = app.test_client()
    assert client.get("/configz").json == {"policy": {"hash": "9c1e"}, "path": app.root_path}
    assert json.loads(client.get("/version").text)["version"] == version.VERSION


@pytest.mark.parametrize(
    ("method", "path", "status", "error"),
    [
        ("GET", "/nowhere", 404, "Not Found"),
        ("POST", "/livez", 405, "Method Not Allowed"),
        ("GET", "/fails", 500, "Internal Server Error"),
    ],
)
def test_refusals_say_so_in_json(app: flask.Flask, method: str, path: str, status: int, error: str) -> None:
    answer = app.test_client().open(path, method=method)
    assert answer.status_code == status
    assert answer.json is not None
    assert (answer.json["code"], answer.json["error"], answer.json["path"]) == (status, error, path)
    assert ("Allow" in answer.headers) is (status == 405)


def test_the_server_answers_over_a_socket(server: ops_server.Server) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", "/version")
    answer = connection.getresponse()
    assert answer.status == 200
    assert json.loads(answer.read())["version"] == version.VERSION
    connection.close()


def loopbacks() -> Iterator[str]:
    """127.0.0.1, and ::1 where this machine has it."""
    yield "127.0.0.1"
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        yield "::1"


def test_without_a_host_it_listens_on_ipv4_and_on_ipv6(app: flask.Flask) -> None:
    with ops_server.serve(app, ":0", default_port=8901) as running:
        for address in loopbacks():
            socket.create_connection((address, running.port), timeout=60).close()


@pytest.mark.parametrize(
    "sent",
    [b"\r\n\r\n", b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"],
    ids=["nothing", "no request line", "a version of the future", "an endless path"],
)
def test_garbage_neither_hangs_nor_kills_the_server(server: ops_server.Server, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as peer:
        try:
            peer.sendall(sent)
            peer.shutdown(socket.SHUT_WR)
            while peer.recv(4096):
                pass
        except TimeoutError:
            raise
        except OSError:
            pass  # a server that closes before it has read all resets the connection: an end as good as any
    test_the_server_answers_over_a_socket(server)


def test_a_body_over_the_limit_is_refused(app: flask.Flask) -> None:
    @app.post("/echo")
    def echo() -> bytes:
        return flask.request.get_data()

    with ops_server.serve(app, "127.0.0.1:0", default_port=8901):
        answer = app.test_client().post("/echo", data=b"x" * (ops_server.BODY_LIMIT_BYTES + 1))
    assert answer.status_code == 413


def test_a_taken_port_is_named(server: ops_server.Server, app: flask.Flask) -> None:
    with (
        pytest.raises(OSError, match=f"127.0.0.1:{server.port}"),
        ops_server.serve(app, f"127.0.0.1:{server.port}", default_port=1),
    ):
        pass


def test_a_stopped_server_no_longer_listens(app: flask.Flask) -> None:
    with ops_server.serve(app, "127.0.0.1:0", default_port=8901) as running:
        port = running.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=60)
