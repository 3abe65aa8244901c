"""The extender's TLS: which options fit together, which files are taken over, and who may ask what."""

import json
import pathlib
import select
import socket
import ssl
import sys
import threading
from typing import Any

import prometheus_client
import pytest
from cryptography.hazmat.primitives import serialization

from extender.http import connection, nonblocking_sockets, raw_requests, tls
from runtime import certificates, clock, http_exchange
from tests.unit.extender import test_raw_requests

NOW = clock.WallClock().now()  # OpenSSL judges by the real clock
A, B, C = pathlib.Path("a"), pathlib.Path("b"), pathlib.Path("c")


@pytest.fixture(scope="module")
def authority() -> certificates.Authority:
    return certificates.Authority.create(now_seconds=NOW)


@pytest.fixture
def files(tmp_path: pathlib.Path, authority: certificates.Authority) -> tls.Files:
    """A certificate, its key and a client CA."""
    made = tls.Files(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt")
    (tmp_path / "ca.crt").write_text(authority.pair.certificate, encoding="utf-8")
    write(made, authority.serving(["localhost"], now_seconds=NOW))
    return made


def write(files: tls.Files, pair: certificates.Pair) -> None:
    """Another certificate and its key."""
    files.certificate.write_text(pair.certificate, encoding="utf-8")
    files.key.write_text(pair.key, encoding="utf-8")


def loaded(files: tls.Files) -> tls.Security:
    """With the files in force."""
    security = tls.Security(files)
    security.load()
    return security


def test_without_options_there_is_no_tls() -> None:
    assert tls.chosen(None, None, None, ()) is None


def test_whole_combinations_are_taken() -> None:
    for files, names in ((tls.Files(A, B), ()), (tls.Files(A, B, C), ("me",))):
        security = tls.chosen(files.certificate, files.key, files.client_ca, names)
        assert security is not None
        assert (security.files, security.client_names) == (files, frozenset(names))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        pytest.param((A, None, None, ()), "--tls-key", id="a certificate without a key"),
        pytest.param((None, B, None, ()), "--tls-cert", id="a key without a certificate"),
        pytest.param((None, None, C, ()), "--client-ca needs --tls-cert", id="a client CA without TLS"),
        pytest.param((A, None, C, ()), "need each other", id="a client CA with half of TLS"),
        pytest.param((A, B, None, ("me",)), "--client-name needs --client-ca", id="a name without a CA"),
        pytest.param((None, None, None, ("me",)), "--client-name needs --client-ca", id="a name alone"),
        pytest.param((A, B, C, ("me", "")), "expected a certificate's common name", id="an empty name"),
    ],
)
def test_half_a_combination_is_refused(options: tuple[Any, Any, Any, tuple[str, ...]], word: str) -> None:
    with pytest.raises(tls.TlsError, match=word):
        tls.chosen(*options)


def test_clients_are_asked_for_a_certificate_only_with_a_ca_and_never_forced(files: tls.Files) -> None:
    assert tls.context(files).verify_mode == ssl.CERT_OPTIONAL
    assert tls.context(tls.Files(files.certificate, files.key)).verify_mode == ssl.CERT_NONE
    assert tls.context(files).minimum_version == ssl.TLSVersion.TLSv1_2


def test_a_key_of_another_certificate_is_refused_with_both_names(files: tls.Files) -> None:
    files.key.write_text(certificates.key_pem(certificates.new_key()), encoding="utf-8")
    with pytest.raises(tls.TlsError, match=r"tls\.crt and .*tls\.key: .*KEY_VALUES_MISMATCH"):
        loaded(files)


def test_an_encrypted_key_is_refused_without_asking_anybody(files: tls.Files) -> None:
    form, locked = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    files.key.write_bytes(certificates.new_key().private_bytes(serialization.Encoding.PEM, form, locked))
    with pytest.raises(tls.TlsError, match="encrypted"):
        loaded(files)


def test_a_client_ca_that_is_none_is_refused_by_name(files: tls.Files) -> None:
    assert files.client_ca is not None
    files.client_ca.write_text("nothing", encoding="utf-8")
    with pytest.raises(tls.TlsError, match=r"ca\.crt: expected PEM certificates"):
        loaded(files)


def test_unchanged_files_keep_their_context(files: tls.Files) -> None:
    security = loaded(files)
    before = security.context
    files.certificate.write_bytes(files.certificate.read_bytes())
    assert not security.poll()
    assert security.context is before


def test_a_changed_certificate_is_in_force_after_two_polls(files: tls.Files, authority: certificates.Authority) -> None:
    security = loaded(files)
    before, hash_before = security.context, security.content_hash
    write(files, authority.serving(["localhost"], now_seconds=NOW))
    assert not security.poll()
    assert security.poll()
    assert security.context is not before
    assert security.content_hash != hash_before


def test_a_changed_client_ca_is_in_force_too_and_forgets_the_old_one(files: tls.Files) -> None:
    security = loaded(files)
    assert files.client_ca is not None
    other = certificates.Authority.create(now_seconds=NOW + 1)
    files.client_ca.write_text(other.pair.certificate, encoding="utf-8")
    assert not security.poll()
    assert security.poll()
    assert len(security.context.get_ca_certs()) == 1


def test_files_in_the_middle_of_an_exchange_leave_the_last_good_ones_in_force(
    files: tls.Files, authority: certificates.Authority
) -> None:
    security = loaded(files)
    before, hash_before = security.context, security.content_hash
    new = authority.serving(["localhost"], now_seconds=NOW)
    files.certificate.write_text(new.certificate, encoding="utf-8")
    assert not security.poll()
    assert not security.poll()
    assert security.error is not None
    assert (security.context, security.content_hash) == (before, hash_before)
    write(files, new)
    assert not security.poll()
    assert security.poll()
    assert security.error is None


def test_files_put_back_as_they_were_clear_the_error(files: tls.Files) -> None:
    security = loaded(files)
    good = files.key.read_bytes()
    files.key.unlink()
    assert not security.poll()
    assert "tls.key" in str(security.error)
    files.key.write_bytes(good)
    security.poll()
    security.poll()
    assert security.error is None


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (None, None),
        ({}, None),
        ({"subject": ((("organizationName", "o"),), (("commonName", "me"),))}, "me"),
        ({"subject": ((("commonName", "first"),), (("commonName", "last"),))}, "last"),
        ({"subject": ((("organizationName", "o"),),)}, ""),
    ],
    ids=["no certificate", "nothing", "a name", "two names, as Go the last", "a certificate without a name"],
)
def test_the_client_is_its_common_name(peer: dict[str, object] | None, name: str | None) -> None:
    assert tls.common_name(peer) == name


class FakeConnection:
    """A connection whose handshake showed this client."""

    def __init__(self, client_name: str | None) -> None:
        self.client_name = client_name


def ask(path: str, names: frozenset[str], **connection: object) -> tuple[str, bytes]:
    """Status and body of a guarded application that answers "inside"; `connection` is the environ's part about it."""
    started: list[str] = []

    def inside(_environ: object, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        return [b"inside"]

    def start(status: str, _headers: object, _error: object = None) -> Any:
        started.append(status)

    body = tls.Security(tls.Files(A, B, C), names).guard(inside)({"PATH_INFO": path, **connection}, start)
    return started[0], b"".join(body)


NAMED = frozenset({"me", "you"})


@pytest.mark.parametrize(
    ("path", "client_name", "names", "status"),
    [
        ("/filter", None, frozenset(), "403 Forbidden"),
        ("/filter", "", frozenset(), "200 OK"),
        ("/filter", "anybody", frozenset(), "200 OK"),
        ("/filter", "you", NAMED, "200 OK"),
        ("/filter", "anybody", NAMED, "403 Forbidden"),
        ("/filter", "", NAMED, "403 Forbidden"),
        ("/filter", None, NAMED, "403 Forbidden"),
        ("/livez", None, NAMED, "200 OK"),
        ("/metrics", "anybody", NAMED, "200 OK"),
        ("/livez/", None, NAMED, "403 Forbidden"),
        ("/configz", None, NAMED, "403 Forbidden"),
        ("/a-route-of-tomorrow", None, NAMED, "403 Forbidden"),
    ],
)
def test_the_path_and_the_client_decide(path: str, client_name: str | None, names: frozenset[str], status: str) -> None:
    by_gunicorn, by_us = {"gunicorn.socket": FakeConnection(client_name)}, {tls.CLIENT_NAME: client_name}
    assert ask(path, names, **by_gunicorn)[0] == status
    assert ask(path, names, **by_us)[0] == status


def test_a_connection_that_is_not_ours_counts_as_no_certificate() -> None:
    status, body = ask("/filter", frozenset(), **{"gunicorn.socket": object()})
    assert status == "403 Forbidden"
    assert json.loads(body)["path"] == "/filter"


def test_without_a_client_ca_nothing_is_guarded(files: tls.Files) -> None:
    def inside(_environ: object, _start: object) -> list[bytes]:
        return []

    assert tls.Security(tls.Files(files.certificate, files.key)).guard(inside) is inside
    assert tls.Security(files).guard(inside) is not inside


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing, and closes", "plain HTTP"])
def test_a_failed_handshake_is_an_error_of_the_connection(files: tls.Files, sent: bytes) -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(sent)
    theirs.shutdown(socket.SHUT_WR)
    with theirs, tls.wrapped(nonblocking_sockets.Plain.of(ours), tls.context(files)) as wrapped:
        with pytest.raises(OSError, match=r"EOF|HTTP_REQUEST|http request"):
            wrapped.shake()
        assert wrapped.fileno() >= 0, "closing is the worker's"


def test_the_connection_knows_its_client_after_the_handshake_and_waits_for_nothing(
    files: tls.Files, authority: certificates.Authority, tmp_path: pathlib.Path
) -> None:
    own = tls.Files(tmp_path / "me.crt", tmp_path / "me.key")
    write(own, authority.client("me", ("group",), now_seconds=NOW))
    write(files, authority.serving(["localhost"], now_seconds=NOW))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(own.certificate, own.key)
    ours, theirs = socket.socketpair()
    with tls.wrapped(nonblocking_sockets.Plain.of(ours), tls.context(files)) as wrapped:
        assert not wrapped.shake(), "no greeting came"
        asking = threading.Thread(target=lambda: context.wrap_socket(theirs).close())
        asking.start()
        while not wrapped.shake():
            select.select([wrapped], [], [])
        asking.join()
        assert wrapped.client_name == "me"
        assert wrapped.gettimeout() == 0


def segments_sent(connection: socket.socket) -> int:
    """Returns the number of packets with data that a connection has sent: tcpi_data_segs_out of tcp(7)."""
    return int.from_bytes(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 160)[156:160], sys.byteorder)


def test_the_records_of_a_long_reply_leave_together(files: tls.Files, tmp_path: pathlib.Path) -> None:
    reply, got = b"x" * (3 * tls.RECORD_BYTES), list[bytes]()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)  # as gunicorn's
        theirs = socket.create_connection(server.getsockname())
        accepted, _address = server.accept()

    def read() -> None:
        with context.wrap_socket(theirs) as secured:
            while sum(map(len, got)) < len(reply) and (part := secured.recv(2**16)):
                got.append(part)

    reading = threading.Thread(target=read)
    reading.start()
    with tls.wrapped(nonblocking_sockets.Plain.of(accepted), tls.context(files)) as wrapped:
        while not wrapped.shake():
            select.select([wrapped], [], [])
        before = segments_sent(wrapped)
        wrapped.sendall(reply)
        assert segments_sent(wrapped) - before <= 2
        assert wrapped.flush()
        reading.join()
    assert b"".join(got) == reply


@pytest.mark.parametrize("known", ["me", "you"])
def test_a_request_of_kube_scheduler_over_tls_is_answered_in_one_piece_and_only_for_whom_the_ca_knows(
    files: tls.Files, authority: certificates.Authority, tmp_path: pathlib.Path, known: str
) -> None:
    own = tls.Files(tmp_path / "me.crt", tmp_path / "me.key")
    write(own, authority.client("me", ("group",), now_seconds=NOW))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(own.certificate, own.key)
    replies: list[bytes] = []
    ours, theirs = socket.socketpair()

    def ask_once() -> None:
        with context.wrap_socket(theirs) as secured:
            secured.sendall(test_raw_requests.request())
            replies.append(secured.recv(2**14))

    def inside(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        start_response("200 OK", [("Content-Length", "6")])
        return [environ["wsgi.url_scheme"].encode() + b"!"]

    one = connection.Connection(ours, ("127.0.0.1", 4242), http_exchange.settings())
    one.server = ("127.0.0.1", 8900)
    asking = threading.Thread(target=ask_once)
    asking.start()
    while not one.shake(tls.context(files), 0.0, lambda _name: None):
        select.select([one.sock], [], [])
    while not one.receive(1.0):
        select.select([one.sock], [], [])
    assert raw_requests.answer(one, tls.Security(files, {known}).guard(inside), NOW)
    asking.join()
    one.close()
    (reply,) = replies
    if known == "me":
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
        assert reply.endswith(b"\r\n\r\nhttps!")
    else:
        assert reply.startswith(b"HTTP/1.1 403 Forbidden\r\n")


def test_the_reload_gauge_is_read_when_scraped(files: tls.Files) -> None:
    security = loaded(files)
    registry = prometheus_client.CollectorRegistry()
    security.export(registry)
    name = "evenload_extender_certificate_last_reload_successful"
    assert registry.get_sample_value(name) == 1.0
    files.key.unlink()
    security.poll()
    assert registry.get_sample_value(name) == 0.0
