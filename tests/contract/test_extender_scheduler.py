"""The extender under a real kube-scheduler: what its answers make the scheduler do, read from the apiserver."""

import json
import pathlib
import re
import socket
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import click.testing
import pytest

from cli import certs, scheduler_config
from extender.http import request_framing
from kube import kinds
from policy.contract import load_annotation
from runtime import clock
from tests import builders
from tests.e2e import bodies, services, waiting
from tests.e2e.extender_world import METRICS, NODES, PENDING, POLICY, World

pytestmark = pytest.mark.cluster
REASON = "cpu_avg_5m over 0.65"


@pytest.fixture
def world(extender_plane: World) -> World:
    """The control plane as every test finds it."""
    extender_plane.reset()
    return extender_plane


@pytest.fixture
def waiting_world(world: World) -> Iterator[World]:
    """The same under a policy by which a pod waits where every node is hot."""
    world.obey(PENDING)
    yield world
    world.obey(POLICY)


def test_equal_nodes_share_new_pods_when_each_is_counted_before_the_next(world: World, prefix: str) -> None:
    """Where scores tie the scheduler draws lots: of pods created at once one node may get most of them."""
    world.obey(POLICY + "hotSpots: [{window: 30m, pods: 2, penalty: 1}]\n")
    try:
        world.load(node_0=0.9)
        for at in range(12):
            world.create(f"{prefix}-{at}")
            placed = world.placed(prefix, at + 1)
            waiting.until(lambda p=placed: world.counted("30m") == p, f"{placed} to count", world.nodes)  # type: ignore[misc]
        assert world.placed(prefix, 12) == {"node-1": 6, "node-2": 6}
    finally:
        world.obey(POLICY)


def test_forged_questions_take_no_node_from_real_pods(world: World, prefix: str) -> None:
    """Before, one question a node about a pod that nobody created kept all pods pending for as long as it was asked."""

    def forge() -> None:
        for node in NODES:
            forged = builders.pod_body(f"forged-{node}", cpu="100000", memory="100000Gi")
            body = json.dumps({"Pod": forged, "Nodes": None, "NodeNames": [node]}).encode()
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{world.extender.url}/filter", data=body, headers=headers)
            with urllib.request.urlopen(request, timeout=services.ANSWER_SECONDS) as answer:
                assert json.load(answer)["NodeNames"] in ([node], [])

    for at in range(3):
        forge()
        world.create(f"{prefix}-{at}", 1)
        assert sum(world.placed(f"{prefix}-{at}", 1).values()) == 1
        assert world.failure(f"{prefix}-{at}-0") == ""


def test_the_coolest_node_is_preferred(world: World, prefix: str) -> None:
    world.load(node_0=0.1, node_1=0.6, node_2=0.6)
    for node in ("node-1", "node-2"):
        values = dict.fromkeys(METRICS, 0.6)
        text = load_annotation.encode(load_annotation.Reading(clock.WallClock().now(), values))
        world.door.merge_patch(kinds.NODES, node, {"metadata": {"annotations": {load_annotation.KEY: text}}})
    waiting.until(lambda: {row["score"] for row in world.nodes()} == {10, 0}, "scores 10 and 0", world.nodes)
    world.create(prefix, 1)
    assert world.placed(prefix, 1) == {"node-0": 1}


def test_with_full_node_lists_it_decides_alike(world: World, prefix: str) -> None:
    world.load(node_0=0.9)
    world.use_extender(nodeCacheCapable=False)
    try:
        world.create(prefix, 6)
        assert world.placed(prefix, 6)["node-0"] == 0
    finally:
        world.use_extender()


def test_an_all_hot_cluster_goes_on_placing_on_its_coolest_node(world: World, prefix: str) -> None:
    world.load(node_0=0.7, node_1=0.8, node_2=0.9)
    world.create(prefix, 3)
    assert world.placed(prefix, 3) == {"node-0": 3}
    decisions = world.extender.rows(f"/decisions?pod={prefix}-0")
    (judged,) = [one for one in decisions if one["verb"] == "filter"]
    assert (judged["degraded"], judged["rejected"]) == (["all_rejected"], {REASON: 2})


def test_an_all_hot_cluster_says_why_in_one_clause_and_news_of_a_cooling_node_wake_the_pod(
    waiting_world: World, prefix: str
) -> None:
    world = waiting_world
    world.load(node_0=0.7, node_1=0.8, node_2=0.9)
    world.create(prefix, 1)
    note = waiting.until(lambda: world.failure(f"{prefix}-0"), "a FailedScheduling event")
    assert note.count(" over ") == 1
    assert f"3 {REASON}" in note
    assert re.search(r"preemption: 0/3 nodes are available: 3 Preemption is not helpful", note)
    world.load(node_1=0.3)
    # The first news may reach the scheduler some milliseconds before it reaches us, and then wake the pod in vain
    # (docs/reference/extender.md). A cooling node is written again at the next sync.
    world.load(node_1=0.2)
    assert world.placed(prefix, 1) == {"node-1": 1}


@pytest.fixture(scope="module")
def classes(extender_plane: World) -> Callable[[str], str]:
    """Priority classes by what the test calls them."""
    values = {"lowest": 10, "low": 20, "urgent": 1000}
    for name, value in values.items():
        extender_plane.door.create(kinds.PRIORITY_CLASSES, {"metadata": {"name": f"extender-{name}"}, "value": value})
        bodies.await_class(extender_plane.door, f"extender-{name}")
    return lambda name: f"extender-{name}"


def fill(world: World, prefix: str, classes: Callable[[str], str]) -> None:
    """One large victim on each node; the one on node-0 is the one that plain preemption would pick."""
    for node in NODES:
        world.load(**{other.replace("-", "_"): 0.9 if other != node else 0.1 for other in NODES})
        name = f"{prefix}-victim-{node}"
        world.create(name, 1, cpu="6", priority_class=classes("lowest" if node == "node-0" else "low"))
        assert world.placed(name, 1) == {node: 1}


def test_preemption_spares_the_victims_on_a_hot_node(world: World, prefix: str, classes: Callable[[str], str]) -> None:
    fill(world, prefix, classes)
    world.load(node_0=0.9, node_1=0.1, node_2=0.1)
    world.create(f"{prefix}-urgent", 1, cpu="6", priority_class=classes("urgent"))
    placed = world.placed(f"{prefix}-urgent", 1)
    assert placed["node-0"] == 0
    assert [pod.node_name for pod in world.pods(f"{prefix}-victim-node-0")] == ["node-0"]


def test_where_all_nodes_are_hot_lower_priorities_give_way_on_the_coolest(
    world: World, prefix: str, classes: Callable[[str], str]
) -> None:
    fill(world, prefix, classes)
    world.load(node_0=0.9, node_1=0.9, node_2=0.7)
    world.create(f"{prefix}-urgent", 1, cpu="6", priority_class=classes("urgent"))
    assert world.placed(f"{prefix}-urgent", 1) == {"node-2": 1}
    assert {pod.node_name for pod in world.pods(f"{prefix}-victim")} == {"node-0", "node-1"}


def test_nobody_is_killed_for_a_place_on_hot_nodes_where_pods_are_to_wait(
    waiting_world: World, prefix: str, classes: Callable[[str], str]
) -> None:
    world = waiting_world
    fill(world, prefix, classes)
    world.load(node_0=0.9, node_1=0.9, node_2=0.9)
    world.create(f"{prefix}-urgent", 1, cpu="6", priority_class=classes("urgent"))
    waiting.until(lambda: world.failure(f"{prefix}-urgent-0"), "a FailedScheduling event")
    verbs = {one["verb"]: one for one in world.extender.rows(f"/decisions?pod={prefix}-urgent-0")}
    assert verbs["preempt"]["passed"] == 0
    assert verbs["preempt"]["rejected"] == {REASON: 3}
    assert len(world.pods(f"{prefix}-victim")) == 3


def first_head(listener: socket.socket) -> bytes:
    """The head of the first request that comes, and what came with it; less if the client left before its end."""
    taken, _ = listener.accept()
    with taken:
        taken.settimeout(waiting.LIMIT_SECONDS)
        seen = b""
        while b"\r\n\r\n" not in seen and (piece := taken.recv(65536)):
            seen += piece
        return seen


def test_the_schedulers_requests_are_of_the_form_that_is_taken_without_a_parser(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(waiting.LIMIT_SECONDS)
        try:
            world.use_extender(urlPrefix=f"http://127.0.0.1:{listener.getsockname()[1]}", httpTimeout="60s")
            world.create("asked-about")
            seen = first_head(listener)
        finally:
            world.use_extender()
    assert request_framing.FORM.match(seen), seen
    world.placed("asked-about", 1)


class Secure:
    """A second extender that answers kube-scheduler alone, by the certificates of `evenload certs`."""

    def __init__(self, world: World, directory: pathlib.Path) -> None:
        self._world, self._pki = world, directory / "pki"
        for pki, options in ((self._pki, ["--client", "somebody"]), (directory / "other", [])):
            made = click.testing.CliRunner().invoke(certs.main, ["-d", str(pki), *options])
            assert made.exit_code == 0, made.stderr
        mine = self._pki / "extender"
        files = [f"--tls-cert={mine}/tls.crt", f"--tls-key={mine}/tls.key", f"--client-ca={mine}/ca.crt"]
        arguments = [*world.arguments, *files, "--client-name=system:kube-scheduler"]
        self.service = services.Service("tests.e2e.patient_extender", arguments, directory, ca=mine / "ca.crt")

    def ask_as(self, client: str, ca: str = "pki") -> None:
        """Restart the scheduler with this certificate, and a CA to verify the extender by; it cannot go on alone."""
        own = self._pki / client
        ca_file = self._pki.parent / ca / "ca.crt"
        shown = {"caFile": str(ca_file), "certFile": str(own / "tls.crt"), "keyFile": str(own / "tls.key")}
        written: dict[str, Any] = scheduler_config.configuration(self.service.url, 2, "60s", shown)
        self._world.use_extender(**{**written["extenders"][0], "httpTimeout": "60s", "ignorable": False})


def test_the_scheduler_verifies_the_extender_and_nobody_else_is_answered(
    world: World, prefix: str, tmp_path: pathlib.Path
) -> None:
    world.load(node_0=0.9)
    secure = Secure(world, tmp_path)
    secure.service.start()
    try:
        refused = {"ca": ("scheduler", "other", "unknown authority"), "name": ("somebody", "pki", "code 403")}
        for what, (client, ca, words) in refused.items():
            secure.ask_as(client, ca)
            world.create(f"{prefix}-{what}")
            note = waiting.until(lambda w=what: world.failure(f"{prefix}-{w}-0"), f"a pod to fail by {what}")  # type: ignore[misc]
            assert words in note
        secure.ask_as("scheduler")
        assert world.placed(prefix, len(refused))["node-0"] == 0
    finally:
        world.use_extender()
        secure.service.stop()
