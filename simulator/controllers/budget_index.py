"""Which budgets cover a pod, and which pods a budget: kept up to date, and found by label, as a namespace may have a
budget for every workload and thousands of pods.

`budgets` keeps one: most changes of a pod leave its labels as they were, and then only its newest state is taken.
"""

import collections
from collections.abc import Collection

from kube.objects import DisruptionBudget, Pod
from simulator.apiserver import eviction

Place = tuple[str, str, str]  # namespace, label and its value; "" and "" is every pod, and budgets that demand no value
_NO_LABEL = ("", "")


class BudgetIndex:
    """Pods under each of their labels, budgets under the first one that their selector demands."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._named: dict[Place, dict[str, None]] = collections.defaultdict(dict)  # keys of pods, in order
        self._budgets: dict[Place, dict[str, DisruptionBudget]] = collections.defaultdict(dict)
        self._covered: dict[str, dict[str, None]] = {}  # by key of the budget: keys of pods
        self._guards: dict[str, dict[str, None]] = {}  # by key of the pod: keys of budgets

    def take(self, old: Pod | None, new: Pod | None) -> Collection[str]:
        """Take a change of a pod; gives the keys of the budgets that it may matter to."""
        if old is not None and new is not None and old.labels == new.labels:
            key = new.key
            self._pods[key] = new
            return self._guards[key]
        before = self._drop(old) if old is not None else ()
        return (*before, *self._add(new)) if new is not None else before

    def guard(self, budget: DisruptionBudget) -> None:
        """Take a new budget."""
        place, covered = _place(budget), self._covered.setdefault(budget.key, {})
        self._budgets[place][budget.key] = budget
        for key in self._named.get(place, ()):
            if eviction.covers(budget, self._pods[key]):
                covered[key] = self._guards[key][budget.key] = None

    def forget(self, budget: DisruptionBudget) -> None:
        """A budget is no more."""
        del self._budgets[_place(budget)][budget.key]
        for key in self._covered.pop(budget.key):
            del self._guards[key][budget.key]

    def pods(self, budget: DisruptionBudget) -> dict[str, Pod]:
        """The pods that a known budget covers, by name."""
        return {self._pods[key].name: self._pods[key] for key in self._covered[budget.key]}

    def _add(self, pod: Pod) -> Collection[str]:
        key, guards = pod.key, dict[str, None]()
        self._guards[key], self._pods[key] = guards, pod
        for place in _places(pod):
            self._named[place][key] = None
            for name, budget in self._budgets.get(place, {}).items():
                if eviction.covers(budget, pod):
                    guards[name] = self._covered[name][key] = None
        return guards

    def _drop(self, pod: Pod) -> Collection[str]:
        key = pod.key
        del self._pods[key]
        for place in _places(pod):
            named = self._named[place]
            del named[key]
            if not named:
                del self._named[place]
        guards = self._guards.pop(key)
        for name in guards:
            del self._covered[name][key]
        return guards


def _place(budget: DisruptionBudget) -> Place:
    wanted = budget.spec.selector.match_labels if budget.spec.selector is not None else {}
    return (budget.namespace, *next(iter(wanted.items()), _NO_LABEL))


def _places(pod: Pod) -> list[Place]:
    namespace = pod.namespace
    return [(namespace, *label) for label in (_NO_LABEL, *pod.labels.items())]
