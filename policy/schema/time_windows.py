"""When Enforce may act: the descheduler's time windows, by local time and calendar day.

The descheduler asks `is_open` before each run; outside all windows it only observes. A window that ends before it
begins runs into the next day and belongs to the day on which it began.
"""

import collections.abc
import datetime
import zoneinfo

from policy.schema import descheduler_section


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
