"""The extender's decisions in the ledger: pages of each replica, bounds, and replicas that are slow, wrong or gone."""

import pathlib
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from descheduler.ledger import decisions
from descheduler.ledger.ledger import Ledger
from descheduler.sources import extender_replicas
from runtime import certificates, clock
from tests import clocks, scripted_http
from tests.scripted_http import Exchange, Script, ScriptedServer
from tests.unit.descheduler import test_ledger
from tests.unit.descheduler.scenes import NOW
from tests.unit.descheduler.worlds import World


def decision(pod: str, at_seconds: float = NOW) -> dict[str, Any]:
    key = {"verb": "filter", "at_seconds": at_seconds, "namespace": "shop", "pod": pod, "uid": f"uid-{pod}"}
    return {**key, "rejected": {"cpu_avg_5m over 0.65": 1}}


SIZE_BYTES = len(msgspec.json.encode(decision("p1")))


def page(pod: str, after: str, missed: int = 0) -> Script:
    body = {"decisions": [decision(pod)], "after": after, "missed": missed}
    return lambda exchange: exchange.answer(body, headers={"Connection": "close"})


def stored(ledger: Ledger, namespace: str = "", pod: str = "") -> list[tuple[str, str]]:
    return [(one["pod"], one["replica"]) for one in decisions.find(ledger, namespace, pod, limit=100)]


@pytest.fixture
def replica() -> Iterator[ScriptedServer]:
    with scripted_http.serving(page("web", "17-1", 2)) as server:
        yield server


def syncing(
    ledger: Ledger, server: ScriptedServer, *more: Any, host: str = "127.0.0.1", ticking: clock.Clock | None = None
) -> decisions.DecisionSync:
    """A sync with the replicas on the port of a server, after one turn as a follower and one as the leader."""
    replicas = extender_replicas.Replicas(host, server.server_port, *more)
    leads = iter((False, *[True] * 9))  # a follower asks nobody
    sync = decisions.DecisionSync(replicas, ledger, lambda: next(leads), ticking or clocks.ManualClock())
    sync.sync()
    assert not server.seen
    sync.sync()
    return sync


def test_a_page_begins_after_the_one_that_was_stored_and_evictions_are_written_whatever_fails(
    ledger: Ledger, replica: ScriptedServer
) -> None:
    assert "a..b: no address" in syncing(ledger, replica, host="a..b").line()
    sync = syncing(ledger, replica)
    replica.script = page("later", "17-2")
    with ledger.written() as writer:
        writer.execute("ALTER TABLE decisions RENAME TO away")
    sync.sync()
    assert "127.0.0.1: ledger" in sync.line()
    test_ledger.record(ledger, "evicted")
    with ledger.written() as writer:
        writer.execute("ALTER TABLE away RENAME TO decisions")
    sync.sync()
    assert [exchange.query.get("after") for exchange in replica.seen] == [None, "17-1", "17-1"]
    assert sync.line() == "2 copied from 1 replicas, 2 missed"
    assert [pod for pod, _ in stored(ledger)] == ["later", "web"]
    assert (len(stored(ledger, "shop", "web")), stored(ledger, "other")) == (1, [])


def test_a_replica_that_fails_keeps_out_only_itself(
    ledger: Ledger, replica: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(host: str, port: int, *_more: object, **_options: object) -> list[tuple[int, int, int, str, object]]:
        every = ["127.0.0.2", "127.0.0.1"] * 2 if host == "extenders" else [host]  # twice, as a resolver may
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (one, port)) for one in every]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    line = syncing(ledger, replica, host="extenders").line()
    assert line.endswith("127.0.0.2: no page of decisions: [Errno 111] Connection refused")
    assert stored(ledger) == [("web", "127.0.0.1")]


class HurryingClock(clocks.ManualClock):
    """Two seconds pass between two looks."""

    def monotonic(self) -> float:
        self.advance(2)
        return super().monotonic()


def trickle(exchange: Exchange) -> None:
    exchange.raw(b"{", 100)
    while not exchange.released.is_set():
        exchange.more(b" ")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (trickle, "answers more slowly than in 5 s"),
        (lambda exchange: exchange.raw(b'{"after": "', 100), "IncompleteRead(11 bytes read, 89 more expected)"),
        (lambda exchange: exchange.raw(b'{"decisions": []}'), "Object missing required field `after`"),
        (lambda exchange: exchange.raw(b'{"after": "1", "decisions": [{}]}'), "Object missing required field `verb`"),
        (lambda exchange: exchange.raw(b" " * 2**21), "answers more than 1 MiB"),
        (lambda exchange: exchange.raw(b'{"after": "1", "decisions": ' + b"[" * 9999), "maximum recursion depth"),
        (lambda exchange: exchange.answer("no", 403, {"Connection": "close"}), "answers 403: no"),
    ],
)
def test_an_answer_that_is_slow_large_or_wrong_is_none(
    ledger: Ledger, replica: ScriptedServer, monkeypatch: pytest.MonkeyPatch, *, script: Script, problem: str
) -> None:
    monkeypatch.setattr(extender_replicas, "PAGE_BYTES", 2**20)
    replica.script = script
    assert problem in syncing(ledger, replica, ticking=HurryingClock() if script is trickle else None).line()
    assert stored(ledger) == []


@pytest.mark.parametrize(("rows", "size_bytes"), [(3, 10_000), (10, 3 * SIZE_BYTES)])
def test_the_oldest_go_beyond_the_bounds_and_the_newest_of_a_pod_stays(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, rows: int, size_bytes: int
) -> None:
    monkeypatch.setattr(decisions, "MOST_ROWS", rows)
    monkeypatch.setattr(decisions, "MOST_BYTES", size_bytes)
    for at in (3, 1, 2, 4, 0):
        decisions.store(ledger, "10.0.0.1", [decision(f"p{at}", NOW + at)])
    assert [pod for pod, _ in stored(ledger)] == ["p4", "p3", "p2"]
    decisions.store(ledger, "10.0.0.2", [decision("p2", NOW + 9), decision("p3", NOW)])
    assert stored(ledger) == [("p2", "10.0.0.2"), ("p4", "10.0.0.1"), ("p3", "10.0.0.1")]


def test_by_tls_the_name_of_the_service_is_verified_and_a_certificate_is_shown(
    ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    now_seconds = clock.WallClock().now()
    authority = certificates.Authority.create(now_seconds=now_seconds)
    (tmp_path / "ca.crt").write_text(authority.pair.certificate)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=tmp_path / "ca.crt")
    tls.verify_mode = ssl.CERT_REQUIRED
    written = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path, text in zip(written, authority.serving(["service"], now_seconds=now_seconds), strict=True):
        path.write_text(text)
    tls.load_cert_chain(*written)
    for path, text in zip(written, authority.client("descheduler", (), now_seconds=now_seconds), strict=True):
        path.write_text(text)
    with scripted_http.serving(page("web", "1"), tls=tls) as server:
        assert "IP address mismatch" in syncing(ledger, server, "", tmp_path).line()
        assert syncing(ledger, server, "service", tmp_path).line() == "1 copied from 1 replicas, 0 missed"


def test_they_are_read_by_pod_and_go_with_rows_of_their_age(world: World, replica: ScriptedServer) -> None:
    syncing(world.ledger, replica)
    client = world.pages().test_client()
    (row,) = client.get("/decisions?namespace=shop&pod=web&limit=1").get_json()["decisions"]
    assert (row["rejected"], row["replica"]) == ({"cpu_avg_5m over 0.65": 1}, "127.0.0.1")
    assert client.get("/decisions?node=x").status_code == 400
    world.ledger.prune(NOW + 1)
    assert client.get("/decisions").get_json() == {"decisions": []}
