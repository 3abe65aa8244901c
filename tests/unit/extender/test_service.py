"""The wired service: readiness, policy reload with last-known-good, what /configz and /metrics say, reading once."""

import random
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from extender import service
from extender.http import tls
from extender.state import cluster_view
from kube import door, errors, kinds, objects, policy_events
from policy.contract import heartbeat, load_annotation
from policy.loading import loader
from runtime import options, reloading
from tests import builders, clocks, metric_docs
from tests.unit.extender import worlds

T = TypeVar("T", bound=objects.IdentifiedObject)
HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
STRICT = HEAD + "filter: {thresholds: {cpu_avg_5m: 0.4}, whenAllRejected: pending}\n"


class Listed:
    """A door that lists what it was given and holds at most the heartbeat."""

    def __init__(self, *items: objects.IdentifiedObject, beat: dict[str, str] | None = None) -> None:
        self._items = items
        self._beat = beat
        self.asked: list[tuple[str, str]] = []
        self.events: list[str] = []
        self.on_event: Callable[[], object] = lambda: None

    def list(self, kind: kinds.Kind[T], **selection: str) -> door.Listing[T]:
        """Every item of the kind."""
        self.asked.append((kind.plural, selection.get("field_selector", "")))
        return door.Listing(tuple(item for item in self._items if isinstance(item, kind.type)), "1")

    def hold(self, *items: objects.IdentifiedObject) -> None:
        """List these from now on."""
        self._items = items

    def watch(self, *_kind: object, **_selection: object) -> None:
        """Nobody is listened to for long."""
        raise errors.Unreachable("the watch broke off")

    def create(self, _kind: object, body: Mapping[str, object], *, namespace: str) -> None:
        """An Event of ours."""
        self.on_event()
        self.events.append(f"{namespace}: {body['reason']}")

    def get(self, _kind: object, name: str, *, namespace: str) -> objects.ConfigMap:
        """The heartbeat, if there is one."""
        if self._beat is None:
            raise errors.NotFound("GET", status=404, reason="NotFound", message=f"{namespace}/{name}")
        return builders.decoded({"metadata": {"name": name}, "data": self._beat}, objects.ConfigMap)


class World:
    """A service over a policy file that tests rewrite; nothing is started."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text(HEAD, encoding="utf-8")
        self.clock = clock = clocks.ManualClock()
        held: service.PolicyFile = reloading.Reloading(path, loader.load, clock=clock)
        held.load()
        self.kube = Listed()
        kube = cast(door.KubeDoor, self.kube)
        by = policy_events.speaker("extender", options.ServiceOptions(path, namespace="ns"))
        news = policy_events.PolicyEventPublisher(held, kube, by, clock=clock)
        security = tls.Security(tls.Files(path, path))  # nothing listens: only its state is asked for
        self.service = service.Service(
            kube, held, namespace="ns", ticking=clock, rng=random.Random(1), security=security, news=news
        )
        self.client = self.service.app().test_client()

    def text(self, path: str) -> str:
        """What GET answers."""
        return self.client.get(path).get_data(as_text=True)

    def rewrite(self, text: str) -> None:
        """Change the policy file and let the loop poll it, twice."""
        self.path.write_text(text, encoding="utf-8")
        self.service.poll_policy()
        self.service.poll_policy()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "policy.yaml")


def test_it_is_alive_but_not_ready_before_nodes_and_pods_were_listed(world: World) -> None:
    assert world.client.get("/livez").status_code == 200
    answer = world.client.get("/readyz")
    assert answer.status_code == 503
    assert "[-]nodes failed: not listed yet" in answer.get_data(as_text=True)
    assert "[-]pods failed: not listed yet" in answer.get_data(as_text=True)


def test_it_answers_neutrally_before_it_knows_any_node(world: World) -> None:
    answer = world.client.post("/filter", data=worlds.body(["a", "b"]))
    assert answer.get_json()["NodeNames"] == ["a", "b"]
    scores = world.client.post("/prioritize", data=worlds.body(["a", "b"])).get_json()
    assert scores[0]["Score"] == scores[1]["Score"]


def test_an_edit_of_the_mode_begins_and_ends_shadow_mode_and_the_watch_counts_pods(world: World) -> None:
    for name, load in (("hot", worlds.HOT), ("idle", worlds.IDLE)):
        world.service.view.nodes.node_changed(None, worlds.node(name, load))
    world.rewrite(HEAD + "extender: {mode: Shadow}\n")
    assert "evenload_extender_shadow_mode 1.0" in world.text("/metrics")
    for verb in ("filter", "prioritize"):
        world.client.post(f"/{verb}", data=worlds.body(["hot", "idle"], "web"))
    world.service._pod_changed(builders.lean_pod("web"), worlds.watch_sees("web", "hot"))
    assert 'evenload_extender_shadow_placements_total{verdict="rejected"} 1.0' in world.text("/metrics")
    world.rewrite(HEAD)
    assert "evenload_extender_shadow_mode 0.0" in world.text("/metrics")
    reply = world.client.post("/filter", data=worlds.body(["hot", "idle"])).get_json()
    assert reply["NodeNames"] == ["idle"]


def test_an_edited_policy_is_in_force_after_two_polls(world: World) -> None:
    world.service.view.nodes.node_changed(None, worlds.node("n", {**worlds.IDLE, "cpu_avg_5m": 0.5}))
    before = world.service.view.in_force.content_hash
    world.rewrite(STRICT)
    assert world.service.view.in_force.content_hash not in ("", before)
    reply = world.client.post("/filter", data=worlds.body(["n"])).get_json()
    assert reply["FailedAndUnresolvableNodes"] == {"n": "cpu_avg_5m over 0.4"}


@pytest.mark.parametrize("seconds", [-3600, 3600], ids=["an hour behind", "an hour ahead"])
def test_a_clock_that_was_wrong_and_is_set_loses_no_placement(world: World, seconds: int) -> None:
    world.kube.hold(worlds.watch_sees("p", "n", worlds.NOW - 10))
    world.clock.jump(seconds)
    world.service.poll_files()
    world.service.catch_up(others=False)
    world.clock.jump(-seconds)
    world.service.poll_files()
    (binding,) = worlds.bindings(world.service.view.placements, worlds.NOW)
    assert (binding.uid, binding.at_seconds) == ("uid-p", worlds.NOW - 10)


@pytest.mark.parametrize(("text", "taken"), [(STRICT, True), (HEAD + "filtre: {}\n", False)])
def test_a_new_worker_begins_with_the_file_as_it_is_unless_that_is_bad(tmp_path: Path, text: str, taken: bool) -> None:
    path, clock = tmp_path / "policy.yaml", clocks.ManualClock()
    path.write_text(HEAD, encoding="utf-8")
    held: service.PolicyFile = reloading.Reloading(path, loader.load, clock=clock)
    held.load()
    started_hash = held.content_hash
    path.write_text(text, encoding="utf-8")
    kube = cast(door.KubeDoor, Listed())
    made = service.Service(kube, held, namespace="ns", ticking=clock, rng=random.Random(1))
    assert (made.view.in_force.content_hash != started_hash) is taken
    ready = made.app().test_client().get("/readyz?verbose").get_data(as_text=True)
    assert ("is refused" in ready) is not taken


def test_a_broken_edit_is_shown_everywhere_and_changes_nothing(world: World) -> None:
    before = world.service.view.in_force.content_hash
    world.rewrite(HEAD + "filtre: {}\n")
    assert world.service.view.in_force.content_hash == before
    ready = world.text("/readyz?verbose")
    assert f"[+]policy ok: {before} since 2026-11-21T04:00:00Z; the file as it is now is refused: " in ready
    assert 'did you mean "filter"' in ready
    shown: dict[str, Any] = world.client.get("/configz").get_json()
    assert "filtre" in shown["policyState"]["error"]
    assert shown["policyState"]["hash"] == before
    assert shown["policyState"]["loadedAt"] == "2026-11-21T04:00:00Z"
    assert shown["policy"]["filter"]["thresholds"]["cpu_avg_5m"] == 0.65
    metrics = world.text("/metrics")
    assert "evenload_config_last_reload_successful 0.0" in metrics
    assert f'evenload_config_info{{hash="{before}"}} 1.0' in metrics


def test_a_refused_edit_and_the_next_good_one_are_told_by_events(world: World) -> None:
    world.rewrite(HEAD + "filtre: {}\n")
    world.service.poll_policy()
    world.rewrite(STRICT)
    world.service.poll_policy()
    assert world.kube.events == ["ns: PolicyRefused", "ns: PolicyAccepted"]


def test_a_policy_is_in_force_before_its_event_is_tried(world: World) -> None:
    before = world.service.view.in_force.content_hash
    hashes: list[str] = []

    def refuse() -> None:
        hashes.append(world.service.view.in_force.content_hash)
        raise errors.Unreachable("POST events: connection refused")

    world.kube.on_event = refuse
    world.rewrite(STRICT)
    world.service.poll_policy()
    assert hashes == [world.service.view.in_force.content_hash]
    assert hashes != [before]


@pytest.mark.parametrize(("listed", "left"), [(False, [1]), (True, [])], ids=["not before the lists", "then"])
def test_the_board_of_a_second_is_made_when_it_begins(world: World, listed: bool, left: list[int]) -> None:
    def begin(_seconds: float) -> None:
        if len(world.clock.waits) == 3:
            stop.set()

    stop, seen, world.clock.on_wait = threading.Event(), world.service.view, begin
    world.clock.advance(0.25)
    if listed:
        world.service.nodes.synced.set()
        world.service.pods.synced.set()
    seen.nodes.node_changed(None, worlds.node("n", worlds.IDLE))
    worlds.wait(seen, "p")
    seen.assume(builders.pod("p"), "n", world.clock.now())
    world.service.look_ahead(stop)
    assert world.clock.waits == [0.75, 1.0, 1.0]
    loads = seen.nodes.loads()
    told = seen.placements.touched(loads, world.clock.now(), aging=False)
    assert told.tolist() == left, "what was written is told once, to the score cache"


def contact(world: World, *, pods_seconds: float, nodes_seconds: float) -> None:
    """The watches as a running service has them, with what they last heard so long ago."""
    world.service.view.stale_watches = world.service._stale_watches
    now_seconds = world.clock.monotonic()
    world.service.pods._contact_seconds = now_seconds - pods_seconds
    world.service.nodes._contact_seconds = now_seconds - nodes_seconds


@pytest.mark.parametrize(
    ("pods_seconds", "nodes_seconds", "causes"),
    [
        (90, 90, []),
        (91, 0, ["stale_pod_watch"]),
        (0, 91, ["stale_node_watch"]),
        (500, 91, ["stale_pod_watch", "stale_node_watch"]),
    ],
)
def test_decisions_by_a_watch_that_heard_nothing_for_long_are_degraded_and_it_stays_ready(
    world: World, pods_seconds: float, nodes_seconds: float, causes: list[str]
) -> None:
    for name in ("n", "m"):
        world.service.view.nodes.node_changed(None, worlds.node(name, worlds.IDLE))
    world.service.nodes.synced.set()
    world.service.pods.synced.set()
    contact(world, pods_seconds=pods_seconds, nodes_seconds=nodes_seconds)
    for verb in ("filter", "prioritize", "explain"):
        assert world.client.post(f"/{verb}", data=worlds.body(["n", "m"])).status_code == 200
    decided = world.client.get("/decisions").get_json()["decisions"]
    assert {(one["verb"], *one["degraded"]) for one in decided} == {("filter", *causes), ("prioritize", *causes)}
    assert world.client.post("/explain", data=worlds.body(["n"])).get_json()["degraded"] == causes
    assert world.client.get("/readyz").status_code == 200
    ready = world.text("/readyz?verbose")
    assert f"[+]pods watch ok: heard {pods_seconds} s ago" in ready
    assert "[+]objects ok: all decoded" in ready
    metrics = world.text("/metrics")
    assert f'evenload_kube_watch_age_seconds{{watch="pods"}} {pods_seconds}.0' in metrics
    for cause in causes:
        assert f'evenload_extender_degraded_total{{cause="{cause}"}} 2.0' in metrics


def test_a_watch_that_comes_back_ends_it_with_the_next_second(world: World) -> None:
    """The score table of this second may be of the moment before."""
    world.service.view.nodes.node_changed(None, worlds.node("n", worlds.IDLE))
    contact(world, pods_seconds=91, nodes_seconds=0)
    world.client.post("/prioritize", data=worlds.body(["n"]))
    world.service.pods._contact_seconds = world.clock.monotonic()
    world.clock.advance(1)
    world.client.post("/prioritize", data=worlds.body(["n"]))
    newest, before = world.client.get("/decisions").get_json()["decisions"]
    assert (newest["degraded"], before["degraded"]) == ([], ["stale_pod_watch"])


def test_the_standing_gauges_are_read_when_scraped(world: World) -> None:
    world.service.view.nodes.node_changed(None, worlds.node("n", worlds.IDLE))
    world.service.view.nodes.node_changed(None, worlds.node("m", None))
    worlds.wait(world.service.view, "new")
    world.client.post("/prioritize", data=worlds.body(["n", "m"]))
    metrics = world.text("/metrics")
    assert 'evenload_extender_nodes{state="usable"} 1.0' in metrics
    assert 'evenload_extender_nodes{state="missing"} 1.0' in metrics
    assert "evenload_extender_assumed_placements 1.0" in metrics
    assert "evenload_config_last_reload_success_timestamp_seconds 1.7952336e+09" in metrics


def test_the_docs_name_exactly_the_metrics_that_are_exported(world: World) -> None:
    text = world.text("/metrics")
    assert metric_docs.exposed(text, "extender") == metric_docs.named("extender.md")


def test_reading_once_fills_a_view_from_one_list_of_each_kind() -> None:
    text = worlds.load_text(worlds.IDLE, worlds.NOW - 400)
    beat = heartbeat.encode(worlds.NOW, "hash", 1, heartbeat.digest({"n": text}))
    kube = Listed(worlds.node("n", text), worlds.watch_sees("p", "n"), beat=beat)
    seen = cluster_view.ClusterView(worlds.policy(), "h", worlds.NOW)
    service.read_once(cast(door.KubeDoor, kube), seen, namespace="ns", now_seconds=worlds.NOW)
    loads = seen.nodes.loads()
    assert loads.effective_seconds[loads.index["n"]] == worlds.NOW
    assert len(worlds.bindings(seen.placements, worlds.NOW)) == 1
    assert kube.asked == [("nodes", ""), ("pods", "status.phase!=Succeeded,status.phase!=Failed")]


def test_reading_once_does_without_a_heartbeat() -> None:
    kube = Listed(worlds.node("n", worlds.IDLE))
    seen = cluster_view.ClusterView(worlds.policy(), "h", worlds.NOW)
    service.read_once(cast(door.KubeDoor, kube), seen, namespace="ns", now_seconds=worlds.NOW)
    assert seen.nodes.facts()["n"].reading == load_annotation.decode(worlds.load_text(worlds.IDLE))


def test_a_thread_that_dies_is_begun_again(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD, encoding="utf-8")
    held: service.PolicyFile = reloading.Reloading(path, loader.load, clock=(clock := clocks.BreakingClock()))
    held.load()
    kube = cast(door.KubeDoor, Listed())
    running = service.Service(kube, held, namespace="ns", ticking=clock, rng=random.Random(1))
    stop = threading.Event()
    running.start(stop)
    try:
        assert clock.threads_again(6) == {"read-nodes", "read-pods", "read-configmaps", "policy", "score-table"}
    finally:
        stop.set()
