"""One component of the control plane as a process with a handle: start, stop, kill, pause, resume.

`control_plane` makes one per component and tests reach them through `Cluster.processes`. A process gets its command
when it is started, so a restart picks up new configuration; its output goes to one log file. Children get a session
of their own, so Ctrl-C in a terminal reaches only the parent; what ends them when the parent dies is `watchdog`.
"""

import collections.abc
import os
import pathlib
import signal
import subprocess
import threading
import time
import typing

from lab.cluster import errors, identity, ports

ROOT = pathlib.Path(__file__).parents[2]
READY_SECONDS = 180.0  # of a machine that starts three at once: one that died is told at once all the same
STOP_SECONDS = 15.0
KILLED_SECONDS = 120.0  # nothing survives SIGKILL, but a busy machine may take its time over the end
POLL_SECONDS = 0.1  # asking three times as often took as much CPU as a component that starts on the same core
CLASH_ATTEMPTS = 5
# Linux lets a user have 128 inotify instances, of which one control plane takes 9. Beyond that Prometheus answers that
# it is ready and finds no target.
OUT_OF_FILES = "too many open files"
FILES_ADVICE = (
    "end other clusters (`python -m lab.cluster down`), or allow more with "
    "`sysctl fs.inotify.max_user_instances` and `ulimit -n`"
)
# Go's collector runs when the heap has grown fourfold, not twofold: a start takes a quarter less CPU for some 100 MB.
GO_COLLECTOR = {"GOGC": "400"}
_NEVER = threading.Event()


class Handle(typing.Protocol):
    """A process that was started: subprocess.Popen, or a fork of the suites."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def returncode(self) -> int | None:
        """The exit code (negative: a signal), None while it runs."""

    def poll(self) -> int | None:
        """Looks whether it has ended; as `returncode`."""

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end; subprocess.TimeoutExpired after so many seconds."""

    def send_signal(self, sig: int) -> None:
        """Signals it, unless it has ended."""


def popen(command: list[str], log: typing.IO[bytes], **environment: str) -> Handle:
    """Starts a command in a session of its own, with its output in a file; OSError when it cannot be run.

    The user's environment is over `environment`, and that over ours.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=ROOT,
        env={**GO_COLLECTOR, **environment, **os.environ},
        start_new_session=True,
    )


launch: collections.abc.Callable[[list[str], typing.IO[bytes]], Handle] = popen  # the suites fork what is ours


class Component(typing.NamedTuple):
    """How to run a component.

    command: renders the argument list at each start. is_ready: asks it over the network. port_names: what to choose
    again when it dies because a port was taken. advice: the next step for the user when it fails.
    """

    name: str
    command: collections.abc.Callable[[], collections.abc.Sequence[str]]
    is_ready: collections.abc.Callable[[], bool]
    port_names: tuple[str, ...] = ()
    advice: str = "Look at the whole log; `make cluster-down` and `make cluster` start afresh."


class Process:
    """A component's process. `on_start` is told each time it runs again (the state file is written there)."""

    def __init__(
        self,
        component: Component,
        log_path: pathlib.Path,
        chosen: ports.Ports,
        on_start: collections.abc.Callable[[], None],
    ) -> None:
        self.name = component.name
        self.log_path = log_path
        self.identity: identity.Identity | None = None
        self._component = component
        self._ports = chosen
        self._on_start = on_start
        self._handle: Handle | None = None
        self._log_offset = 0
        self._was_ready = False

    @property
    def pid(self) -> int:
        """The process id; ComponentError when it was never started."""
        if self.identity is None:
            raise errors.ComponentError(f"{self.name} was not started")
        return self.identity.pid

    @property
    def running(self) -> bool:
        """Whether the process lives (a paused one does)."""
        return self._handle is not None and self._handle.poll() is None

    def start(self) -> None:
        """Starts it unless it runs, and waits until it is ready."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Starts it unless it runs; `wait_ready` is the other half, so that several can start at once."""
        if self.running:
            return
        command = [str(part) for part in self._component.command()]
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as log:
            self._log_offset = log.tell()
            try:
                self._handle = launch(command, log)
            except OSError as error:
                raise errors.ComponentError(
                    f"{self.name} cannot be run: {error}. `python -m lab.cluster build` makes it."
                ) from error
        self.identity = identity.of(self._handle.pid)
        self._on_start()

    def wait_ready(self, timeout_seconds: float = READY_SECONDS) -> None:
        """Polls until it answers; another port when its own was taken; ComponentError with the log's end otherwise."""
        limit = time.monotonic() + timeout_seconds
        attempts = 1
        while not (self._component.is_ready() and self.running):
            if not self.running:
                attempts += 1
                if attempts > CLASH_ATTEMPTS or not self._port_was_taken():
                    raise errors.ComponentError(self._obituary())
                self._move()
                self.spawn()
            if time.monotonic() > limit:
                raise errors.ComponentError(
                    f"{self.name} was not ready after {timeout_seconds:g} s; {self._log_and_advice()}"
                )
            _NEVER.wait(POLL_SECONDS)
        if OUT_OF_FILES in self._log_text():
            raise errors.ComponentError(f"{self.name} has {OUT_OF_FILES}; {FILES_ADVICE}")
        self._was_ready = True

    def stop(self, timeout_seconds: float = STOP_SECONDS) -> int:
        """SIGTERM and wait, SIGKILL after the timeout; the exit code (negative: a signal), 0 if it was not running."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        try:
            return self._reap(timeout_seconds)
        except subprocess.TimeoutExpired:
            return self.kill()

    def kill(self) -> int:
        """SIGKILL: what a crash looks like; the exit code."""
        self._signal(signal.SIGKILL)
        return self._reap(KILLED_SECONDS)

    def pause(self) -> None:
        """SIGSTOP: it keeps its sockets and answers nothing; returns when every thread of it stands still."""
        self._signal(signal.SIGSTOP)
        if self._handle is not None:  # a signal is only on its way when kill(2) returns
            os.waitid(os.P_PID, self._handle.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT: it goes on after `pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._handle is not None:
            self._handle.send_signal(number)

    def _move(self) -> None:
        """Another port, unless the others know this one already: then the next attempt is on the same."""
        if not self._was_ready:
            for name in self._component.port_names:
                self._ports.renew(name)

    def _reap(self, timeout_seconds: float) -> int:
        return 0 if self._handle is None else self._handle.wait(timeout_seconds)

    def _log_text(self) -> str:
        """The component's log since its last start."""
        with self.log_path.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace")

    def _port_was_taken(self) -> bool:
        text = self._log_text()
        return any(words in text for words in ports.CLASH)

    def _obituary(self) -> str:
        code = None if self._handle is None else self._handle.returncode
        return f"{self.name} ended with exit code {code} before it was ready; {self._log_and_advice()}"

    def _log_and_advice(self) -> str:
        return f"the end of {self.log_path}:\n{errors.log_tail(self.log_path)}\n{self._component.advice}"
