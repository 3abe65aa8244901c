"""What the service may do at this moment: the policy's mode and its time windows.

`service.py` asks before every run, and before every eviction of a run.
"""

from typing import Literal, NamedTuple

from policy import windows
from policy.schema import LoadPolicy

Mode = Literal["Observe", "DryRun", "Enforce"]


PAUSED = "paused by the policy: nothing is done"


class Permission(NamedTuple):
    """The mode in force now and, where it is not the policy's own or nothing is done in it, why."""

    mode: Mode
    why: str = ""


def permission(policy: LoadPolicy, now_seconds: float) -> Permission:
    """The mode in force: Enforce only inside the windows."""
    descheduler = policy.descheduler
    paused = PAUSED if descheduler.paused else ""
    if descheduler.mode == "Enforce" and not windows.is_open(descheduler.windows, now_seconds):
        return Permission("Observe", paused or "outside the time windows (descheduler.windows)")
    return Permission(descheduler.mode, paused)
