"""The two extenders of a comparison, started beside each other: Evenload's as it is shipped, and the Go reference.

`answers`, `throughput` and `footprint` start them here. It gets the default policy with a long `staleAfter`, because
no annotations are written while a bench runs.
"""

import collections.abc
import contextlib
import os
import pathlib
import random
import sys

import requests
import yaml

from cluster import ports, processes, programs

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
US = "evenload"
REFERENCE = "reference"
_PORTS = ports.Ports(random.SystemRandom())


class Contestant:
    """One extender: its process and where it answers."""

    def __init__(self, name: str, command: collections.abc.Sequence[str], probe: str, directory: pathlib.Path) -> None:
        self.name = name
        port = _PORTS.of(name)
        self.url = f"http://127.0.0.1:{port}"
        self._probe = self.url + probe
        component = processes.Component(name, lambda: [*command, f"127.0.0.1:{port}"], self._answers)
        self.process = processes.Process(component, directory / f"{name}.log", _PORTS, lambda: None)

    def __enter__(self) -> "Contestant":
        self.process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _answers(self) -> bool:
        try:
            with requests.Session() as session:
                session.trust_env = False
                return session.get(self._probe, timeout=2).status_code in (200, 404)
        except requests.RequestException:
            return False

    def memory_mebibytes(self) -> float:
        """Proportional memory (PSS) of the process and its children: pages that forked processes share count once."""
        assert self.process.pid is not None
        return pss_mebibytes(self.process.pid)


def evenload(kubeconfig: pathlib.Path, directory: pathlib.Path) -> Contestant:
    """Returns Evenload's extender, not yet started."""
    policy = directory / "policy.yaml"
    document = yaml.safe_load((ROOT / "deploy" / "policies" / "default.yaml").read_text(encoding="utf-8"))
    document["sync"]["staleAfter"] = "24h"
    policy.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "extender", "--policy", str(policy), "--kubeconfig", str(kubeconfig), "--listen"]
    return Contestant(US, command, "/readyz", directory)


def reference(names: collections.abc.Sequence[str], directory: pathlib.Path) -> Contestant:
    """The Go extender, not yet started."""
    known = directory / "names"
    known.write_text("\n".join(names), encoding="utf-8")
    command = [str(programs.built(HERE / "reference")), "-nodes", str(known), "-listen"]
    return Contestant(REFERENCE, command, "/", directory)


def pss_mebibytes(pid: int) -> float:
    """Proportional memory of a process and its children."""
    return sum(_pss_kibibytes(one) for one in _family(pid)) / 1024


def _family(pid: int) -> list[int]:
    children: list[int] = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            children += map(int, (task / "children").read_text().split())
    return [pid, *(one for child in children for one in _family(child))]


def _pss_kibibytes(pid: int) -> int:
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def processors() -> int:
    """Returns the number of usable processors."""
    return len(os.sched_getaffinity(0))
