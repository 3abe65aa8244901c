from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kube import errors, events, kinds, objects
from tests import builders, clocks

POD = objects.Reference(kind="Pod", name="web-1", namespace="shop", uid="u-1", api_version="v1")


class EventDoor:
    """Keeps Events, or refuses them."""

    def __init__(self) -> None:
        self.asked = 0
        self.created: list[tuple[str, Mapping[str, Any]]] = []
        self.error: errors.KubeError | None = None

    def create(self, kind: kinds.Kind[Any], body: Mapping[str, Any], *, namespace: str = "") -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error
        assert kind is kinds.EVENTS
        self.created.append((namespace, body))


@pytest.fixture
def door() -> EventDoor:
    return EventDoor()


@pytest.fixture
def clock() -> clocks.ManualClock:
    return clocks.ManualClock(clocks.START_SECONDS + 0.5)


@pytest.fixture
def writer(door: EventDoor, clock: clocks.ManualClock) -> events.EventWriter:
    return events.EventWriter(door, controller="evenload.io/descheduler", instance="host-1", clock=clock)  # type: ignore[arg-type]


Write = Callable[..., dict[str, Any]]


@pytest.fixture
def written(writer: events.EventWriter, door: EventDoor) -> Write:
    def write(note: str = "memory 0.87 > 0.80", regarding: objects.Reference = POD, **about: Any) -> dict[str, Any]:
        writer.write(events.Reason.NODE_OVERLOADED, note, regarding=regarding, action="Evict", **about)
        return dict(door.created[-1][1])

    return write


def test_an_event_is_plain_events_v1(written: Write) -> None:
    node = events.reference(kinds.NODES, builders.node("node-7"))
    assert written(related=node, annotations={"evenload.io/decision": "{}"}) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"generateName": "web-1-", "namespace": "shop", "annotations": {"evenload.io/decision": "{}"}},
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


def test_an_event_about_a_node_lives_in_default(written: Write, door: EventDoor) -> None:
    found = written(regarding=events.reference(kinds.NODES, builders.node("node-7")))
    assert (found["metadata"]["namespace"], door.created[0][0]) == ("default", "default")


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [("short", 10, "short"), ("exactly 10", 10, "exactly 10"), ("eleven char", 10, "eleven …"), ("ééééé", 9, "ééé…")],
)
def test_a_long_note_is_cut_between_characters(text: str, limit: int, cut: str) -> None:
    assert events.cut(text, limit) == cut
    assert len(cut.encode()) <= limit


@pytest.mark.parametrize("character", ["a", "é", "漢", "🙂"])
def test_no_note_is_over_the_limit_of_the_api(written: Write, character: str) -> None:
    note = written(character * 3000)["note"]
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
        *("SurgeStarted", "SurgeFinished", "SurgeUndone", "SurgeAbandoned", "SurgeStuck"),
    }


def test_a_written_event_goes_to_its_objects_namespace(writer: events.EventWriter, door: EventDoor) -> None:
    writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict", warning=True)
    ((namespace, found),) = door.created
    assert (namespace, found["reason"], found["type"]) == ("shop", "EvictionLoop", "Warning")


def test_a_refused_event_is_logged_and_nobody_fails(
    writer: events.EventWriter, door: EventDoor, caplog: pytest.LogCaptureFixture
) -> None:
    door.error = errors.Forbidden("POST", status=403, reason="Forbidden", message="namespace is terminating")
    writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict")
    (line,) = [record.getMessage() for record in caplog.records]
    assert all(words in line for words in ("event not written", "EvictionLoop", "namespace is terminating"))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_after_an_event_that_nobody_took_none_is_tried_for_a_minute(
    writer: events.EventWriter, door: EventDoor, clock: clocks.ManualClock, status: int
) -> None:
    door.error = errors.class_for(status)("POST", status=status, reason="", message="")
    for _ in range(3):
        writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict")
    assert door.asked == 1
    door.error = None
    clock.advance(events.SILENT_SECONDS)
    writer.write(events.Reason.EVICTION_LOOP, "back again", regarding=POD, action="Evict")
    assert len(door.created) == 1
