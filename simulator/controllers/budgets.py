"""The disruption controller: what every PodDisruptionBudget still allows, from the pods that it covers.

The rule is that of kube-controller-manager:

    expectedPods       = the pods covered; or, for percentages and maxUnavailable, what their owners want to have
    desiredHealthy     = minAvailable, or expectedPods - maxUnavailable; percentages of expectedPods, rounded up
    currentHealthy     = pods Ready, not being deleted, and not evicted within the last two minutes
    disruptionsAllowed = max(0, currentHealthy - desiredHealthy), and 0 while nothing is expected

Pods are counted as they change; a status is written when somebody is about to read budgets, or to evict.
"""

import math
from typing import Any

from kube import errors, kinds
from kube.api.budgets import IntOrPercent
from kube.objects import DisruptionBudget, IdentifiedObject, OwnerReference, Pod, Scale
from runtime import clock as clocks
from simulator.apiserver import ApiServer
from simulator.controllers import budget_index

CONFIRMED_SECONDS = 120.0  # an eviction that no deletion followed is forgotten after that
COUNTED = ("disruptionsAllowed", "expectedPods", "currentHealthy", "desiredHealthy")
OWNERS: tuple[kinds.Kind[Any], ...] = (
    kinds.REPLICA_SETS,
    kinds.DEPLOYMENTS,
    kinds.STATEFUL_SETS,
    kinds.REPLICATION_CONTROLLERS,
)
SCALED = {kind.name: kinds.Kind(kind.path, kind.plural, kind.name, Scale) for kind in OWNERS}


class UnknownScaleError(Exception):
    """A pod's owner does not say how many it wants: the budget then allows nothing."""


class Budgets:
    """See the module. It needs no call: it subscribes to pods, budgets and owners."""

    def __init__(self, api: ApiServer, clock: clocks.Clock) -> None:
        self._api = api
        self._clock = clock
        self._budgets: dict[str, DisruptionBudget] = {}  # by key, as are all that follow
        self._covering = budget_index.BudgetIndex()
        self._scaling: dict[str, str] = {}  # the namespaces of those that ask what owners want
        self._stale: set[str] = set()
        self._settling = False
        api.subscribe(kinds.PODS, self._pod_changed)
        api.subscribe(kinds.BUDGETS, self._budget_changed)
        for kind in OWNERS:
            api.subscribe(kind, self._owner_changed)
        api.before_reading(kinds.BUDGETS, self._settle)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        self._stale.update(self._covering.take(old, new))

    def _budget_changed(self, old: DisruptionBudget | None, new: DisruptionBudget | None) -> None:
        if old is not None and (new is None or new.spec != old.spec):
            self._covering.forget(old)
            self._stale.discard(old.key)
            self._scaling.pop(old.key, None)
            del self._budgets[old.key]
        if new is not None:
            if new.key not in self._budgets:
                self._covering.guard(new)
            self._budgets[new.key] = new
            if _asks_for_scale(new):
                self._scaling[new.key] = new.namespace
            if not self._settling:
                self._stale.add(new.key)

    def _owner_changed(self, old: IdentifiedObject | None, new: IdentifiedObject | None) -> None:
        changed = new or old
        if self._scaling and changed is not None:
            self._stale.update(key for key, namespace in self._scaling.items() if namespace == changed.namespace)

    def _settle(self) -> None:
        if self._settling or not self._stale:
            return
        self._settling = True
        try:
            stale, self._stale = sorted(self._stale), set()
            for key in stale:
                self._write(self._budgets[key])
        finally:
            self._settling = False

    def _write(self, budget: DisruptionBudget) -> None:
        pods = self._covering.pods(budget)
        disrupted = self._unconfirmed(budget, pods)
        healthy = sum(pod.ready and not pod.deleting and name not in disrupted for name, pod in pods.items())
        try:
            expected, desired = self._wanted(budget, pods)
            allowed = max(0, healthy - desired) if expected > 0 else 0
        except UnknownScaleError:
            expected, desired, allowed = budget.status.expected_pods, budget.status.desired_healthy, 0
        if disrupted:
            self._stale.add(budget.key)  # to be looked at again when those are forgotten
        before = budget.status
        known = (before.disruptions_allowed, before.expected_pods, before.current_healthy, before.desired_healthy)
        counted = (allowed, expected, healthy, desired)
        if known == counted and budget.is_current and budget.disrupted_pods == disrupted:
            return
        status: dict[str, Any] = dict(zip(COUNTED, counted, strict=True))
        status["observedGeneration"] = budget.metadata.generation
        status["disruptedPods"] = {name: clocks.to_rfc3339(at_seconds) for name, at_seconds in disrupted.items()}
        self._api.rewrite(kinds.BUDGETS, budget.name, {"status": status}, namespace=budget.namespace)

    def _unconfirmed(self, budget: DisruptionBudget, pods: dict[str, Pod]) -> dict[str, float]:
        """Evictions accepted lately whose pods do not go away yet, with Unix seconds."""
        now_seconds = self._clock.now()
        return {
            name: at_seconds
            for name, at_seconds in budget.disrupted_pods.items()
            if name in pods and not pods[name].deleting and at_seconds + CONFIRMED_SECONDS > now_seconds
        }

    def _wanted(self, budget: DisruptionBudget, pods: dict[str, Pod]) -> tuple[int, int]:
        """expectedPods and desiredHealthy; a pod without an owner adds nothing to what owners want."""
        if not _asks_for_scale(budget):
            return len(pods), int(budget.spec.min_available or 0)
        owners = {(pod.namespace, pod.owner) for pod in pods.values() if pod.owner is not None}
        expected = sum(dict(self._wish(namespace, owner) for namespace, owner in owners).values())
        if budget.spec.max_unavailable is not None:
            return expected, max(0, expected - _of(budget.spec.max_unavailable, expected))
        return expected, _of(budget.spec.min_available or 0, expected)

    def _wish(self, namespace: str, owner: OwnerReference) -> tuple[str, int]:
        """The uid of the object that has the scale, and what it wants: a ReplicaSet's Deployment, if it has one."""
        try:
            if owner.kind == kinds.REPLICA_SETS.name:
                above = self._api.get(kinds.REPLICA_SETS, owner.name, namespace=namespace).owner
                owner = above or owner
            kind = SCALED.get(owner.kind) or self._custom(owner)
            scale = self._api.scale(kind, owner.name, namespace=namespace)
        except errors.NotFound as error:
            raise UnknownScaleError(str(error)) from error
        return scale.uid, scale.spec.replicas

    def _custom(self, owner: OwnerReference) -> kinds.Kind[Scale]:
        for one in self._api.resources(owner.api_version):
            if one.kind == owner.kind and "/" not in one.name:
                return kinds.Kind(f"apis/{owner.api_version}", one.name, owner.kind, Scale)
        raise UnknownScaleError(f"{owner.api_version} {owner.kind}")


def _asks_for_scale(budget: DisruptionBudget) -> bool:
    """Whether the budget speaks of what owners want, not of the pods that are there."""
    return budget.spec.max_unavailable is not None or isinstance(budget.spec.min_available, str)


def _of(amount: IntOrPercent, expected: int) -> int:
    """A number, or a percentage of the pods expected, rounded up."""
    if isinstance(amount, int):
        return amount
    return math.ceil(int(amount.removesuffix("%")) * expected / 100)
