"""The pages: the ledger's rows with filters, the plan of this moment, the breaker, and every wrong request."""

import pathlib
import random

import pytest
from flask.testing import FlaskClient

from descheduler.snapshot.cluster_watch import ClusterWatch
from kube.http import client_metrics as kube_telemetry
from kube.http import undecodable
from promql.http import circuit_breaker
from promql.http import client as promql_client
from tests import metric_docs
from tests.unit.descheduler import doors
from tests.unit.descheduler.worlds import World


@pytest.fixture
def client(world: World) -> FlaskClient:
    """A client of the pages of `world`."""
    return world.pages().test_client()


def test_evictions_are_the_ledgers_rows(world: World, client: FlaskClient) -> None:
    world.service.run()
    (row,) = client.get("/evictions").get_json()["evictions"]
    assert (row["pod"], row["node"], row["result"]) == ("web-0", "hot", "evicted")
    assert (row["value_ratio"], row["threshold_ratio"], row["target_ratio"]) == (0.9, 0.8, 0.6)
    assert row["intended_at"] == "2026-11-21T04:00:00Z"
    assert (row["landed_node"], row["returned"]) == (None, None)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        pytest.param("since=5m", 1, id="a span"),
        pytest.param("since=2026-11-21T04:00:01Z", 0, id="a time"),
        pytest.param("node=hot&namespace=default&workload=web&outcome=evicted", 1, id="all filters"),
        pytest.param("outcome=refused", 0, id="another outcome"),
        pytest.param("limit=1&before=1", 0, id="the page after the only row"),
    ],
)
def test_evictions_are_filtered(world: World, client: FlaskClient, query: str, count: int) -> None:
    world.service.run()
    world.clock.advance(60)
    answer = client.get(f"/evictions?{query}")
    assert len(answer.get_json()["evictions"]) == count


def test_events_are_what_was_told(world: World, client: FlaskClient) -> None:
    world.service.run()
    told = client.get("/events").get_json()["events"]
    assert [(one["kind"], one["name"], one["type"]) for one in told] == [
        ("ReplicaSet", "web", "Normal"),
        ("Node", "hot", "Normal"),
        ("Pod", "web-0", "Normal"),
    ]
    (about,) = client.get("/events?name=hot&since=5m").get_json()["events"]
    assert about["related"] == "Pod/web-0"
    assert about["note"].startswith("default/web-0 evicted: memory_avg_5m 0.90 > 0.80 on hot")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        pytest.param("/evictions?since=yesterday", "yesterday", id="no time"),
        pytest.param("/evictions?outcome=lost", "evicted_unconfirmed", id="no outcome"),
        pytest.param("/evictions?limit=0", "1 to 10000", id="no limit"),
        pytest.param("/evictions?before=x", "id of a row", id="no id"),
        pytest.param("/events?node=x", "known are since, name, limit", id="no filter of Events"),
        pytest.param("/evictions?nod=x", "nod", id="no filter of that name"),
    ],
)
def test_a_wrong_filter_is_refused_with_what_is_expected(client: FlaskClient, path: str, words: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 400
    assert words in answer.get_json()["message"]


def test_the_plan_says_what_and_why_not(world: World, client: FlaskClient) -> None:
    body = client.get("/plan").get_json()
    assert body["summary"] == "1 to evict: 1 over a cap"
    assert body["evictions"][0]["pod"] == "web-0"
    (node,) = body["nodes"]
    assert (node["node"], node["overloads"][0]["value_ratio"]) == ("hot", 0.9)
    assert {one["pod"]: one["verdict"] for one in node["candidates"]} == {"web-0": "chosen", "web-1": "node_cap"}
    assert world.door.evictions == []


def test_the_plan_is_unavailable_without_prometheus(world: World, client: FlaskClient) -> None:
    world.prometheus.down = True
    answer = client.get("/plan")
    assert answer.status_code == 503
    assert "connection refused" in answer.get_json()["message"]


def test_the_breaker_is_reset_by_post_only(client: FlaskClient) -> None:
    assert client.get("/breaker/reset").status_code == 405
    assert client.post("/breaker/reset?workload=uid-web").get_json() == {"reset": "uid-web"}


@pytest.mark.parametrize(
    ("peer", "headers", "status"),
    [
        pytest.param("127.0.0.1", {}, 200, id="kubectl port-forward"),
        pytest.param("::1", {}, 200, id="the same by IPv6"),
        pytest.param("::ffff:127.0.0.1", {}, 200, id="IPv4 on a port for both"),
        pytest.param("10.2.7.31", {}, 403, id="another pod"),
        pytest.param("::ffff:10.2.7.31", {}, 403, id="another pod on a port for both"),
        pytest.param("127.0.0.1", {"Origin": "http://127.0.0.1:8902"}, 403, id="a web page behind a forward"),
    ],
)
def test_breakers_are_reset_from_this_machine_only(
    world: World, client: FlaskClient, peer: str, headers: dict[str, str], status: int
) -> None:
    world.door.answers = [doors.BLOCKED]
    world.service.run()
    world.clock.advance(1)
    answer = client.post("/breaker/reset", environ_base={"REMOTE_ADDR": peer}, headers=headers)
    assert answer.status_code == status
    assert len(client.get("/breaker").get_json()["breakers"]) == (0 if status == 200 else 1)
    assert status == 200 or "breaker reset" in answer.get_json()["message"]


def test_a_run_that_was_given_up_shows_in_configz_until_the_next_good_one(world: World, client: FlaskClient) -> None:
    world.prometheus.down = True
    world.service.cycle()
    assert "connection refused" in client.get("/configz").get_json()["trouble"]
    assert client.get("/readyz").status_code == 200
    world.prometheus.down = False
    world.service.cycle()
    assert client.get("/configz").get_json()["trouble"] is None


def test_a_refused_policy_file_shows_everywhere_without_making_it_unready(
    world: World, client: FlaskClient, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "policy.yaml").write_text("kind: Nonsense\n", encoding="utf-8")
    world.reload()
    in_force = world.policy.content_hash
    answer = client.get("/readyz?verbose")
    assert answer.status_code == 200
    assert f"[+]policy ok: {in_force} since 2026-11-21T04:00:00Z; the file as it is now is refused: " in answer.text
    state = client.get("/configz").get_json()["policyState"]
    assert (state["hash"], state["loadedAt"]) == (in_force, "2026-11-21T04:00:00Z")
    assert "Nonsense" in state["error"]
    assert world.metric("evenload_config_last_reload_successful") == 0
    assert world.metric("evenload_config_last_reload_success_timestamp_seconds") == world.clock.now()
    assert world.metric("evenload_config_info", hash=in_force) == 1
    (event,) = world.door.created
    assert (event["reason"], event["regarding"]["name"]) == ("PolicyRefused", "ours")
    (recorded,) = client.get("/events").get_json()["events"]
    assert (recorded["reason"], recorded["type"], recorded["note"]) == ("PolicyRefused", "Warning", event["note"])


def test_readiness_tells_how_the_circuit_to_prometheus_stands(client: FlaskClient) -> None:
    assert "[+]circuit to Prometheus ok: as told" in client.get("/readyz?verbose").text


def test_the_docs_name_exactly_the_metrics_that_are_exported(world: World, client: FlaskClient) -> None:
    guarded = circuit_breaker.CircuitBreaker(world.prometheus, clock=world.clock, rng=random.Random(1))
    world.registry.register(circuit_breaker.DoorCollector(guarded, promql_client.Traffic()))
    watches = ClusterWatch(world.door, clock=world.clock, rng=random.Random(1)).watches
    world.registry.register(kube_telemetry.DoorCollector(undecodable.UndecodableObjects(world.clock), watches))
    text = client.get("/metrics").text
    assert metric_docs.exposed(text, "descheduler") == metric_docs.named("descheduler.md")


def test_configz_shows_policy_and_last_run(world: World, client: FlaskClient) -> None:
    world.service.run()
    body = client.get("/configz").get_json()
    assert body["policy"]["descheduler"]["mode"] == "Enforce"
    assert body["lastRun"]["summary"] == "1 evicted: 1 over a cap"


@pytest.mark.parametrize("path", ["/plan", "/evictions", "/events", "/breaker", "/configz"])
def test_a_web_page_with_a_name_of_its_own_reads_nothing(client: FlaskClient, path: str) -> None:
    assert client.get(path, headers={"Host": "evil.example:8902"}).status_code == 403
    assert client.get(path, headers={"Host": "evenload-descheduler.evenload-system.svc:8902"}).status_code == 200
