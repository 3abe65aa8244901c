"""The yardstick of `bench.descheduler`: kubernetes-sigs' descheduler, built from peer/go.mod and run beside Evenload's.

Of its policies LowNodeUtilization is nearest to ours (peer/policy.yaml). It goes by requested pods: its Prometheus
source takes a token and a CA file from inside a pod only, and what it reads of Prometheus is one query. So it asks for
less than ours does. It may evict nothing (`maxNoOfPodsToEvictPerNode: 0`), which is its only way to a run on whole
data that changes nothing: with `--dry-run` it plans on a mirror of the cluster and does not wait until that is filled.
Both are measured.
"""

import collections.abc
import datetime
import pathlib
import re
import subprocess
import threading
from typing import NamedTuple

from lab.bench import contestants, spending
from lab.cluster import programs
from runtime import clock

POLICY = pathlib.Path(__file__).parent / "peer" / "policy.yaml"
INTERVAL = "2s"
LIMIT_SECONDS = 600.0
POLL_SECONDS = 0.2
_NEVER = threading.Event()
_PODS = re.compile(r'usage=\{[^}]*"pods":"(\d+)"')
_TIME = r"^I\d{4} (\d\d:\d\d:\d\d\.\d+) .*"
_BEGAN = re.compile(_TIME + "Resetting pod evictor counters", re.MULTILINE)
_ENDED = re.compile(_TIME + "Number of evictions/requests", re.MULTILINE)


class Once(NamedTuple):
    """One whole process, and how many pods it knew of when it judged the nodes."""

    spent: spending.ProcessCosts
    pods_seen: int


class Peer:
    """The built program with one cluster and a directory for its logs."""

    def __init__(self, kubeconfig: pathlib.Path, directory: pathlib.Path) -> None:
        self._directory = directory
        self._command = [str(programs.built(contestants.HERE / "peer")), "--kubeconfig", str(kubeconfig)]
        self._command += ["--policy-config-file", str(POLICY), "--secure-port", "0"]
        self._command += ["--client-connection-qps", "1000", "--client-connection-burst", "2000"]  # nothing waits

    def once(self, *, dry: bool) -> Once:
        """One cycle from the start of the process to its end."""
        log = self._directory / "peer.log"
        mode = ["--dry-run"] if dry else []
        spent = spending.once([*self._command, *mode, "--descheduling-interval", "0"], log)
        return Once(spent, sum(map(int, _PODS.findall(log.read_text(encoding="utf-8")))))

    def staying(self, runs: int) -> spending.ProcessCosts:
        """Cycles of a process that stays, by its own log: it watches everything, so the first one does not count."""
        log = self._directory / "peer-staying.log"
        with log.open("w", encoding="utf-8") as output:
            command = [*self._command, "--descheduling-interval", INTERVAL, "--v", "3"]
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)
            try:
                each = _cycles(log, runs + 1)[1:]
                return spending.ProcessCosts(sorted(each)[len(each) // 2], contestants.pss_mebibytes(process.pid))
            finally:
                process.terminate()
                process.wait()


def _cycles(log: pathlib.Path, count: int) -> list[float]:
    """Seconds of the first cycles in the log, as soon as there are so many."""
    ticking = clock.WallClock()
    deadline = ticking.monotonic() + LIMIT_SECONDS
    while ticking.monotonic() < deadline:
        text = log.read_text(encoding="utf-8")
        ended = _times(_ENDED.findall(text))
        if len(ended) >= count:
            began = _times(_BEGAN.findall(text))
            return [(end - start).total_seconds() for start, end in zip(began, ended, strict=False)][:count]
        ticking.wait(_NEVER, POLL_SECONDS)
    raise TimeoutError(f"{log}: no {count} cycles within {LIMIT_SECONDS:.0f} s")


def _times(texts: collections.abc.Iterable[str]) -> list[datetime.datetime]:
    return [datetime.datetime.strptime(text, "%H:%M:%S.%f") for text in texts]  # noqa: DTZ007 - only differences count
