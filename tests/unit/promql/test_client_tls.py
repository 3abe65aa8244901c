"""The client against a server that speaks TLS: whom it trusts, and who it says it is."""

import collections.abc
import pathlib
import ssl

import pytest
from pytest_httpserver import HTTPServer

from promql import errors
from promql.http import client
from runtime import certificates, clock

NOW = clock.WallClock().now()  # OpenSSL judges by the real clock
Server = tuple[HTTPServer, bool]  # and whether it asks clients for a certificate
GOOD = '{"status":"success","data":{"resultType":"vector","result":[]}}'


class Files:
    """A CA, a server's certificate and a client's, as files; `stranger` is another CA."""

    def __init__(self, directory: pathlib.Path) -> None:
        authority = certificates.Authority.create(now_seconds=NOW)
        self._directory = directory
        self.ca = self._write("ca.crt", authority.pair.certificate)
        self.stranger = self._write("stranger.crt", certificates.Authority.create(now_seconds=NOW).pair.certificate)
        serving = authority.serving(["localhost", "127.0.0.1"], now_seconds=NOW)
        self.certificate, self.key = self._write("tls.crt", serving.certificate), self._write("tls.key", serving.key)
        us = authority.client("evenload", (), now_seconds=NOW)
        self.our_certificate, self.our_key = self._write("us.crt", us.certificate), self._write("us.key", us.key)

    def _write(self, name: str, text: str) -> pathlib.Path:
        path = self._directory / name
        path.write_text(text, encoding="utf-8")
        return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(params=[False, True], ids=["anybody may ask", "only known clients may ask"])
def server(request: pytest.FixtureRequest, files: Files) -> collections.abc.Iterator[Server]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    if request.param:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files.ca)
    with HTTPServer(host="127.0.0.1", ssl_context=context) as made:
        made.expect_request("/api/v1/query").respond_with_data(GOOD)
        yield made, request.param


def ask(url: str, **settings: pathlib.Path) -> None:
    """One query on a new connection."""
    door = client.connect(url, timeout_seconds=30.0, **settings)  # type: ignore[arg-type]
    try:
        door.query("up")
    finally:
        door.close()


def test_a_known_client_with_the_right_ca_is_answered(server: Server, files: Files) -> None:
    made, _ = server
    ask(made.url_for(""), ca_file=files.ca, certificate_file=files.our_certificate, key_file=files.our_key)
    assert len(made.log) == 1


def test_a_client_without_a_certificate_is_answered_only_where_anybody_may_ask(server: Server, files: Files) -> None:
    made, mutual = server
    if not mutual:
        ask(made.url_for(""), ca_file=files.ca)
        assert len(made.log) == 1
        return
    with pytest.raises(errors.Unreachable):
        ask(made.url_for(""), ca_file=files.ca)
    assert made.log == []


def test_a_server_of_another_ca_is_sent_nothing(server: Server, files: Files) -> None:
    made, _ = server
    with pytest.raises(errors.Unreachable, match=r"TLS failed .* check the CA file"):
        ask(made.url_for(""), ca_file=files.stranger)
    assert made.log == []
