"""The load that an eviction is expected to leave on its node, and by how much the measured load differs.

`planning.py` keeps `expected` with every eviction it chooses, `following.py` measures and keeps what else moved,
`views.py` and the metrics show `error_ratio` and `relief`. Pure; ratios of the node's capacity, of one metric.

    expected(t) = projected + (reading - projected) * shown(t)
    moved(t)    = sum over arrivals known to the ledger of share * (arrived(at t) - arrived(at the decision))
                  - sum over departures decided later of share * (1 - shown(t - since they went))
    error(t)    = measured(t) - (expected(t) + moved(t))

`projected` is the plan's: the reading without this pod and all that left before it. shown(t) is how much of a load that
went t ago a metric still shows (`usage.shown_ratio`), arrived(t) how much of one that came t ago: min(1, t / W), with
W the averaging window. A pod's share is what it used over the node's capacity; its replacement is taken to use as much.
Load that no eviction moved (the scheduler's pods, changed demand) is in the error, and so is the pod's own return.
"""

from typing import Final, NamedTuple

from descheduler import usage
from policy.schema import LoadPolicy

# When the node's load is measured after an eviction (seconds), by column. Averages over 5 minutes leave no gap.
LOOK_BACKS: Final = {
    "load_5m_ratio": 300.0,
    "load_10m_ratio": 600.0,
    "load_15m_ratio": 900.0,
    "load_20m_ratio": 1200.0,
    "load_25m_ratio": 1500.0,
    "load_30m_ratio": 1800.0,
}


class Expected(NamedTuple):
    """The metric on the node 5 and 30 minutes after the eviction; None where its window shows none of the relief by
    then, as an hour's maximum does not.
    """

    after_5m_ratio: float | None = None
    after_30m_ratio: float | None = None


NOT_PREDICTED: Final = Expected()


def expected(policy: LoadPolicy, metric: str, *, value_ratio: float, projected_ratio: float) -> Expected:
    """The prediction of an eviction whose node reads `value_ratio` and is projected to come down so far."""

    def after(seconds: float) -> float | None:
        shown_ratio = usage.shown_ratio(policy, metric, seconds)
        if shown_ratio >= 1.0:
            return None
        return max(0.0, projected_ratio + (value_ratio - projected_ratio) * shown_ratio)

    return Expected(after(LOOK_BACKS["load_5m_ratio"]), after(LOOK_BACKS["load_30m_ratio"]))
