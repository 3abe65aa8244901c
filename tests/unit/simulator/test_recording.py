"""What a run leaves behind: whether the budgets of evicted pods were kept is judged by the pods themselves."""

import pytest

from descheduler.eviction.api_results import EvictionResult
from descheduler.eviction.evictor import EvictionOutcome
from kube.objects import Pod
from simulator.world import recording
from tests import builders
from tests.unit.descheduler import scenes

READY = [builders.pod(f"web-{number}", node="cool") for number in range(3)]
NOT_COUNTED = {
    "another owner's": builders.pod("other", node="cool", owner=("ReplicaSet", "other")),
    "nobody's": builders.pod("bare", node="cool", owner=None),
    "not ready": builders.pod("web-8"),
    "ending": builders.pod(
        "web-9", node="cool", mutate=lambda body: body["metadata"].update(deletionTimestamp=builders.CREATED)
    ),
    "over": builders.pod("web-9", node="cool", phase="Succeeded"),
}


def violations(pods: list[Pod], least: int | None, *, result: str = "evicted") -> list[str]:
    """What is said of the eviction of one of `web` while these are there and so many have to be ready."""
    scene = scenes.hot_and_cool()
    outcome = EvictionOutcome(scene.plan().evictions[0], EvictionResult(result, 201, ""))
    record = recording.Record()
    record.evicted([outcome], lambda pod: least, lambda pod: pods)
    assert record.evictions == int(result == "evicted")
    return record.violations


@pytest.mark.parametrize(("least", "broken"), [(3, False), (4, True), (None, False)])
def test_a_budget_is_broken_where_too_few_are_ready(least: int | None, broken: bool) -> None:
    assert bool(violations(READY, least)) is broken


@pytest.mark.parametrize("case", NOT_COUNTED)
def test_who_is_not_counted(case: str) -> None:
    (said,) = violations([*READY, NOT_COUNTED[case]], 4)
    assert said == "default/web-0 was evicted from hot although 4 of ReplicaSet/web have to be ready: 3 are"


def test_what_was_refused_breaks_no_budget() -> None:
    assert violations([], 4, result="refused") == []
