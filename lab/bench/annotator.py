"""Cost of the annotator with 5,000 nodes: queries a sync, seconds, memory, and patches over minutes of a trace.

The real apiserver, the real Prometheus with the recording rules of deploy/monitoring, and the annotator as a process.
The load exporter plays the nodes (`playing`) at the trace's own speed; the day before is back-filled, so that an hour's
and a day's maxima are what they would be in a cluster that stands for long. First only some nodes exist, so that the
queries of a small and of a large cluster are counted in one run. At last 100,000 pods run, for the memory they take.
"""

import contextlib
import functools
import itertools
import json
import pathlib
import random
import re
import statistics
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import requests
import yaml

from cli import recording_rules
from extender import service
from extender.state import node_cache
from kube import config, kinds
from kube.cache import reflector
from lab import cluster
from lab.bench import answers, contestants, fleet, playing
from lab.bench.table import Row
from lab.cluster import cache
from runtime import clock

QUERIES, SYNC_SECONDS, PATCHES_PER_NODE_AND_MINUTE, MEMORY_MEBIBYTES, AGE_SECONDS = 8, 5.0, 0.2, 200.0, 45.0
SCRAPE_SECONDS = 15.0
TRACE_BEGINS_SECONDS = 2 * playing.DAY_SECONDS
FEW_SYNCS = 5
MANY_SYNCS = 4
SYNC_LIMIT_SECONDS, LIMIT_SECONDS = 300.0, 3600.0  # for what never ends: a machine in trouble, not a slow sync
POLL_SECONDS = 0.5
ROOT = contestants.ROOT
_NEVER = threading.Event()


class Settings(NamedTuple):
    """How much: nodes at first and then, load pods per node, pods at last, minutes of trace before and while measured.

    `trace` is a file as docs/reference/load-exporter.md describes; without one the seeded generator plays.
    """

    few_nodes: int = 500
    nodes: int = 5000
    pods_per_node: int = 4
    pods: int = 100_000
    warm_minutes: float = 7.0
    minutes: float = 10.0
    trace: pathlib.Path | None = None
    seed: int = 1


class Stuck(Exception):
    """The annotator does not do what is waited for."""


class WatchedWrites(NamedTuple):
    """The annotator's counters at the end of a sync, when that was (monotonic), its memory and the oldest reading."""

    at_seconds: float
    syncs: float
    queries: float
    sync_seconds: float
    patches: float
    matched: float
    memory_mebibytes: float
    age_seconds: float = 0.0


def measure(settings: Settings) -> list[Row]:
    """The rows of the table, see `_rows`."""
    cast = playing.cast(settings.nodes, settings.pods_per_node, settings.seed, settings.trace)
    plays = ["--trace", str(settings.trace)] if settings.trace else []
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(
            scheduler=False, node_exporter=False, exporter=["--max-cpus", "1", *plays], scrape_seconds=SCRAPE_SECONDS
        ) as running,
    ):
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        _give_a_past(running, cast)
        stage = _Stage(running, cast, settings)
        stage.enter(range(settings.few_nodes))
        with _started(running, pathlib.Path(scratch)) as follower:
            return _rows(settings, _measured(settings, stage, follower))


class SyncParts(NamedTuple):
    """The syncs of each part: with few nodes, while the others joined, during the trace, with many pods."""

    few: list[WatchedWrites]
    joining: list[WatchedWrites]
    trace: list[WatchedWrites]
    many: list[WatchedWrites]


def _measured(settings: Settings, stage: "_Stage", follower: "_Follower") -> SyncParts:
    follower.until(lambda syncs: syncs[-1].matched == settings.few_nodes, "the first nodes to have values")
    few = follower.until(lambda syncs: len(syncs) > FEW_SYNCS, "some syncs")
    stage.enter(range(settings.few_nodes, settings.nodes))
    # from the last sync without them, as all may join within one
    joining = [few[-1], *follower.until(lambda syncs: syncs[-1].matched == settings.nodes, "all nodes to have values")]
    cache.say(f"{settings.nodes} nodes have values; warming up for {settings.warm_minutes:g} min")
    follower.until(_lasting(settings.warm_minutes), "full windows")
    cache.say(f"measuring for {settings.minutes:g} min")
    trace = follower.until(_lasting(settings.minutes), "the trace")
    stage.fill(settings.pods)
    many = follower.until(lambda syncs: len(syncs) > MANY_SYNCS, "syncs with all pods")
    return SyncParts(few, joining, trace, many)


def _lasting(minutes: float) -> Callable[[Sequence[WatchedWrites]], bool]:
    return lambda syncs: syncs[-1].at_seconds - syncs[0].at_seconds >= 60 * minutes


def _rows(settings: Settings, measured: SyncParts) -> list[Row]:
    nodes, few = f"{settings.nodes:,} nodes", f"{settings.few_nodes:,} nodes"
    seconds = _each(measured.trace, "sync_seconds")
    oldest_seconds = max(one.age_seconds for one in measured.trace[1:])
    queries, few_queries = max(_each(measured.trace, "queries")), max(_each(measured.few, "queries"))
    span_minutes = (measured.trace[-1].at_seconds - measured.trace[0].at_seconds) / 60
    patches = sum(_each(measured.trace, "patches")) / settings.nodes / span_minutes
    of = f"{span_minutes:.0f} min of {settings.trace.name if settings.trace else 'generated load'}"
    pods = f"{nodes}, {settings.nodes * settings.pods_per_node:,} pods"
    joined = settings.nodes - settings.few_nodes
    return [
        Row(f"annotator: queries in a sync, most, {few}", few_queries, "", None, QUERIES),
        Row(f"annotator: queries in a sync, most, {nodes}", queries, "", None, QUERIES),
        Row(f"annotator: the same, beside that of {few}", queries, "", few_queries, 1.0),
        Row(f"annotator: sync, longest of {len(seconds)}, {nodes}", max(seconds), "s", None, SYNC_SECONDS),
        Row(f"annotator: sync, median, {nodes}", statistics.median(seconds), "s"),
        Row(f"annotator: oldest reading, {nodes}", oldest_seconds, "s", None, AGE_SECONDS),
        Row(f"annotator: sync, longest while {joined:,} nodes join", max(_each(measured.joining, "sync_seconds")), "s"),
        Row(f"annotator: patches a node and minute, {of}", patches, "", None, PATCHES_PER_NODE_AND_MINUTE),
        Row(f"annotator: memory, highest, {pods}", _highest(measured.trace), "MiB", None, MEMORY_MEBIBYTES),
        Row(f"annotator: memory, highest, {nodes}, {settings.pods:,} pods", _highest(measured.many), "MiB"),
    ]


def _each(samples: Sequence[WatchedWrites], counter: str) -> list[float]:
    """By how much a counter grew in each sync."""
    return [getattr(after, counter) - getattr(before, counter) for before, after in itertools.pairwise(samples)]


def _highest(samples: Sequence[WatchedWrites]) -> float:
    return max(one.memory_mebibytes for one in samples)


def _oldest_reading(running: cluster.Cluster, stop: threading.Event) -> Callable[[], float]:
    """Watches as an extender does; the result is the age of its oldest reading, 0 while it has none."""
    table, door, ticking = node_cache.NodeTable(()), config.connect(running.kubeconfig), clock.WallClock()
    watch: Any = functools.partial(reflector.Reflector, door, clock=ticking, rng=random.Random())
    beat = lambda _old, new: table.heartbeat_changed(new and new.data, ticking.now())  # noqa: E731
    watch(kinds.NODES, on_change=table.node_changed).start(stop)
    watch(kinds.CONFIG_MAPS, on_change=beat, field_selector=service.HEARTBEAT_ONLY).start(stop)
    return lambda: float(np.nanmax(ticking.now() - table.loads().effective_seconds, initial=0.0))


class _Follower:
    """Watches the annotator's /metrics for ends of syncs, and its memory all the time."""

    def __init__(self, process: contestants.Contestant, oldest_seconds: Callable[[], float]) -> None:
        self._process = process
        self._clock = clock.WallClock()
        self._oldest_seconds = oldest_seconds
        self._session = requests.Session()
        self._session.trust_env = False

    def until(self, done: Callable[[Sequence[WatchedWrites]], bool], what: str) -> list[WatchedWrites]:
        """One entry for each sync that ends until `done`; the first entry is the start."""
        syncs = [self._next(None, what)]
        while not done(syncs):
            syncs.append(self._next(syncs[-1], what))
            if syncs[-1].at_seconds - syncs[0].at_seconds > LIMIT_SECONDS:
                raise Stuck(f"waited {LIMIT_SECONDS:g} s for {what}; last seen {syncs[-1]}")
        return syncs

    def _next(self, last: WatchedWrites | None, what: str) -> WatchedWrites:
        limit_seconds = self._clock.monotonic() + SYNC_LIMIT_SECONDS
        highest = age_seconds = 0.0
        while self._clock.monotonic() < limit_seconds:
            highest = max(highest, self._process.memory_mebibytes())
            age_seconds = max(age_seconds, self._oldest_seconds())
            now = self._look(highest)._replace(age_seconds=age_seconds)
            if last is None or now.syncs > last.syncs:
                return now
            _NEVER.wait(POLL_SECONDS)
        raise Stuck(f"no sync ended in {SYNC_LIMIT_SECONDS:g} s, while waiting for {what}; last seen {last}")

    def _look(self, memory_mebibytes: float) -> WatchedWrites:
        answer = self._session.get(f"{self._process.url}/metrics", timeout=30)
        answer.raise_for_status()
        return parse_metrics(answer.text, self._clock.monotonic(), memory_mebibytes)


def parse_metrics(text: str, at_seconds: float, memory_mebibytes: float) -> WatchedWrites:
    """Parses a page of /metrics."""

    def total(series: str) -> float:
        rows = re.findall(rf"^{re.escape(series)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        return sum(float(value) for value in rows)

    return WatchedWrites(
        at_seconds,
        total("evenload_annotator_syncs_total"),
        total("evenload_prometheus_queries_total"),
        total("evenload_annotator_sync_duration_seconds_sum"),
        total('evenload_annotator_node_patches_total{result="written"}'),
        total('evenload_annotator_nodes{state="matched"}'),
        memory_mebibytes,
    )


class _Stage:
    """The cluster's nodes and pods, entering from the first node on."""

    def __init__(self, running: cluster.Cluster, cast: playing.Cast, settings: Settings) -> None:
        self._etcd = answers.etcd_url(running)
        self._cast = cast
        self._rng = random.Random(settings.seed)
        self._now_seconds = clock.WallClock().now()
        self._nodes = fleet.stored_nodes(settings.nodes, self._rng, self._now_seconds)
        self._names = fleet.names(settings.nodes)

    def enter(self, numbers: range) -> None:
        """The nodes of these numbers, with the pods that load them."""
        pods = playing.stored_pods(self._cast, numbers, self._names, self._rng, now_seconds=self._now_seconds)
        fleet.store(self._etcd, itertools.islice(self._nodes, len(numbers)), per_transaction=1)
        fleet.store(self._etcd, pods, per_transaction=1)

    def fill(self, pods: int) -> None:
        """Further pods up to a number, which use next to nothing."""
        more = max(0, pods - len(self._cast.players))
        quiet = fleet.stored_pods(more, self._names, self._rng, self._now_seconds)
        fleet.store(self._etcd, quiet, per_transaction=1)
        cache.say(f"{more} pods stored")


def _give_a_past(running: cluster.Cluster, cast: playing.Cast) -> None:
    """Sets the trace's clock, and puts the day before it into Prometheus, with the rules that go on from there."""
    configuration = running.directory / "configuration" / "prometheus.yaml"
    rules = {"rule_files": [str(ROOT / "deploy" / "monitoring" / "evenload-rules.yaml")]}
    document = yaml.safe_load(configuration.read_text(encoding="utf-8"))
    configuration.write_text(yaml.safe_dump(document | rules), encoding="utf-8")
    now_seconds = clock.WallClock().now()
    text = json.dumps({"trace_seconds": TRACE_BEGINS_SECONDS})
    with requests.Session() as session:
        session.trust_env = False
        session.post(f"{running.exporter_url}/clock", data=text, timeout=30).raise_for_status()
    running.backfill(playing.history(cast, TRACE_BEGINS_SECONDS, now_seconds))
    cache.say(f"a day of {cast.nodes} nodes back-filled in {clock.WallClock().now() - now_seconds:.0f} s")


@contextlib.contextmanager
def _started(running: cluster.Cluster, directory: pathlib.Path) -> Iterator[_Follower]:
    """Follows the annotator under the default policy with the recorded windows."""
    document = yaml.safe_load((ROOT / "deploy" / "policies" / "default.yaml").read_text(encoding="utf-8"))
    document |= yaml.safe_load(recording_rules.metrics_text())
    policy = directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    command = [sys.executable, "-m", "annotator", "--policy", str(policy), "--kubeconfig", str(running.kubeconfig)]
    command += ["--namespace", "default", "--prometheus", running.prometheus_url, "--listen"]
    with contestants.Contestant("annotator", command, "/readyz", directory) as process:
        stop = threading.Event()
        yield _Follower(process, _oldest_reading(running, stop))
        stop.set()
