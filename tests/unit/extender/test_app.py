"""The HTTP side: every route, every refusal with its status and a reason, and what is counted and remembered."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import flask
import flask.testing
import prometheus_client
import pytest

from extender import metrics
from extender.http import app
from extender.state import cluster_view
from extender.verbs import decided_pod, decision_log, shadow_log
from kube.pods import pod_view
from runtime import ops_server
from tests import builders, clocks
from tests.unit.extender import worlds

VERBS = ("filter", "prioritize", "preempt")
JUDGED = "evenload_extender_filtered_nodes_total"


class World:
    """An application over a small view, with what it counts."""

    def __init__(self, loads: Mapping[str, Any], view: cluster_view.ClusterView | None = None) -> None:
        self.clock = clocks.ManualClock()
        self.registry = prometheus_client.CollectorRegistry()
        self.view: cluster_view.ClusterView = view or worlds.view_of(loads)
        self.ring = decision_log.DecisionLog()
        counted = metrics.Metrics(self.registry)
        self.shadow = shadow_log.ShadowLog(counted)
        self.pods: dict[str, pod_view.PodView] = {}  # as watched
        self.parts = app.Parts(self.view, self.clock, counted, self.ring, self.shadow, self.pods.get)
        plain = ops_server.ops_blueprint(livez=[], readyz=[], registry=self.registry, configz=dict)
        self.flask: flask.Flask = app.create_app(self.parts, plain)
        self.client: flask.testing.FlaskClient = self.flask.test_client()

    def post(self, verb: str, body: bytes, **options: Any) -> Any:
        """The answer to a POST of JSON."""
        return self.client.post(
            f"/{verb}", data=body, content_type=options.pop("content_type", "application/json"), **options
        )

    def get(self, path: str) -> Any:
        """The JSON that GET answers."""
        return self.client.get(path).get_json()

    def rest(self) -> None:
        """A minute in which people ask nothing, by the clock that counts their share; loads get no older."""
        self.clock.advance(60.0)
        self.clock.jump(-60.0)

    def count(self, name: str, **labels: str) -> float:
        """A sample's value, 0 where it does not exist."""
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def world() -> World:
    return World({"hot": worlds.HOT, "cool": worlds.IDLE})


def test_filter_answers_whole_and_with_its_length(world: World) -> None:
    answer = world.post("filter", worlds.body(["hot", "cool", "hot"]))
    assert answer.status_code == 200
    assert answer.mimetype == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.data)
    assert answer.json["NodeNames"] == ["cool"]
    assert answer.json["FailedAndUnresolvableNodes"] == {"hot": "cpu_avg_5m over 0.65"}


@pytest.mark.parametrize("verb", [*VERBS, "explain"])
@pytest.mark.parametrize(
    ("body", "status"),
    [(b"{", 400), (b"[]", 400), (b"", 400), (b"\x00", 400), (b'{"Pod": 7}', 400), (b"{}", 422)],
    ids=["truncated", "a list", "empty", "binary", "a pod that is a number", "no pod"],
)
def test_what_cannot_be_answered_is_refused_with_a_reason(world: World, verb: str, body: bytes, status: int) -> None:
    answer = world.post(verb, body)
    assert answer.status_code == status
    assert answer.json["code"] == status
    assert "expected" in answer.json["message"]
    assert int(answer.headers["Content-Length"]) == len(answer.data)


@pytest.mark.parametrize("verb", [*VERBS, "explain"])
def test_another_media_type_is_refused(world: World, verb: str) -> None:
    answer = world.post(verb, worlds.body(["cool"]), content_type="text/plain")
    assert answer.status_code == 415
    assert "application/json expected" in answer.json["message"]


@pytest.mark.parametrize("content_type", [None, "application/json; charset=utf-8", "application/vnd.k8s+json"])
def test_json_by_any_name_and_no_media_type_at_all_are_read(world: World, content_type: str | None) -> None:
    assert world.post("filter", worlds.body(["cool"]), content_type=content_type).status_code == 200


def test_a_body_over_the_limit_is_refused_unread(world: World) -> None:
    world.flask.config["MAX_CONTENT_LENGTH"] = 1000
    answer = world.post("filter", b" " * 1001)
    assert answer.status_code == 413
    assert answer.json["code"] == 413


def test_a_body_in_chunks_over_the_limit_is_refused_too(world: World) -> None:
    world.flask.config["MAX_CONTENT_LENGTH"] = 1000
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    status = [
        world.client.post("/filter", input_stream=io.BytesIO(body), environ_overrides=chunked).status_code
        for body in (worlds.body(["cool"]).ljust(999), worlds.body(["cool"]).ljust(1001))
    ]
    assert status == [200, 413]


def test_no_more_nodes_are_explained_than_a_cluster_has(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "EXPLAINED_MOST", 1)
    answer = world.post("explain", worlds.body([f"made-up-{at}" for at in range(50)]))
    assert answer.status_code == 413
    assert "50 nodes given" in answer.json["message"]
    known = [node["name"] for node in world.get("/nodes")["nodes"]]
    assert world.post("explain", worlds.body(known)).status_code == 200


def test_the_limit_is_sixteen_mebibytes(world: World) -> None:
    assert world.flask.config["MAX_CONTENT_LENGTH"] == 16 * 2**20


@pytest.mark.parametrize("verb", [*VERBS, "explain"])
def test_a_verb_by_the_wrong_method_says_which_is_right(world: World, verb: str) -> None:
    answer = world.client.get(f"/{verb}")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_an_unknown_path_is_not_found(world: World) -> None:
    answer = world.client.post("/bind", data=b"{}")
    assert (answer.status_code, answer.get_json()["path"]) == (404, "/bind")


def test_the_probes_and_metrics_are_there(world: World) -> None:
    for path in ("/livez", "/readyz", "/healthz", "/metrics", "/configz", "/version"):
        assert world.client.get(path).status_code == 200


def test_answers_are_counted_by_verb_result_reason_and_cause(world: World) -> None:
    world.post("filter", worlds.body(["hot", "cool"]))
    world.post("filter", worlds.body(["cool", "unknown"]))
    world.post("filter", b"{")
    duration = "evenload_extender_request_duration_seconds_count"
    assert world.count(duration, verb="filter", result="ok") == 1
    assert world.count(duration, verb="filter", result="degraded") == 1
    assert world.count(duration, verb="filter", result="refused") == 1
    assert world.count("evenload_extender_nodes_rejected_total", reason="cpu_avg_5m over 0.65") == 1
    assert world.count("evenload_extender_degraded_total", cause="unknown_node") == 1


def test_nodes_of_filter_answers_alone_are_counted_by_verdict(world: World) -> None:
    assert [world.count(JUDGED, verdict=verdict) for verdict in ("passed", "rejected")] == [0, 0]
    world.post("filter", worlds.body(["hot", "cool", "unknown"]))
    world.post("prioritize", worlds.body(["hot", "cool"]))
    victims = {name: {"Pods": [], "NumPDBViolations": 0} for name in ("hot", "cool")}
    world.post("preempt", json.dumps({"Pod": builders.pod_body("p"), "NodeNameToMetaVictims": victims}).encode())
    assert [world.count(JUDGED, verdict=verdict) for verdict in ("passed", "rejected")] == [2, 1]


def test_a_scheduler_that_never_asks_shows_as_zero(world: World) -> None:
    name = "evenload_extender_request_duration_seconds_count"
    assert [world.registry.get_sample_value(name, {"verb": verb, "result": "ok"}) for verb in VERBS] == [0, 0, 0]


def test_decisions_are_remembered_newest_first_and_found_by_pod(world: World) -> None:
    world.post("filter", worlds.body(["hot", "cool"], "a"))
    world.post("prioritize", worlds.body(["hot", "cool"], "b", namespace="other"))
    every = world.get("/decisions")["decisions"]
    assert [(row["verb"], row["namespace"], row["pod"]) for row in every] == [
        ("prioritize", "other", "b"),
        ("filter", "default", "a"),
    ]
    assert every[1]["rejected"] == {"cpu_avg_5m over 0.65": 1}
    assert every[0]["best"][0]["node"] == "cool"
    assert every[0]["policy_hash"] == "0123456789ab"
    assert [row["pod"] for row in world.get("/decisions?namespace=other")["decisions"]] == ["b"]
    assert [row["pod"] for row in world.get("/decisions?pod=a")["decisions"]] == ["a"]
    assert len(world.get("/decisions?limit=1")["decisions"]) == 1


@pytest.mark.parametrize("limit", ["-1", "x", "٣"])
def test_a_limit_that_is_no_number_is_refused(world: World, limit: str) -> None:
    assert world.client.get("/decisions", query_string={"limit": limit}).status_code == 400


def test_decisions_of_a_pod_show_the_nodes_they_were_made_from(world: World) -> None:
    """Without a pod in the query they do not: a hundred decisions over thousands of nodes are no answer."""
    args = worlds.args(["hot", "cool"], "a")
    candidates = world.view.candidates(args.names, worlds.NOW)
    inputs = decision_log.Inputs(candidates, decided_pod.slim(args.pod), {"hot": "cpu_avg_5m over 0.65"})
    world.ring.add(decision_log.Decision("filter", worlds.NOW, "default", "a", "u", 2, 1, "h", inputs=inputs))
    (row,) = world.get("/decisions?pod=a&namespace=default")["decisions"]
    assert [(node["name"], node["rejected"]) for node in row["nodes"]] == [
        ("hot", "cpu_avg_5m over 0.65"),
        ("cool", None),
    ]
    assert (row["at"], row["omitted"]) == ("2026-11-21T04:00:00Z", 0)
    assert "nodes" not in world.get("/decisions")["decisions"][0]


def test_decisions_older_than_an_hour_are_not_shown(world: World) -> None:
    world.post("filter", worlds.body(["cool"], "a"))
    world.clock.advance(3599)
    assert len(world.get("/decisions")["decisions"]) == 1
    world.clock.advance(1)
    assert world.get("/decisions")["decisions"] == []


def paged(world: World, after: str = "") -> tuple[list[tuple[str, str]], str, int]:
    """Verb and pod of each decision of a page, where the next one begins, and how many were dropped before."""
    page = world.get(f"/decisions?after={after}")
    return [(row["verb"], row["pod"]) for row in page["decisions"]], page["after"], page["missed"]


def placed(world: World, name: str, node: str, names: Sequence[str] = ("cool", "half")) -> None:
    """Has a pod asked about and bound; to no node yet with ""."""
    for verb in ("filter", "prioritize"):
        world.post(verb, worlds.body(list(names), name))
    world.pods[f"default/{name}"] = builders.pod(name, node=node)


def test_a_page_has_the_decisions_that_matter_and_goes_on_after_those_before_it() -> None:
    world = World({"hot": worlds.HOT, "cool": worlds.IDLE, "half": dict.fromkeys(worlds.IDLE, 0.5)})
    placed(world, "agreeing", "cool")
    placed(world, "elsewhere", "half")
    placed(world, "rejected", "cool", ("hot", "cool"))
    placed(world, "degraded", "unknown", ["unknown"])
    matter = [(verb, pod) for pod in ("elsewhere", "rejected", "degraded") for verb in ("filter", "prioritize")]
    assert paged(world) == (matter, "-8", 0)
    assert paged(world, "-4") == (matter[2:], "-8", 0)
    assert paged(world, "-8") == ([], "-8", 0)
    assert paged(world, "restarted-8") == (matter, "-8", 0), "of another process: from the first on"


def test_a_page_waits_for_the_node_of_a_pod_for_a_while_and_leaves_out_one_that_does_not_exist(world: World) -> None:
    world.post("filter", worlds.body(["hot", "cool"], "invented"))
    placed(world, "waiting", "", ("hot", "cool"))
    placed(world, "behind", "cool", ("hot", "cool"))
    assert paged(world) == ([], "-0", 0)
    world.clock.advance(app.SETTLED_SECONDS - 1)
    assert paged(world) == ([], "-0", 0)
    world.clock.advance(1)
    assert [pod for _, pod in paged(world)[0]] == ["waiting", "waiting", "behind", "behind"]


def test_a_page_says_how_many_were_dropped_before_it(world: World) -> None:
    placed(world, "first", "cool", ("hot", "cool"))
    after = paged(world)[1]
    placed(world, "dropped", "cool", ("hot", "cool"))
    world.clock.advance(decision_log.KEPT_SECONDS)
    placed(world, "last", "cool", ("unknown", "cool"))
    assert paged(world, after) == ([("filter", "last"), ("prioritize", "last")], "-6", 2)


def test_a_web_page_with_a_name_of_its_own_reads_nothing_and_every_scheduler_is_answered(world: World) -> None:
    foreign = {"Host": "evil.example:8900"}
    statuses = [world.client.get(path, headers=foreign).status_code for path in ("/nodes", "/decisions", "/configz")]
    assert [*statuses, world.post("explain", worlds.body(["hot"]), headers=foreign).status_code] == [403] * 4
    answered = [
        world.post(verb, worlds.body(["hot"]), headers=foreign).status_code for verb in ("filter", "prioritize")
    ]
    assert [*answered, world.client.get("/metrics", headers=foreign).status_code] == [200] * 3
