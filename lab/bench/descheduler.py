"""Cost of one dry run of the descheduler on a large cluster: seconds and memory, on the real apiserver.

Nodes, pods, ReplicaSets and budgets are put into etcd (`fleet`); one node in twenty is over the line, and all its pods
are candidates. Prometheus's answers are prepared (`prepared`): its own time is not measured. The process is
measured from its start to its end (`--once`), and one run inside a process that stays is measured by its own histogram.
The reference, kubernetes-sigs descheduler (`peer`), runs in turns with it on the same cluster (docs/contract.md,
budgets).
"""

import collections.abc
import functools
import itertools
import pathlib
import random
import sys
import tempfile
import threading
from typing import NamedTuple

import requests
import yaml

from descheduler.snapshot import usage
from lab import cluster
from lab.bench import answers, contestants, fleet, peer, prepared, spending
from lab.bench.table import Row
from lab.cluster import api, cache
from policy import metrics
from policy.schema import load_policy
from promql.queries import node_queries, pod_queries
from runtime import clock

HOT_EVERY = 20
RUNS = 3
STAYING_RUNS = 11  # of a process that stays: a single run took 0.7 to 2.9 times the median
LIMIT_SECONDS = 600.0
POLL_SECONDS = 0.2
_NEVER = threading.Event()
HISTOGRAMS = ("evenload_descheduler_run_duration_seconds", "evenload_descheduler_plan_duration_seconds")
CROWDED = 1.1  # room for pods on a node over the line, as a multiple of what runs on it
POLICY: dict[str, object] = {
    "sync": {"staleAfter": "24h"},  # the prepared answers do not grow younger
    "descheduler": {
        "mode": "DryRun",
        "interval": "2s",
        "overloadedFor": "0s",
        "protect": {"localStorage": "none"},
        "limits": {"perHour": 1000},
        "cooldown": {"workload": "0s", "node": "0s"},  # every run has as much to plan as the first
    },
}


class Settings(NamedTuple):
    """How many nodes and pods."""

    nodes: int = 1000
    pods: int = 20_000
    seed: int = 1


def measure(settings: Settings) -> list[Row]:
    """The rows of `_rows`."""
    rng = random.Random(settings.seed)
    now_seconds = clock.WallClock().now()
    known = fleet.names(settings.nodes)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        etcd, workloads = answers.etcd_url(running), -(-settings.pods // fleet.REPLICAS)
        done = fleet.store(
            etcd, crowded(fleet.stored_nodes(settings.nodes, rng, now_seconds), settings.nodes, settings.pods)
        )
        done += fleet.store(etcd, fleet.stored_pods(settings.pods, known, rng, now_seconds))
        done += fleet.store(etcd, fleet.stored_owners(workloads, rng, now_seconds))
        cache.say(f"{done} objects stored")
        caught_up(running)
        source = prepared_answers(settings.pods, known, now_seconds)
        with prepared.serving(source) as url:
            command_line = command(pathlib.Path(scratch), running.kubeconfig, url)
            rival = peer.Peer(running.kubeconfig, pathlib.Path(scratch))
            turns = _in_turns(command_line, rival, settings, pathlib.Path(scratch) / "once.log")
            run = resident(command_line, pathlib.Path(scratch))
            assert source.unknown == 0, f"{source.unknown} queries had no answer prepared: the figures mean nothing"
            return _rows(settings, turns, run, rival.staying(STAYING_RUNS))


def crowded(
    nodes: collections.abc.Iterable[fleet.Stored], count: int, pods: int
) -> collections.abc.Iterator[fleet.Stored]:
    """The nodes; those over the line get little room for pods, by which they are over the yardstick's, too."""
    room = str(int(CROWDED * -(-pods // count)) + 1)
    for at, (key, body) in enumerate(nodes):
        status = body["status"]
        assert isinstance(status, dict)
        if at % HOT_EVERY == 0:
            status["capacity"]["pods"] = status["allocatable"]["pods"] = room
        yield key, body


class Turns(NamedTuple):
    """Whole processes: Evenload's, the yardstick's, and its dry run with the pods that it knew of."""

    ours: spending.ProcessCosts
    peer: spending.ProcessCosts
    dry: spending.ProcessCosts
    dry_pods: int


def _in_turns(command: collections.abc.Sequence[str], rival: peer.Peer, settings: Settings, log: pathlib.Path) -> Turns:
    """The median of some runs of each, after one that warms the apiserver's own cache and writes the bytecode."""
    environment = spending.compiled(log.with_name("bytecode"))
    ours_once = functools.partial(spending.once, [*command, "--once"], log, environment)
    ours_once()
    rounds = [(ours_once(), rival.once(dry=False), rival.once(dry=True)) for _ in range(RUNS)]
    cache.say(log.read_text(encoding="utf-8").splitlines()[-1])
    ours, whole, dry = zip(*rounds, strict=True)
    counts = [one.pods_seen for one in whole]
    assert min(counts) == settings.pods, f"the yardstick saw {counts} of {settings.pods} pods: the figures mean nothing"
    return Turns(
        spending.median(ours),
        spending.median(one.spent for one in whole),
        spending.median(one.spent for one in dry),
        max(one.pods_seen for one in dry),
    )


def caught_up(running: cluster.Cluster, paths: collections.abc.Iterable[str] = ("api/v1/nodes", "api/v1/pods")) -> None:
    """Waits until the apiserver's watch cache has what was stored behind its back: before, lists end in a 504."""
    ticking = clock.WallClock()
    deadline = ticking.monotonic() + LIMIT_SECONDS
    for path in paths:
        version = ""
        while True:
            try:
                version = version or running.api.get(path, limit="1")["metadata"]["resourceVersion"]
                running.api.get(path, limit="1", resourceVersion=version, resourceVersionMatch="NotOlderThan")
                break
            except api.ApiError:
                if ticking.monotonic() >= deadline:
                    raise
                ticking.wait(_NEVER, POLL_SECONDS)


class Staying(NamedTuple):
    """A process that stays: a run of it, and the seconds until its plan was made."""

    spent: spending.ProcessCosts
    planned_seconds: float


def _rows(settings: Settings, turns: Turns, run: Staying, staying: spending.ProcessCosts) -> list[Row]:
    size, ours, rival = f"{settings.nodes:,} nodes, {settings.pods:,} pods", turns.ours, turns.peer
    return [
        Row(f"descheduler: one dry run, a whole process, {size}", ours.seconds, "s", rival.seconds, 1.0),
        Row("descheduler: the same, processor time", ours.processor_seconds, "s", rival.processor_seconds),
        Row("descheduler: the same, most memory (RSS)", ours.mebibytes, "MiB", rival.mebibytes, 1.0),
        Row(
            f"descheduler: the same, beside its --dry-run (it knew {turns.dry_pods:,} of the pods)",
            ours.seconds,
            "s",
            turns.dry.seconds,
        ),
        Row(f"descheduler: a run that stays, plan in hand, {size}", run.planned_seconds, "s", staying.seconds, 1.5),
        Row("descheduler: the same, with its evictions tried (dry)", run.spent.seconds, "s", staying.seconds),
        Row("descheduler: the same, memory (PSS)", run.spent.mebibytes, "MiB", staying.mebibytes, 1.0),
    ]


def prepared_answers(pod_count: int, known: list[str], now_seconds: float) -> prepared.StoredAnswers:
    """Every answer a run asks for: one node in twenty at 90 % of memory, pods that use some of it."""
    policy = load_policy.LoadPolicy.of(POLICY)
    source = prepared.StoredAnswers(now_seconds)
    instances = [{"instance": f"{name}:9100"} for name in known]
    for metric in usage.metrics_read(policy):
        hot = metric.name == "memory_avg_5m"
        ratios = [0.9 if hot and at % HOT_EVERY == 0 else 0.1 + at % 37 / 100 for at in range(len(known))]
        source.answer(node_queries.of_metric(metric), zip(instances, ratios, strict=True))
    windows = usage.pod_windows(policy)
    pods = [{"namespace": fleet.NAMESPACE, "pod": name} for name in fleet.pod_names(pod_count)]
    cores, sizes = (0.05 + at % 7 / 20 for at in range(len(pods))), (2.0**28 * (1 + at % 9) for at in range(len(pods)))
    source.answer(pod_queries.cpu_cores(windows[metrics.CPU]), zip(pods, cores, strict=True))
    source.answer(pod_queries.memory_bytes(windows[metrics.MEMORY]), zip(pods, sizes, strict=True))
    for resource in ("cpu", "memory"):
        source.answer(node_queries.data_time(resource), ((labels, now_seconds) for labels in instances))
        source.answer(pod_queries.data_time(resource), ((labels, now_seconds) for labels in pods))
    return source


def command(directory: pathlib.Path, kubeconfig: pathlib.Path, prometheus: str) -> list[str]:
    document = {"apiVersion": load_policy.API_VERSION, "kind": load_policy.KIND, **POLICY}
    policy = directory / "policy.yaml"
    policy.write_text(yaml.safe_dump(document), encoding="utf-8")
    named_options = {
        "policy": policy,
        "kubeconfig": kubeconfig,
        "prometheus": prometheus,
        "ledger": directory / "ledger.sqlite",
    }
    options = [word for name, value in named_options.items() for word in (f"--{name}", str(value))]
    return [sys.executable, "-m", "descheduler", *options]


def resident(command_line: collections.abc.Sequence[str], directory: pathlib.Path) -> Staying:
    """A process that stays: the medians of some runs by its own histograms, and its memory afterwards."""
    staying = contestants.Contestant(
        "descheduler", [*command_line, "--no-leader-elect", "--listen"], "/livez", directory
    )
    with staying as process, requests.Session() as session:
        session.trust_env = False
        sums = [_after(session, process.url, count) for count in range(1, STAYING_RUNS + 2)]
        whole, planned = (
            sorted(later[name] - earlier[name] for earlier, later in itertools.pairwise(sums)) for name in HISTOGRAMS
        )
        spent = spending.ProcessCosts(whole[len(whole) // 2], process.memory_mebibytes())
        return Staying(spent, planned[len(planned) // 2])


def _after(session: requests.Session, url: str, count: int) -> dict[str, float]:
    """Seconds of all runs up to the run of that number, by histogram."""
    ticking = clock.WallClock()
    deadline = ticking.monotonic() + LIMIT_SECONDS
    while ticking.monotonic() < deadline:
        lines = session.get(f"{url}/metrics", timeout=30).text.splitlines()
        samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        if float(samples[f"{HISTOGRAMS[0]}_count"]) >= count:
            return {name: float(samples[f"{name}_sum"]) for name in HISTOGRAMS}
        ticking.wait(_NEVER, POLL_SECONDS)
    raise TimeoutError(f"{url}: run {count} has not ended within {LIMIT_SECONDS:.0f} s; its log says why")
