"""Pages of kubelets' cAdvisor with times of their own, for a real Prometheus to scrape.

A story is the lives of containers in seconds before its end. Each target has its own clock, which goes on by the
interval of its job with each scrape, so that twelve minutes pass in some twenty seconds. Samples have the time of the
story, which has gone by: Prometheus takes samples of the last half hour in order, and is asked of the story's end.
"""

import contextlib
import pathlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import yaml

from lab.cluster import binaries
from tests import scripted_http
from tests.contract import test_victoria_metrics

BEGIN_SECONDS: Final = -720.0
MIB: Final = 2**20
SERIES: Final = "container_memory_working_set_bytes"


class Life(NamedTuple):
    """A container from its start to its end, as cAdvisor of a node shows it: seconds before the story's end."""

    pod: str
    mib: float
    container: str = "app"
    node: str = "a"
    begin: float = BEGIN_SECONDS
    end: float = 1.0
    housekeeping_seconds: float = 10.0

    def line(self, at: float, end_seconds: float) -> str:
        """The sample that a scrape sees: of the last housekeeping."""
        looked = self.begin + (at - self.begin) // self.housekeeping_seconds * self.housekeeping_seconds
        cgroup = f"/kubepods/{self.pod}/{self.container}{-self.begin:g}"
        labels = f'container="{self.container}",id="{cgroup}",image="app:1",name="{cgroup}",namespace="shop"'
        return f'{SERIES}{{{labels},pod="{self.pod}"}} {self.mib * MIB:.0f} {(end_seconds + looked) * 1000:.0f}\n'


class Job(NamedTuple):
    """A scrape job: the interval in seconds of the story, and its settings."""

    name: str
    every_seconds: float
    settings: Mapping[str, object] = {}


class Kubelets:
    """The nodes of the story; `late` are the last seconds that some of them serve. Ends at `end_seconds` (Unix)."""

    def __init__(self, lives: Iterable[Life], end_seconds: float, late: Mapping[str, float]) -> None:
        self._lives = tuple(lives)
        self.end_seconds = end_seconds
        self._late = late
        self._clocks: dict[str, float] = {}
        self._at_end: dict[str, int] = {}
        self._lock = threading.Lock()

    @property
    def nodes(self) -> list[str]:
        """Their names."""
        return sorted({life.node for life in self._lives})

    def answer(self, exchange: scripted_http.Exchange) -> None:
        """A scrape of /JOB/NODE/SECONDS."""
        _, job, node, every = exchange.path.split("/")
        last = self._late.get(node, 0.0)
        with self._lock:
            at = min(self._clocks.get(job + node, BEGIN_SECONDS - float(every)) + float(every), last)
            self._clocks[job + node] = at
            self._at_end[job + node] = self._at_end.get(job + node, 0) + (at == last)
        text = f"# TYPE {SERIES} gauge\n" + "".join(self.lines(node, at))
        exchange.answer(text, headers={"Content-Type": "text/plain; version=0.0.4"})

    def lines(self, node: str, at: float) -> list[str]:
        """The samples of a node's page; the root cgroup is on one only, as many configurations drop it."""
        living = [life for life in self._lives if life.node == node and life.begin <= at < life.end]
        root = [f'{SERIES}{{id="/"}} {1024 * MIB} {(self.end_seconds + at) * 1000:.0f}\n'] if node == "a" else []
        return root + [life.line(at, self.end_seconds) for life in living]

    def scrapes(self, node: str, every_seconds: float) -> list[float]:
        """The seconds at which a node is scraped."""
        last = self._late.get(node, 0.0)
        return [
            at
            for n in range(round(-BEGIN_SECONDS / every_seconds) + 1)
            if (at := BEGIN_SECONDS + n * every_seconds) <= last
        ]

    def ended(self, jobs: Iterable[Job]) -> bool:
        """Whether each target was scraped at the story's end, and again: the scrape before is stored then."""
        with self._lock:
            return all(self._at_end.get(job.name + node, 0) > 1 for job in jobs for node in self.nodes)


def target_labels(node: str) -> dict[str, str]:
    """The labels of a node's target: a and c have one address, in two clusters."""
    address = "10.0.0.2:10250" if node == "b" else "10.0.0.1:10250"
    return {"instance": address, "k8s_cluster": "two" if node == "c" else "one"}


def pages(kubelets: Kubelets, job: Job) -> list[str]:
    """Every sample that a job scrapes, with the labels of its target."""
    samples = list[str]()
    for node in kubelets.nodes:
        labels = ",".join(f'{name}="{text}"' for name, text in {**target_labels(node), "job": job.name}.items())
        for at in kubelets.scrapes(node, job.every_seconds):
            samples.extend(line.replace("{", "{" + labels + ",", 1) for line in kubelets.lines(node, at))
    return samples


@contextlib.contextmanager
def prometheus(directory: pathlib.Path, kubelets: Kubelets, jobs: Iterable[Job]) -> Iterator[str]:
    """The URL of a real Prometheus that scrapes the nodes by each job; a and c have one address, in two clusters."""
    (binary,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "prometheus"]).values()
    with scripted_http.serving(kubelets.answer) as server:
        address = server.url.removeprefix("http://")
        configs = [
            {
                "job_name": job.name,
                "scrape_interval": "250ms",
                "scrape_timeout": "250ms",
                "static_configs": [
                    {
                        "targets": [address],
                        "labels": {
                            "__metrics_path__": f"/{job.name}/{node}/{job.every_seconds:g}",
                            **target_labels(node),
                        },
                    }
                    for node in kubelets.nodes
                ],
                **job.settings,
            }
            for job in jobs
        ]
        file = directory / "prometheus.yaml"
        file.write_text(yaml.safe_dump({"scrape_configs": configs}), encoding="utf-8")

        def command(port: int) -> list[str]:
            return [
                str(binary),
                f"--config.file={file}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ]

        with test_victoria_metrics.running("prometheus", command, "/-/ready", directory) as url:
            yield url
