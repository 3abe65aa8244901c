"""Mean use of an owner's replicas, hour by hour over the last week: the history behind a forecast.

`annotator.forecast_sync` writes one hour after the other; `annotator.forecast.expectation` reads all of them. An owner
is a row of two resources by 168 hours in single precision: 1.3 KB, so that `MOST_OWNERS` take 27 MB.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from policy.contract import owner_usage

Hours = npt.NDArray[np.float32]

DAY: Final = 24
WEEK: Final = 7 * DAY
HOUR_SECONDS: Final = 3600.0
MOST_OWNERS: Final = 20_000
RESOURCES: Final = 2


def hour_of(at_seconds: float) -> int:
    """The number of the hour (since 1970, UTC) that a moment is in."""
    return int(at_seconds // HOUR_SECONDS)


class OwnerHours:
    """The mean use of each owner's replicas in the last 168 full hours, in millicores and bytes; NaN where unknown.

    `last` is the newest hour written, None before the first. Used by one thread.
    """

    def __init__(self) -> None:
        self.last: int | None = None
        self._rows: dict[str, int] = {}
        self._values = _nothing(0)
        self._read: set[int] = set()

    def __len__(self) -> int:
        """How many owners have an hour."""
        return len(self._rows)

    @property
    def count(self) -> int:
        """How many of the last 168 hours were written."""
        return len(self._read)

    def missing(self, newest: int) -> int | None:
        """The newest hour up to `newest`, and within a week of it, that was not written yet; None if there is none."""
        return next((hour for hour in range(newest, newest - WEEK, -1) if hour not in self._read), None)

    def write(self, hour: int, means: Mapping[str, owner_usage.Mean]) -> None:
        """Take over what the replicas used in an hour; hours a week behind the newest one are forgotten."""
        self._advance(hour)
        for owner, mean in means.items():
            row = self._row(owner)
            if row is not None:
                amounts = (mean.cpu_millicores, mean.memory_bytes)
                self._values[row, :, hour % WEEK] = [np.nan if each is None else each for each in amounts]
        self._read.add(hour)

    def of(self, owners: Sequence[str]) -> Hours:
        """The hours of these owners [owners, resources, 168], hour h in column h % 168; NaN for an unknown owner."""
        rows = np.array([self._rows.get(owner, -1) for owner in owners], dtype=np.intp)
        found = self._values.take(rows, axis=0, mode="clip") if len(self._rows) else _nothing(len(rows))
        found[rows < 0] = np.nan
        return found

    def _advance(self, hour: int) -> None:
        """Make `hour` the newest, if it is, and forget what stood in the columns of the hours since."""
        if self.last is not None and hour <= self.last:
            return
        first = hour - WEEK + 1 if self.last is None else max(self.last + 1, hour - WEEK + 1)
        self._values[:, :, [each % WEEK for each in range(first, hour + 1)]] = np.nan
        self._read = {each for each in self._read if hour - WEEK < each <= hour}
        self.last = hour
        self._drop_unknown()

    def _drop_unknown(self) -> None:
        """Forget owners that were not measured for a week."""
        known = (
            np.isfinite(self._values[: len(self._rows)]).reshape(len(self._rows), RESOURCES * WEEK).sum(axis=1).tolist()
        )
        if not all(known):
            kept = [owner for owner, row in self._rows.items() if known[row]]
            values = self._values[[self._rows[owner] for owner in kept]]
            self._rows, self._values = {owner: row for row, owner in enumerate(kept)}, values

    def _row(self, owner: str) -> int | None:
        row = self._rows.get(owner)
        if row is None and len(self._rows) < MOST_OWNERS:
            row = self._rows[owner] = len(self._rows)
            if row >= len(self._values):
                self._values = np.concatenate((self._values, _nothing(row + 64)))
        return row


def _nothing(rows: int) -> Hours:
    return np.full((rows, RESOURCES, WEEK), np.nan, dtype=np.float32)
