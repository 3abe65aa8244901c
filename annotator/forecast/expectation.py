"""Owners' hours -> the use to be expected of a replica in the hours to come, pure.

The expected use of an owner's replica in hour h is

    S(h) + PERSISTENCE^k * departure

S(h) is the mean of the same hour of the seven days before, each day weighing DAY_WEIGHT of the next. `departure` is by
how much its use departs from S of late: the mean of the present use less S of the present hour, and of the last full
hour less S of that hour; k says how many hours h is ahead. It is a seasonal naive forecast whose error is carried on
as a first-order autoregression (Hyndman and Athanasopoulos, Forecasting: Principles and Practice, 5.2 and 10.1).
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from annotator.forecast.owner_hours import DAY, WEEK, Hours

Floats = npt.NDArray[np.float64]

DAY_WEIGHT: Final = 0.7
PERSISTENCE: Final = 0.9


class Expected(NamedTuple):
    """Use per replica in the present hour and those after it [owners, resources, hours], NaN where nothing is known of
    that hour of the day, and the error of such a forecast [owners, resources], NaN where it is not known.
    """

    use: Floats
    error: Floats


def expected(hours: Hours, present: Floats, hour: int, ahead: int) -> Expected:
    """Computes the use expected from `hour`, the present one, to `hour + ahead`.

    `hours` [owners, resources, 168] as of `OwnerHours.of`, of which only those before `hour` are read; `present`
    [owners, resources] is the use now. The error is the root mean square of what S missed in the last full day.
    """
    seasonal = {each: _seasonal(hours, each, hour) for each in range(hour - DAY, hour + ahead + 1)}
    last = hours[:, :, (hour - 1) % WEEK].astype(np.float64)
    departures = np.array([present - seasonal[hour], last - seasonal[hour - 1]])
    departure = np.where(np.isnan(departures[1]), departures[0], departures.mean(axis=0))
    use = np.stack([seasonal[hour + k] + PERSISTENCE**k * departure for k in range(ahead + 1)], axis=-1)
    missed = [hours[:, :, each % WEEK] - seasonal[each] for each in range(hour - DAY, hour)]
    return Expected(np.maximum(use, 0.0), _root_mean_square(np.stack(missed, axis=-1)))


def _seasonal(hours: Hours, hour: int, present: int) -> Floats:
    """S(hour) by the full hours before `present` [owners, resources]; NaN where no day has that hour."""
    days = [hour - DAY * day for day in range(1, WEEK // DAY + 1)]
    known = [(DAY_WEIGHT**place, each % WEEK) for place, each in enumerate(days) if present - WEEK <= each < present]
    weights = np.array([weight for weight, _ in known])
    values = hours[:, :, [column for _, column in known]].astype(np.float64)
    there = ~np.isnan(values)
    total = (there * weights).sum(axis=-1)
    summed = (np.where(there, values, 0.0) * weights).sum(axis=-1)
    return np.asarray(np.divide(summed, total, where=total > 0, out=np.full(total.shape, np.nan)))


def _root_mean_square(missed: Floats) -> Floats:
    """Over the last axis, of what is known: at least half of it."""
    there = ~np.isnan(missed)
    count = there.sum(axis=-1)
    squares = np.where(there, missed, 0.0) ** 2
    enough = count >= missed.shape[-1] / 2
    mean = np.divide(squares.sum(axis=-1), count, where=enough, out=np.full(count.shape, np.nan))
    return np.asarray(np.sqrt(mean))
