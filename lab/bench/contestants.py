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
from typing import NamedTuple

import requests
import yaml

from lab.cluster import ports, processes, programs
from runtime import certificates, clock

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
US = "evenload"
REFERENCE = "reference"
_PORTS = ports.Ports(random.SystemRandom())


class TlsFiles(NamedTuple):
    """PEM files of a bench over mTLS."""

    authority: pathlib.Path
    certificate: pathlib.Path
    key: pathlib.Path
    client_certificate: pathlib.Path
    client_key: pathlib.Path


class Contestant:
    """One extender: its process and where it answers."""

    def __init__(
        self,
        name: str,
        command: collections.abc.Sequence[str],
        probe: str,
        directory: pathlib.Path,
        *,
        tls: TlsFiles | None = None,
    ) -> None:
        self.name = name
        self.tls = tls
        port = _PORTS.of(name)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
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
            with self.session() as session:
                return session.get(self._probe, timeout=2).status_code in (200, 404)
        except requests.RequestException:
            return False

    def session(self) -> requests.Session:
        """Returns a client that it answers."""
        session = requests.Session()
        session.trust_env = False
        if self.tls is not None:
            session.verify = str(self.tls.authority)
            session.cert = (str(self.tls.client_certificate), str(self.tls.client_key))
        return session

    def processor_seconds(self) -> float:
        """Processor time of the process and its children so far."""
        assert self.process.pid is not None
        return processor_seconds(self.process.pid)

    def memory_mebibytes(self) -> float:
        """Proportional memory (PSS) of the process and its children: pages that forked processes share count once."""
        assert self.process.pid is not None
        return pss_mebibytes(self.process.pid)


def tls_files(directory: pathlib.Path) -> TlsFiles:
    """Makes an authority, a server's and a client's certificate."""
    now_seconds = clock.WallClock().now()
    authority = certificates.Authority.create(now_seconds=now_seconds, days=1)
    served = authority.serving(["127.0.0.1"], now_seconds=now_seconds, days=1)
    client = authority.client("system:kube-scheduler", [], now_seconds=now_seconds, days=1)
    texts = (authority.pair.certificate, served.certificate, served.key, client.certificate, client.key)
    files = TlsFiles(*(directory / f"{name}.pem" for name in TlsFiles._fields))
    for path, text in zip(files, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return files


def evenload(kubeconfig: pathlib.Path, directory: pathlib.Path, tls: TlsFiles | None = None) -> Contestant:
    """Returns Evenload's extender, not yet started."""
    policy = directory / "policy.yaml"
    document = yaml.safe_load((ROOT / "deploy" / "policies" / "default.yaml").read_text(encoding="utf-8"))
    document["sync"]["staleAfter"] = "24h"
    policy.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "extender", "--policy", str(policy), "--kubeconfig", str(kubeconfig)]
    if tls is not None:
        command += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key), "--client-ca", str(tls.authority)]
    return Contestant(US, [*command, "--listen"], "/readyz", directory, tls=tls)


def reference(names: collections.abc.Sequence[str], directory: pathlib.Path, tls: TlsFiles | None = None) -> Contestant:
    """The Go extender, not yet started."""
    known = directory / "names"
    known.write_text("\n".join(names), encoding="utf-8")
    command = [str(programs.built(HERE / "reference")), "-nodes", str(known)]
    if tls is not None:
        command += ["-cert", str(tls.certificate), "-key", str(tls.key), "-client-ca", str(tls.authority)]
    return Contestant(REFERENCE, [*command, "-listen"], "/", directory, tls=tls)


def pss_mebibytes(pid: int, part: str = "Pss") -> float:
    """Proportional memory of a process and its children, or a part of it: a field of /proc/PID/smaps_rollup."""
    return sum(_pss_kibibytes(one, part) for one in _family(pid)) / 1024


def processor_seconds(pid: int) -> float:
    """Processor time of a process and its children so far."""
    return sum(_processor_seconds(one) for one in _family(pid))


def _processor_seconds(pid: int) -> float:
    # utime and stime: fields 14 and 15 of proc(5), behind the name in parentheses
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _family(pid: int) -> list[int]:
    children: list[int] = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            children += map(int, (task / "children").read_text().split())
    return [pid, *(one for child in children for one in _family(child))]


def _pss_kibibytes(pid: int, part: str) -> int:
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{part}:"))


def processors() -> int:
    """Returns the number of usable processors."""
    return len(os.sched_getaffinity(0))
