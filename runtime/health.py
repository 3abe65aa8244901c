"""Health of a service for /livez and /readyz: named checks, and the heartbeat of a loop.

Services list their checks when they wire themselves; `runtime.ops_server` serves what `render` makes of them. Liveness
looks only at loops (a dead Prometheus must not restart the service); readiness at caches and the policy.
"""

import threading
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from runtime import clock


class Check(NamedTuple):
    """A name and a probe that gives None when all is well, else the reason in a few words.

    `detail`, if given, is shown by ?verbose beside an ok: what is in force, or what is amiss without making the service
    unready.
    """

    name: str
    probe: Callable[[], str | None]
    detail: Callable[[], str] | None = None


class Heartbeat:
    """When a loop last finished a cycle, by a monotonic clock: setting the machine's time must not kill a process."""

    def __init__(self) -> None:
        self._last_seconds: float | None = None

    def beat(self, monotonic_seconds: float) -> None:
        """Note that the loop lives at this moment (Clock.monotonic())."""
        self._last_seconds = monotonic_seconds

    def age_seconds(self, monotonic_seconds: float) -> float:
        """Seconds since the last beat.

        0 before the first: a loop that has not begun (a follower's, say) is not late.
        """
        last_seconds = self._last_seconds
        return 0.0 if last_seconds is None else max(0.0, monotonic_seconds - last_seconds)

    def check(self, name: str, ticking: clock.Clock, *, limit_seconds: Callable[[], float]) -> Check:
        """A check that fails once the last beat is older than the limit (a callable: policies reload)."""

        def probe() -> str | None:
            age_seconds, limit = self.age_seconds(ticking.monotonic()), limit_seconds()
            return None if age_seconds <= limit else f"no cycle finished for {age_seconds:.0f} s (limit {limit:.0f} s)"

        return Check(name, probe)


def event_check(name: str, event: threading.Event, reason: str) -> Check:
    """A check that holds once an event is set, as a reflector's `synced`; `reason` says what is awaited."""
    return Check(name, lambda: None if event.is_set() else reason)


def render(checks: Sequence[Check], *, verbose: bool, exclude: Collection[str] = ()) -> tuple[int, str]:
    """HTTP status and body: 200 or 503; one `[+]name ok` or `[-]name failed: reason` a line.

    A healthy answer without `verbose` is just `ok`; a failing one always lists everything, though only `verbose` makes
    details, which may cost something. Excluded checks are not probed.
    """
    reasons = [None if check.name in exclude else check.probe() for check in checks]
    failed = any(reason is not None for reason in reasons)
    if not failed and not verbose:
        return 200, "ok\n"
    lines = [
        f"[+]{check.name} excluded: ok" if check.name in exclude else _line(check, reason, verbose=verbose)
        for check, reason in zip(checks, reasons, strict=True)
    ]
    return (503 if failed else 200), "\n".join([*lines, "check failed" if failed else "check passed", ""])


def _line(check: Check, reason: str | None, *, verbose: bool) -> str:
    if reason is not None:
        return f"[-]{check.name} failed: {reason}"
    return f"[+]{check.name} ok" + (f": {check.detail()}" if verbose and check.detail else "")
