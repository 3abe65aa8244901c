"""Whether a reading may still be used: the freshness rule of docs/contract.md, heartbeat and freshness.

The extender asks for every node before it fills its load columns (`mask`), and /nodes shows the state of each
(`usable`). The effective time comes from `policy.contract.heartbeat`: the later of a reading's own time and the last
heartbeat that confirmed it.
"""

from typing import Final, Literal

import numpy as np
import numpy.typing as npt

State = Literal["usable", "stale", "future", "missing"]

# Clocks of two machines differ by this much without an error.
MAX_AHEAD_SECONDS: Final = 60.0


def usable(effective_seconds: float | None, now_seconds: float, stale_after_seconds: float) -> State:
    """`usable` iff now < effective + stale_after and effective <= now + 1 min; None or NaN is `missing`."""
    if effective_seconds is None or effective_seconds != effective_seconds:
        return "missing"
    if effective_seconds > now_seconds + MAX_AHEAD_SECONDS:
        return "future"
    return "usable" if now_seconds < effective_seconds + stale_after_seconds else "stale"


def mask(
    effective_seconds: npt.NDArray[np.float64], now_seconds: float, stale_after_seconds: float
) -> npt.NDArray[np.bool_]:
    """Applies the rule to all nodes at once: True where usable; NaN stands for a missing reading."""
    fresh = now_seconds < effective_seconds + stale_after_seconds
    return fresh & (effective_seconds <= now_seconds + MAX_AHEAD_SECONDS)
