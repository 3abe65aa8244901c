"""One metric of all nodes as an array: an annotator's answer without a query.

`door` makes a `Column` of the values of `node_windows`. The annotator takes it in the order of its nodes, which nearly
always is the scenario's; by name it is read only where some node has none, to say why.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from promql import readings
from simulator.usage.node_usage import Floats


class Column(Mapping[str, float]):
    """Ratios by node, NaN in `ratios` for those that have none and are not in the mapping."""

    def __init__(self, names: tuple[str, ...], ratios: Floats) -> None:
        self._names, self.ratios = names, ratios

    @functools.cached_property
    def _by_name(self) -> dict[str, float]:
        every = zip(self._names, self.ratios.tolist(), strict=True)
        return {name: ratio for name, ratio in every if ratio == ratio}

    def of(self, nodes: Sequence[str]) -> Floats:
        """In the order of these nodes."""
        if nodes == self._names:
            return self.ratios
        return np.array([self.get(node, np.nan) for node in nodes], dtype=np.float64)

    def __getitem__(self, node: str) -> float:
        return self._by_name[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.ratios == self.ratios))


class MetricColumns(readings.NodeValues):
    """A column as the good values of an answer."""

    __slots__ = ("_column",)
    _column: Column

    def __init__(self, column: Column) -> None:
        super().__init__(column, {}, ())
        object.__setattr__(self, "_column", column)

    def of(self, nodes: Sequence[str]) -> Floats:
        """See NodeValues."""
        return self._column.of(nodes)
