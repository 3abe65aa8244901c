from collections.abc import Mapping
from typing import Any

import pytest

from kube import errors, events, kinds, objects
from tests import builders, clocks

POD = objects.Reference(kind="Pod", name="web-1", namespace="shop", uid="u-1", api_version="v1")


class EventDoor:
    def __init__(self) -> None:
        self.created: list[tuple[str, Mapping[str, Any]]] = []
        self.error: errors.KubeError | None = None

    def create(self, kind: kinds.Kind[Any], body: Mapping[str, Any], *, namespace: str = "") -> None:
        if self.error is not None:
            raise self.error
        assert kind is kinds.EVENTS
        self.created.append((namespace, body))


@pytest.fixture
def door() -> EventDoor:
    return EventDoor()


@pytest.fixture
def clock() -> clocks.ManualClock:
    return clocks.ManualClock()


@pytest.fixture
def writer(door: EventDoor, clock: clocks.ManualClock) -> events.EventWriter:
    return events.EventWriter(door, controller="evenload.io/descheduler", instance="host-1", clock=clock)  # type: ignore[arg-type]


def body(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "reason": events.Reason.NODE_OVERLOADED,
        "action": "Evict",
        "note": "memory 0.87 > 0.80",
        "type_": "Normal",
        "regarding": POD,
        "controller": "evenload.io/descheduler",
        "instance": "host-1",
        "now_seconds": 1795233600.5,
    }
    return events.event_body(**{**fields, **changes})


def test_an_event_is_plain_events_v1() -> None:
    node = events.reference(kinds.NODES, builders.node("node-7"))
    assert body(related=node, annotations={"evenload.io/decision": "{}"}) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "generateName": "web-1-",
            "namespace": "shop",
            "annotations": {"evenload.io/decision": "{}"},
        },
        "eventTime": "2026-11-21T04:00:00.500000Z",
        "reportingController": "evenload.io/descheduler",
        "reportingInstance": "host-1",
        "action": "Evict",
        "reason": "NodeOverloaded",
        "type": "Normal",
        "note": "memory 0.87 > 0.80",
        "regarding": {"kind": "Pod", "name": "web-1", "namespace": "shop", "uid": "u-1", "apiVersion": "v1"},
        "related": {"kind": "Node", "name": "node-7", "uid": "uid-node-7", "apiVersion": "v1"},
    }


def test_an_event_about_a_node_lives_in_default() -> None:
    found = body(regarding=events.reference(kinds.NODES, builders.node("node-7")))
    assert found["metadata"]["namespace"] == "default"


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [("short", 10, "short"), ("exactly 10", 10, "exactly 10"), ("eleven char", 10, "eleven …"), ("ééééé", 9, "ééé…")],
)
def test_a_long_note_is_cut_between_characters(text: str, limit: int, cut: str) -> None:
    assert events.cut(text, limit) == cut
    assert len(cut.encode()) <= limit


@pytest.mark.parametrize("character", ["a", "é", "漢", "🙂"])
def test_no_note_is_over_the_limit_of_the_api(character: str) -> None:
    note = body(note=character * 3000)["note"]
    assert 1020 <= len(note.encode()) <= 1024
    assert set(note) == {character, "…"}


def test_reasons_are_pinned() -> None:
    assert {str(one) for one in events.Reason} == {
        "NodeOverloaded",
        "EvictionBlockedByPDB",
        "EvictionLoop",
        "NoFittingNode",
        "NodeLoadNotFalling",
        "ReplacementsNotReady",
        "PolicyRefused",
        "PolicyAccepted",
    }


def test_a_written_event_goes_to_its_objects_namespace(writer: events.EventWriter, door: EventDoor) -> None:
    assert writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict", warning=True)
    ((namespace, found),) = door.created
    assert (namespace, found["reason"], found["type"]) == ("shop", "EvictionLoop", "Warning")
    assert (writer.posted, writer.failed) == (1, 0)


def test_a_refused_event_is_counted_and_nobody_fails(writer: events.EventWriter, door: EventDoor) -> None:
    door.error = errors.Forbidden("POST", status=403, reason="Forbidden", message="namespace is terminating")
    assert not writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict")
    assert (writer.posted, writer.failed) == (0, 1)


def test_repeats_are_held_back_for_five_minutes_where_asked(
    writer: events.EventWriter, door: EventDoor, clock: clocks.ManualClock
) -> None:
    def write(reason: events.Reason, regarding: objects.Reference = POD) -> bool:
        return writer.write(reason, "nowhere to go", regarding=regarding, action="Plan", repeat=False)

    other = objects.Reference(kind="Pod", name="web-2", namespace="shop")
    assert write(events.Reason.NO_FITTING_NODE)
    assert not write(events.Reason.NO_FITTING_NODE)
    assert write(events.Reason.EVICTION_BLOCKED_BY_PDB)
    assert write(events.Reason.NO_FITTING_NODE, other)
    clock.advance(301)
    assert write(events.Reason.NO_FITTING_NODE)
    assert (len(door.created), writer.suppressed) == (4, 1)
