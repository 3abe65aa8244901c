"""Use of pods by name, without an encoded answer: for services that run in the simulator's process.

`door` makes it of the values of `pod_windows`, which are by place. A StatefulSet's pod comes back under its name, at
another place: while a window shows both, only who is asked (`promql.readings`) says what becomes of them.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from simulator.prometheus.pod_windows import PodValues
from simulator.usage.node_usage import Floats, Numbers
from simulator.usage.pod_usage import PodUsage

NOBODY = -1  # the place of a name that no pod has had: the last of the amounts, which is that nothing is known


class Names:
    """The names ("namespace/name") that pods have had, each with its newest place."""

    def __init__(self, pods: PodUsage) -> None:
        self._pods = pods
        self._places: dict[str, int] = {}
        self._known = 0  # places whose names are known
        self._older: list[int] = []  # places whose names have a newer one
        self._asked: Sequence[str] = ()
        self._answered = np.empty(0, np.int64)

    def amounts(self, values: PodValues) -> "Amounts | None":
        """These values by name; None where some name may have two of them."""
        self._catch_up()
        by_place = np.full(self._known + 1, np.nan)
        by_place[values.places] = values.values
        if not np.isnan(by_place[self._older]).all():
            return None
        return Amounts(self, by_place, values.values)

    def places(self, names: Sequence[str]) -> Numbers:
        """The newest place of each name, NOBODY where there is none; for the same names as the last time at once."""
        if names is not self._asked:
            found = map(self._places.get, names, itertools.repeat(NOBODY))
            self._asked, self._answered = names, np.fromiter(found, np.int64, len(names))
        return self._answered

    def _catch_up(self) -> None:
        for labels in self._pods.labels[self._known :]:
            name = f"{labels['namespace']}/{labels['pod']}"
            if name in self._places:
                self._older.append(self._places[name])
            self._places[name] = self._known
            self._known += 1
            self._asked = ()


class Amounts:
    """Use of one resource by pods, as `owner_means.Amounts`; `known` are those that have a value."""

    def __init__(self, names: Names, by_place: Floats, known: Floats) -> None:
        self._names, self._by_place = names, by_place
        self.known = known

    def of(self, pods: Sequence[str]) -> Floats:
        """In the order of these pods, NaN where one is not measured."""
        return np.asarray(self._by_place[self._names.places(pods)])
