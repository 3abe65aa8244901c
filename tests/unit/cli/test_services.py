"""Commands that find their service by kubeconfig: which replica is asked, and what is said where none can be."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.common import services
from tests import commands
from tests.unit.cli import clustered, deschedulers, extenders
from tests.unit.descheduler.scenes import Scene
from tests.unit.extender import worlds

NODES = ("cool", "hot")
LOADS = {"hot": worlds.HOT, "cool": worlds.IDLE}


@pytest.fixture
def pair() -> Iterator[dict[str, extenders.Extender]]:
    """Two extenders that see the same nodes."""
    with extenders.serving(LOADS) as one, extenders.serving(LOADS) as other:
        yield {"extender-0": one, "extender-1": other}


def test_without_a_url_the_cluster_of_the_kubeconfig_is_asked_and_named(
    pair: dict[str, extenders.Extender], tmp_path: Path
) -> None:
    with clustered.serving(tmp_path, pair) as (_, kubeconfig):
        result = commands.run("nodes", "--kubeconfig", kubeconfig, "-o", "json", code=0)
    assert [node["name"] for node in json.loads(result.stdout)["nodes"]] == ["cool", "hot"]
    assert "extender of http://127.0.0.1:" in result.stderr
    assert "(context main): extender-0, extender-1" in result.stderr


def test_a_replica_that_is_down_is_named_and_the_next_one_asked(
    pair: dict[str, extenders.Extender], tmp_path: Path
) -> None:
    with clustered.serving(tmp_path, pair) as (apiserver, kubeconfig):
        apiserver.down = {"extender-0"}
        result = commands.run("nodes", "--kubeconfig", kubeconfig, code=0)
        assert "warning: extender-0/livez answers 503: error trying to reach service" in result.stderr
        apiserver.down = {"extender-0", "extender-1"}
        result = commands.run("nodes", "--kubeconfig", kubeconfig)
    commands.assert_refused(result, 3, "error: extender-1/nodes answers 503")


def test_a_missing_right_is_named(pair: dict[str, extenders.Extender], tmp_path: Path) -> None:
    with clustered.serving(tmp_path, {"extender-0": pair["extender-0"]}) as (apiserver, kubeconfig):
        apiserver.forbidden = {f"{clustered.PODS}extender-0:8900/proxy/nodes"}
        result = commands.run("nodes", "--kubeconfig", kubeconfig)
    commands.assert_refused(result, 3, "expected: the right to get pods/proxy in evenload-system, and no mTLS")


def test_what_a_service_refuses_through_the_cluster_is_said_in_its_words(tmp_path: Path) -> None:
    with (
        deschedulers.serving(Scene().node("a"), tmp_path) as served,
        clustered.serving(tmp_path, {"descheduler-0": served}) as (_, kubeconfig),
    ):
        result = commands.run("evictions", "--outcome", "nosuch", "--kubeconfig", kubeconfig)
    commands.assert_refused(result, 2, "descheduler-0/evictions answers 400: outcome 'nosuch' is none of evicted, ")


def test_a_cluster_without_evenload_says_where_it_looked(tmp_path: Path) -> None:
    with clustered.serving(tmp_path, {}) as (_, kubeconfig):
        result = commands.run("plan", "--kubeconfig", kubeconfig, code=3)
    assert "no pod behind Service evenload-system/evenload-descheduler of http://127.0.0.1:" in result.stderr
    assert "or give --descheduler URL" in result.stderr


def test_without_kubeconfig_and_url_this_machine_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(services, "EXTENDER", services.EXTENDER._replace(port=1))
    commands.assert_refused(commands.run("nodes"), 3, "http://127.0.0.1:1/nodes gives no answer")
    assert "neither --kubeconfig" in commands.run("nodes", "--context", "x").stderr
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    commands.assert_refused(commands.run("nodes"), 2, "$KUBECONFIG is '/nowhere': no such file")


def test_explain_reads_the_memory_of_every_replica(pair: dict[str, extenders.Extender], tmp_path: Path) -> None:
    pair["extender-1"].decide(NODES)
    with clustered.serving(tmp_path, pair, NODES) as (_, kubeconfig):
        for words, source in (((), "decision"), (("--now",), "now")):
            answer = commands.document("explain", "pod", "web", "--kubeconfig", kubeconfig, *words, codes=(0,))
            assert answer["source"] == source
    assert pair["extender-0"].asked == ["GET /decisions", "POST /explain"]


def test_of_two_replicas_decisions_the_newest_is_told(pair: dict[str, extenders.Extender], tmp_path: Path) -> None:
    pair["extender-0"].decide(NODES)
    pair["extender-1"].clock.advance(30)
    pair["extender-1"].decide(("cool",))
    with clustered.serving(tmp_path, pair, NODES) as (_, kubeconfig):
        result = commands.run("explain", "pod", "web", "--kubeconfig", kubeconfig, "-o", "name")
    assert result.stdout.split() == ["node/cool"]


def test_the_memory_of_one_replica_is_enough(pair: dict[str, extenders.Extender], tmp_path: Path) -> None:
    pair["extender-1"].decide(NODES)
    with clustered.serving(tmp_path, pair, NODES) as (apiserver, kubeconfig):
        apiserver.down = {"extender-0"}
        result = commands.run("explain", "pod", "web", "--kubeconfig", kubeconfig, code=0)
    assert "warning: extender-0/decisions answers 503" in result.stderr


def test_a_breaker_in_a_cluster_is_reset_by_the_command_that_is_shown(tmp_path: Path) -> None:
    scene = Scene().node("a")
    with (
        deschedulers.serving(scene, tmp_path, mode="Enforce") as served,
        clustered.serving(tmp_path, {"descheduler-0": served}) as (_, kubeconfig),
    ):
        commands.run("breaker", "list", "--kubeconfig", kubeconfig, code=0)
        result = commands.run("breaker", "reset", "--all", "--kubeconfig", kubeconfig, code=1)
    assert ("kubectl -n evenload-system exec descheduler-0 -- evenload breaker reset --all\n") in result.stderr
