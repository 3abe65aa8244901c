"""The disruption controller and the eviction rule together: what budgets allow, and that nothing gets past them."""

import random

import hypothesis
import pytest
from hypothesis import strategies

from kube import errors, kinds, objects
from tests.unit.simulator import cities

EVICTED, REFUSED = 201, 429


def guarded(count: int, spec: dict[str, object], kind: str = "Deployment") -> cities.City:
    """So many replicas, all Ready, under a budget of this spec."""
    city = cities.City([cities.owner(kind=kind, labels={"app": "web"})], cities.replicas(0, count))
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    city.arrive(*range(count))
    city.door.create(kinds.BUDGETS, body, namespace="shop")
    return city


def figures(budget: objects.DisruptionBudget) -> tuple[int, int, int, int]:
    status = budget.status
    return status.expected_pods, status.current_healthy, status.desired_healthy, status.disruptions_allowed


@pytest.mark.parametrize(
    ("count", "spec", "expected"),
    [
        (5, {"minAvailable": 3}, (5, 5, 3, 2)),
        (5, {"minAvailable": 0}, (5, 5, 0, 5)),
        (5, {"minAvailable": 9}, (5, 5, 9, 0)),
        (5, {"minAvailable": "50%"}, (5, 5, 3, 2)),  # rounded up
        (5, {"maxUnavailable": 1}, (5, 5, 4, 1)),
        (5, {"maxUnavailable": "50%"}, (5, 5, 2, 3)),  # rounded up, too
        (3, {"maxUnavailable": 7}, (3, 3, 0, 3)),
    ],
    ids=str,
)
def test_a_budget_counts_as_its_spec_says(count: int, spec: dict[str, object], expected: tuple[int, ...]) -> None:
    budget = guarded(count, spec).budget()
    assert figures(budget) == expected
    assert budget.status.observed_generation == budget.metadata.generation


def test_a_budget_over_nothing_allows_nothing() -> None:
    assert figures(guarded(0, {"minAvailable": 0}).budget()) == (0, 0, 0, 0)


def test_percentages_need_an_owner_with_a_scale() -> None:
    assert guarded(3, {"maxUnavailable": 1}, "Job").budget().status.disruptions_allowed == 0
    assert guarded(3, {"minAvailable": 2}, "Job").budget().status.disruptions_allowed == 1


def test_an_eviction_is_charged_at_once_and_given_back_when_the_successor_is_ready() -> None:
    city = guarded(3, {"minAvailable": 2})
    first, second, _ = city.pods()
    assert city.evict(first) == EVICTED
    assert figures(city.budget()) == (4, 2, 2, 0)  # the one that ends and its successor are both there
    assert city.evict(second) == REFUSED
    city.wait(1)
    assert city.budget().status.disruptions_allowed == 1
    assert city.evict(second) == EVICTED


def test_a_budget_follows_the_scale_of_its_owner() -> None:
    city = guarded(3, {"maxUnavailable": "34%"})
    assert figures(city.budget()) == (3, 3, 1, 2)
    city.owners.leave(0)
    assert figures(city.budget()) == (2, 2, 1, 1)


def test_a_pod_that_does_not_run_may_go_whatever_the_budget_says() -> None:
    city = guarded(1, {"minAvailable": 1})
    city.owners.leave(0)
    city.owners.arrive(0)
    pending = city.living()[0]
    assert not pending.ready
    assert city.evict(pending) == EVICTED


def test_a_pod_under_two_budgets_cannot_be_evicted() -> None:
    city = guarded(1, {"minAvailable": 0})
    body = {"metadata": {"name": "too"}, "spec": {"minAvailable": 0, "selector": {}}}
    city.door.create(kinds.BUDGETS, body, namespace="shop")
    with pytest.raises(errors.ServerError, match="more than one"):
        city.evict(city.pods()[0])


@hypothesis.settings(deadline=None, max_examples=50)
@hypothesis.given(
    seed=strategies.integers(0, 2**32),
    count=strategies.integers(1, 8),
    keep=strategies.integers(0, 8),
    as_maximum=strategies.booleans(),
)
def test_whatever_is_evicted_in_whatever_order_never_fewer_are_ready_than_the_budget_says(
    seed: int, count: int, keep: int, as_maximum: bool
) -> None:
    rng = random.Random(seed)
    city = guarded(count, {"maxUnavailable": count - keep} if as_maximum and keep <= count else {"minAvailable": keep})
    for _ in range(30):
        pod = rng.choice(city.pods())
        ready_before = sum(one.ready and not one.deleting for one in city.pods())
        accepted = city.evict(pod) == EVICTED
        ready = sum(one.ready and not one.deleting for one in city.pods())
        assert ready >= min(keep, ready_before)
        assert accepted or ready == ready_before
        city.wait(rng.choice([0.0, 0.4, 25.0]))
        assert len(city.living()) == count
