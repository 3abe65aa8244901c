"""Permission to act at this moment: the policy's mode, its time windows, and the greatest age of a snapshot.

`service.py` asks before every run, and before every eviction of a run. Windows go by local time and calendar day; one
that ends before it begins runs into the next day and belongs to the day on which it began.
"""

import collections.abc
import datetime
import zoneinfo
from typing import Literal, NamedTuple

from policy.schema import descheduler_section
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
    if descheduler.mode == "Enforce" and not is_open(descheduler.windows, now_seconds):
        return Permission("Observe", paused or "outside the time windows (descheduler.windows)")
    return Permission(descheduler.mode, paused)


def is_open(windows: collections.abc.Sequence[descheduler_section.Window], now_seconds: float) -> bool:
    """Whether the moment (Unix seconds) lies in one of the windows; no window at all means always."""
    return not windows or any(_covers(window, now_seconds) for window in windows)


def _covers(window: descheduler_section.Window, now_seconds: float) -> bool:
    local = datetime.datetime.fromtimestamp(now_seconds, zoneinfo.ZoneInfo(window.time_zone))
    minute = local.hour * 60 + local.minute
    begins, ends = _minutes(window.begins), _minutes(window.ends)
    today = descheduler_section.DAYS[local.weekday()]
    yesterday = descheduler_section.DAYS[local.weekday() - 1]
    if begins < ends:
        return today in window.days and begins <= minute < ends
    return (today in window.days and minute >= begins) or (yesterday in window.days and minute < ends)


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)
