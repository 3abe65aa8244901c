"""Headroom per PodDisruptionBudget, reserved inside one plan so that two of its evictions never spend the same
disruption.

`planning.planner` asks before it chooses a pod and reserves when it has chosen. The rules are the eviction
subresource's own (kubernetes pkg/registry/core/pod/storage/eviction.go), read from the budget's status; where they
leave doubt the plan refuses. The apiserver has the last word all the same: `eviction.evictor` takes its 429 as an
answer.
"""

import collections
import collections.abc
import math
from typing import NamedTuple

from descheduler.planning.verdicts import Cause, Verdict
from kube.objects import DisruptionBudget, Pod

ALWAYS_ALLOW = "AlwaysAllow"
Label = tuple[str, str]


class BudgetLeft(NamedTuple):
    """A budget that stood over some candidate: the disruptions it allows, and how many of them the plan reserves."""

    namespace: str
    name: str
    allowed: int
    reserved: int


class Headroom:
    """Disruptions that the budgets still allow while one plan is made."""

    def __init__(self, budgets: collections.abc.Iterable[DisruptionBudget]) -> None:
        self._by_label: dict[tuple[str, Label | None], list[DisruptionBudget]] = collections.defaultdict(list)
        self._undecodable: dict[str, DisruptionBudget] = {}  # by namespace: it may protect any pod there
        for budget in budgets:
            if budget.undecodable:
                self._undecodable[budget.namespace] = budget
            elif budget.spec.selector is not None:
                label = next(iter(budget.spec.selector.match_labels.items()), None)
                self._by_label[budget.namespace, label].append(budget)
        self._reserved: collections.Counter[tuple[str, str]] = collections.Counter()
        self._over_candidates: dict[tuple[str, str], DisruptionBudget] = {}

    def over(self, pod: Pod) -> list[DisruptionBudget]:
        """The budgets that select the pod, by name: of those that ask for one of its labels first, or for none."""
        namespace = pod.namespace
        candidates = (self._by_label.get((namespace, label), ()) for label in (*pod.labels.items(), None))
        asking = (budget for those in candidates for budget in those)
        return sorted((one for one in asking if one.spec.selector and one.spec.selector.matches(pod.labels)), key=_key)

    def verdict(self, pod: Pod) -> Verdict | None:
        """None if the budgets allow the eviction now, else why not; two budgets over one pod are an error to the
        apiserver.
        """
        hidden = self._undecodable.get(pod.namespace)
        if hidden is not None:
            return Verdict(
                Cause.BUDGET, f"{hidden.name} cannot be decoded ({hidden.undecodable}): it may protect this pod"
            )
        over = self.over(pod)
        self._over_candidates.update((_key(budget), budget) for budget in over)
        if len(over) > 1:
            names = ", ".join(budget.name for budget in over)
            return Verdict(Cause.SEVERAL_BUDGETS, f"{names}: the apiserver refuses a pod under more than one")
        if not over or _needs_no_disruption(pod, over[0]):
            return None
        reserved = self._reserved[_key(over[0])]
        return None if _allowed(over[0]) > reserved else Verdict(Cause.BUDGET, _why(over[0], reserved))

    def with_another(self, pod: Pod) -> Verdict | None:
        """None if the budgets would allow the eviction with one more healthy pod of its workload, else why not."""
        over, verdict = self.over(pod), self.verdict(pod)
        if verdict is None or len(over) != 1 or not over[0].is_current or pod.namespace in self._undecodable:
            return verdict
        spec, status = over[0].spec, over[0].status
        limit = spec.min_available if spec.max_unavailable is None else spec.max_unavailable
        pods = status.expected_pods + 1
        count = math.ceil(int(limit.removesuffix("%")) * pods / 100) if isinstance(limit, str) else limit or 0
        needed = count if spec.max_unavailable is None else pods - count
        left = status.current_healthy + 1 - needed - self._reserved[_key(over[0])]
        return None if left > 0 else verdict._replace(detail=f"{verdict.detail}; another pod would not change that")

    def reserve(self, pod: Pod, *, number: int = 1) -> str:
        """Takes one disruption for a chosen pod (-1 gives it back); the name of its budget, "" if none was needed."""
        over = self.over(pod)
        if not over or _needs_no_disruption(pod, over[0]):
            return ""
        self._reserved[_key(over[0])] += number
        return over[0].name

    def left(self) -> tuple[BudgetLeft, ...]:
        """The budgets that a candidate was under, by namespace and name."""
        return tuple(
            BudgetLeft(budget.namespace, budget.name, _allowed(budget), self._reserved[key])
            for key, budget in sorted(self._over_candidates.items())
        )


def _key(budget: DisruptionBudget) -> tuple[str, str]:
    return (budget.namespace, budget.name)


def _allowed(budget: DisruptionBudget) -> int:
    # A status computed for an older spec says nothing about this one; the apiserver refuses such evictions with 429 as
    # well.
    return budget.status.disruptions_allowed if budget.is_current else 0


def _needs_no_disruption(pod: Pod, budget: DisruptionBudget) -> bool:
    """Unready pods cost no disruption where the budget's unhealthyPodEvictionPolicy, or enough healthy others, let
    them go.
    """
    if pod.ready or not budget.is_current:
        return False
    if budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW:
        return True
    return budget.status.desired_healthy > 0 and budget.status.current_healthy >= budget.status.desired_healthy


def _why(budget: DisruptionBudget, reserved: int) -> str:
    if not budget.is_current:
        return f"{budget.name}: its status is not current yet"
    healthy = f"{budget.status.current_healthy} healthy, {budget.status.desired_healthy} needed"
    planned = f", {reserved} in this plan" if reserved else ""
    return f"{budget.name} allows {budget.status.disruptions_allowed} ({healthy}{planned})"
