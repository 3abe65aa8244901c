"""What the service may do at this moment: the policy's mode, its time windows, and how old a snapshot may be.

`service.py` asks before every run, and before every eviction of a run.
"""

from typing import Literal, NamedTuple

from policy.schema import time_windows
from policy.schema.load_policy import LoadPolicy

Mode = Literal["Observe", "DryRun", "Enforce"]


PAUSED = "paused by the policy: nothing is done"


class Permission(NamedTuple):
    """The mode in force now and, where it is not the policy's own or nothing is done in it, why."""

    mode: Mode
    why: str = ""


class Cut(NamedTuple):
    """Why a run ended before its last eviction: one of `metrics.CUTS`, and in words."""

    reason: str
    words: str


def too_old(policy: LoadPolicy, age_seconds: float) -> Cut | None:
    """Why nothing more is evicted by a snapshot of that age, None if it may be acted on."""
    most_seconds = policy.descheduler.limits.max_snapshot_age_seconds
    if age_seconds <= most_seconds:
        return None
    words = f"the snapshot is {age_seconds:.0f} s old, {most_seconds:g} s allowed (limits.maxSnapshotAge)"
    return Cut("snapshot_age", words)


def permission(policy: LoadPolicy, now_seconds: float) -> Permission:
    """The mode in force: Enforce only inside the windows."""
    descheduler = policy.descheduler
    paused = PAUSED if descheduler.paused else ""
    if descheduler.mode == "Enforce" and not time_windows.is_open(descheduler.windows, now_seconds):
        return Permission("Observe", paused or "outside the time windows (descheduler.windows)")
    return Permission(descheduler.mode, paused)
