"""Starts our commands as `python -m NAME` does, out of a process that has imported what they import.

The suites start hundreds of services and commands, and an interpreter takes most of a second of processor time to
import them. So each worker has one process (multiprocessing's fork server) that did, and a start is a fork of it: the
command's own `__main__`, with its arguments, environment, directory and output. How long a start takes, its memory and
its command line are measured and tested with interpreters of their own (lab/bench/, the image, `make run`).
"""

import atexit
import contextlib
import faulthandler
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext
from typing import IO, Final, NamedTuple

from lab.cluster import processes

ROOT: Final = pathlib.Path(__file__).parents[1]
# The commands import the rest when they know that they need it.
PRELOADED: Final = (
    "annotator.__main__",
    "cli.__main__",
    "lab.cluster.exporter",
    "descheduler.__main__",
    "descheduler.wiring",
    "extender.__main__",
    "extender.http.app",
    "kube.http.transport",
    "promql.http.client",
    "structlog",
    "tests.starting",
)
EXPORTER: Final = [sys.executable, "-m", "lab.cluster.exporter"]


def context() -> ForkServerContext:
    """Returns the multiprocessing of forks of a process that has imported what our commands do."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(list(PRELOADED))  # for the first fork; afterwards it changes nothing
    return found


class Command(NamedTuple):
    """A module of ours with its arguments; what the environment has beside this process's own, and where it runs."""

    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = {}
    directory: pathlib.Path = ROOT


class Descriptor:
    """An open file of this process that a forked one gets, as multiprocessing passes it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[object, ...]:
        """The number in the other process (pickle)."""
        return _received, (reduction.DupFd(self.number),)


def _received(passed: object) -> int:
    return int(passed.detach())  # type: ignore[attr-defined]


class Process:
    """A command that runs, with what the suites use of subprocess.Popen."""

    def __init__(self, command: Command, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        files = Descriptor(stdout.fileno()), Descriptor(stderr.fileno())
        self._process = context().Process(target=run_here, args=(command, *files), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.args = [command.module, *command.arguments]
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, a signal's number below 0, None while it runs."""
        return self.poll()

    def poll(self) -> int | None:
        """Returns the exit code, as above."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended; subprocess.TimeoutExpired after so many seconds."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, sig: int) -> None:
        """Sends a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sig)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def launched(command: list[str], log: IO[bytes]) -> processes.Handle:
    """Starts a component: the load exporter as a fork, a program in Go with one processor, as idle threads cost."""
    if command[: len(EXPORTER)] != EXPORTER:
        return processes.popen(command, log, GOMAXPROCS="1")
    return Process(Command(EXPORTER[-1], tuple(command[len(EXPORTER) :])), log, log)


def run(command: Command, *, timeout_seconds: float = 300.0) -> subprocess.CompletedProcess[str]:
    """Runs a command that ends by itself, and returns its exit code and what it wrote."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Process(command, out, err)
        try:
            code = process.wait(timeout_seconds)
        finally:
            process.kill()
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read().decode(), err.read().decode())


def run_here(command: Command, stdout: int, stderr: int) -> None:
    """Runs a command in this process, which is a fork of its own, with these files."""
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.environ.update(command.environment)
    os.chdir(command.directory)
    faulthandler.enable()
    sys.argv = [command.module, *command.arguments]
    sys.modules.pop(f"{command.module}.__main__", None)  # else runpy warns of a module that there would be twice
    try:
        runpy.run_module(command.module, run_name="__main__", alter_sys=True)
    finally:  # as an interpreter ends
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
