"""How fast questions are answered: filter and prioritize over 500 and 5,000 names, ours beside the Go reference.

A real apiserver holds the nodes and the extender watches it; nothing else runs. One client, one kept connection per
extender, the two take turns round by round. "prioritize" asks about the names that filter let pass, as kube-scheduler
does; "prioritize cold" about names in an order never seen before. Times run from the call to the last byte of the
answer; what the client's own JSON decoding adds is the same for both.
"""

import json
import pathlib
import random
import subprocess
import tempfile
from typing import NamedTuple

import cluster
from bench import contestants, fleet, programs
from bench.table import Row
from runtime import clock

VERBS = ("filter", "prioritize", "prioritize cold")
LIMITS = {5000: {"p50": 0.8, "p99": 0.9}, 500: {"p99": 1.3}}


class Settings(NamedTuple):
    """How much to ask: `names` per request for each part, nodes in the cluster, pods asked about per part."""

    names: tuple[int, ...] = (500, 5000)
    nodes: int = 5000
    rounds: int = 20
    calls: int = 50
    seed: int = 1


class FailedCalls(Exception):
    """Some answer was an error: times of a broken extender mean nothing."""


def measure(settings: Settings) -> list[Row]:
    """The rows of the table: p50 and p99 per verb and number of names."""
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        directory = pathlib.Path(scratch)
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        rng = random.Random(settings.seed)  # noqa: S311 - made-up loads, guards nothing
        now_seconds = clock.WallClock().now()
        fleet.store(etcd_url(running), fleet.stored_nodes(settings.nodes, rng, now_seconds))
        known = fleet.names(settings.nodes)
        pod = fleet.pod("asked-about", "x", rng, now_seconds)
        (directory / "pod.json").write_text(json.dumps(pod), encoding="utf-8")
        with (
            contestants.evenload(running.kubeconfig, directory) as ours,
            contestants.reference(known, directory) as theirs,
        ):
            return [row for count in settings.names for row in _rows(settings, count, (ours, theirs), directory)]


def etcd_url(running: cluster.Cluster) -> str:
    """Where the cluster's etcd answers."""
    record = json.loads((running.directory / "state.json").read_text(encoding="utf-8"))
    return str(record["addresses"]["etcd"])


def _rows(
    settings: Settings, count: int, pair: tuple[contestants.Contestant, ...], directory: pathlib.Path
) -> list[Row]:
    seen = _ask(settings, count, pair, directory)
    rows = []
    for verb in VERBS:
        ours, theirs = (seen[one.name][verb] for one in pair)
        for quantile in ("p50", "p99"):
            limit = LIMITS.get(count, {}).get(quantile)
            key = f"{quantile}_microseconds"
            rows.append(Row(f"{verb}, {count:,} names, {quantile}", ours[key] / 1e3, "ms", theirs[key] / 1e3, limit))
    return rows


def _ask(
    settings: Settings, count: int, pair: tuple[contestants.Contestant, ...], directory: pathlib.Path
) -> dict[str, dict[str, dict[str, float]]]:
    names = directory / "names"
    command = [str(programs.built("client")), "-names", str(names), "-pod", str(directory / "pod.json")]
    for one in pair:
        command += ["-target", f"{one.name}={one.url}"]
    command += ["-count", str(count), "-rounds", str(settings.rounds), "-calls", str(settings.calls)]
    answer = subprocess.run(
        [*command, "-seed", str(settings.seed)], capture_output=True, text=True, timeout=600, check=True
    )
    seen: dict[str, dict[str, dict[str, float]]] = json.loads(answer.stdout)
    for name, verbs in seen.items():
        for verb, summary in verbs.items():
            if summary["failed"]:
                raise FailedCalls(f"{name} {verb}: {summary['failed']} of {summary['calls']}: {summary['errors']}")
    return seen
