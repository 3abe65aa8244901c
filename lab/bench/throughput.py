"""Pods per second of a real kube-scheduler on 1,000 nodes: with Evenload's extender, with the Go extender, in turns.

Pods are created while the scheduler is down; then it starts with one extender, and its own counter of scheduled pods
is read until they are all bound. The rate is that between the first tenth and the ninth, so that start-up and tail do
not count. Legs alternate, because the nodes fill up and the machine is shared. Only the extender of a leg runs: what
ours costs by watching would slow the other's legs, too.

The budget is for an extender with a processor of its own (`processors`); the same with all processors shared is told
beside it.
"""

import collections.abc
import concurrent.futures
import contextlib
import pathlib
import random
import re
import statistics
import sys
import tempfile
import threading
from typing import NamedTuple

from lab import cluster
from lab.bench import contestants, fleet, processors, scale
from lab.bench.table import Row
from lab.cluster import nodes
from policy.contract import load_annotation
from runtime import clock

LIMIT_RATIO = 0.95
PARALLEL = 16
POLL_SECONDS = 0.1
LEG_SECONDS = 300.0
_SCHEDULED = re.compile(r'^scheduler_schedule_attempts_total\{[^}]*result="scheduled"[^}]*\} (\S+)', re.MULTILINE)
_NEVER = threading.Event()


class Settings(NamedTuple):
    """How many nodes, pods per leg, legs per extender."""

    nodes: int = 1000
    pods: int = 1000
    legs: int = 3
    seed: int = 1


class Stuck(Exception):
    """The scheduler did not bind everything."""


def measure(settings: Settings) -> list[Row]:
    """A row per arrangement of processors: the median rate over the legs of each."""
    first, *others = processors.arrangements()
    return [_compared(settings, first, LIMIT_RATIO), *(_compared(settings, one, None) for one in others)]


def _compared(settings: Settings, arrangement: processors.Arrangement, limit_ratio: float | None) -> Row:
    rng = random.Random(settings.seed)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        processors.only(arrangement.others),
        cluster.Cluster(prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        running.processes["kube-scheduler"].stop()
        _create_nodes(running, settings.nodes, rng)
        rates = _rates(running, settings, arrangement, pathlib.Path(scratch))
    mine, yardstick = (statistics.median(rates[name]) for name in (contestants.US, contestants.REFERENCE))
    what = f"pods bound by kube-scheduler, {settings.nodes:,} nodes, {arrangement.what}"
    return Row(what, mine, "pods/s", yardstick, limit_ratio, at_least=True)


def _rates(
    running: cluster.Cluster, settings: Settings, arrangement: processors.Arrangement, scratch: pathlib.Path
) -> dict[str, list[float]]:
    """Pods per second of each leg, by contestant."""
    known = fleet.names(settings.nodes)
    ours = contestants.evenload(running.kubeconfig, scratch)
    theirs = contestants.reference(known, scratch)
    rates: dict[str, list[float]] = {ours.name: [], theirs.name: []}
    for leg in range(settings.legs):
        for one in (ours, theirs) if leg % 2 else (theirs, ours):
            with contextlib.ExitStack() as started:
                with processors.only(arrangement.extender):
                    started.enter_context(one)
                rates[one.name].append(_leg(running, one, f"leg-{leg}-{one.name}", settings.pods))
            _log(f"{arrangement.what}, leg {leg + 1} of {settings.legs}: {one.name} {rates[one.name][-1]:.1f} pods/s")
    return rates


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _create_nodes(running: cluster.Cluster, count: int, rng: random.Random) -> None:
    running.add_nodes([nodes.NodeShape(name, cpu="64", memory="256Gi", pods=1000) for name in fleet.names(count)])
    now_seconds = clock.WallClock().now()
    texts = {name: fleet.reading(rng, now_seconds) for name in fleet.names(count)}

    def annotate(name: str) -> None:
        running.api.patch(f"api/v1/nodes/{name}", {"metadata": {"annotations": {load_annotation.KEY: texts[name]}}})

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(annotate, texts))


def _leg(running: cluster.Cluster, contestant: contestants.Contestant, prefix: str, count: int) -> float:
    """Create, schedule, count: pods per second."""
    scheduler = running.processes["kube-scheduler"]
    scheduler.stop()
    create_pods(running, prefix, count)
    stanza = {"urlPrefix": contestant.url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 2}
    running.start_scheduler(extenders=[{**stanza, "nodeCacheCapable": True, "httpTimeout": "5s"}])
    samples = drained(running, prefix, count)
    scheduler.stop()
    return rate([(sample.at_seconds, sample.scheduled) for sample in samples], count)


class Sample(NamedTuple):
    """How many pods were scheduled at a moment, and the processor seconds that they had taken."""

    at_seconds: float
    processor_seconds: float
    scheduled: float


def drained(
    running: cluster.Cluster, prefix: str, count: int, spent: collections.abc.Callable[[], float] = float
) -> list[Sample]:
    """Samples kube-scheduler until it has scheduled so many pods; `spent` gives processor seconds. Raises Stuck."""
    ticking = clock.WallClock()
    samples = [Sample(ticking.monotonic(), spent(), 0.0)]
    with scale.control_session(running) as session:
        while (last := samples[-1]).scheduled < count:
            if last.at_seconds - samples[0].at_seconds > LEG_SECONDS:
                raise Stuck(f"{prefix}: {last.scheduled:g} of {count} pods scheduled in {LEG_SECONDS:g} s")
            _NEVER.wait(POLL_SECONDS)
            answer = session.get(f"{running.url('kube-scheduler')}/metrics", timeout=5)
            answer.raise_for_status()
            scheduled = sum(float(value) for value in _SCHEDULED.findall(answer.text))
            samples.append(Sample(ticking.monotonic(), spent(), scheduled))
    return samples


def rate(samples: list[tuple[float, float]], count: int) -> float:
    """Pods per second between the first reading at a tenth and the first at nine tenths; 0 when they are one."""
    (start, low), (end, high) = (next(one for one in samples if one[1] >= share * count) for share in (0.1, 0.9))
    return (high - low) / (end - start) if end > start else 0.0


def create_pods(running: cluster.Cluster, prefix: str, count: int) -> None:
    """Creates pods that ask for little and end at once when they are deleted."""
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}

    def create(at: int) -> None:
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        running.api.create(
            "api/v1/namespaces/default/pods",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{prefix}-{at}"}, "spec": spec},
        )

    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(create, range(count)))
