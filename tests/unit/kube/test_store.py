import hypothesis
import pytest
from hypothesis import strategies

from kube import door, objects
from kube.cache import store
from tests import builders


def config_map(name: str, version: int, uid: str) -> objects.ConfigMap:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version), "uid": uid}
    return builders.decoded({"metadata": metadata}, objects.ConfigMap)


@pytest.mark.parametrize(
    ("version", "held", "newer"),
    [
        ("10", "9", True),
        ("9", "10", False),
        ("9", "9", False),
        ("100", "99", True),
        ("b", "a", True),
        ("a", "a", False),
    ],
)
def test_versions_are_compared_as_numbers(version: str, held: str, newer: bool) -> None:
    assert store.is_newer(version, held) is newer


def test_a_list_older_than_what_is_held_is_the_truth_after_a_restore() -> None:
    held: store.Store[objects.ConfigMap] = store.Store()
    held.replace([config_map("a", 90, "u")])
    (change,) = held.replace([config_map("a", 30, "u")])
    assert change.old is not None
    assert {key: one.resource_version for key, one in held.snapshot().items()} == {"shop/a": "30"}


def test_a_bookmark_and_an_unknown_deletion_change_nothing() -> None:
    held: store.Store[objects.ConfigMap] = store.Store()
    before = held.snapshot()
    assert held.apply(door.WatchEvent("BOOKMARK", None, "9")) == []
    assert held.apply(door.WatchEvent("DELETED", config_map("a", 9, "u"), "9")) == []
    assert held.snapshot() is before


HISTORY = strategies.lists(strategies.tuples(strategies.sampled_from("abc"), strategies.booleans()), max_size=30)


@hypothesis.given(history=HISTORY, repeats=strategies.lists(strategies.integers(0, 29), max_size=30))
def test_late_repeats_of_any_events_leave_the_picture_and_the_changes_add_up(
    history: list[tuple[str, bool]], repeats: list[int]
) -> None:
    """Truth: the last word on each name. Delivered in order, with any earlier events repeated after any later ones."""
    truth: dict[str, str] = {}
    uids: dict[str, int] = {}
    delivered: list[door.WatchEvent[objects.ConfigMap]] = []
    held: store.Store[objects.ConfigMap] = store.Store()
    followed: dict[str, str] = {}

    def deliver(event: door.WatchEvent[objects.ConfigMap]) -> None:
        for change in held.apply(event):
            if change.old is not None:
                assert followed.pop(change.old.key) == change.old.resource_version
            if change.new is not None:
                followed[change.new.key] = change.new.resource_version

    for version, (name, exists) in enumerate(history, start=1):
        if exists:
            kind: door.EventType = "MODIFIED" if f"shop/{name}" in truth else "ADDED"
            uids.setdefault(name, version)
            truth[f"shop/{name}"] = str(version)
        elif truth.pop(f"shop/{name}", None) is None:
            continue
        else:
            kind = "DELETED"
        event = door.WatchEvent(kind, config_map(name, version, f"u{uids[name]}"), str(version))
        if kind == "DELETED":
            del uids[name]
        delivered.append(event)
        deliver(event)
        for repeat in repeats:
            earlier = delivered[repeat % len(delivered)]
            if earlier.object is not None and earlier.object.key in truth:
                deliver(earlier)
        assert {key: one.resource_version for key, one in held.snapshot().items()} == truth
    assert followed == truth
