"""Digests of a view: equal for equal inputs however they came about, different for every input that differs."""

import dataclasses
import itertools
import json
from collections.abc import Callable

import numpy as np
import pytest

from extender.state import cluster_view, digests, node_cache
from policy.contract import owner_usage, relief_hint
from tests.unit.extender import worlds

LOADS = {"a": worlds.IDLE, "b": worlds.HOT, "c": None}
HINT = json.dumps({"v": 1, "until": "2026-11-21T05:00:00Z", "workloads": ["w1", "w2"]})


def of(world: cluster_view.ClusterView, now_seconds: float = worlds.NOW) -> digests.Digests:
    return digests.digests(world, now_seconds)


@pytest.mark.parametrize("order", list(itertools.permutations(LOADS)), ids="".join)
def test_the_order_in_which_nodes_were_seen_does_not_matter(order: tuple[str, ...]) -> None:
    assert of(worlds.view_of({name: LOADS[name] for name in order})) == of(worlds.view_of(LOADS))


def test_what_was_there_before_does_not_matter() -> None:
    world = worlds.view_of({**LOADS, "a": worlds.HOT, "gone": worlds.IDLE})
    world.nodes.node_changed(worlds.node("gone", worlds.IDLE), None)
    world.nodes.node_changed(worlds.node("a", worlds.HOT), worlds.node("a", worlds.IDLE))
    worlds.bind(world, "a", "p")
    world.placements.pod_changed(worlds.bound("p", "a"), None, worlds.NOW)
    assert of(world) == of(worlds.view_of(LOADS))


def test_digests_have_a_form_that_people_can_compare() -> None:
    for digest in of(worlds.view_of(LOADS)):
        assert digest.startswith("sha256:")
        assert len(digest) == len("sha256:") + 64


def confirmed_later(world: cluster_view.ClusterView) -> None:
    texts = {name: worlds.load_text(load) for name, load in LOADS.items() if load}
    world.nodes.heartbeat_changed(worlds.beat(texts, worlds.NOW + 10), worlds.NOW + 10)


CHANGES: dict[str, Callable[[cluster_view.ClusterView], object]] = {
    "owners' usage came": lambda world: world.usage_changed(owner_usage.encode(worlds.NOW, {}), worlds.NOW),
    "a node came": lambda world: world.nodes.node_changed(None, worlds.node("d", None)),
    "a reading changed": lambda world: world.nodes.node_changed(
        worlds.node("a", worlds.IDLE), worlds.node("a", {**worlds.IDLE, "cpu_avg_5m": 0.1001})
    ),
    "the same reading, taken earlier": lambda world: world.nodes.node_changed(
        worlds.node("a", worlds.IDLE), worlds.node("a", worlds.load_text(worlds.IDLE, worlds.NOW - 1))
    ),
    "a heartbeat confirmed it later": confirmed_later,
    "the node offers less": lambda world: world.nodes.node_changed(
        worlds.node("a", worlds.IDLE), worlds.node("a", worlds.IDLE, memory="16Gi")
    ),
    "a relief hint": lambda world: world.nodes.node_changed(
        worlds.node("a", worlds.IDLE), worlds.node("a", worlds.IDLE, relief=HINT)
    ),
    "thresholds of its own": lambda world: world.nodes.node_changed(
        worlds.node("a", worlds.IDLE), worlds.node("a", worlds.IDLE, thresholds='{"cpu_avg_5m": 0.9}')
    ),
    "another policy file": lambda world: world.use_policy(
        worlds.policy(filter={"onMissing": "reject"}), "another", tuple, worlds.NOW
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_every_input_is_in_the_digest_of_the_view(change: Callable[[cluster_view.ClusterView], object]) -> None:
    world = worlds.view_of(LOADS)
    before = of(world)
    change(world)
    assert of(world).view != before.view
    assert of(world).placements == before.placements


def test_every_part_of_a_hint_counts() -> None:
    loads = worlds.view_of({"a": worlds.IDLE}).nodes.loads()
    hints = [relief_hint.Relief({"w": 1.0}), relief_hint.Relief({"w": 2.0}), relief_hint.Relief({"v": 1.0})]
    found = {digests.of_view("h", dataclasses.replace(loads, reliefs={loads.index["a"]: hint})) for hint in hints}
    assert len(found) == 3


def test_every_text_has_a_digest_even_one_that_no_answer_could_carry() -> None:
    loads = worlds.view_of({"a": worlds.IDLE}).nodes.loads()
    hints = [relief_hint.Relief({uid: 1.0}) for uid in ("\ud800", "\ud801", "?")]
    assert len({digests.of_view("h", dataclasses.replace(loads, reliefs={1: hint})) for hint in hints}) == 3


def test_a_new_input_of_answers_must_be_added_to_the_digest() -> None:
    covered = {
        "names",
        "index",
        "values",
        "effective_seconds",
        "per_allocatable",
        "reliefs",
        "own_limits",
        "pools",
    }  # index follows from names
    assert {field.name for field in dataclasses.fields(node_cache.NodeLoads)} == covered


def test_all_kinds_of_not_a_number_are_one() -> None:
    loads = worlds.view_of({"a": None}).nodes.loads()
    odd = np.full_like(loads.values, -np.nan)
    assert digests.of_view("h", dataclasses.replace(loads, values=odd)) == digests.of_view("h", loads)


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([("p", "b", worlds.NOW)], id="another node"),
        pytest.param([("q", "a", worlds.NOW)], id="another pod"),
        pytest.param([("p", "a", worlds.NOW - 1)], id="bound earlier"),
        pytest.param([("p", "a", worlds.NOW), ("q", "a", worlds.NOW)], id="one more"),
    ],
)
def test_placements_are_compared_by_pod_node_and_moment(pods: list[tuple[str, str, float]]) -> None:
    one, other = worlds.view_of(LOADS), worlds.view_of(LOADS)
    worlds.bind(one, "a", "p")
    for pod, node, at_seconds in pods:
        worlds.bind(other, node, pod, at_seconds=at_seconds)
    assert of(one).placements != of(other).placements
    assert of(one).view == of(other).view


def test_replicas_whose_clocks_differ_a_little_compare_alike() -> None:
    one, other = worlds.view_of(LOADS), worlds.view_of(LOADS)
    pod = worlds.bound("p", "a", worlds.NOW)
    one.pod_changed(None, pod, worlds.NOW)
    other.pod_changed(None, pod, worlds.NOW - 5)
    assert of(one, worlds.NOW + 10).placements == of(other, worlds.NOW + 10).placements


def test_assumed_winners_are_each_replicas_own_and_count_in_neither() -> None:
    world = worlds.view_of(LOADS)
    before = of(world)
    world.placements.assume(worlds.bound("p", ""), "a", worlds.NOW, per_allocatable=worlds.ROOM)
    assert world.placements.assumed(worlds.NOW) == 1
    assert of(world) == before


def test_placements_older_than_every_window_count_no_more() -> None:
    world = worlds.view_of(LOADS)
    nothing = of(world).placements
    worlds.bind(world, "a", "p")
    assert of(world).placements != nothing
    assert of(world, worlds.NOW + 1801).placements == nothing


def test_the_rows_in_which_nodes_stand_do_not_matter() -> None:
    loads = worlds.view_of({"a": worlds.IDLE, "b": worlds.HOT}).nodes.loads()
    turned = [0, 2, 1]  # the first row stands for unknown nodes
    other = dataclasses.replace(
        loads,
        names=("", "b", "a"),
        index={"b": 1, "a": 2},
        values=loads.values[turned],
        effective_seconds=loads.effective_seconds[turned],
        per_allocatable=loads.per_allocatable[turned],
    )
    assert digests.of_view("h", other) == digests.of_view("h", loads)


def test_thresholds_of_its_own_that_no_node_has_any_more_do_not_matter() -> None:
    loads = worlds.view_of({"a": worlds.IDLE}).nodes.loads()
    nobody = dataclasses.replace(loads, own_limits=np.full_like(loads.values, np.nan))
    assert digests.of_view("h", nobody) == digests.of_view("h", loads)
