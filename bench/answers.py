"""How fast questions are answered: filter and prioritize over 500 and 5,000 names, ours beside the Go reference.

A real apiserver holds the nodes and the extender watches it; nothing else runs. One client, one kept connection per
extender, the two take turns round by round. "prioritize" asks about the names that filter let pass, as kube-scheduler
does; "prioritize cold" about names in an order never seen before. Times run from the call to the last byte of the
answer; what the client's own JSON decoding adds is the same for both.

A p99 of some hundreds of answers says how often the machine had something else to do, so there are several legs, those
of both numbers of names in turns. In each leg another contestant is asked first. A row gives the medians of the legs,
and the lowest and highest ratio of any of them.
"""

import json
import pathlib
import random
import statistics
import subprocess
import tempfile
from typing import NamedTuple

import cluster
from bench import contestants, fleet, programs
from bench.table import Row
from runtime import clock

VERBS = ("filter", "prioritize", "prioritize cold")
Leg = dict[str, dict[str, dict[str, float]]]  # what the client prints: contestant, verb, figure
LIMITS = {5000: {"p50": 0.8, "p99": 0.9}, 500: {"p99": 1.3}}


class Settings(NamedTuple):
    """How much to ask: `names` per request for each part, nodes in the cluster; per part so many legs of rounds, the
    first of which warms up, and pods asked about in a round.
    """

    names: tuple[int, ...] = (500, 5000)
    nodes: int = 5000
    legs: int = 7
    rounds: int = 10
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
            legs: dict[int, list[Leg]] = {count: [] for count in settings.names}
            for leg in range(settings.legs):
                pair = (theirs, ours) if leg % 2 else (ours, theirs)
                for count, seen in legs.items():
                    seen.append(_ask(settings, count, leg, pair, directory))
            return [row for count, seen in legs.items() for row in rows(count, seen)]


def etcd_url(running: cluster.Cluster) -> str:
    """Where the cluster's etcd answers."""
    record = json.loads((running.directory / "state.json").read_text(encoding="utf-8"))
    return str(record["addresses"]["etcd"])


def rows(count: int, legs: list[Leg]) -> list[Row]:
    """Of each verb p50 and p99 beside the reference's: the medians of the legs, and how far their ratios lie apart."""
    made = []
    for verb in VERBS:
        for quantile in ("p50", "p99"):
            key = f"{quantile}_microseconds"
            ours, theirs = (
                [leg[name][verb][key] / 1e3 for leg in legs] for name in (contestants.US, contestants.REFERENCE)
            )
            ratios = [mine / yardstick for mine, yardstick in zip(ours, theirs, strict=True)]
            what, limit = f"{verb}, {count:,} names, {quantile}", LIMITS.get(count, {}).get(quantile)
            medians = statistics.median(ours), "ms", statistics.median(theirs)
            made.append(Row(what, *medians, limit, legs=(min(ratios), max(ratios))))
    return made


def _ask(
    settings: Settings, count: int, leg: int, pair: tuple[contestants.Contestant, ...], directory: pathlib.Path
) -> Leg:
    names = directory / "names"
    command = [str(programs.built("client")), "-names", str(names), "-pod", str(directory / "pod.json")]
    for one in pair:
        command += ["-target", f"{one.name}={one.url}"]
    command += ["-count", str(count), "-rounds", str(settings.rounds), "-calls", str(settings.calls)]
    answer = subprocess.run(
        [*command, "-seed", str(settings.seed * 1000 + leg)], capture_output=True, text=True, timeout=600, check=True
    )
    seen: Leg = json.loads(answer.stdout)
    for name, verbs in seen.items():
        for verb, summary in verbs.items():
            if summary["failed"]:
                raise FailedCalls(f"{name} {verb}: {summary['failed']} of {summary['calls']}: {summary['errors']}")
    return seen
