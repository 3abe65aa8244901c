"""One `go build` of several commands into a directory of the cache, with progress on stderr and its output in a log.

`binaries` and `minors` call it. What is missing is built in one go, so that commands share packages and one is linked
while the next is compiled; it is renamed into place when whole, and an interrupted build goes on where it stopped (Go's
own build cache holds the packages).
"""

import collections.abc
import pathlib
import re
import subprocess
import tempfile
import threading
import time

from lab.cluster import cache, errors

PROGRESS_SECONDS = 15.0
_MAJOR = re.compile(r"v\d+")


def build(
    go: pathlib.Path,
    module: pathlib.Path,
    packages: collections.abc.Mapping[str, str],
    home: pathlib.Path,
    *,
    flags: collections.abc.Sequence[str],
    environment: dict[str, str],
) -> None:
    """Builds packages (by the name of their command) of a module into `home`/bin; BuildError with the log's end."""
    names, log, commands = ", ".join(packages), home / "build.log", home / "bin"
    commands.mkdir(exist_ok=True)
    cache.say(f"{module.name}: building {names} with {go}")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=home, prefix="unfinished-") as unfinished:
        command = [str(go), "build", "-C", str(module), "-v", *flags, "-o", f"{unfinished}/", *packages.values()]
        if _run(module.name, command, log, environment):
            raise errors.BuildError(_failure(names, module, command, log))
        for name, package in packages.items():
            (pathlib.Path(unfinished) / _file_name(package)).rename(commands / name)
    cache.say(f"{module.name}: built in {time.monotonic() - started:.0f} s")


def _file_name(package: str) -> str:
    """The name that Go gives a command: the last part of its package that is no major version."""
    return next(part for part in reversed(package.split("/")) if not _MAJOR.fullmatch(part))


def _run(name: str, command: list[str], log: pathlib.Path, environment: dict[str, str]) -> int:
    """Runs a build with its output in the log and a line of progress now and then; the exit code."""
    started = time.monotonic()
    never = threading.Event()
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:
        try:
            next_line = PROGRESS_SECONDS
            while process.poll() is None:
                never.wait(0.1)
                if time.monotonic() - started >= next_line:
                    next_line += PROGRESS_SECONDS
                    cache.say(f"{name}: {time.monotonic() - started:.0f} s, {_done(log)}")
        finally:
            process.terminate()  # Ctrl-C or a full disk: no compiler stays behind; a finished one does not notice
        return process.wait()


def _done(log: pathlib.Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    fetched = sum(line.startswith("go: downloading") for line in lines)
    return f"{len(lines) - fetched} packages compiled" + (f", {fetched} modules downloaded" if fetched else "")


def _failure(names: str, module: pathlib.Path, command: list[str], log: pathlib.Path) -> str:
    return (
        f"{names} did not build ({' '.join(command[:2])} in {module}); the end of {log}:\n"
        f"{errors.log_tail(log)}\n"
        "Modules come from GOPROXY (see `go env GOPROXY`): check the network and the free space, then run it again; "
        "it goes on where it stopped. Or put a fitting command on PATH or into KUBEBUILDER_ASSETS."
    )
