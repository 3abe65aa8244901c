"""Worker processes of `runs.crew`: each is a Python of its own at the other end of a socket.

A worker lives as long as its socket does: it ends at once, in the middle of a run and without a word, when this process
closes the socket or ends in whatever way. SIGINT is blocked in it from before it starts, because Ctrl-C reaches every
process of a terminal and is for the parent to answer. multiprocessing can do neither: a child whose parent ends while
it starts prints a traceback (EOFError), and one whose parent is killed stays for ever.
"""

import contextlib
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, Final, NoReturn, TypeAlias, cast

from runtime import interrupts

Job: TypeAlias = tuple[Any, ...]
Report = Callable[[object], None]
Work = Callable[[Job, Report], object]  # one job: reports while it goes on, and its result
RAISED: Final = (ValueError, OSError)  # of a job: raised again in the parent; anything else ends the worker

_BEGIN: Final = "import sys; sys.path[:] = sys.argv[2:]; from simulator import workers; workers.serve(int(sys.argv[1]))"
_REPORT, _RESULT, _ERROR = range(3)
_END: Final = b""  # no pickle is empty


class WorkerLost(Exception):
    """A worker ended in the middle of a job: the system killed it, or it failed in a way that nothing expects."""

    def __init__(self, returncode: int) -> None:
        super().__init__(
            "the system ended a run, most likely for want of memory: try --workers 1, or fewer nodes or days"
            if returncode < 0
            else f"a run failed with exit code {returncode}: the lines above say where; please report them"
        )


class Workers:
    """At most so many processes, each started when there is a job for it; `close` ends them."""

    def __init__(self, limit: int, work: Work) -> None:
        self._limit, self._work = limit, work
        self._processes: dict[Connection, subprocess.Popen[bytes]] = {}

    def run(self, jobs: Sequence[Job], watch: Callable[[Job, Any], None]) -> list[Any]:
        """The results in the order of the jobs; `watch` is called here with each report. Raises what a job raised
        (RAISED) and WorkerLost, after which jobs may still be going on: close then.
        """
        self._start(min(self._limit, len(jobs)))
        waiting, results = iter(enumerate(jobs)), [None] * len(jobs)
        busy = dict(zip(self._processes, waiting, strict=False))
        for connection, (_, job) in busy.items():
            self._send(connection, job)
        while busy:
            for connection in cast(list[Connection], wait(list(busy))):
                number, job = busy[connection]
                kind, value = self._receive(connection)
                if kind == _REPORT:
                    watch(job, value)
                    continue
                if kind == _ERROR:
                    raise value
                results[number] = value
                del busy[connection]
                if (following := next(waiting, None)) is not None:
                    busy[connection] = following
                    self._send(connection, following[1])
        return results

    def close(self) -> None:
        """End all, also in the middle of their jobs."""
        for connection in self._processes:
            connection.close()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def _start(self, count: int) -> None:
        begun = [_start() for _ in range(count - len(self._processes))]
        self._processes |= begun
        for connection, _ in begun:
            self._send(connection, self._work)

    def _send(self, connection: Connection, value: object) -> None:
        try:
            connection.send(value)
        except OSError:
            raise WorkerLost(self._processes[connection].wait()) from None

    def _receive(self, connection: Connection) -> tuple[int, Any]:
        try:
            message: tuple[int, Any] = connection.recv()
        except (EOFError, OSError):
            raise WorkerLost(self._processes[connection].wait()) from None
        return message


def _start() -> tuple[Connection, subprocess.Popen[bytes]]:
    ours, theirs = Pipe()
    command = [sys.executable, "-c", _BEGIN, str(theirs.fileno()), *sys.path]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process = subprocess.Popen(  # noqa: S603 - this Python itself, without a shell
            command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    return ours, process


def serve(descriptor: int) -> NoReturn:
    """The whole life of a worker: its work first, then job after job, until the parent closes the socket."""
    signal.signal(signal.SIGTERM, lambda *_: interrupts.leave(0))
    connection, received = Connection(descriptor), queue.SimpleQueue[bytes]()
    threading.Thread(target=_receive, args=(connection, received), name="receive", daemon=True).start()
    work: Work = _next(received)
    while True:
        job: Job = _next(received)
        try:
            answer = _RESULT, work(job, lambda report: _answer(connection, (_REPORT, report)))
        except RAISED as error:
            answer = _ERROR, error
        _answer(connection, answer)


def _next(received: queue.SimpleQueue[bytes]) -> Any:
    message = received.get()
    if message == _END:
        interrupts.leave(0)
    return pickle.loads(message)  # noqa: S301 - of the parent, over a socket that only it has


def _receive(connection: Connection, received: queue.SimpleQueue[bytes]) -> None:
    """On a thread of its own, so that the parent's end is noticed in the middle of a job. The signal alone would not
    do: one that comes while the main thread is about to wait for a job interrupts nothing, and the wait goes on.
    """
    with contextlib.suppress(EOFError, OSError):
        while True:
            received.put(connection.recv_bytes())
    received.put(_END)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)


def _answer(connection: Connection, answer: tuple[int, object]) -> None:
    try:
        connection.send(answer)
    except OSError:  # the parent is gone
        interrupts.leave(0)
