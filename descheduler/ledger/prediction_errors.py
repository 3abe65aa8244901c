"""Difference between the load that an eviction was expected to leave on its node and the measured load.

`planning.departed_load` predicts, `eviction.followup` measures and stores what else moved, `http.views` and the metrics
show `error_ratio` and `stayed_under_line`. Pure; ratios of the node's capacity, of one metric.

    expected(t)   of `planning.departed_load`
    moved(t)    = sum over arrivals known to the ledger of share * (arrived(at t) - arrived(at the decision))
                  - sum over departures decided later of share * (1 - shown(t - since they went))
    error(t)    = measured(t) - (expected(t) + moved(t))

shown(t) is how much of a load that went t ago a metric still shows (`usage.shown_ratio`), arrived(t) how much of one
that came t ago: min(1, t / W), with W the averaging window. A pod's share is what it used over the node's capacity; its
replacement is taken to use as much. Load that no eviction moved (the scheduler's pods, changed demand) is in the error,
and so is the pod's own return.
"""

import collections.abc
from typing import Final, Literal

from descheduler.ledger.rows import DONE, Row
from descheduler.planning.departed_load import LOOK_BACKS
from descheduler.snapshot import usage
from policy import metrics
from policy.schema.load_policy import LoadPolicy

After = Literal["5m", "30m"]
PREDICTED: Final[tuple[After, ...]] = ("5m", "30m")
# The looks by which a prediction is judged, and the one after which nothing more is measured.
JUDGED: Final[dict[str, After]] = {f"load_{after}_ratio": after for after in PREDICTED}
LAST_LOOK: Final = "load_30m_ratio"


def moved_ratio(row: Row, others: collections.abc.Iterable[Row], policy: LoadPolicy, moment: float) -> float:
    """Returns the ratio that other evictions moved on the row's node between its decision and the moment, as the metric
    shows it then.

    `others` are rows of the same mode that may have ended up on the node or left it; the row itself may be among them.
    """
    moved = 0.0
    for other in others:
        if other.id == row.id or other.result not in DONE:
            continue
        if other.landed_node == row.node and other.landed_at_seconds is not None:
            before, then = row.at_seconds - other.landed_at_seconds, moment - other.landed_at_seconds
            grown = _arrived(policy, row, then) - _arrived(policy, row, before)
            moved += _share(other, row, policy) * grown
        if other.node == row.node and other.id > row.id and other.gone_at_seconds is not None:
            shown_ratio = usage.shown_ratio(policy, row.metric, moment - other.gone_at_seconds)
            moved -= _share(other, row, policy) * (1.0 - shown_ratio)
    return moved


def error_ratio(row: Row, after: After) -> float | None:
    """Measured minus expected: above 0 the node was hotter than planned. None without prediction or measurement."""
    load, foretold, moved = (getattr(row, f"{name}_{after}_ratio") for name in ("load", "expected", "moved"))
    return None if None in (load, foretold, moved) else float(load - (foretold + moved))


def stayed_under_line(row: Row) -> bool | None:
    """Whether every reading until 30 minutes after the eviction was at or under the line that triggers; False as soon
    as one is over it, None while one is missing.
    """
    loads: list[float | None] = [getattr(row, column) for column in LOOK_BACKS]
    if any(load is not None and usage.over(load, row.threshold_ratio) for load in loads):
        return False
    return None if None in loads else True


def _arrived(policy: LoadPolicy, row: Row, age_seconds: float) -> float:
    """How much of a load that came so long ago the row's metric shows; 0 of one that comes later."""
    return min(1.0, max(0.0, age_seconds / usage.window_of(policy, row.metric)))


def _share(other: Row, row: Row, policy: LoadPolicy) -> float:
    """Returns the use of the other pod as a ratio of the row's node, scaled from the row's own pod."""
    resources = usage.resources_of(policy)
    resource = resources[row.metric]
    if metrics.place(resource) is None:  # of a resource of shares the ledger has the one that a pod was evicted for
        return other.before_ratio - other.projected_ratio if resources.get(other.metric) == resource else 0.0
    own, others = (one.cpu_millicores if resource == metrics.CPU else one.memory_bytes for one in (row, other))
    return others / own * (row.before_ratio - row.projected_ratio) if own > 0 else 0.0
