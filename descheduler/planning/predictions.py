"""The load that an eviction is expected to leave on its node, 5 and 30 minutes later.

The planner stores `expected` with every eviction it chooses; `ledger.prediction_errors` compares it with measurements.
Pure; ratios of the node's capacity, of one metric.

    expected(t) = projected + (reading - projected) * shown(t)

`projected` is the plan's: the reading without this pod and all that left before it. shown(t) is how much of a load that
went t ago a metric still shows (`usage.shown_ratio`).
"""

from typing import Final, NamedTuple

from descheduler.snapshot import usage
from policy.schema.load_policy import LoadPolicy

# The columns with a node's load after an eviction, and how many seconds after the start of its run. Averages over five
# minutes leave no gap.
LOOK_BACKS: Final = {
    "load_5m_ratio": 300.0,
    "load_10m_ratio": 600.0,
    "load_15m_ratio": 900.0,
    "load_20m_ratio": 1200.0,
    "load_25m_ratio": 1500.0,
    "load_30m_ratio": 1800.0,
}


class ExpectedRatios(NamedTuple):
    """The metric on the node 5 and 30 minutes after the eviction; None where its window shows none of the relief by
    then, as an hour's maximum does not.
    """

    after_5m_ratio: float | None
    after_30m_ratio: float | None


def expected(policy: LoadPolicy, metric: str, *, value_ratio: float, projected_ratio: float) -> ExpectedRatios:
    """The prediction of an eviction whose node reads `value_ratio` and is projected to come down so far."""

    def after(seconds: float) -> float | None:
        shown_ratio = usage.shown_ratio(policy, metric, seconds)
        if shown_ratio >= 1.0:
            return None
        return max(0.0, projected_ratio + (value_ratio - projected_ratio) * shown_ratio)

    return ExpectedRatios(after(LOOK_BACKS["load_5m_ratio"]), after(LOOK_BACKS["load_30m_ratio"]))
