"""Python imports this at its start where PYTHONPATH has its directory: a signal at a chosen moment of a process.

A moment is an audit event (PEP 578): a file opened, a module imported, code executed, a process started. They are
counted from the first line of ours on, or from MOMENT_FROM, an event's name, in the process that MOMENT_OF chooses:
`command`, or `worker` for those that it starts.
"""

import os
import signal
import sys

_here = "worker" if "MOMENT_COMMAND" in os.environ else "command"
os.environ["MOMENT_COMMAND"] = "started"
_at, _from, _number = int(os.environ["MOMENT_AT"]), os.environ["MOMENT_FROM"], os.environ["MOMENT_SIGNAL"]
_parent, _default = os.getppid(), signal.default_int_handler
_count = 0


def _begins(event: str) -> bool:
    """Whether it is the event to count from: ours begins with a handler, or with what every entry point imports."""
    if _from:
        return event == _from
    return _here == "worker" or "click" in sys.modules or signal.getsignal(signal.SIGINT) is not _default


def _note(event: str, _arguments: object) -> None:
    global _count
    if _count == 0 and not _begins(event):
        return
    _count += 1
    if _count != _at:
        return
    if _number == "SIGINT":
        os.killpg(0, signal.SIGINT)  # as a terminal does: every process of the group
    elif os.getppid() == _parent:  # else another worker was first
        os.kill(_parent, signal.SIGKILL)


if _here == "command":  # what a script starts in the background ignores SIGINT, and CI may run so
    signal.signal(signal.SIGINT, _default)
if _here == os.environ["MOMENT_OF"]:
    sys.addaudithook(_note)
