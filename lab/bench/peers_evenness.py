"""Evenness by schedulers that go by load: Evenload's extender and the binaries of `peers` place `make run`'s arrivals.

`python -m lab.bench.peers_evenness DIRECTORY` plays each seed with each scheduler (`lab.cluster.demo.phases`), without
descheduler, leaves the figures of each run in DIRECTORY, goes on there later, and prints the table of whole seeds.

All go by the same loads: the exporter plays them, Prometheus scrapes it, the annotator publishes them, and `Publisher`
repeats its annotations to the peers every second, with deviations for Trimaran and the use of each pod for Koordinator.
The day is 60 times as fast as life, and so are the periods of all: NodeMetrics come each second for koordlet's minute,
and Trimaran is built with one second for its constants of 30 and 60. Weights are the formulas' (docs/why/scoring.md).
"""

import collections.abc
import concurrent.futures
import contextlib
import functools
import math
import pathlib
import threading
from typing import Final

import click
import msgspec
from rich import console

from kube import objects
from lab import cluster
from lab.bench import answers, contestants, fleet, paired, peers, prepared
from lab.cluster import cache, nodes, programs
from lab.cluster.api import Json
from lab.cluster.demo import arrival_plan, display, phases, watching
from policy.loading import loader
from promql.http import client
from promql.queries import node_queries, pod_queries
from runtime import clock
from simulator.results import comparison, figures

NAMES: Final = (peers.STOCK, contestants.US, peers.PACKING, peers.BALANCING, peers.KOORDINATOR)
WEIGHTS: Final = (2, 2, 4)
POLICY: Final = contestants.ROOT / "deploy" / "policies" / "demo.yaml"
CORES, GIBIBYTES = 8, 32  # of a node of the plan
PERIOD_SECONDS: Final = 1.0
WINDOW_SECONDS: Final = 5.0  # cpu_avg_5m of the policy
DEVIATION_SECONDS: Final = 15.0  # load-watcher's quarter of an hour
PACE: Final = tuple(
    programs.Edit("sigs.k8s.io/scheduler-plugins", f"pkg/trimaran/{file}.go", f"{period} = {seconds}", f"{period} = 1")
    for file, period, seconds in (
        ("collector", "metricsUpdateIntervalSeconds", 30),
        ("handler", "metricsAgentReportingIntervalSeconds", 60),
        ("targetloadpacking/targetloadpacking", "metricsAgentReportingIntervalSeconds", 60),
    )
)
Runs = collections.abc.Mapping[str, collections.abc.Sequence[figures.Figures]]  # by scheduler, one a seed
SHOWN: Final = ("spread_ratio", "warm_node_minutes", "p99_ratio", "schedule_ratio", "pods_bound", "pods_pending")


@click.command()
@click.argument("directory", type=click.Path(path_type=pathlib.Path))
@click.option("--seeds", default=6, show_default=True, help="From 1 on.")
@click.option("--settle", default=30.0, show_default=True, help="Seconds to go on watching after the arrivals.")
@click.option("--most", type=int, help="Play at most so many runs now.")
def main(*, directory: pathlib.Path, seeds: int, settle: float, most: int | None) -> None:
    """Plays the runs that DIRECTORY lacks and prints the table of the seeds that every scheduler has played."""
    directory.mkdir(parents=True, exist_ok=True)
    order = [(name, seed) for seed in range(1, seeds + 1) for name in NAMES[seed % 5 :] + NAMES[: seed % 5]]
    paths = {(name, seed): directory / f"{seed} {name}.json" for name, seed in order}
    for name, seed in [run for run in order if not paths[run].exists()][:most]:
        paths[name, seed].write_bytes(msgspec.json.encode(played(name, seed, settle)))
    there = {run: path.read_bytes() for run, path in paths.items() if path.exists()}
    whole = [seed for seed in range(1, seeds + 1) if all((name, seed) in there for name in NAMES)]
    runs = {name: [msgspec.json.decode(there[name, seed], type=figures.Figures) for seed in whole] for name in NAMES}
    click.echo(table(runs, whole) if whole else "no seed has a run of every scheduler")


def table(runs: Runs, seeds: collections.abc.Sequence[int]) -> str:
    """A line a figure: the median and range of each scheduler's runs, one a seed, and the mean difference to Evenload,
    seed by seed, with its standard error and a star beyond two.
    """
    lines = (line for line in comparison.of(runs, seeds).lines if line.figure.key.endswith(SHOWN))
    cells = ([line.figure.name, *(_cell(line, name) for name in runs)] for line in lines)
    return paired.markdown([f"seeds {', '.join(map(str, seeds))}", *runs], cells)


def _cell(line: comparison.Line, name: str) -> str:
    if name == contestants.US:
        return line.text(name)
    scale = 1 if line.figure.unit in ("minutes", "count") else 100
    ours, theirs = ([scale * value for value in line.values[each]] for each in (contestants.US, name))
    return f"{line.text(name)}, {paired.difference(ours, theirs)}"


def played(name: str, seed: int, settle_seconds: float) -> figures.Figures:
    """Figures of one run."""
    policy = loader.load(POLICY.read_text(encoding="utf-8"), str(POLICY))
    age_seconds = policy.descheduler.protect.min_pod_age_seconds
    settings = phases.Settings(arrival_plan.plan(seed), POLICY, settle_seconds, age_seconds)
    with display.opened(console.Console(stderr=True), {}) as live:
        services = ("extender",) if name == contestants.US else ()
        scheduling = None if name in (peers.STOCK, contestants.US) else functools.partial(peer, name)
        phase = phases.Phase(name, settings, live, clock.WallClock(), services=services, scheduling=scheduling)
        return phase.run().figures


@contextlib.contextmanager
def peer(name: str, running: cluster.Cluster, watcher: watching.Watcher) -> collections.abc.Iterator[None]:
    """Starts a peer in kube-scheduler's place, which has the loads of each second. Raises peers.Blind if it has not."""
    peers.install_kinds(running)
    publisher, ticking = Publisher(running, watcher), clock.WallClock()
    publish = publisher.as_koordlet if name == peers.KOORDINATOR else publisher.as_load_watcher
    began_seconds = ticking.monotonic()
    with prepared.serving(publisher.load_watcher) as url, repeated(publish, ticking):
        entrant = next(one for one in peers.plugins(url, PACE, WEIGHTS) if one.name == name)
        running.start_scheduler(profiles=entrant.profiles, program=entrant.program)
        yield
    reads = publisher.rounds if name == peers.KOORDINATOR else publisher.load_watcher.questions
    words = f"{name}: loads published {publisher.rounds} times, read {reads} times"
    cache.say(words)
    if min(reads, publisher.rounds) < (ticking.monotonic() - began_seconds) / 2:
        raise peers.Blind(f"{words}, expected once a second")


@contextlib.contextmanager
def repeated(publish: collections.abc.Callable[[], None], ticking: clock.Clock) -> collections.abc.Iterator[None]:
    """Publishes at once and in each period until the end, which raises what kept it from that."""
    over = threading.Event()

    def go_on() -> None:
        spent_seconds = 0.0
        while not ticking.wait(over, PERIOD_SECONDS - spent_seconds):
            began_seconds = ticking.monotonic()
            publish()
            spent_seconds = ticking.monotonic() - began_seconds

    publish()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        going = pool.submit(go_on)
        try:
            yield
        finally:
            over.set()
    going.result()


class Publisher:
    """Repeats the annotations of the nodes in the forms of load-watcher and of koordlet; `rounds` counts."""

    def __init__(self, running: cluster.Cluster, watcher: watching.Watcher) -> None:
        self._watcher, self._etcd = watcher, answers.etcd_url(running)
        self._prometheus = client.connect(running.prometheus_url)
        self.load_watcher, self.rounds = peers.LoadWatcher({}), 0

    def as_load_watcher(self) -> None:
        """Lets the load-watcher answer by the loads of now."""
        loads = {name: dict(reading.values) for name, reading in self._watcher.readings().items()}
        by_address = {nodes.address(index): f"node-{index}" for index in range(len(loads))}
        for resource, metric in peers.DEVIATIONS.items():
            for sample in self._prometheus.query(deviation(resource)).samples:
                name = by_address[sample.labels["instance"].rpartition(":")[0]]
                if name in loads and math.isfinite(sample.value):
                    loads[name][metric] = sample.value
        self.load_watcher.loads = loads
        self.rounds += 1

    def as_koordlet(self) -> None:
        """Writes the NodeMetric of each node with the loads of now."""
        loads = {name: reading.values for name, reading in self._watcher.readings().items()}
        cores, memory = (
            {(one.labels["namespace"], one.labels["pod"]): one.value for one in self._prometheus.query(query).samples}
            for query in (pod_queries.cpu_cores(WINDOW_SECONDS), pod_queries.memory_bytes(WINDOW_SECONDS))
        )
        used = {key: peers.usage(cores[key], memory[key] / 2**30) for key in cores.keys() & memory.keys()}
        fleet.store(self._etcd, node_metrics(loads, used, self._watcher.pods(), clock.WallClock().now()))
        self.rounds += 1


def deviation(resource: str) -> str:
    """The PromQL of a node's deviation over load-watcher's window, of the averages that the annotation has."""
    mean = node_queries.expression(node_queries.Window(resource, "avg", WINDOW_SECONDS, WINDOW_SECONDS))
    window, step = (node_queries.duration(seconds) for seconds in (DEVIATION_SECONDS, PERIOD_SECONDS))
    return f"stddev_over_time(({mean})[{window}:{step}])"


def node_metrics(
    loads: peers.Loads,
    used: collections.abc.Mapping[tuple[str, str], Json],
    pods: collections.abc.Iterable[objects.Pod],
    now_seconds: float,
) -> collections.abc.Iterator[fleet.Stored]:
    """NodeMetrics as koordlet writes them each second: of the nodes, and of the pods on each that are measured."""
    on_node: dict[str, list[Json]] = collections.defaultdict(list)
    for pod in pods:
        if (key := (pod.namespace, pod.name)) in used:
            on_node[pod.node_name].append({"namespace": key[0], "name": key[1], "podUsage": used[key]})
    for path, body in peers.node_metrics(loads, now_seconds, cores=CORES, gibibytes=GIBIBYTES):
        spec = {"metricCollectPolicy": {"reportIntervalSeconds": round(PERIOD_SECONDS)}}
        status = {**fleet.mapping(body["status"]), "podsMetric": on_node[path.rpartition("/")[2]]}
        yield path, {**body, "spec": spec, "status": status}


if __name__ == "__main__":
    main()
