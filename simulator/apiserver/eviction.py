"""May a pod be evicted? The rule of the real apiserver's eviction subresource over disruption budgets.

`writes.Writer.evict` asks before it deletes. The order is the real one's: a pod that does no work needs no leave; more
than one budget is an error; a pod that is not Ready may go where the budget's policy or its head-room says so; all else
costs one of `disruptionsAllowed`, which is written down with the pod's name until the budgets' controller has seen it.
"""

from collections.abc import Callable

from kube import kinds
from kube.objects import DisruptionBudget, Pod
from simulator.apiserver import refusals
from simulator.apiserver.state import State
from simulator.apiserver.storage import Body, Storage, Version

Rewrite = Callable[[Storage, Version, Body], None]
ALWAYS_ALLOW = "AlwaysAllow"


def permit(state: State, pod: Version, rewrite: Rewrite, *, dry_run: bool) -> None:
    """Return where the pod may be evicted, having charged its budget; TooManyRequests names the budget."""
    read = pod.decoded(kinds.PODS.type)
    if read.finished or read.phase == "Pending" or read.deleting:
        return
    shelf = state.shelf(kinds.BUDGETS)
    budgets = [one for one in shelf.within(read.namespace) if covers(one.decoded(kinds.BUDGETS.type), read)]
    if len(budgets) > 1:
        raise refusals.several_budgets(read.key)
    for version in budgets:
        budget = version.decoded(kinds.BUDGETS.type)
        if not read.ready and _spares_the_unready(budget):
            return
        _check(budget)
        if not dry_run:
            status: Body = version.body["status"]
            noted = {**(status.get("disruptedPods") or {}), read.name: state.stamp()}
            left = {"disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": noted}
            rewrite(shelf, version, {"status": {**status, **left}})


def covers(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the selector takes in a pod of the same namespace; a budget without a selector takes none."""
    return budget.spec.selector is not None and budget.spec.selector.matches(pod.labels)


def _spares_the_unready(budget: DisruptionBudget) -> bool:
    """Whether a pod that is not Ready anyway may go without being counted."""
    if budget.spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW:
        return True
    return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _check(budget: DisruptionBudget) -> None:
    if not budget.is_current:
        why = f"{budget.name} is not up to date: its status is of an older generation"
        raise refusals.budget(why, refusals.REPEAT_SECONDS)
    if budget.status.disruptions_allowed <= 0:
        healthy = f"{budget.status.current_healthy} pods are healthy and {budget.status.desired_healthy} have to be"
        raise refusals.budget(f"{budget.name} allows none now, {healthy}")
