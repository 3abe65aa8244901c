"""Growth of costs with the cluster: an answer of the extender, a descheduler's plan, a sync of the annotator.

For each size a real apiserver with so many nodes and 20 pods on each, and a Prometheus with prepared answers
(`prepared`). One node in twenty is over the line. The extender is asked about all nodes, which kube-scheduler does only
with `percentageOfNodesToScore: 100`; by default it asks about 500 of 5,000. Nothing is compared: the rows say how much
more a larger cluster costs, `--picture` draws them.
"""

import pathlib
import random
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import cluster
from bench import answers, contestants, descheduler, fleet, prepared
from bench.table import Row
from cli.common import plotting
from cluster import cache
from descheduler.snapshot import usage
from policy.schema import load_policy
from promql.queries import node_queries
from runtime import clock

PODS_PER_NODE: Final = 20
SYNCS, FIRST_SYNCS = 4, 2  # how many are measured, and how many before, which write every node
SYNC: Final = "evenload_annotator_sync_duration_seconds"
LIMIT_SECONDS, POLL_SECONDS = 600.0, 0.5
SIZE_INCHES: Final = (8.0, 5.0)
_NEVER = threading.Event()


class Settings(NamedTuple):
    """Sizes of the cluster in nodes, and the file of the picture, if one is wanted."""

    nodes: tuple[int, ...] = (500, 1000, 2000, 5000)
    picture: pathlib.Path | None = None
    seed: int = 1


class Costs(NamedTuple):
    """Milliseconds at one size."""

    nodes: int
    filter_ms: float
    prioritize_ms: float
    plan_ms: float
    sync_ms: float


LINES: Final = {
    "filter_ms": "extender: filter, all nodes (p50)",
    "prioritize_ms": "extender: prioritize, all nodes (p50)",
    "plan_ms": "descheduler: until a plan is in hand",
    "sync_ms": "annotator: a sync that writes nothing",
}


def measure(settings: Settings) -> list[Row]:
    """The rows of each size; draws the picture."""
    costs = [_costs(count, settings.seed) for count in settings.nodes]
    if settings.picture is not None:
        draw(costs, settings.picture)
    return list(rows(costs))


def rows(costs: Sequence[Costs]) -> Iterator[Row]:
    """A row for each cost and size, beside the cost of the smallest."""
    for field, what in LINES.items():
        first = getattr(costs[0], field)
        for one in costs:
            yield Row(f"{what}, {one.nodes:,} nodes", getattr(one, field), "ms", first)


def draw(costs: Sequence[Costs], path: pathlib.Path) -> None:
    """The costs over the nodes, both axes logarithmic: what grows as the nodes do is parallel to a grey line."""
    figure = plotting.figure(*SIZE_INCHES)
    axes = figure.subplots()
    nodes = [one.nodes for one in costs]
    for field, what in LINES.items():
        axes.plot(nodes, [getattr(one, field) for one in costs], label=what, marker="o")
    for begin in (0.1, 1.0, 10.0, 100.0):
        axes.plot(nodes, [begin * count / nodes[0] for count in nodes], color="0.85", linewidth=1, zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(nodes, [f"{count:,}" for count in nodes])
    axes.set_xlabel(f"nodes, {PODS_PER_NODE} pods on each")
    axes.set_ylabel("milliseconds")
    axes.minorticks_off()
    axes.legend(loc="best")
    plotting.save(figure, path)


def _costs(count: int, seed: int) -> Costs:
    rng = random.Random(seed)  # noqa: S311 - made-up loads, guards nothing
    now_seconds, pods = clock.WallClock().now(), PODS_PER_NODE * count
    known, body = fleet.names(count), fleet.pod("asked-about", "x", rng, now_seconds)
    asking = answers.Settings(names=(count,), nodes=count, legs=1, rounds=4, seed=seed)
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        directory, etcd = pathlib.Path(scratch), answers.etcd_url(running)
        fleet.store(etcd, descheduler.crowded(fleet.stored_nodes(count, rng, now_seconds), count, pods))
        fleet.store(etcd, fleet.stored_pods(pods, known, rng, now_seconds))
        fleet.store(etcd, fleet.stored_owners(-(-pods // fleet.REPLICAS), rng, now_seconds))
        fleet.store(etcd, (fleet.waiting(body, name) for name in answers.pod_names(asking)), per_transaction=1)
        descheduler.caught_up(running)
        cache.say(f"{count} nodes and {pods} pods stored")
        verbs = answers.alone(asking, running.kubeconfig, body, directory)
        source = descheduler.prepared_answers(pods, known, now_seconds)
        _add_windows(source, known)
        with prepared.serving(source) as url:
            plan = descheduler.resident(descheduler.command(directory, running.kubeconfig, url), directory)
            sync_seconds = _sync_seconds(running.kubeconfig, url, directory)
    return Costs(count, verbs["filter"], verbs["prioritize"], 1e3 * plan.planned_seconds, 1e3 * sync_seconds)


def _add_windows(source: prepared.Prepared, known: Sequence[str]) -> None:
    """The windows that only the annotator asks for."""
    instances = [{"instance": f"{name}:9100"} for name in known]
    known_already = usage.metrics_read(load_policy.LoadPolicy.of(descheduler.POLICY))
    for metric in load_policy.LoadPolicy.of({}).metrics_in_force:
        if metric in known_already:
            continue
        ratios = [0.1 + at % 37 / 100 for at in range(len(known))]
        source.answer(node_queries.of_metric(metric), zip(instances, ratios, strict=True))


def _sync_seconds(kubeconfig: pathlib.Path, prometheus: str, directory: pathlib.Path) -> float:
    """The mean of some syncs of a process that stays, after those that write every node."""
    policy = directory / "annotator.yaml"
    head = f"apiVersion: {load_policy.API_VERSION}\nkind: {load_policy.KIND}\n"
    policy.write_text(f"{head}sync: {{period: 10s, staleAfter: 24h}}\n", encoding="utf-8")
    command = [sys.executable, "-m", "annotator", "--policy", str(policy), "--kubeconfig", str(kubeconfig)]
    command += ["--namespace", "default", "--prometheus", prometheus, "--no-leader-elect", "--listen"]
    with contestants.Contestant("annotator", command, "/livez", directory) as process:
        before = _syncs(process, FIRST_SYNCS)
        after = _syncs(process, FIRST_SYNCS + SYNCS)
    return (after[0] - before[0]) / (after[1] - before[1])


def _syncs(process: contestants.Contestant, count: int) -> tuple[float, float]:
    """Seconds and number of all syncs, once there were so many."""
    ticking = clock.WallClock()
    deadline = ticking.monotonic() + LIMIT_SECONDS
    with process.session() as session:
        while ticking.monotonic() < deadline:
            lines = session.get(f"{process.url}/metrics", timeout=30).text.splitlines()
            found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
            if float(found[f"{SYNC}_count"]) >= count:
                return float(found[f"{SYNC}_sum"]), float(found[f"{SYNC}_count"])
            ticking.wait(_NEVER, POLL_SECONDS)
    raise TimeoutError(f"{process.url}: sync {count} has not ended within {LIMIT_SECONDS:.0f} s; its log says why")
