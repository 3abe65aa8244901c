"""Watches disruption budgets for the one thing that must not happen: fewer healthy pods than the budget demands.

`phases` runs a Watcher beside each phase over the disruption controller's status. A budget counts from the moment it
was first met: before that its pods are only starting. A budget that is deleted (its owner leaves) is forgotten.
"""

import threading

from kube import objects


class Watcher:
    """Counts violations: each time a budget that was met falls under its demand. `on_change` fits a reflector."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[str, bool] = {}
        self._violations: list[str] = []

    def on_change(self, old: objects.DisruptionBudget | None, new: objects.DisruptionBudget | None) -> None:
        """A budget appeared, changed or went."""
        with self._lock:
            if new is not None and not new.deleting:
                self._note(new)
            elif (gone := new or old) is not None:
                self._met.pop(gone.uid, None)

    def _note(self, budget: objects.DisruptionBudget) -> None:
        if budget.status.expected_pods == 0:
            return
        met = budget.status.current_healthy >= budget.status.desired_healthy
        if self._met.get(budget.uid) and not met:
            healthy, desired = budget.status.current_healthy, budget.status.desired_healthy
            self._violations.append(f"{budget.namespace}/{budget.name}: {healthy} healthy, {desired} demanded")
        if met or budget.uid in self._met:
            self._met[budget.uid] = met

    @property
    def violations(self) -> tuple[str, ...]:
        """Every violation so far, in words."""
        with self._lock:
            return tuple(self._violations)
