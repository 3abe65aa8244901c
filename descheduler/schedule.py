"""What the service may do at this moment: the policy's mode, its time windows, and rules that this version does not
carry out.

`service.py` asks before every run; `__main__.py` refuses to start where the answer would be a surprise later.
"""

from typing import Literal, NamedTuple

from policy import windows
from policy.schema import LoadPolicy

Mode = Literal["Observe", "DryRun", "Enforce"]
FLOW_UNSUPPORTED = (
    "descheduler.flow: flow rules are not carried out by this version, so Enforce is refused rather than run without "
    "them; remove the rules or set mode to Observe or DryRun"
)


class Permission(NamedTuple):
    """The mode in force now and, where it is not the policy's own, why."""

    mode: Mode
    why: str = ""


def permission(policy: LoadPolicy, now_seconds: float) -> Permission:
    """The mode in force: Enforce only inside the windows and only if every rule of the policy is one we carry out."""
    descheduler = policy.descheduler
    if descheduler.mode != "Enforce":
        return Permission(descheduler.mode)
    if (problem := unsupported(policy)) is not None:
        return Permission("Observe", problem)
    if not windows.is_open(descheduler.windows, now_seconds):
        return Permission("Observe", "outside the time windows (descheduler.windows)")
    return Permission("Enforce")


def unsupported(policy: LoadPolicy) -> str | None:
    """Why this version must not enforce the policy, None if it may."""
    return FLOW_UNSUPPORTED if policy.descheduler.flow and policy.descheduler.mode == "Enforce" else None


class UnsupportedError(ValueError):
    """The policy asks for something this version does not carry out; the text says what to change."""


def require_supported(policy: LoadPolicy) -> None:
    """Refuses to start with a policy that this version must not enforce."""
    problem = unsupported(policy)
    if problem is not None:
        raise UnsupportedError(problem)
