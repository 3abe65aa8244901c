"""The three services as separate processes on a cluster, the way users run them.

`phases` starts them and ends each by its own process. They get a session of their own, so Ctrl-C reaches only the demo,
and are recorded in the cluster's state file, so that `python -m lab.cluster down` and the cluster's watchdog end them
too.
"""

import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

import requests

from lab import cluster
from lab.cluster import errors, extender_stanza, identity, ports, processes, state
from lab.cluster.demo import interrupting, permissions
from runtime import clock as clocks

READY_SECONDS = 150.0
STOP_SECONDS = 30.0  # the extender answers what it was asked for up to 10 s, and the machine may be busy
POLL_SECONDS = 0.1
REQUEST_SECONDS = 60.0


class ServiceError(Exception):
    """A service did not start, died, or did not answer; the message has the end of its log."""


class Service:
    """One running process of a service."""

    def __init__(self, name: str, address: str, arguments: Sequence[str], log_path: pathlib.Path) -> None:
        self.name, self.log_path, self.address = name, log_path, address
        self.url = f"http://{address}"
        command = [sys.executable, "-m", name, "--listen", address, *arguments]
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=processes.ROOT, start_new_session=True
            )

    def json(self, path: str) -> dict[str, object]:
        """Returns the JSON of GET `path`; ServiceError when there is none."""
        try:
            answer = requests.get(self.url + path, timeout=REQUEST_SECONDS)
            answer.raise_for_status()
            body: dict[str, object] = answer.json()
        except (requests.RequestException, ValueError) as error:
            raise ServiceError(f"{self.name} did not answer GET {path}: {error}") from error
        return body

    def text(self, path: str) -> str:
        """The text of GET `path`; ServiceError when there is none."""
        try:
            answer = requests.get(self.url + path, timeout=REQUEST_SECONDS)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise ServiceError(f"{self.name} did not answer GET {path}: {error}") from error
        return answer.text

    def check(self) -> None:
        """ServiceError when the process has ended."""
        if (code := self._process.poll()) is not None:
            tail = errors.log_tail(self.log_path)
            raise ServiceError(f"{self.name} ended with exit code {code}; the end of {self.log_path}:\n{tail}")

    @property
    def record(self) -> state.Record | None:
        """For the cluster's state file; None when it is gone."""
        process_identity = identity.of(self._process.pid)
        return None if process_identity is None else state.Record(self.name, process_identity, str(self.log_path))

    def is_ready(self) -> bool:
        """Whether /readyz says ok."""
        try:
            return requests.get(f"{self.url}/readyz", timeout=REQUEST_SECONDS).ok
        except requests.RequestException:
            return False

    def stop(self) -> None:
        """SIGTERM, and SIGKILL to it and its workers when that does not help."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # it leads a session of its own
            self._process.wait()


class Services:
    """Those of one cluster by name; a context manager that ends them unless they are to be left."""

    def __init__(
        self,
        running: cluster.Cluster,
        policy: pathlib.Path,
        chosen: ports.Ports,
        clock: clocks.Clock,
        *,
        host: str = "127.0.0.1",
    ) -> None:
        self._cluster, self._policy, self._ports, self._clock, self._host = running, policy, chosen, clock, host
        self.by_name: dict[str, Service] = {}
        self.left_running = False

    def __enter__(self) -> "Services":
        return self

    def __exit__(self, *_: object) -> None:
        if not self.left_running:
            for service in reversed(self.by_name.values()):
                service.stop()

    def start(self, *names: str) -> None:
        """Starts these together and waits until each is ready; ServiceError with the log of one that is not."""
        stop = threading.Event()
        for name in names:
            log_path = self._cluster.directory / "logs" / f"{name}.log"
            arguments = self._arguments(name)
            with interrupting.held_back():
                address = f"{self._host}:{self._ports.of(name)}"
                self.by_name[name] = Service(name, address, arguments, log_path)
        limit = self._clock.monotonic() + READY_SECONDS
        for name in names:
            while not self.by_name[name].is_ready():
                self.by_name[name].check()
                if self._clock.monotonic() > limit:
                    tail = errors.log_tail(self.by_name[name].log_path)
                    raise ServiceError(f"{name} was not ready after {READY_SECONDS:g} s; the end of its log:\n{tail}")
                self._clock.wait(stop, POLL_SECONDS)

    def record(self) -> None:
        """Writes them into the cluster's state file, beside its own processes."""
        directory = self._cluster.directory
        if (known := state.read(directory)) is None:
            return
        own = tuple(record for service in self.by_name.values() if (record := service.record) is not None)
        addresses = known.addresses | {name: service.url for name, service in self.by_name.items()}
        others = tuple(record for record in known.records if record.name not in self.by_name)
        state.write(directory, state.State(others + own, addresses, known.nodes, known.temporary))

    def check(self) -> None:
        """ServiceError when one has died."""
        for service in self.by_name.values():
            service.check()

    def extender_stanza(self) -> Mapping[str, object]:
        """Returns kube-scheduler's stanza for the extender: the shipped one with its address here."""
        return extender_stanza.at(self.by_name["extender"].url)

    def _arguments(self, name: str) -> list[str]:
        kubeconfig = permissions.kubeconfig(self._cluster, name)
        common = ["--policy", str(self._policy), "--kubeconfig", str(kubeconfig)]
        if name == "extender":
            return common
        if name == "descheduler":
            common += ["--ledger", str(self._cluster.directory / "ledger.db")]
        return [*common, "--prometheus", self._cluster.prometheus_url]
