"""The three services as separate processes against a running cluster, the way users run them."""

import collections.abc
import http.client
import itertools
import json
import pathlib
import random
import signal
import ssl
import subprocess
import urllib.parse
import urllib.request
from typing import IO, Any

from lab import cluster
from lab.cluster import ports
from tests import starting
from tests.e2e import waiting

ROOT = starting.ROOT
ANSWER_SECONDS = 30.0  # how long a living service may take to answer before the test gives up on it


_PORTS, _NUMBERS = ports.Ports(random.SystemRandom()), itertools.count()


def free_port() -> int:
    """A port no service here has, below those of outgoing connections: they would take it while one is restarted."""
    return _PORTS.of(str(next(_NUMBERS)))


def set_load(running: cluster.Cluster, node: str, **values: object) -> None:
    """Sets what the exporter plays for a node's own system: cpu_ratio, memory_ratio, hidden (no series at all)."""
    request = urllib.request.Request(f"{running.exporter_url}/nodes/{node}", data=json.dumps(values).encode())
    urllib.request.urlopen(request, timeout=ANSWER_SECONDS).close()


class Service:
    """One process of ours, `python -m NAME …`, with a port of its own and a log file; with `ca` it is asked by TLS."""

    def __init__(
        self,
        name: str,
        arguments: collections.abc.Sequence[str],
        directory: pathlib.Path,
        *,
        ca: pathlib.Path | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self.name = name
        self._tls = None if ca is None else ssl.create_default_context(cafile=ca)
        self.port, self._host = free_port(), host
        self.log_path = directory / f"{name}.log"
        self.arguments = ("--listen", f"{host}:{self.port}", *arguments)
        self._process: starting.Process | subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    @property
    def running(self) -> bool:
        """Whether it was started and lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process id of the running service."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self) -> None:
        """Starts it and waits until it `answers`: until /readyz says ok."""
        with self.log_path.open("ab") as log:
            self._process = self.spawn(log)
        try:
            waiting.eventually(self._is_ready, waiting.START_SECONDS, f"{self.name} to be ready", self.log)
        except BaseException:
            self.kill()  # nobody else ends it: the fixture that started it has not come to its `finally`
            raise

    def spawn(self, log: IO[bytes]) -> starting.Process | subprocess.Popen[bytes]:
        """Starts the process, whose output goes there."""
        return starting.Process(starting.Command(self.name, self.arguments, {"NO_COLOR": "1"}), log, log)

    def stop(self) -> int:
        """SIGTERM, and the exit code it ends with."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """SIGKILL: what a crash looks like."""
        return self._end(signal.SIGKILL)

    def ended(self) -> int:
        """The exit code of a process that was told to end, once it has."""
        assert self._process is not None, f"{self.name} was not started"
        code = self._process.wait(timeout=waiting.LIMIT_SECONDS)
        self._process = None
        return code

    def json(self, path: str) -> Any:
        """The JSON that GET `path` answers."""
        with urllib.request.urlopen(self.url + path, timeout=ANSWER_SECONDS, context=self._tls) as answer:
            return json.load(answer)

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The rows of GET /NAME, which are under NAME in its answer; `path` may have a query."""
        rows: list[dict[str, Any]] = self.json(path)[urllib.parse.urlsplit(path).path.strip("/")]
        return rows

    def text(self, path: str) -> str:
        """The text that GET `path` answers."""
        with urllib.request.urlopen(self.url + path, timeout=ANSWER_SECONDS, context=self._tls) as answer:
            body: bytes = answer.read()
            return body.decode()

    def metric(self, name: str) -> float:
        """The sum over all label sets of a metric on /metrics."""
        rows = [line.rsplit(" ", 1) for line in self.text("/metrics").splitlines() if not line.startswith("#")]
        return sum(float(value) for series, value in rows if series.split("{")[0] == name)

    def grows(self, name: str) -> None:
        """Waits until a counter on /metrics has grown."""
        before = self.metric(name)
        waiting.until(lambda: self.metric(name) > before, f"{name} to grow")

    def log(self) -> str:
        """All it has logged so far."""
        return self.log_path.read_text(encoding="utf-8")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log()[-3000:]}"
        try:
            return self.answers()
        except (OSError, http.client.HTTPException):
            return False

    def answers(self) -> bool:
        """Whether it is as far as `start` waits for."""
        return bool(self.text("/readyz"))

    def _end(self, signal_number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal_number)
        return self.ended()
