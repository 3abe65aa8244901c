"""The Go client beside this file, whose http.Transport is kube-scheduler's: built once, started, asked, and stopped."""

import collections.abc
import json
import pathlib
import subprocess
from typing import NamedTuple

from lab.cluster import programs

HERE = pathlib.Path(__file__).parent


class Report(NamedTuple):
    """What the client counted: requests, errors by kind with an example each, connections by address, certificates."""

    requests: int
    errors: dict[str, int]
    examples: dict[str, str]
    connections: dict[str, int]
    serials: list[str]


class Asking:
    """A running client; `so_far` asks it while it runs, `finish` ends it between two requests."""

    def __init__(self, address_file: pathlib.Path, *options: str) -> None:
        command = [str(programs.built(HERE)), "-address-file", str(address_file), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def so_far(self) -> Report:
        """What was counted until now: what a test waits for before it goes on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return _report(self._process.stdout.readline())

    def finish(self) -> Report:
        """Let every client end its request, and read what was counted."""
        out, _ = self._process.communicate(timeout=300)
        return _report(out)

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()  # nothing, where it has ended
        with self._process:  # closes its pipes and waits for it
            pass


def _report(text: str) -> Report:
    counted: collections.abc.Mapping[str, object] = json.loads(text)
    return Report(**{**counted, "serials": counted["serials"] or []})  # type: ignore[arg-type]
