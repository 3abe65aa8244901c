"""Which pods are placements, and when an event is a scheduling result."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotator.placements import hot_counts
from kube.cache import store
from kube.pods.compact import Pod
from policy.schema import load_policy
from runtime import clock
from tests import builders

AT = clock.from_rfc3339(builders.SCHEDULED)
HOT_SPOTS = load_policy.defaults().hot_spots


def placements(pods: Iterable[Pod]) -> list[tuple[str, float]]:
    """The node and the time of each that is one."""
    found = [hot_counts.binding(pod) for pod in pods]
    return [(placed.node, placed.at_seconds) for placed in found if placed is not None]


COUNTS = builders.lean_pod("web-1", node="node-1")
NO_NAME = {"restartCount": 0, "state": {"waiting": {"reason": "InvalidImageName"}}}
DOES_NOT_COUNT: dict[str, dict[str, Any]] = {
    "an unbound pod": {"node": ""},
    "a finished pod": {"status": {"phase": "Succeeded"}},
    "a terminating pod": {"metadata": {"deletionTimestamp": "2026-11-21T04:00:00Z"}},
    "a pod without an image": {"phase": "Pending", "status": {"containerStatuses": [NO_NAME]}},
    "a DaemonSet's pod": {"owner": ("DaemonSet", "agent")},
    "a placeholder": {"mutate": builders.placeholder},
    "a static pod": {"owner": ("Node", "n"), "annotations": builders.MIRROR},
    "a pod nobody scheduled": {"status": {"conditions": []}},
}


def test_a_bound_pod_is_a_placement_at_its_scheduling() -> None:
    assert hot_counts.binding(COUNTS) == ("node-1", COUNTS.uid, AT)


@pytest.mark.parametrize("fields", DOES_NOT_COUNT.values(), ids=DOES_NOT_COUNT)
def test_what_says_nothing_of_crowding_does_not_count(fields: dict[str, Any]) -> None:
    assert hot_counts.binding(builders.lean_pod("p", **{"node": "n", **fields})) is None


def test_without_hot_spots_nothing_is_counted_not_even_a_placement_of_a_clock_ahead() -> None:
    assert hot_counts.hot_counts(placements([COUNTS]), (), now_seconds=AT - 1).of("node-1") == {}


def test_pods_wait_until_they_have_a_node_or_end() -> None:
    ended = builders.lean_pod("p", status={"phase": "Failed"})
    leaving = builders.lean_pod("p", metadata={"deletionTimestamp": "2026-11-21T04:00:00Z"})
    assert hot_counts.waiting([builders.lean_pod("p"), builders.lean_pod("q"), COUNTS, ended, leaving]) == 2


def held_room(node: str = "n", **fields: Any) -> Pod:
    """A placeholder."""
    return builders.lean_pod("p", node=node, mutate=builders.placeholder, **fields)


def test_placeholders_are_counted_as_long_as_they_hold_room_or_wait_for_it() -> None:
    pods = [
        *(held_room() for _ in range(3)),
        held_room(""),
        held_room(metadata={"deletionTimestamp": "2026-11-21T04:00:00Z"}),
        held_room(status={"phase": "Failed"}),
        builders.lean_pod("p", node="n", metadata={"labels": {"evenload.io/placeholder": "false"}}),
        COUNTS,
    ]
    assert hot_counts.placeholders(pods) == {("order", "placed"): 3, ("order", "waiting"): 1}
    assert hot_counts.placeholders([COUNTS]) == {}


def test_placeholders_that_only_soak_up_free_room_are_counted_apart_from_those_that_order_nodes() -> None:
    found = [("n", "order"), ("", "soak"), ("", "soak"), ("n", "soak"), ("", "of my own")]
    pods = [held_room(node, annotations={"evenload.io/placeholder-preset": preset}) for node, preset in found]
    assert hot_counts.placeholders(pods) == {
        ("order", "placed"): 1,
        ("order", "waiting"): 1,
        ("soak", "placed"): 1,
        ("soak", "waiting"): 2,
    }


def placed(name: str, node: str, age_seconds: int, phase: str) -> builders.Body:
    return builders.pod_body(name, node=node, phase=phase, scheduled_at=clock.to_rfc3339(AT - age_seconds))


PODS = st.dictionaries(
    st.sampled_from([f"p{number}" for number in range(12)]),
    st.tuples(st.sampled_from(["a", "b"]), st.integers(-5, 2000), st.sampled_from(["Running", "Failed"])),
)


@given(first=PODS, second=PODS)
def test_counts_are_those_of_the_pods_there_are_whoever_counts_and_whatever_was_before(
    first: dict[str, tuple[str, int, str]], second: dict[str, tuple[str, int, str]]
) -> None:
    """Pods come, finish and vanish under a watch; a process started anew lists them: both count what is there."""
    watching: store.Store[Pod] = store.Store()
    for version, pods in ((1, first), (2, second)):
        made = [placed(name, *facts) for name, facts in pods.items()]
        for body in made:
            body["metadata"]["resourceVersion"] = str(version)
        watching.replace([builders.decoded(body, Pod) for body in made])
    anew: store.Store[Pod] = store.Store()
    anew.replace([builders.decoded(placed(name, *facts), Pod) for name, facts in reversed(second.items())])
    shown = [placements(one.snapshot().values()) for one in (watching, anew)]
    every = [hot_counts.hot_counts(placed, HOT_SPOTS, now_seconds=AT) for placed in shown]
    seen, rebuilt = ({node: hot.of(node) for node in ("a", "b")} for hot in every)
    ages = {
        node: [age for on, age, phase in second.values() if on == node and phase == "Running" and age < 1800]
        for node in ("a", "b")
    }
    expected = {
        node: {text: sum(age < span for age in found) for text, span in (("1m", 60), ("5m", 300), ("30m", 1800))}
        for node, found in ages.items()
    }
    assert seen == rebuilt == expected


@pytest.mark.parametrize(
    ("old", "new", "since", "is_result"),
    [
        pytest.param(builders.lean_pod("p", node=""), COUNTS, AT - 5, True, id="the binding of a pod seen waiting"),
        pytest.param(None, COUNTS, AT + 0.5, True, id="a pod first seen bound, in the second we began"),
        pytest.param(None, COUNTS, AT + 60, False, id="a pod bound before we began"),
        pytest.param(COUNTS, COUNTS, AT - 5, False, id="a later change of a bound pod"),
        pytest.param(COUNTS, None, AT - 5, False, id="a deletion"),
    ],
)
def test_a_scheduling_result_is_told_once(old: Pod | None, new: Pod | None, since: float, is_result: bool) -> None:
    assert (hot_counts.scheduling_result(old, new, since_seconds=since) is not None) == is_result
