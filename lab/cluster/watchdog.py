"""Ends a cluster's processes when the process that owns the cluster is gone, however it went.

`control_plane` starts it (`python -m lab.cluster.watchdog DIRECTORY`) beside a cluster used as a context manager and
holds the other end of its standard input. The kernel closes that end when the owner exits, even by SIGKILL; the
watchdog then stops what state.json records. A parent-death signal would not do: Linux sends it when the *thread* that
started the child ends (prctl(2)), and tests start components from short-lived threads.
"""

import pathlib
import shutil
import sys

from lab.cluster import state


def main(directory: pathlib.Path) -> None:
    """Waits for the end of standard input, then stops the cluster and removes its directory if it is temporary."""
    sys.stdin.buffer.read()
    recorded = state.read(directory)
    if recorded is None:
        return  # stopped in order; nothing is left to do
    state.stop(recorded, grace_seconds=2.0)
    if recorded.temporary:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
