"""Errors of the local control plane, each with the next step.

    ClusterError
    ├── BuildError       a binary could not be found or built
    └── ComponentError   a process did not start, died, or did not become ready

`__main__` prints the message and ends with an exit code; tests see the exception. Every message names the component,
gives the end of its log when there is one, and says what to do next.
"""

import collections
import pathlib

LOG_LINES_SHOWN = 15


class ClusterError(Exception):
    """The local control plane could not do what was asked."""


class BuildError(ClusterError):
    """A command of the control plane could not be found or built."""


class ComponentError(ClusterError):
    """A process of the control plane failed."""


def log_tail(path: pathlib.Path, lines: int = LOG_LINES_SHOWN) -> str:
    """The last lines of a log, indented; a sentence when there is none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            last = list(collections.deque(log, maxlen=lines))
    except FileNotFoundError:
        return f"  (no log at {path})"
    return "".join(f"  {line.rstrip()[:400]}\n" for line in last).rstrip() or f"  ({path} is empty)"
