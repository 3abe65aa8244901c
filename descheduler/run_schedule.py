"""Permission to act at this moment: the policy's mode, its time windows, and the greatest age of a snapshot.

`service.py` asks before every run, and before every eviction of a run. Windows go by local time and calendar day; one
that ends before it begins runs into the next day and belongs to the day on which it began.
"""

import collections.abc
import datetime
import zoneinfo
from typing import Final, Literal, NamedTuple

from policy.schema import descheduler_section, node_pools
from policy.schema.load_policy import LoadPolicy

Mode = Literal["Observe", "DryRun", "Enforce"]

PAUSED = "paused by the policy: nothing is done"
STRENGTH: Final[tuple[Mode, ...]] = ("Observe", "DryRun", "Enforce")


class Permission(NamedTuple):
    """The mode in force now and, where it is not the policy's own or nothing is done in it, why."""

    mode: Mode
    why: str = ""


class Permissions(NamedTuple):
    """The permission of the nodes of each pool, in the policy's order, and of the nodes without a pool."""

    by_pool: tuple[tuple[str, Permission], ...]
    rest: Permission

    def at(self, place: int) -> Permission:
        """Returns the permission at the place of a pool; `NO_POOL` is that of nodes without one."""
        return self.rest if place == node_pools.NO_POOL else self.by_pool[place][1]

    @property
    def every(self) -> tuple[Permission, ...]:
        """Those of nodes without a pool first."""
        return (self.rest, *(permission for _, permission in self.by_pool))

    @property
    def strongest(self) -> Mode:
        """The mode that does most on some node: the mode of a run."""
        return max((one.mode for one in self.every), key=STRENGTH.index)

    def why(self, mode: Mode) -> str:
        """Returns why this mode is in force where the policy has another, "" if it is the policy's own."""
        return next((one.why for one in self.every if one.mode == mode and one.why), "")


class Cut(NamedTuple):
    """Why a run ended before its last eviction: one of `metrics.CUTS`, and in words."""

    reason: str
    words: str


def permission(policy: LoadPolicy, now_seconds: float, *, why_observe: str = "") -> Permission:
    """The mode in force: Enforce only inside the windows, and where nothing else is a reason to observe."""
    descheduler = policy.descheduler
    paused = PAUSED if descheduler.paused else ""
    if descheduler.mode != "Enforce":
        return Permission(descheduler.mode, paused)
    if not is_open(descheduler.windows, now_seconds):
        return Permission("Observe", paused or "outside the time windows (descheduler.windows)")
    return Permission("Observe", why_observe) if why_observe else Permission("Enforce", paused)


def permissions(policy: LoadPolicy, now_seconds: float, *, why_observe: str = "") -> Permissions:
    """The modes in force on the nodes of each pool, and on the others."""
    named = zip(policy.pools, policy.of_pools, strict=True)
    by_pool = tuple((pool.name, permission(one, now_seconds, why_observe=why_observe)) for pool, one in named)
    return Permissions(by_pool, permission(policy, now_seconds, why_observe=why_observe))


def is_open(windows: collections.abc.Sequence[descheduler_section.Window], now_seconds: float) -> bool:
    """Whether the moment (Unix seconds) lies in one of the windows; no window at all means always."""
    return not windows or any(_covers(window, now_seconds) for window in windows)


def _covers(window: descheduler_section.Window, now_seconds: float) -> bool:
    local = datetime.datetime.fromtimestamp(now_seconds, zoneinfo.ZoneInfo(window.time_zone))
    moment = f"{local:%H:%M}"
    today = descheduler_section.DAYS[local.weekday()]
    yesterday = descheduler_section.DAYS[local.weekday() - 1]
    if window.begins < window.ends:  # texts of one form, "HH:MM", in the order of their times
        return today in window.days and window.begins <= moment < window.ends
    return (today in window.days and moment >= window.begins) or (yesterday in window.days and moment < window.ends)
