"""Keeps the ledger fit for use: how long its rows stay, and what holds after a corrupt one was set aside.

`service.py` asks before it acts and prunes after runs; `__main__.py` sets how long rows are kept. A new ledger knows
nothing of the evictions before it, and caps and cool-downs are counted from it: so Enforce observes until all of
them would have run out, instead of evicting as if nothing had been evicted.
"""

import math
from typing import TYPE_CHECKING

from descheduler.snapshot.eviction_history import HOUR_SECONDS
from runtime import clock, logs

if TYPE_CHECKING:
    from descheduler.ledger.ledger import Ledger
    from policy.schema.load_policy import LoadPolicy

log = logs.get(__name__)

DAY_SECONDS = 24 * HOUR_SECONDS
KEPT_DAYS = 90
FEWEST_DAYS = 2  # evictions are followed for a day


class Pruning:
    """Deletes what is older than retention, once an hour."""

    def __init__(self, ledger: "Ledger", kept_days: int = KEPT_DAYS) -> None:
        self._ledger = ledger
        self._kept_seconds = kept_days * DAY_SECONDS
        self._last_seconds = -math.inf

    def prune(self, policy: "LoadPolicy", *, now_seconds: float) -> None:
        """Deletes, but never what the policy still counts by."""
        if 0 <= now_seconds - self._last_seconds < HOUR_SECONDS:
            return
        needed_seconds = looks_back_seconds(policy) + DAY_SECONDS
        deleted = self._ledger.prune(now_seconds - max(self._kept_seconds, needed_seconds))
        self._last_seconds = now_seconds
        if deleted:
            log.info("old evictions deleted from the ledger", rows=deleted)


def looks_back_seconds(policy: "LoadPolicy") -> float:
    """How far back caps, pauses and the count of returns look; of rows that are older only breakers say anything."""
    cooldown, breaker = policy.descheduler.cooldown, policy.descheduler.breaker
    pauses_seconds = cooldown.workload_seconds, cooldown.node_seconds, cooldown.ineffective.max_seconds
    return max(HOUR_SECONDS, cooldown.returned.window_seconds, breaker.max_seconds, *pauses_seconds)


def why_observe(ledger: "Ledger", policy: "LoadPolicy", *, now_seconds: float) -> str:
    """Why Enforce must only observe for the sake of the ledger, "" if it need not: one that replaced a corrupt one does
    not know what caps and cool-downs count by, for the hour of `perHour` or the longer of the plain cool-downs.
    """
    since_seconds, cooldown = ledger.set_aside_at_seconds(), policy.descheduler.cooldown
    if since_seconds is None:
        return ""
    until_seconds = since_seconds + max(HOUR_SECONDS, cooldown.workload_seconds, cooldown.node_seconds)
    if now_seconds >= until_seconds:
        return ""
    return (
        "the ledger was corrupt and was set aside, so earlier evictions are not known; "
        f"Enforce goes on at {clock.to_rfc3339(until_seconds)}"
    )
