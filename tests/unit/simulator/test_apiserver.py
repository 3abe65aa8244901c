"""What the suite cannot ask of a real apiserver: watches that end, structs that are shared, and subscribers."""

import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies

from descheduler.snapshot import interned_pods
from kube import errors, kinds, objects
from kube.cache import reflector
from kube.pods import compact
from simulator import kernel
from simulator.apiserver import ApiServer, merge_patch, storage
from simulator.apiserver.door import SimulatedDoor
from tests import builders

START_SECONDS = 1_795_233_600.0
VALUES = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers(0, 3) | strategies.text("ab", max_size=2),
    lambda inner: strategies.lists(inner, max_size=2) | strategies.dictionaries(strategies.sampled_from("xyz"), inner),
    max_leaves=8,
)


def empty() -> tuple[kernel.Kernel, ApiServer, SimulatedDoor]:
    time = kernel.Kernel(START_SECONDS)
    api = ApiServer(time.clock, random.Random(1))
    return time, api, api.door(waits=False)


def config_map(name: str, **labels: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": labels}, "data": {}}


def by_the_book(target: Any, patch: Any) -> Any:
    """MergePatch of RFC 7396, section 2, as it stands there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = by_the_book(result.get(name), value)
    return result


@hypothesis.given(target=VALUES, patch=VALUES)
def test_a_merge_patch_is_that_of_the_rfc_and_shares_what_it_leaves_alone(target: Any, patch: Any) -> None:
    result = merge_patch.merged(target, patch)
    assert result == by_the_book(target, patch)
    assert merge_patch.merged(result, patch) is result or patch == [] or not isinstance(patch, dict)


def test_a_watch_of_a_door_that_does_not_wait_ends_with_a_bookmark_of_the_newest_version() -> None:
    _, _, door = empty()
    since = door.list(kinds.CONFIG_MAPS).resource_version
    door.create(kinds.CONFIG_MAPS, config_map("one"), namespace="default")
    door.create(kinds.NAMESPACES, {"metadata": {"name": "later"}})
    events = list(door.watch(kinds.CONFIG_MAPS, resource_version=since))
    assert [event.type for event in events] == ["ADDED", "BOOKMARK"]
    assert events[-1].resource_version == door.list(kinds.CONFIG_MAPS).resource_version
    assert events[-1].object is None


def test_a_struct_is_made_once_per_kind_and_version_and_handed_to_all() -> None:
    _, _, door = empty()
    since = door.list(kinds.PODS).resource_version
    door.create(kinds.PODS, builders.pod_body("web-1"), namespace="default")
    (first,), (again,) = door.list(kinds.PODS).items, door.list(kinds.PODS).items
    (lean,) = door.list(compact.PODS).items
    seen = next(door.watch(kinds.PODS, resource_version=since)).object
    assert first is again is seen is door.get(kinds.PODS, "web-1", namespace="default")
    assert isinstance(lean, compact.Pod)
    door.merge_patch(kinds.PODS, "web-1", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    assert door.list(kinds.PODS).items[0] is not first


def test_a_pod_made_of_its_parts_is_the_one_that_the_door_makes() -> None:
    body = builders.pod_body("web-1")
    metadata = {key: body["metadata"][key] for key in ("name", "labels", "ownerReferences")}
    found = []
    for by_parts in (True, False):
        _, api, door = empty()
        if by_parts:
            api.create_pod(dict(metadata), merge_patch.text(body["spec"]), namespace="default")
        else:
            door.create(kinds.PODS, {"metadata": metadata, "spec": body["spec"]}, namespace="default")
        found.append(door.get(kinds.PODS, "web-1", namespace="default"))
    assert found[0] == found[1]


def test_what_a_write_refuses_names_the_path_and_leaves_the_object_as_it_was() -> None:
    _, _, door = empty()
    door.create(kinds.NODES, builders.node_body("n"))
    old = door.get(kinds.NODES, "n")
    with pytest.raises(errors.Invalid, match=r"\$\.metadata\.annotations"):
        door.merge_patch(kinds.NODES, "n", {"metadata": {"annotations": {"a": 1}}})
    with pytest.raises(errors.Invalid, match=r"metadata\.uid is immutable"):
        door.merge_patch(kinds.NODES, "n", {"metadata": {"uid": "another"}})
    assert door.get(kinds.NODES, "n") is old


def test_what_the_server_says_and_a_write_of_what_is_there_make_no_version() -> None:
    _, _, door = empty()
    door.create(kinds.NODES, builders.node_body("n", annotations={"a": "1"}))
    old = door.get(kinds.NODES, "n")
    for patch in (
        {"metadata": {"annotations": {"a": "1", "b": None}}},
        {"metadata": {"creationTimestamp": "2001-01-01T00:00:00Z", "uid": None}},
        {"status": {"capacity": None}},
    ):
        door.merge_patch(kinds.NODES, "n", patch)
    assert door.get(kinds.NODES, "n") is old


def test_every_kind_of_pod_that_a_service_watches_says_the_same_of_one() -> None:
    _, _, door = empty()
    door.create(kinds.PODS, builders.pod_body("web-1"), namespace="default")
    (whole,) = door.list(kinds.PODS).items
    every = [
        door.list(compact.PODS).items[0],
        door.list(interned_pods.PODS).items[0],
    ]
    assert {(pod.uid, pod.key, pod.owner) for pod in every} == {(whole.uid, whole.key, whole.owner)}
    assert door.list(interned_pods.PODS).items[0].labels == whole.labels


def test_subscribers_hear_of_every_change_in_order_also_of_what_they_cause() -> None:
    _, api, door = empty()
    heard: list[tuple[str, str, str]] = []

    def note(who: str, old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        turns = [one.data.get("turn", "0") if one else "-" for one in (old, new)]
        heard.append((who, turns[0], turns[1]))

    def answer(old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        note("first", old, new)
        if old is None:
            door.merge_patch(kinds.CONFIG_MAPS, "one", {"data": {"turn": "1"}}, namespace="default")

    api.subscribe(kinds.CONFIG_MAPS, answer)
    api.subscribe(kinds.CONFIG_MAPS, lambda old, new: note("second", old, new))
    door.create(kinds.CONFIG_MAPS, config_map("one"), namespace="default")
    door.delete(kinds.CONFIG_MAPS, "one", namespace="default")
    turns = [("-", "0"), ("0", "1"), ("1", "-")]
    assert heard == [(who, *turn) for turn in turns for who in ("first", "second")]


def test_a_watch_from_before_what_is_kept_is_gone() -> None:
    things = storage.Storage(kinds.CONFIG_MAPS, frozenset(), kept_changes=4)
    old = None
    for number in range(1, 9):
        new = storage.Version("a/b", number, {"metadata": {}})
        things.record(storage.Change(number, old, new))
        old = new
    assert (things.position(3), things.position(8)) == (None, 8)
    position = things.position(4)
    assert position is not None
    assert [change.number for change in things.since(position)] == [5, 6, 7, 8]
    assert things.since(8) == []
    with pytest.raises(LookupError):
        things.since(0)


def test_a_reader_that_slept_too_long_lists_again() -> None:
    _, _, door = empty()
    seen = reflector.Reflector(door, kinds.NODES, clock=kernel.VirtualClock(START_SECONDS), rng=random.Random(1))
    door.create(kinds.NODES, builders.node_body("a"))
    seen.catch_up()
    for number in range(2 * storage.KEPT_CHANGES):
        door.merge_patch(kinds.NODES, "a", {"metadata": {"annotations": {"n": str(number)}}})
    seen.catch_up()
    assert (seen.lists, seen.problem) == (2, None)
    assert seen.snapshot()["a"].annotations["n"] == str(2 * storage.KEPT_CHANGES - 1)


def test_a_pod_that_is_bound_gets_its_node_and_the_time_of_it_and_only_once() -> None:
    time, api, door = empty()
    door.create(kinds.PODS, builders.pod_body("web-1"), namespace="default")
    time.run(START_SECONDS + 7)
    api.bind("default", "web-1", "node-1")
    pod = door.get(kinds.PODS, "web-1", namespace="default")
    assert (pod.node_name, pod.scheduled_at_seconds) == ("node-1", START_SECONDS + 7)
    with pytest.raises(errors.Conflict):
        api.bind("default", "web-1", "node-2")


def test_a_kind_that_nobody_serves_is_not_found() -> None:
    _, api, door = empty()
    rollouts = kinds.Kind("apis/argoproj.io/v1alpha1", "rollouts", "Rollout", objects.Object)
    with pytest.raises(errors.NotFound):
        door.resources(rollouts.api_version)
    with pytest.raises(errors.NotFound):
        door.list(rollouts)
    api.serve(rollouts, scale=True)
    assert {one.name for one in door.resources(rollouts.api_version)} == {
        "rollouts",
        "rollouts/scale",
        "rollouts/status",
    }


@hypothesis.settings(deadline=None)
@hypothesis.given(
    steps=strategies.lists(
        strategies.tuples(
            strategies.sampled_from(["create", "label", "delete", "catch up"]),
            strategies.sampled_from("abc"),
            strategies.sampled_from("xy"),
        ),
        max_size=30,
    ),
    selector=strategies.sampled_from(["", "l=x", "l!=x", "!l"]),
)
def test_whenever_a_reflector_catches_up_it_holds_what_a_list_holds_and_told_every_change(
    steps: list[tuple[str, str, str]], selector: str
) -> None:
    _, _, door = empty()
    told: dict[str, objects.ConfigMap] = {}

    def note(old: objects.ConfigMap | None, new: objects.ConfigMap | None) -> None:
        changed = new or old
        assert changed is not None
        assert told.pop(changed.name, None) == old
        if new is not None:
            told[new.name] = new

    clock = kernel.VirtualClock(START_SECONDS)
    seen = reflector.Reflector(
        door, kinds.CONFIG_MAPS, clock=clock, rng=random.Random(1), label_selector=selector, on_change=note
    )
    for action, name, label in [*steps, ("catch up", "", "")]:
        there = {one.name for one in door.list(kinds.CONFIG_MAPS).items}
        if action == "catch up":
            seen.catch_up()
            listed = {one.name: one for one in door.list(kinds.CONFIG_MAPS, label_selector=selector).items}
            assert told == {one.name: one for one in seen.snapshot().values()} == listed
        elif name not in there:
            door.create(kinds.CONFIG_MAPS, config_map(name, l=label), namespace="default")
        elif action == "delete":
            door.delete(kinds.CONFIG_MAPS, name, namespace="default")
        else:
            change = {"metadata": {"labels": {"l": label if action == "label" else None}}}
            door.merge_patch(kinds.CONFIG_MAPS, name, change, namespace="default")
    assert seen.problem is None


def is_even(version: storage.Version) -> bool:
    return version.number % 2 == 0


@hypothesis.given(
    strategies.lists(
        strategies.tuples(strategies.sampled_from(["a/x", "a/y", "b/x"]), strategies.booleans(), strategies.booleans()),
        max_size=20,
    )
)
def test_a_list_is_what_is_there_however_much_has_happened_since_the_last_one(
    steps: list[tuple[str, bool, bool]],
) -> None:
    things = storage.Storage(kinds.CONFIG_MAPS, frozenset(), kept_changes=2)
    for number, (key, goes, is_listed) in enumerate(steps, 1):
        old = things.get(key)
        new = None if goes else storage.Version(key, number, {"metadata": {"name": key}})
        if old is not None or new is not None:
            things.record(storage.Change(number, old, new))
        for namespace in ("", "a", "c") if is_listed else ():
            there = things.within(namespace)
            whole = tuple(one.decoded(objects.ConfigMap) for one in there)
            assert things.listed(objects.ConfigMap, namespace, None) == whole
            even = tuple(one.decoded(objects.ConfigMap) for one in there if is_even(one))
            assert things.listed(objects.ConfigMap, namespace, is_even) == even
