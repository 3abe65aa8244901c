"""The whole loop on a large cluster for minutes: all services, kube-scheduler, and pods that arrive and go.

Nodes and pods are put into etcd (`fleet`); then kwok plays the kubelets, kube-controller-manager replaces evicted pods,
and kube-scheduler asks one of two extenders, as one client with kept connections does behind a Service. The services
have the default policy, with the descheduler in Enforce. Prometheus's answers are prepared and move (`MovingLoads`):
what its queries cost is `annotator`'s to measure. Everything shares the processors of this machine, so the latencies
are those of a machine with too little room; memory, processor time, writes and watch events are a cluster's own.
"""

import collections.abc
import contextlib
import itertools
import os
import pathlib
import random
import sys
import tempfile
import threading
from typing import Final, NamedTuple

import requests
import yaml

from lab import cluster
from lab.bench import answers, arrivals, contestants, descheduler, fleet, metric_pages, prepared
from lab.bench.contestants import Contestant
from lab.bench.metric_pages import Page
from lab.bench.table import Row
from lab.cluster import cache, extender_stanza
from policy.schema import load_policy
from promql.queries import node_queries
from runtime import clock

SETTLE_SECONDS: Final = 120.0  # watches, caches and the first syncs, before anything is measured
SAMPLE_SECONDS: Final = 10.0
GOGC: Final = "75"  # percent a heap may grow: with cluster's 400 the control plane alone takes over 20 GB
QUIET_PROCESSORS: Final = 0.9  # of the apiserver; the heartbeats of 5,000 nodes take 0.7
SETTLE_LIMIT_SECONDS: Final = 300.0
MOVED_RATIO: Final = 1 / 30  # of the nodes get new loads with each sample: each of them every five minutes
WORKERS: Final = ("kwok", "kube-controller-manager")
CONTROL_PLANE: Final = ("kube-apiserver", "etcd", "kube-scheduler", *WORKERS)
EXTENDERS: Final = ("extender-asked", "extender-spare")
SLI: Final = "scheduler_pod_scheduling_sli_duration_seconds"
CYCLE: Final = "scheduler_scheduling_attempt_duration_seconds"
REQUEST: Final = "evenload_extender_request_duration_seconds"
SYNC: Final = "evenload_annotator_sync_duration_seconds"
PLAN, RUN = "evenload_descheduler_plan_duration_seconds", "evenload_descheduler_run_duration_seconds"


class Settings(NamedTuple):
    """Size of the cluster, arrivals, and how long is measured."""

    nodes: int = 5000
    pods: int = 100_000
    arrivals_per_second: float = 50.0
    minutes: float = 15.0
    seed: int = 1


class Usage(NamedTuple):
    """Of one process: processor seconds so far and memory now."""

    processor_seconds: float
    mebibytes: float


class Reading(NamedTuple):
    """One moment: when, how many pods were created and refused, all pages and all processes by name."""

    at_seconds: float
    created: int
    refused: int
    pages: collections.abc.Mapping[str, Page]
    processes: collections.abc.Mapping[str, Usage]


class MovingLoads:
    """The prepared answers of a Prometheus whose nodes' loads change."""

    def __init__(self, source: prepared.StoredAnswers, known: list[str], rng: random.Random) -> None:
        self._source, self._rng = source, rng
        self._instances = [{"instance": f"{name}:9100"} for name in known]
        self._metrics = load_policy.defaults().metrics_in_force
        self._ratios = {metric.name: [rng.uniform(0.1, 0.6) for _ in known] for metric in self._metrics}
        for at in range(0, len(known), descheduler.HOT_EVERY):
            self._ratios["memory_avg_5m"][at] = 0.9
        self._answer()

    def move(self) -> None:
        """Draws new averages for some of the nodes that are not hot."""
        count = len(self._instances)
        for at in self._rng.sample(range(count), int(MOVED_RATIO * count)):
            for name in ("cpu_avg_5m", "memory_avg_5m"):
                if at % descheduler.HOT_EVERY:
                    self._ratios[name][at] = self._rng.uniform(0.1, 0.6)
        self._answer()

    def _answer(self) -> None:
        for metric in self._metrics:
            series = zip(self._instances, self._ratios[metric.name], strict=True)
            self._source.answer(node_queries.of_metric(metric), series)


def measure(settings: Settings) -> list[Row]:
    """The rows of `rows`."""
    os.environ.setdefault("GOGC", GOGC)
    rng = random.Random(settings.seed)
    now_seconds = clock.WallClock().now()
    known = fleet.names(settings.nodes)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(prometheus=False, exporter=False, node_exporter=False) as running,
        contextlib.ExitStack() as stack,
    ):
        for name in ("kube-scheduler", *WORKERS):
            running.processes[name].stop()
        etcd, workloads = answers.etcd_url(running), -(-settings.pods // fleet.REPLICAS)
        done = fleet.store(etcd, fleet.stored_nodes(settings.nodes, rng, now_seconds))
        done += fleet.store(etcd, fleet.stored_pods(settings.pods, known, rng, now_seconds))
        done += fleet.store(etcd, fleet.stored_owners(workloads, rng, now_seconds))
        cache.say(f"{done} objects stored")
        descheduler.caught_up(running)
        for name in WORKERS:
            running.processes[name].start()
            _settle(running, name)
        source = descheduler.prepared_answers(settings.pods, known, now_seconds)
        loads = MovingLoads(source, known, rng)
        url = stack.enter_context(prepared.serving(source))
        services: dict[str, Contestant] = {}
        for one in _services(running, url, pathlib.Path(scratch)):
            services[one.name] = stack.enter_context(one)
            _settle(running, one.name)
        running.start_scheduler(extenders=[extender_stanza.at(services[EXTENDERS[0]].url)])
        _settle(running, "kube-scheduler")
        coming = stack.enter_context(arrivals.Arrivals(running.api, settings.arrivals_per_second, settings.seed))
        return list(rows(settings, _readings(settings, running, services, coming, loads=loads)))


def _settle(running: cluster.Cluster, name: str) -> None:
    """Waits until the apiserver has answered the lists of a process: of several at a time it would keep too much."""
    ticking, never = clock.WallClock(), threading.Event()
    pid = running.processes["kube-apiserver"].pid
    assert pid is not None
    deadline = ticking.monotonic() + SETTLE_LIMIT_SECONDS
    before, busy = contestants.processor_seconds(pid), 1.0
    while busy > QUIET_PROCESSORS and ticking.monotonic() < deadline:
        ticking.wait(never, SAMPLE_SECONDS)
        now = contestants.processor_seconds(pid)
        before, busy = now, (now - before) / SAMPLE_SECONDS
    cache.say(f"{name} runs, the apiserver has {contestants.pss_mebibytes(pid):.0f} MiB")


def _services(running: cluster.Cluster, prometheus: str, directory: pathlib.Path) -> list[Contestant]:
    """Annotator, two extenders and the descheduler, not yet started."""
    document = yaml.safe_load((contestants.ROOT / "deploy/policies/default.yaml").read_text(encoding="utf-8"))
    document["sync"]["staleAfter"] = "24h"  # the prepared answers do not grow younger
    document["descheduler"] |= {"mode": "Enforce", "overloadedFor": "0s"}  # for the same reason
    document["descheduler"]["protect"]["localStorage"] = "none"
    policy = directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    common = ["--policy", str(policy), "--kubeconfig", str(running.kubeconfig), "--namespace", "default"]
    source = ["--prometheus", prometheus]
    ledger = ["--ledger", str(directory / "ledger.sqlite")]
    commands = {
        "annotator": ["annotator", *common, *source],
        **{name: ["extender", *common] for name in EXTENDERS},
        "descheduler": ["descheduler", *common, *source, *ledger],
    }
    return [
        Contestant(name, [sys.executable, "-m", *words, "--listen"], "/livez", directory)
        for name, words in commands.items()
    ]


def _readings(
    settings: Settings,
    running: cluster.Cluster,
    services: collections.abc.Mapping[str, Contestant],
    coming: arrivals.Arrivals,
    *,
    loads: MovingLoads,
) -> list[Reading]:
    """A reading every few seconds, from when everything has settled to the end."""
    ticking, never = clock.WallClock(), threading.Event()
    readings: list[Reading] = []
    with contextlib.ExitStack() as stack:
        sessions = {name: stack.enter_context(one.session()) for name, one in services.items()}
        control = stack.enter_context(control_session(running))
        began = ticking.monotonic()
        while ticking.monotonic() < began + SETTLE_SECONDS + 60 * settings.minutes:
            ticking.wait(never, SAMPLE_SECONDS)
            loads.move()
            if ticking.monotonic() < began + SETTLE_SECONDS:
                continue
            pages = {name: metric_pages.read(session, services[name].url) for name, session in sessions.items()}
            pages["kube-scheduler"] = metric_pages.read(control, running.url("kube-scheduler"))
            pages["kube-apiserver"] = metric_pages.read(control, running.api_url)
            pids: dict[str, int | None] = {name: running.processes[name].pid for name in CONTROL_PLANE}
            pids |= {name: one.process.pid for name, one in services.items()}
            used = {
                name: Usage(contestants.processor_seconds(pid), contestants.pss_mebibytes(pid))
                for name, pid in pids.items()
                if pid is not None
            }
            readings.append(Reading(ticking.monotonic(), coming.created, coming.refused, pages, used))
            cache.say(_progress(readings[0], readings[-1]))
    return readings


def control_session(running: cluster.Cluster) -> requests.Session:
    """Returns a client that all components answer."""
    session = requests.Session()
    session.trust_env = False
    pki = running.directory / "pki"
    session.verify = str(pki / "ca.crt")
    session.cert = (str(pki / "admin.crt"), str(pki / "admin.key"))
    return session


def _progress(first: Reading, last: Reading) -> str:
    minutes = (last.at_seconds - first.at_seconds) / 60
    bound = _bound(last) - _bound(first)
    created = last.created - first.created
    return f"minute {minutes:.1f}: {created} pods created, {bound:.0f} bound, {_pending(last):.0f} wait"


def _bound(reading: Reading) -> float:
    return reading.pages["kube-scheduler"].total("scheduler_schedule_attempts_total", result="scheduled")


def _pending(reading: Reading) -> float:
    return reading.pages["kube-scheduler"].total("scheduler_pending_pods")


def rows(settings: Settings, readings: collections.abc.Sequence[Reading]) -> collections.abc.Iterator[Row]:
    """The rates, latencies and costs between the first and the last reading."""
    first, last = readings[0], readings[-1]
    seconds = last.at_seconds - first.at_seconds
    size = f"{settings.nodes:,} nodes, {settings.pods:,} pods"
    yield Row(f"pods created, {size}", (last.created - first.created) / seconds, "pods/s")
    yield Row("pods that the apiserver refused or did not answer for", last.refused - first.refused, "pods")
    yield Row("pods bound by kube-scheduler", (_bound(last) - _bound(first)) / seconds, "pods/s")
    yield Row("pods waiting for kube-scheduler, most at a time", max(map(_pending, readings)), "pods")
    yield from _latencies(
        "kube-scheduler: from a pod's coming to its node", first, last, "kube-scheduler", histogram=SLI
    )
    yield from _latencies("kube-scheduler: one attempt", first, last, "kube-scheduler", histogram=CYCLE)
    for verb in ("filter", "prioritize"):
        yield from _latencies(f"extender: {verb}", first, last, EXTENDERS[0], histogram=REQUEST, verb=verb)
    yield from _runs("annotator: sync", readings, "annotator", SYNC)
    yield from _runs("descheduler: a plan in hand", readings, "descheduler", PLAN)
    yield from _runs("descheduler: a run with its evictions", readings, "descheduler", RUN)
    yield Row("descheduler: evictions", _grown(first, last, "descheduler", "evenload_evictions_total"), "")
    patches = _grown(first, last, "kube-apiserver", "apiserver_request_total", verb="PATCH", resource="nodes")
    yield Row("apiserver: patches of nodes", patches / seconds, "/s")
    for name, unit, per in (("apiserver_watch_events_total", "/s", 1.0), (EVENT_BYTES, "MB/s", 1e6)):
        for kind in ("pods", "nodes"):
            grown = _grown(first, last, "kube-apiserver", name, resource=kind)
            yield Row(f"apiserver: watch events of {kind}", grown / per / seconds, unit)
    for name in last.processes:
        yield Row(f"{name}: memory (PSS), highest", max(one.processes[name].mebibytes for one in readings), "MiB")
        spent = last.processes[name].processor_seconds - first.processes[name].processor_seconds
        yield Row(f"{name}: processors", spent / seconds, "")


EVENT_BYTES: Final = "apiserver_watch_events_sizes_sum"


def _grown(first: Reading, last: Reading, process: str, name: str, **labels: str) -> float:
    return last.pages[process].total(name, **labels) - first.pages[process].total(name, **labels)


def _latencies(
    what: str, first: Reading, last: Reading, process: str, *, histogram: str, **labels: str
) -> collections.abc.Iterator[Row]:
    for share in (0.5, 0.99):
        value = metric_pages.quantile(first.pages[process], last.pages[process], histogram, share, **labels)
        yield Row(f"{what}, p{100 * share:.0f}", 1e3 * value, "ms")


def _runs(
    what: str, readings: collections.abc.Sequence[Reading], process: str, histogram: str
) -> collections.abc.Iterator[Row]:
    """The mean of all, and the longest mean between two readings, which mostly have one of them or none between."""
    first, last = readings[0], readings[-1]
    count = _grown(first, last, process, f"{histogram}_count")
    yield Row(f"{what}, mean of {count:.0f}", _mean_seconds(first, last, process, histogram), "s")
    each = (_mean_seconds(*pair, process, histogram) for pair in itertools.pairwise(readings))
    yield Row(f"{what}, longest", max(each), "s")


def _mean_seconds(first: Reading, last: Reading, process: str, histogram: str) -> float:
    count = _grown(first, last, process, f"{histogram}_count")
    return _grown(first, last, process, f"{histogram}_sum") / count if count else 0.0
