"""Forged questions: who reaches the port and makes up a pod takes no node from the others."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from extender.state import cluster_view
from extender.state.cluster_view import AWAITED_SECONDS
from extender.state.placements import ASSUMED_SECONDS
from kube import objects
from tests import builders
from tests.unit.extender import test_app, worlds

NODES = ("a", "b", "c")
HUGE = "100000"


@pytest.fixture
def world() -> test_app.World:
    """Three idle nodes of 8 cores."""
    return test_app.World(dict.fromkeys(NODES, worlds.IDLE))


def assumed(world: test_app.World) -> Mapping[str, str]:
    """The node that each assumed pod is taken to be on, by uid."""
    now_seconds = world.clock.now()
    return {one.binding.uid: one.binding.node for one in world.view.placements.assumptions(now_seconds)}


def hot(world: test_app.World, node: str) -> int:
    """How many placements of the last half hour count on a node."""
    return int(world.view.candidates((node,), world.clock.now()).counts[0, -1])


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_made_up_pod_takes_no_node(world: test_app.World, verb: str) -> None:
    for node in NODES:
        assert world.post(verb, worlds.body([node], f"forged-{node}", cpu=HUGE)).status_code == 200
    assert world.post("filter", worlds.body(NODES, "real")).json["NodeNames"] == list(NODES)


def test_a_pod_that_waits_is_assumed_with_what_the_watch_says_that_it_requests(world: test_app.World) -> None:
    worlds.wait(world.view, "p", cpu="1")
    world.post("filter", worlds.body(["a"], "p", cpu=HUGE))
    assert assumed(world) == {builders.pod("p").uid: "a"}
    (placement,) = world.view.placements.assumptions(world.clock.now())
    assert placement.key.request.cpu_millicores == 1000


@pytest.mark.parametrize("field", ["name", "namespace"])
def test_a_uid_under_another_name_is_no_pod_of_ours(world: test_app.World, field: str) -> None:
    worlds.wait(world.view, "p")
    forged = builders.pod_body("p", mutate=lambda body: body["metadata"].update({field: "other"}))
    world.post("filter", json.dumps({"Pod": forged, "Nodes": None, "NodeNames": ["a"]}).encode())
    assert assumed(world) == {}


def test_a_pod_that_is_bound_for_long_is_not_assumed_elsewhere(world: test_app.World) -> None:
    pod = worlds.bound("p", "a", worlds.NOW - 7200)
    world.view.pod_changed(None, pod, world.clock.now())
    world.post("filter", worlds.body(["b"], "p"))
    assert assumed(world) == {}


@pytest.mark.parametrize("end", ["bound", "deleted", "ending", "finished"])
def test_a_pod_that_waits_no_more_is_not_assumed(world: test_app.World, end: str) -> None:
    waits = builders.pod("p")
    later = {
        "bound": worlds.bound("p", "a"),
        "deleted": None,
        "ending": builders.pod(
            "p", mutate=lambda body: body["metadata"].update(deletionTimestamp="2026-11-21T04:00:00Z")
        ),
        "finished": builders.pod("p", phase="Failed"),
    }[end]
    now_seconds = world.clock.now()
    world.view.pod_changed(None, waits, now_seconds)
    world.view.pod_changed(waits, later, now_seconds)
    world.post("filter", worlds.body(["b"], "p"))
    assert assumed(world) == {}


def test_pods_are_assumed_up_to_what_the_node_has(world: test_app.World) -> None:
    worlds.wait(world.view, "p", "q", cpu="4", memory="1Gi")
    worlds.wait(world.view, "r", cpu="1m", memory="1Gi")
    worlds.wait(world.view, "s", cpu=HUGE)
    for name in ("p", "q", "r", "s"):
        world.post("filter", worlds.body(["a"], name))
    world.post("filter", worlds.body(["b"], "s"))
    assert set(assumed(world)) == {builders.pod(name).uid for name in ("p", "q")}, "8 cores, and no more"


def test_what_is_bound_to_a_node_leaves_less_room_for_what_is_assumed(world: test_app.World) -> None:
    worlds.bind(world.view, "a", "there", cpu="7500m")
    worlds.wait(world.view, "p", cpu="1")
    world.post("filter", worlds.body(["a"], "p"))
    assert assumed(world) == {}


def test_a_node_that_is_unknown_takes_no_pod(world: test_app.World) -> None:
    worlds.wait(world.view, "p")
    world.post("filter", worlds.body(["nowhere"], "p"))
    assert assumed(world) == {}


def test_a_question_before_the_watch_brings_its_pod_is_answered_for_when_it_does(world: test_app.World) -> None:
    world.post("filter", worlds.body(["a"], "p", cpu=HUGE))
    assert assumed(world) == {}
    assert world.view.awaited(world.clock.now()) == 1
    world.clock.advance(1.0)
    worlds.wait(world.view, "p", now_seconds=world.clock.now(), cpu="1")
    assert assumed(world) == {builders.pod("p").uid: "a"}
    assert world.view.awaited(world.clock.now()) == 0
    world.clock.advance(ASSUMED_SECONDS)
    assert assumed(world) == {}


def test_a_pod_that_the_watch_brings_too_late_is_not_assumed(world: test_app.World) -> None:
    world.post("filter", worlds.body(["a"], "p"))
    world.clock.advance(AWAITED_SECONDS)
    assert world.view.awaited(world.clock.now()) == 0
    worlds.wait(world.view, "p", now_seconds=world.clock.now())
    assert assumed(world) == {}


def test_a_pod_that_the_watch_brings_with_its_node_is_where_it_is(world: test_app.World) -> None:
    world.post("filter", worlds.body(["a"], "p"))
    pod = worlds.bound("p", "b")
    world.view.pod_changed(None, pod, world.clock.now())
    world.view.pod_changed(pod, None, world.clock.now())
    worlds.wait(world.view, "p")
    assert assumed(world) == {}, "the answer was for the pod that was bound"


def test_a_pod_that_is_bound_before_we_come_to_assume_it_is_not_awaited(world: test_app.World) -> None:
    world.view.pod_changed(None, worlds.bound("p", "b"), world.clock.now())
    world.post("filter", worlds.body(["a"], "p"))
    world.post("filter", worlds.body(["a"], "agent", owner=("DaemonSet", "agent")))
    assert world.view.awaited(world.clock.now()) == 0


def test_the_last_answer_about_a_pod_counts(world: test_app.World) -> None:
    for node in ("a", "b"):
        world.post("filter", worlds.body([node], "p"))
    worlds.wait(world.view, "p")
    assert assumed(world) == {builders.pod("p").uid: "b"}


def test_a_policy_that_comes_meanwhile_changes_nothing_about_who_waits(world: test_app.World) -> None:
    worlds.wait(world.view, "p")
    world.view.use_policy(worlds.policy(), "1", lambda: (), world.clock.now())
    world.post("filter", worlds.body(["a"], "p"))
    assert assumed(world) == {builders.pod("p").uid: "a"}


def test_answers_about_made_up_pods_are_remembered_in_a_bounded_number() -> None:
    kept = cluster_view.UnboundPods()
    for at in range(cluster_view.WINNERS_KEPT + 5):
        kept.expect(builders.pod(f"forged-{at}"), "a", worlds.NOW)
    assert kept.awaited(worlds.NOW) == cluster_view.WINNERS_KEPT
    oldest, newest = (builders.pod(f"forged-{at}") for at in (0, cluster_view.WINNERS_KEPT + 4))
    assert kept.changed(None, oldest, worlds.NOW) is None
    assert kept.changed(None, newest, worlds.NOW) == cluster_view.Winner(newest.key, "a", worlds.NOW)


@pytest.mark.parametrize("field", ["name", "namespace", "uid"])
def test_a_made_up_pod_of_endless_names_is_not_remembered(field: str) -> None:
    kept = cluster_view.UnboundPods()
    kept.expect(builders.pod("p", mutate=lambda body: body["metadata"].update({field: "x" * 10_000})), "a", worlds.NOW)
    kept.expect(builders.pod("p"), "n" * 10_000, worlds.NOW)
    assert kept.awaited(worlds.NOW) == 0


def nominated(name: str, node: str, **fields: Any) -> objects.Pod:
    """A pod that waits, with the node that the scheduler wrote into its status."""
    return builders.pod(name, mutate=lambda body: body["status"].update(nominatedNodeName=node), **fields)


def test_the_nominated_node_replaces_the_guess_until_it_goes(world: test_app.World) -> None:
    uid, now_seconds = builders.pod("p").uid, world.clock.now()
    worlds.wait(world.view, "p")
    world.post("filter", worlds.body(["a"], "p"))
    world.view.pod_changed(builders.pod("p"), nominated("p", "b"), now_seconds)
    assert assumed(world) == {uid: "b"}
    world.view.pod_changed(nominated("p", "b"), nominated("p", "b", labels={"seen": "yes"}), now_seconds)
    assert assumed(world) == {uid: "b"}
    world.view.pod_changed(nominated("p", "b"), builders.pod("p"), now_seconds)
    assert assumed(world) == {}


def test_a_replica_that_begins_takes_nominated_nodes_from_its_watch(world: test_app.World) -> None:
    world.view.pod_changed(None, nominated("p", "b"), world.clock.now())
    world.view.pod_changed(None, nominated("huge", "c", cpu=HUGE), world.clock.now())
    assert assumed(world) == {builders.pod("p").uid: "b"}, "what does not fit is not assumed"


def test_a_pod_whose_nominated_node_comes_after_it_counts_there(world: test_app.World) -> None:
    """Watches are apart: pods come before their nodes to a process that begins, and where an autoscaler makes one."""
    world.view.pod_changed(None, nominated("p", "new"), world.clock.now())
    assert hot(world, "a") == 0
    world.view.nodes.node_changed(None, worlds.node("new", worlds.IDLE))
    assert hot(world, "new") == 1
    world.view.pod_changed(nominated("p", "new"), builders.pod("p"), world.clock.now())
    assert hot(world, "new") == 0


def test_an_answer_without_a_winner_ends_what_was_assumed(world: test_app.World) -> None:
    worlds.wait(world.view, "p")
    world.post("filter", worlds.body(["a"], "p"))
    world.post("filter", worlds.body(NODES, "p"))
    assert assumed(world) == {}, "kube-scheduler asks for scores next"
    world.post("filter", worlds.body(["b"], "q"))
    world.post("filter", worlds.body(NODES, "q"))
    worlds.wait(world.view, "q")
    assert assumed(world) == {}, "nor is a pod awaited that was judged again"


def test_a_pod_that_no_node_fits_any_more_is_assumed_nowhere(world: test_app.World) -> None:
    worlds.wait(world.view, "p", cpu="6")
    world.post("filter", worlds.body(["a"], "p"))
    worlds.bind(world.view, "b", "there", cpu="4")
    world.post("filter", worlds.body(["b"], "p"))
    assert assumed(world) == {}


def test_pods_whose_nominated_node_was_refused_are_remembered_in_a_bounded_number() -> None:
    refusals = cluster_view.NominatedRefusals()
    assert all(refusals.refuse(f"uid-{at}") for at in range(cluster_view.REFUSALS_KEPT + 1))
    assert refusals.refuse("uid-0"), "the oldest is forgotten"
    assert not refusals.refuse(f"uid-{cluster_view.REFUSALS_KEPT}")
    assert not refusals.refuse("x" * 10_000), "what is not remembered is not refused"
    assert not refusals.refuse("")
