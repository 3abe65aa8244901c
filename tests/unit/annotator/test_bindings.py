"""Which pods are placements, and when an event is a scheduling result."""

import pytest

from annotator import bindings
from kube.lean_pods import Pod
from policy import schema
from runtime import clock
from tests import builders

AT = clock.from_rfc3339(builders.SCHEDULED)
HOT_SPOTS = schema.defaults().hot_spots


def owner(kind: str) -> dict[str, object]:
    return {"kind": kind, "name": "x", "uid": "u", "apiVersion": "apps/v1", "controller": True}


def meta(**values: object) -> builders.Mutator:
    return lambda body: body["metadata"].update(values)


COUNTS = builders.lean_pod("web-1", node="node-1")
DOES_NOT_COUNT = {
    "an unbound pod": builders.lean_pod("p", node=""),
    "a finished pod": builders.lean_pod("p", node="n", mutate=lambda body: body["status"].update(phase="Succeeded")),
    "a terminating pod": builders.lean_pod("p", node="n", mutate=meta(deletionTimestamp="2026-11-21T04:00:00Z")),
    "a DaemonSet's pod": builders.lean_pod("p", node="n", mutate=meta(ownerReferences=[owner("DaemonSet")])),
    "a placeholder": builders.lean_pod("p", node="n", mutate=meta(labels={"evenload.io/placeholder": "true"})),
    "a static pod": builders.lean_pod("p", node="n", mutate=meta(annotations={"kubernetes.io/config.source": "file"})),
    "a pod nobody scheduled": builders.lean_pod(
        "p", node="n", mutate=lambda body: body["status"].update(conditions=[])
    ),
}


def test_a_bound_pod_is_a_placement_at_its_scheduling() -> None:
    assert bindings.binding(COUNTS) == ("node-1", COUNTS.uid, AT)


@pytest.mark.parametrize("pod", DOES_NOT_COUNT.values(), ids=DOES_NOT_COUNT.keys())
def test_what_says_nothing_of_crowding_does_not_count(pod: Pod) -> None:
    assert bindings.binding(pod) is None


def test_placements_are_counted_per_window_and_age_out() -> None:
    pods = [builders.lean_pod(f"web-{index}", node="node-1") for index in range(3)]
    counted = bindings.hot_counts(pods, HOT_SPOTS, now_seconds=AT + 90)
    assert counted == {"node-1": {"1m": 0, "5m": 3, "30m": 3}}
    assert bindings.hot_counts(pods, HOT_SPOTS, now_seconds=AT + 3600) == {}
    assert bindings.none(HOT_SPOTS) == {"1m": 0, "5m": 0, "30m": 0}


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
    assert (bindings.scheduling_result(old, new, since_seconds=since) is not None) == is_result
