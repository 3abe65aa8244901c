"""How the breakers stand: per workload whose evictions failed, whether it rests, may try once, or waits for a reset.

GET /breaker and `evenload breaker` show it; `limits.Caps` decides by the same formula, from the ledger's rows
(`ledger.history_from_rows`). A breaker closes with the next eviction or dry run that succeeds, or by POST
/breaker/reset.
"""

import collections.abc
import math
from typing import Literal, NamedTuple

from descheduler.planning import limits
from descheduler.snapshot.eviction_history import Failures
from policy.schema.descheduler_section import Descheduler

State = Literal["closed", "open", "trial", "open until reset"]


class Breaker(NamedTuple):
    """One workload: failures in a row, the last of them, and until when it rests (None: it does not, or for ever)."""

    uid: str
    namespace: str
    workload: str
    failures: int
    last_at_seconds: float
    state: State
    until_seconds: float | None


def standing(
    failures: collections.abc.Mapping[str, Failures],
    named: collections.abc.Callable[[str], tuple[str, str]],
    descheduler: Descheduler,
    *,
    now_seconds: float,
) -> tuple[Breaker, ...]:
    """The breakers, most failures first; `named` gives a workload's namespace and "Kind/name" by its uid."""
    breakers = [_breaker(uid, one, named(uid), descheduler, now_seconds=now_seconds) for uid, one in failures.items()]
    return tuple(sorted(breakers, key=lambda one: (-one.failures, one.namespace, one.workload, one.uid)))


def _breaker(
    uid: str, failed: Failures, name: tuple[str, str], descheduler: Descheduler, *, now_seconds: float
) -> Breaker:
    closed = Breaker(uid, *name, failed.in_a_row, failed.last_at_seconds, "closed", None)
    if failed.in_a_row < descheduler.breaker.failures:
        return closed
    until_seconds = failed.last_at_seconds + limits.breaker_seconds(descheduler, uid, failed.in_a_row)
    if math.isinf(until_seconds):
        return closed._replace(state="open until reset")
    return closed._replace(state="open" if now_seconds < until_seconds else "trial", until_seconds=until_seconds)
