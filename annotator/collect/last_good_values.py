"""Last good values of every node: the value of each metric and when it was last confirmed, as columns.

`annotator.collect.collector` makes one of each sync's answers and of the book before; `annotator.publish.write_plan`
compares it with what the nodes carry, `standing` and the metrics count in it. Five thousand nodes are looked
at at every sync, and most of them say what they said before: all of them at once, and by name only where one is
written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kube.objects import Node

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class NodeSet(NamedTuple):
    """The cluster's nodes as a sync finds them; names and uids in their order."""

    nodes: Sequence[Node]
    names: tuple[str, ...]
    uids: tuple[str, ...]

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> "NodeSet":
        """From whole nodes."""
        metadata = [node.metadata for node in nodes]
        return cls(nodes, tuple([one.name for one in metadata]), tuple([one.uid for one in metadata]))


class GoodValue(NamedTuple):
    """A good value (ratio) and the Unix time of the last successful query that returned it."""

    ratio: float
    confirmed_seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class LastGoodValues:
    """Values (ratios) and confirmations (Unix seconds), both [nodes, metrics]; NaN where nothing is held."""

    nodes: tuple[str, ...]
    metrics: tuple[str, ...]
    ratios: Floats
    confirmed_seconds: Floats

    @classmethod
    def of(cls, held: Mapping[str, Mapping[str, GoodValue]], metrics: Sequence[str]) -> "LastGoodValues":
        """From values by node and metric; what is held of other metrics is left out."""
        rows = [[values.get(name, _NOTHING) for name in metrics] for values in held.values()]
        both = np.array(rows, dtype=np.float64).reshape(len(held), len(metrics), 2)
        return cls(tuple(held), tuple(metrics), both[:, :, 0], both[:, :, 1])

    def column(self, metric: str) -> dict[str, float]:
        """The ratio of each node that has the metric."""
        if metric not in self.metrics:
            return {}
        ratios = self.ratios[:, self.metrics.index(metric)].tolist()
        return {name: ratio for name, ratio in zip(self.nodes, ratios, strict=True) if ratio == ratio}

    def silent(self) -> tuple[str, ...]:
        """The nodes of which nothing is held."""
        nothing = np.isnan(self.ratios).all(axis=1)
        return tuple([self.nodes[row] for row in np.flatnonzero(nothing).tolist()])

    def oldest_seconds(self) -> Floats:
        """When the least recently confirmed value of each node was confirmed [nodes]; NaN where nothing is held."""
        return np.asarray(np.fmin.reduce(self.confirmed_seconds, axis=1, initial=np.nan))

    def oldest_by_metric(self) -> dict[str, float]:
        """Returns the oldest confirmation of each metric that some node has."""
        oldest = np.fmin.reduce(self.confirmed_seconds, axis=0, initial=np.nan).tolist()
        return {name: seconds for name, seconds in zip(self.metrics, oldest, strict=True) if seconds == seconds}

    def aligned(self, nodes: tuple[str, ...], metrics: tuple[str, ...]) -> "LastGoodValues":
        """Returns the values for these nodes and metrics: none for new ones, the others are dropped."""
        if nodes == self.nodes and metrics == self.metrics:
            return self
        rows, columns = _places(self.nodes, nodes), _places(self.metrics, metrics)
        taken = [np.pad(each, (0, 1), constant_values=np.nan) for each in (self.ratios, self.confirmed_seconds)]
        return LastGoodValues(nodes, metrics, *(each[np.ix_(rows, columns)] for each in taken))

    def since(self, seconds: float) -> "LastGoodValues":
        """Returns only the values confirmed later than that (Unix seconds)."""
        late = self.confirmed_seconds > seconds
        return LastGoodValues(
            self.nodes, self.metrics, *(np.where(late, each, np.nan) for each in (self.ratios, self.confirmed_seconds))
        )

    def without(self, nodes: Sequence[str]) -> "LastGoodValues":
        """Returns the values without those of these nodes."""
        rows = _places(self.nodes, nodes)
        ratios, confirmed_seconds = self.ratios.copy(), self.confirmed_seconds.copy()
        ratios[rows], confirmed_seconds[rows] = np.nan, np.nan
        return LastGoodValues(self.nodes, self.metrics, ratios, confirmed_seconds)


_NOTHING: Final = GoodValue(np.nan, np.nan)
EMPTY: Final = LastGoodValues.of({}, ())


def _places(known: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where each wanted name is among the known ones; -1, the row of nothing, for one that is not there."""
    places = {name: place for place, name in enumerate(known)}
    return [places.get(name, -1) for name in wanted]
