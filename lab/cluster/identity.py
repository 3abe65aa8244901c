"""Which process a pid means: the pid together with the moment it started, so that a reused pid is never signalled.

`processes` records an identity when it starts a component, `state` keeps it on disk, and `python -m lab.cluster down`
signals through it even after the parent crashed. Linux only: the start time is field 22 of /proc/PID/stat
(proc_pid_stat(5)), in clock ticks since boot; the boot id makes it unique over reboots.
"""

import contextlib
import os
import pathlib
import signal
import typing

_BOOT_ID = pathlib.Path("/proc/sys/kernel/random/boot_id")


class Identity(typing.NamedTuple):
    """One process for ever: no later process has the same three values."""

    pid: int
    started_ticks: int
    boot_id: str


def of(pid: int) -> Identity | None:
    """The identity of a living process; None when there is none (a zombie counts as none)."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot_id = _BOOT_ID.read_text(encoding="utf-8").strip()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, started_ticks = parse_stat(stat)
    return None if state in "ZX" else Identity(pid, started_ticks, boot_id)


def parse_stat(stat: str) -> tuple[str, int]:
    """State letter and start time of a /proc/PID/stat line; the command in parentheses may itself hold `) (`."""
    fields = stat.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def is_alive(identity: Identity) -> bool:
    """Whether this very process still runs."""
    return of(identity.pid) == identity


def send(identity: Identity, signal_number: signal.Signals) -> bool:
    """Signals this very process; False when it is gone.

    The pidfd is taken first and the identity compared after, so the pid cannot be reused in between.
    """
    try:
        handle = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return False
    try:
        if not is_alive(identity):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal_number)
        return True
    finally:
        os.close(handle)
