"""Cost of one process from its start to its end, from the kernel's accounting.

`descheduler` and `peer` run their commands through it, so that both are measured in one way.
"""

import collections.abc
import os
import pathlib
import subprocess
from typing import NamedTuple

from lab.bench import contestants
from runtime import clock


class ProcessCosts(NamedTuple):
    """Wall seconds, memory, and (of a whole process) processor seconds, which other load does not lengthen."""

    seconds: float
    mebibytes: float
    processor_seconds: float = 0.0


def compiled(directory: pathlib.Path) -> dict[str, str]:
    """The environment for a Python that finds its bytecode, which the first process writes into the directory.

    An image has it from its installation. A tree may have none, and then each process compiles all modules.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": str(directory)}


def once(
    command: collections.abc.Sequence[str],
    log: pathlib.Path,
    environment: collections.abc.Mapping[str, str] | None = None,
) -> ProcessCosts:
    """Runs it to its end, its stderr in `log`; RuntimeError with that when it does not exit with 0."""
    ticking = clock.WallClock()
    began = ticking.monotonic()
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(
            command, cwd=contestants.ROOT, stdout=subprocess.DEVNULL, stderr=output, env=environment
        )
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}: {log.read_text(encoding='utf-8')}")
    return ProcessCosts(ticking.monotonic() - began, used.ru_maxrss / 1024, used.ru_utime + used.ru_stime)


def median(runs: collections.abc.Iterable[ProcessCosts]) -> ProcessCosts:
    """Every figure's own median."""
    columns = zip(*runs, strict=True)
    return ProcessCosts(*(sorted(column)[len(column) // 2] for column in columns))
