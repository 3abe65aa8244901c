"""Disruptions that budgets allow within one plan, and the sentences of those that allow none."""

import pytest

from descheduler.planning.disruption_budgets import BudgetLeft, Headroom
from descheduler.planning.verdicts import Cause, Verdict
from kube.api import salvage
from kube.objects import DisruptionBudget
from tests import builders


def budget(
    *, allowed: int = 1, healthy: int = 4, needed: int = 3, generation: int = 2, observed: int = 2
) -> DisruptionBudget:
    status = {"observedGeneration": observed, "currentHealthy": healthy, "desiredHealthy": needed}
    return builders.budget("web", allowed=allowed, metadata={"generation": generation}, status=status)


def test_a_plan_reserves_as_many_disruptions_as_there_are_and_says_how_many_it_has() -> None:
    headroom = Headroom([budget(allowed=3, healthy=6)])
    for number in range(3):
        pod = builders.pod(f"web-{number}", node="node-1")
        assert headroom.verdict(pod) is None
        assert headroom.reserve(pod) == "web"
    verdict = headroom.verdict(builders.pod("web-3", node="node-1"))
    assert str(verdict) == "budget: web allows 3 (6 healthy, 3 needed, 3 in this plan)"
    assert [(one.allowed, one.reserved) for one in headroom.left()] == [(3, 3)]


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        pytest.param(budget(allowed=0, healthy=3), "web allows 0 (3 healthy, 3 needed)", id="none is allowed"),
        pytest.param(budget(observed=1), "web: its status is not current yet", id="the status is of an older spec"),
    ],
)
def test_a_budget_that_allows_none_says_why(spent: DisruptionBudget, text: str) -> None:
    assert Headroom([spent]).verdict(builders.pod("web-0", node="node-1")) == Verdict(Cause.BUDGET, text)


@pytest.mark.parametrize(("needed", "name"), [(1, ""), (0, "web"), (2, "web")])
def test_an_unready_pod_costs_no_disruption_where_enough_others_are_healthy(needed: int, name: str) -> None:
    headroom = Headroom([budget(healthy=1, needed=needed)])
    assert headroom.reserve(builders.pod("web-0")) == name


def test_a_budget_without_a_selector_is_over_no_pod_and_one_of_expressions_over_those_that_match() -> None:
    without = builders.budget("none", mutate=lambda body: body["spec"].pop("selector"))
    matching = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    among = builders.budget("among", spec={"selector": matching})
    headroom = Headroom([without, among, builders.budget("other", labels={"app": "api"})])
    assert [one.name for one in headroom.over(builders.pod("web-0", labels={"app": "web", "tier": "x"}))] == ["among"]
    assert headroom.over(builders.pod("web-0", labels={"tier": "x"})) == []


def test_a_pod_without_a_budget_reserves_nothing() -> None:
    assert Headroom([]).reserve(builders.pod("web-0", node="node-1")) == ""


def test_every_pod_of_a_namespace_with_a_budget_that_cannot_be_decoded_stays() -> None:
    hidden = builders.budget("odd", labels={"app": "other"}, mutate=lambda body: body.update({salvage.MARK: "time"}))
    verdict = Headroom([hidden]).verdict(builders.pod("web-0", node="node-1"))
    assert verdict == Verdict(Cause.BUDGET, "odd cannot be decoded (time): it may protect this pod")


def test_a_pod_under_two_budgets_names_both_and_both_were_looked_at() -> None:
    headroom = Headroom([builders.budget("web"), builders.budget("all")])
    verdict = headroom.verdict(builders.pod("web-0", labels={"app": "web"}))
    assert str(verdict) == "several_budgets: all, web: the apiserver refuses a pod under more than one"
    assert headroom.left() == (BudgetLeft("default", "all", 1, 0), BudgetLeft("default", "web", 1, 0))
