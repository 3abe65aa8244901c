"""The life of one worker process, as its parent sees it."""

import subprocess
import sys
from multiprocessing.connection import Pipe

PATIENCE_SECONDS = 120.0
# A signal that comes between Python's look for one and the system call that waits for a job is not looked at any more.
DEAF = "import signal, sys; signal.pthread_kill = lambda *_: None; from simulator import workers; "


def test_a_worker_that_waits_for_a_job_ends_although_the_signal_came_too_early() -> None:
    ours, theirs = Pipe()
    command = [sys.executable, "-c", DEAF + f"workers.serve({theirs.fileno()})"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        ours.send(print)
        ours.close()
        try:
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
