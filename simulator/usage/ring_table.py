"""A table that grows row by row and keeps the newest: what a Prometheus with a short memory has of its targets.

Rows are numbered from wherever the first one was and looked up by these numbers. `node_usage.UsageBook` keeps one row a
scrape in it, `prometheus.node_windows` one row an evaluation.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


class RowExpired(LookupError):
    """The row asked for is older than what is kept."""


class RingTable:
    """At least the last `kept` rows of one shape.

    `begin` is the number of the first row ever, `oldest` of the first one still held, `end` of the next one to come.
    """

    def __init__(self, shape: tuple[int, ...], *, begin: int, capacity: int) -> None:
        self._capacity = capacity
        self._held = np.empty((capacity + capacity // 4 + 1, *shape))
        self.begin = self.oldest = self.end = begin

    def append(self, rows: Floats) -> None:
        """Add rows to the end; the oldest leave when the room is used up."""
        used, self.end = self.end - self.oldest, self.end + len(rows)
        added = rows[-self._capacity :]  # of more than that, the first are too old already
        stay = used
        if used + len(rows) > len(self._held):
            stay = min(used, self._capacity - len(added))
            gone = used - stay
            for first in range(0, stay, max(gone, 1)):  # in parts: of those that overlap numpy makes a copy first
                end = min(first + gone, stay)
                self._held[first:end] = self._held[first + gone : end + gone]
        self._held[stay : stay + len(added)] = added
        self.oldest = self.end - stay - len(added)

    def between(self, first: int, end: int) -> Floats:
        """The rows of these numbers, not to be written to. Forgotten if one is not held any more."""
        self._check(first)
        return self._held[first - self.oldest : end - self.oldest]

    def __getitem__(self, number: int) -> Floats:
        """One row."""
        self._check(number)
        return np.asarray(self._held[number - self.oldest])

    def at(self, numbers: Numbers, *places: Numbers | int) -> Floats:
        """One element for each number (and place in its row), as numpy indexes."""
        if numbers.size:
            self._check(int(numbers.min()))
        return np.asarray(self._held[(numbers - self.oldest, *places)])

    def _check(self, number: int) -> None:
        if number < self.oldest:
            raise RowExpired(f"row {number} is not held any more, the oldest is {self.oldest}")
