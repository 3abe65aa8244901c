"""A violated budget is counted once per fall, and a budget that is only starting or leaving is not violated."""

import msgspec

from kube import objects
from lab.cluster.demo import budgets


def budget(
    healthy: int, *, desired: int = 2, expected: int = 3, uid: str = "u", deleting: bool = False
) -> objects.DisruptionBudget:
    """A budget as the disruption controller reports it."""
    metadata: dict[str, object] = {"name": "web", "namespace": "demo", "uid": uid}
    if deleting:
        metadata["deletionTimestamp"] = "2026-11-21T04:00:00Z"
    status = {"expectedPods": expected, "currentHealthy": healthy, "desiredHealthy": desired}
    return msgspec.convert({"metadata": metadata, "status": status}, objects.DisruptionBudget)


def watched(*states: objects.DisruptionBudget) -> budgets.Watcher:
    """A watcher that saw one budget go through these states."""
    watcher = budgets.Watcher()
    old: objects.DisruptionBudget | None = None
    for state in states:
        watcher.on_change(old, state)
        old = state
    return watcher


def test_a_budget_whose_pods_are_starting_is_not_violated() -> None:
    assert watched(budget(0), budget(1), budget(2), budget(3)).violations == ()


def test_a_met_budget_may_lose_its_spare() -> None:
    assert watched(budget(3), budget(2), budget(3)).violations == ()


def test_a_met_budget_that_falls_is_violated_once_per_fall() -> None:
    found = watched(budget(3), budget(1), budget(0), budget(2), budget(1)).violations
    assert found == ("demo/web: 1 healthy, 2 demanded", "demo/web: 1 healthy, 2 demanded")


def test_a_budget_without_pods_says_nothing() -> None:
    assert watched(budget(0, desired=0, expected=0), budget(0)).violations == ()


def test_a_budget_that_is_being_deleted_is_forgotten() -> None:
    assert watched(budget(3), budget(0, deleting=True)).violations == ()
    watcher = watched(budget(3))
    watcher.on_change(budget(3), None)
    watcher.on_change(None, budget(0, uid="u"))
    assert watcher.violations == ()
