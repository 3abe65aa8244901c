"""What the service may do at this moment: the policy's mode and its time windows.

`service.py` asks before every run, and before every eviction of a run.
"""

from typing import Literal, NamedTuple

from policy import windows
from policy.schema import LoadPolicy

Mode = Literal["Observe", "DryRun", "Enforce"]


class Permission(NamedTuple):
    """The mode in force now and, where it is not the policy's own, why."""

    mode: Mode
    why: str = ""


def permission(policy: LoadPolicy, now_seconds: float) -> Permission:
    """The mode in force: Enforce only inside the windows."""
    descheduler = policy.descheduler
    if descheduler.mode != "Enforce":
        return Permission(descheduler.mode)
    if not windows.is_open(descheduler.windows, now_seconds):
        return Permission("Observe", "outside the time windows (descheduler.windows)")
    return Permission("Enforce")
