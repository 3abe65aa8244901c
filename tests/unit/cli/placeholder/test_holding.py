"""What is held, what waits, what was preempted: from pods and Events, and how it is shown."""

from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from cli.placeholder import status
from kube import objects
from runtime import clock
from tests import builders

NOW_SECONDS = clock.from_rfc3339("2026-11-21T04:00:00Z")
UID = "0b9d99dc-ff17-475b-beb3-686afccc72b6"
LABELS = {"evenload.io/placeholder": "true", "pod-template-hash": "5d9c7b6f4"}


def placeholder(name: str, node: str = "", *, owner: str = "placeholder", **fields: Any) -> objects.Pod:
    """A placeholder of a Deployment of that name."""
    options: dict[str, Any] = {"namespace": "evenload-system", "labels": LABELS, "cpu": "300m", "memory": "600Mi"}
    return builders.pod(name, node=node, owner=("ReplicaSet", f"{owner}-5d9c7b6f4"), **options | fields)


def preempted(name: str, *, at: str = "2026-11-21T03:30:00.000000Z", **fields: Any) -> objects.Event:
    """kube-scheduler's Event about a victim."""
    body: dict[str, Any] = {
        "metadata": {"name": f"{name}.1", "namespace": "evenload-system", "creationTimestamp": "2026-11-21T03:31:00Z"},
        "reason": "Preempted",
        "eventTime": at,
        "regarding": {"kind": "Pod", "namespace": "evenload-system", "name": name},
        "note": f"Preempted by pod {UID} on node node-2",  # as of 1.36, which says it nowhere else
    }
    return builders.decoded(body | fields, objects.Event)


def held(*pods: objects.Pod, events: tuple[objects.Event, ...] | None = ()) -> status.Holding:
    """What they amount to now."""
    return status.holding(pods, events, NOW_SECONDS)


def test_room_is_the_sum_of_requests_per_node_and_in_all() -> None:
    found = held(placeholder("a", "node-1"), placeholder("b", "node-1"), placeholder("c", "node-2"), placeholder("d"))
    document = status.document(found, NOW_SECONDS)
    assert (document["held"], document["cpu_millicores"], document["memory_bytes"]) == (3, 900.0, 3 * 600 * 2**20)
    assert [(row["node"], row["held"], row["cpu_millicores"]) for row in document["nodes"]] == [
        ("node-1", 2, 600.0),
        ("node-2", 1, 300.0),
    ]
    assert (document["waiting"], document["longest_waiting_seconds"]) == (1, 3600)  # tests.builders.CREATED
    assert document["preempted_last_hour"] == 0


@hypothesis.given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "n1", "n2", "n3"]))))
def test_every_placeholder_is_counted_once_whatever_the_sets_and_nodes(drawn: list[tuple[str, str]]) -> None:
    pods = [placeholder(f"p{index}", node, owner=owner) for index, (owner, node) in enumerate(drawn)]
    document = status.document(held(*pods), NOW_SECONDS)
    assert document["held"] + document["waiting"] == len(pods)
    for rows in (document["nodes"], document["sets"]):
        assert sum(row["held"] for row in rows) == document["held"]
        assert sum(row["cpu_millicores"] for row in rows) == document["cpu_millicores"]
    assert {row["name"] for row in document["sets"]} == {owner for owner, _ in drawn}


def test_what_is_no_living_placeholder_does_not_count() -> None:
    found = held(
        placeholder("a", "node-1", metadata={"deletionTimestamp": "2026-11-21T03:59:59Z"}),
        placeholder("b", "node-1", phase="Failed"),
        placeholder("c", "node-1", labels={"evenload.io/placeholder": "false"}),
    )
    assert found.sets == {}


NAMED = "placeholder-5d9c7b6f4-x2lkp"
EVENTS = {
    "a placeholder's": (preempted(NAMED), 1),
    "one of a former template": (preempted("placeholder-7f8-abcde"), 1),
    "older than an hour": (preempted(NAMED, at="2026-11-21T02:59:59.000000Z"), 0),
    "without a time of its own": (preempted(NAMED, eventTime=None), 1),
    "of another namespace": (preempted(NAMED, regarding={"kind": "Pod", "namespace": "a", "name": NAMED}), 0),
    "of another workload": (preempted("placeholders-5d9c7b6f4-x2lkp"), 0),
    "of a set with a longer name": (preempted("placeholder-soak-5d9c7b6f4-x2lkp"), 0),
    "of another kind": (preempted(NAMED, regarding={"kind": "Job", "namespace": "evenload-system", "name": NAMED}), 0),
    "of another reason": (preempted(NAMED, reason="Killing"), 0),
}


@pytest.mark.parametrize("case", EVENTS)
def test_a_preemption_of_the_last_hour_counts_if_a_known_set_made_the_pod(case: str) -> None:
    event, expected = EVENTS[case]
    assert held(placeholder("placeholder-5d9c7b6f4-other", "node-1"), events=(event,)).preempted() == expected


RELATED = {"kind": "Pod", "namespace": "shop", "name": "web-1", "uid": UID}
TOLD: dict[str, tuple[dict[str, Any], tuple[str | None, ...]]] = {
    "as 1.36 writes it": ({}, ("node-2", None, UID)),
    "as before, with the pod": (
        {"related": RELATED, "note": "Preempted by a pod on node n.example"},
        ("n.example", "shop/web-1", UID),
    ),
    "in words of tomorrow": ({"note": "Removed"}, (None, None, None)),
    "for a group of pods": ({"note": f"Preempted by podgroup {UID} on node a"}, ("a", None, UID)),
}


@pytest.mark.parametrize("case", TOLD)
def test_a_preemption_is_told_with_what_the_event_says_of_it(case: str) -> None:
    fields, expected = TOLD[case]
    found = held(placeholder("a", "node-2"), events=(preempted(NAMED, **fields),))
    (told,) = status.document(found, NOW_SECONDS)["preemptions"]
    assert (told["node"], told["by"], told["by_uid"]) == expected
    assert (told["at"], told["placeholder"]) == ("2026-11-21T03:30:00Z", NAMED)
    said = " ".join(status.remarks(found, "", NOW_SECONDS))
    assert ("made way for shop/web-1" in said) is (expected[1] is not None)


def test_preemptions_are_counted_per_node_also_where_nothing_is_held_any_more() -> None:
    events = (preempted(NAMED), preempted(NAMED, note="Preempted by a pod on node node-1"))
    rows = status.document(held(placeholder("a", "node-1"), events=events), NOW_SECONDS)["nodes"]
    assert [(row["node"], row["held"], row["preempted_last_hour"]) for row in rows] == [
        ("node-1", 1, 1),
        ("node-2", 0, 1),
    ]


def test_where_an_event_names_no_node_no_nodes_count_is_made_up() -> None:
    events = (preempted(NAMED), preempted(NAMED, note="Removed"))
    document = status.document(held(placeholder("a", "node-2"), events=events), NOW_SECONDS)
    assert document["preempted_last_hour"] == 2
    assert [row["preempted_last_hour"] for row in document["nodes"]] == [None]


def test_without_events_how_many_made_way_is_unknown_and_not_none() -> None:
    found = held(placeholder("a", "node-1"), events=None)
    document = status.document(found, NOW_SECONDS)
    assert document["preempted_last_hour"] is document["preemptions"] is document["sets"][0]["preempted_last_hour"]
    assert document["preemptions"] is None
    said = " ".join(status.remarks(found, "events is forbidden", NOW_SECONDS))
    assert "how many made way is not known: events is forbidden" in said


@pytest.mark.parametrize(
    ("pods", "short"),
    [
        pytest.param([], True, id="none at all"),
        pytest.param([placeholder("a", "node-1")], False, id="all hold room"),
        pytest.param([placeholder("a", "node-1"), placeholder("b")], True, id="one waits for a node"),
        pytest.param(
            [placeholder("a", annotations={"evenload.io/placeholder-preset": "soak"})], False, id="one that soaks waits"
        ),
    ],
)
def test_room_is_missing_when_there_are_none_or_some_wait_for_a_node(pods: list[objects.Pod], short: bool) -> None:
    assert held(*pods).short is short
