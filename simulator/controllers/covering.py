"""Which budgets cover a pod: an index by label, because a namespace may have a budget for every workload.

`budgets` keeps one and asks it at every change of a pod.
"""

import collections
from collections.abc import Iterator, Mapping

from kube.objects import DisruptionBudget, Pod

Shelf = dict[str, DisruptionBudget]  # by key
Place = tuple[str, str, str]  # namespace, label and its value; "" and "" for budgets whose selector names no value


class Covering:
    """Budgets under the first label that their selector demands."""

    def __init__(self) -> None:
        self._shelves: dict[Place, Shelf] = collections.defaultdict(dict)
        self._places: dict[str, Place] = {}

    def put(self, budget: DisruptionBudget) -> None:
        """Keep the newest state of a budget."""
        self.drop(budget)
        wanted = budget.selector.match_labels if budget.selector is not None else {}
        place = (budget.namespace, *next(iter(wanted.items()), ("", "")))
        self._places[budget.key] = place
        self._shelves[place][budget.key] = budget

    def drop(self, budget: DisruptionBudget) -> None:
        """Forget a budget, if it is known."""
        place = self._places.pop(budget.key, None)
        if place is not None:
            del self._shelves[place][budget.key]

    def of(self, pod: Pod) -> list[DisruptionBudget]:
        """The budgets that cover a pod by the labels that it has."""
        return [one for one in self._candidates(pod.namespace, pod.labels) if covers(one, pod)]

    def _candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[DisruptionBudget]:
        for label in (("", ""), *labels.items()):
            found = self._shelves.get((namespace, *label))
            if found:
                yield from found.values()


def covers(budget: DisruptionBudget, pod: Pod) -> bool:
    """Whether the selector takes the pod in; a budget without a selector takes none."""
    return budget.namespace == pod.namespace and budget.selector is not None and budget.selector.matches(pod.labels)
