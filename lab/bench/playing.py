"""Load of a bench's nodes and their past day: pods with the curves of a trace.

`annotator` gives each node a few pods. Every pod is a replica of one job of the trace (or of the seeded generator), at
that job's own mean, scaled down so that a node's pods fill about half of it. The load exporter plays them from a moment
of the trace's clock on; `history` says what the recording rules of deploy/monitoring would have recorded over the day
before that moment, so that the long windows are full from the start.
"""

import collections.abc
import functools
import pathlib
import random
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from lab.bench import fleet
from lab.cluster import exporter_load, exporter_text, nodes
from promql.queries import recording_rules
from simulator import contention, load_curves

Floats = npt.NDArray[np.float32]

GENERATED_JOBS = 250
NODE = contention.Load(16_000.0, 64 * 2.0**30)
FILL_RATIO = 0.5  # of the node by its pods, on average over the jobs
SYSTEM = contention.SystemLoad()
GRID_SECONDS = 30.0
AVERAGE_SECONDS, HOUR_SECONDS, DAY_SECONDS = 300.0, 3600.0, 86400.0
RECORDED_SECONDS = {"avg_5m": 60.0, "max_1h": 300.0}  # how far apart the past's samples are
KEPT_SECONDS = {"avg_5m": HOUR_SECONDS, "max_1h": DAY_SECONDS}  # how far back the rules look at them
JOB = "load-exporter"


class Player(NamedTuple):
    """A pod: which job's which replica, and on which node (by number)."""

    job: int
    ordinal: int
    node: int


class Cast(NamedTuple):
    """All pods: the jobs' curves and what one replica of each uses, and the pods."""

    profiles: tuple[exporter_load.Profile, ...]
    curves: tuple[load_curves.Curve, ...]
    players: tuple[Player, ...]
    nodes: int


def cast(node_count: int, pods_per_node: int, seed: int, trace: pathlib.Path | None) -> Cast:
    """Assigns curves to the pods of each node; TraceError for a file that holds none."""
    seeded = ((load_curves.generate(job), load_curves.owner_means(job)) for job in range(GENERATED_JOBS))
    curves, means = zip(*(exporter_load.read_trace(trace) if trace else seeded), strict=True)
    kind = "trace" if trace else "google"
    scale = FILL_RATIO / pods_per_node
    cpu = scale / float(np.mean([mean.cpu_ratio for mean in means])) * NODE.cpu_millicores
    memory = scale / float(np.mean([mean.memory_ratio for mean in means])) * NODE.memory_bytes
    profiles = tuple(
        exporter_load.Profile(cpu * mean.cpu_ratio, memory * mean.memory_ratio, kind, job)
        for job, mean in enumerate(means)
    )
    return Cast(profiles, curves, _players(node_count, pods_per_node, len(curves), seed), node_count)


def _players(node_count: int, pods_per_node: int, jobs: int, seed: int) -> tuple[Player, ...]:
    drawn = np.random.default_rng(seed).integers(jobs, size=node_count * pods_per_node)
    replicas = [0] * jobs
    players = []
    for at, job in enumerate(drawn.tolist()):
        players.append(Player(job, replicas[job], at // pods_per_node))
        replicas[job] += 1
    return tuple(players)


def stored_pods(
    cast_of_pods: Cast, on: range, names: collections.abc.Sequence[str], rng: random.Random, *, now_seconds: float
) -> collections.abc.Iterator[fleet.Stored]:
    """The pods on the nodes of these numbers, running; a job's replicas come in the order of their ordinals."""
    for at, player in enumerate(cast_of_pods.players):
        if player.node in on:
            body = fleet.pod(f"job-{player.job}", f"{player.ordinal:06}", rng, now_seconds)
            says = {exporter_load.USAGE_KEY: msgspec.json.encode(cast_of_pods.profiles[player.job]).decode()}
            bound_at_seconds = now_seconds - rng.uniform(60, DAY_SECONDS)
            yield fleet.running(body, names[player.node], at, bound_at_seconds, annotated=says)


def history(cast_of_pods: Cast, trace_seconds: float, now_seconds: float) -> str:
    """OpenMetrics text of the recorded averages and maxima until now, when the trace's clock stands at a time."""
    ages = np.arange(DAY_SECONDS + HOUR_SECONDS + AVERAGE_SECONDS, 0.0, -GRID_SECONDS)
    parts: list[str] = []
    for resource, ratios in _ratios(cast_of_pods, trace_seconds - ages).items():
        averages, average_ages = _averages(ratios), ages[round(AVERAGE_SECONDS / GRID_SECONDS) - 1 :]
        hours, hour_ages = _maxima(averages), average_ages[round(HOUR_SECONDS / GRID_SECONDS) - 1 :]
        for window, values, values_ages in (("avg_5m", averages, average_ages), ("max_1h", hours, hour_ages)):
            parts += _lines(recording_rules.record(f"{resource}_{window}"), window, values, now_seconds - values_ages)
    return "\n".join([*parts, "# EOF\n"])


def _ratios(cast_of_pods: Cast, at_seconds: npt.NDArray[np.float64]) -> dict[str, Floats]:
    """Use [nodes, times] as shares of the node, as the exporter would show it."""
    wanted = {name: np.zeros((cast_of_pods.nodes, len(at_seconds)), np.float32) for name in ("cpu", "memory")}

    @functools.cache
    def shape(job: int, lag_steps: int) -> tuple[Floats, Floats]:
        curve, profile = cast_of_pods.curves[job], cast_of_pods.profiles[job]
        steps = (np.floor(at_seconds / curve.step_seconds).astype(int) - lag_steps) % len(curve.cpu)
        cpu = curve.cpu[steps] * np.float32(profile.cpu_millicores / NODE.cpu_millicores)
        return cpu, curve.memory[steps] * np.float32(profile.memory_bytes / NODE.memory_bytes)

    for job, ordinal, node in cast_of_pods.players:
        which = exporter_load.replica(cast_of_pods.profiles[job].seed, ordinal)
        cpu, memory = shape(job, which.lag_steps)
        wanted["cpu"][node] += cpu * np.float32(which.level)
        wanted["memory"][node] += memory * np.float32(which.level)
    return {
        "cpu": np.minimum(wanted["cpu"] + np.float32(SYSTEM.cpu_ratio), 1.0),
        "memory": np.minimum(wanted["memory"] + np.float32(SYSTEM.memory_ratio), contention.MEMORY_CEILING_RATIO),
    }


def _averages(ratios: Floats) -> Floats:
    """The mean of the last five minutes at each time that has them."""
    width = round(AVERAGE_SECONDS / GRID_SECONDS)
    sums = np.cumsum(ratios, axis=1, dtype=np.float64)
    sums[:, width:] -= sums[:, :-width].copy()
    return np.asarray(sums[:, width - 1 :] / width, np.float32)


def _maxima(averages: Floats) -> Floats:
    """The highest of the last hour at each time that has one, by doubling spans."""
    width, span, highest = round(HOUR_SECONDS / GRID_SECONDS), 1, averages
    while span < width:
        step = min(span, width - span)
        highest = np.maximum(highest[:, step:], highest[:, :-step])
        span += step
    return highest


def _lines(
    name: str, window: str, values: Floats, at_seconds: npt.NDArray[np.float64]
) -> collections.abc.Iterator[str]:
    """One family: the samples of the span that the rules look back over, node by node."""
    apart, rows = (round(seconds[window] / GRID_SECONDS) for seconds in (RECORDED_SECONDS, KEPT_SECONDS))
    first = max(0, values.shape[1] - rows)
    times = [f"{at:.0f}" for at in at_seconds[first::apart].tolist()]
    yield f"# TYPE {name} gauge"
    for node, row in enumerate(values[:, first::apart].tolist()):
        start = f'{name}{{instance="{exporter_text.instance(nodes.address(node), 9100)}",job="{JOB}"}} '
        yield "\n".join([f"{start}{value:.5f} {at}" for value, at in zip(row, times, strict=True)])
