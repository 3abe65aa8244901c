"""Time of answers: filter and prioritize over 500 and 5,000 names, Evenload's beside the Go reference's.

A real apiserver holds the nodes and the pods that wait, and the extender watches it; nothing else runs. One client, one
kept connection per extender, the two take turns round by round. "prioritize" asks about the names that filter let pass,
as kube-scheduler does; "prioritize cold" about another pod and names in an order never seen before; "again" is about a
pod that was placed by the answer before, as after a failed binding. "filter after a pause" is the first request of a
round: the other contestant's turn has emptied the processors' caches. One request in fifty is one of these, and counted
with the others they are the p99 of filter; the row has no budget (docs/decisions/0011). The winner of each is assumed,
as in life, because the extender's own watch has the pod without a node. Times run from the call to the last byte of the
answer; what the client's own JSON decoding adds is the same for both.

A p99 of some hundreds of answers says how often the machine had something else to do, so there are several legs, those
of both numbers of names in turns. In each leg another contestant is asked first. A row gives the medians of the legs,
and the lowest and highest ratio of any of them.
"""

import collections.abc
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
from typing import NamedTuple

from prometheus_client import parser

from lab import cluster
from lab.bench import contestants, fleet, processors
from lab.bench.table import Row
from lab.cluster import programs
from runtime import clock

PAUSED = "filter after a pause"
VERBS = ("filter", PAUSED, "prioritize", "prioritize cold", "filter again", "prioritize again")
REQUESTS_OF_A_POD = 5
AWAITED = "evenload_extender_awaited_pods"
Leg = dict[str, dict[str, dict[str, float]]]  # what the client prints: contestant, verb, figure
LIMITS = {5000: {"p50": 0.75, "p99": 0.85}, 500: {"p50": 1.1, "p99": 1.2}}  # over mTLS, too
BUSY_LIMITS = {500: {"p50": 1.6, "p99": 2.0}}
# Times the limits: for a pod that counts on a node already, and for names that no filter has read before.
ALLOWANCES = {"filter again": 1.1, "prioritize again": 1.1, "prioritize cold": 1.25}


class Settings(NamedTuple):
    """How much to ask: `names` per request for each part, nodes in the cluster; per part so many legs of rounds, the
    first of which warms up, and pods asked about in a round.
    """

    names: tuple[int, ...] = (500, 5000)
    nodes: int = 5000
    legs: int = 7
    rounds: int = 20
    calls: int = 50
    seed: int = 1
    tls: bool = False  # mTLS on both sides
    busy: int = 0  # processes that want a processor all the time


class FailedCalls(Exception):
    """Some answer was an error: times of a broken extender mean nothing."""


class UnknownPods(Exception):
    """The extender was asked about pods that its watch does not have: it assumes none of them, which takes no time."""


def measure(settings: Settings) -> list[Row]:
    """The rows of the table: p50 and p99 per verb and number of names."""
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(scheduler=False, prometheus=False, exporter=False, node_exporter=False) as running,
    ):
        directory = pathlib.Path(scratch)
        for name in ("kwok", "kube-controller-manager"):
            running.processes[name].stop()
        rng = random.Random(settings.seed)
        now_seconds = clock.WallClock().now()
        known, pod = fleet.names(settings.nodes), fleet.pod("asked-about", "x", rng, now_seconds)
        fleet.store(etcd_url(running), fleet.stored_nodes(settings.nodes, rng, now_seconds))
        fleet.store(etcd_url(running), (fleet.waiting(pod, name) for name in pod_names(settings)), per_transaction=1)
        (directory / "pod.json").write_text(json.dumps(pod), encoding="utf-8")
        tls = contestants.tls_files(directory) if settings.tls else None
        with (
            contestants.evenload(running.kubeconfig, directory, tls) as ours,
            contestants.reference(known, directory, tls) as theirs,
            processors.wanted_by_others(settings.busy),
        ):
            legs: dict[int, list[Leg]] = {count: [] for count in settings.names}
            spent: dict[int, list[tuple[float, float]]] = {count: [] for count in settings.names}
            for leg in range(settings.legs):
                pair = (theirs, ours) if leg % 2 else (ours, theirs)
                for count, latest in legs.items():
                    before = ours.processor_seconds(), theirs.processor_seconds()
                    latest.append(_ask(settings, count, leg, pair, directory=directory))
                    after = ours.processor_seconds(), theirs.processor_seconds()
                    spent[count].append((after[0] - before[0], after[1] - before[1]))
                    check_awaited(_metrics_text(ours))
            limits = BUSY_LIMITS if settings.busy else LIMITS
            table_rows = [row for count, latest in legs.items() for row in rows(count, latest, limits.get(count, {}))]
            table_rows += [_processor_row(settings, count, each) for count, each in spent.items()]
            setting = ("mTLS: " if settings.tls else "") + (f"{settings.busy} others: " if settings.busy else "")
            return [row._replace(what=setting + row.what) for row in table_rows]


def alone(
    settings: Settings, kubeconfig: pathlib.Path, pod: dict[str, object], directory: pathlib.Path
) -> dict[str, float]:
    """The p50 of each verb in milliseconds, of Evenload's extender with no other beside it."""
    (directory / "pod.json").write_text(json.dumps(pod), encoding="utf-8")
    (directory / "names").write_text("\n".join(fleet.names(settings.nodes)), encoding="utf-8")
    with contestants.evenload(kubeconfig, directory) as ours:
        leg = _ask(settings, settings.names[0], 0, (ours,), directory=directory)
    return {verb: figures["p50_microseconds"] / 1e3 for verb, figures in leg[contestants.US].items()}


def etcd_url(running: cluster.Cluster) -> str:
    """Where the cluster's etcd answers."""
    record = json.loads((running.directory / "state.json").read_text(encoding="utf-8"))
    return str(record["addresses"]["etcd"])


def pod_names(settings: Settings) -> collections.abc.Iterator[str]:
    """The names, and uids, that the client gives the pods it asks about (`podOf` in client/main.go)."""
    for leg in range(settings.legs):
        for count in settings.names:
            for one in range(settings.rounds):
                for call in range(settings.calls):
                    name = f"bench-{_leg_seed(settings, leg)}-{count}-{one}-{call}"
                    yield name
                    yield f"{name}-cold"


def check_awaited(metrics_text: str) -> None:
    """Raise UnknownPods if the extender was asked about pods that its watch has not brought."""
    families = parser.text_string_to_metric_families(metrics_text)
    awaited = {sample.name: sample.value for family in families for sample in family.samples}[AWAITED]
    if awaited:
        raise UnknownPods(
            f"{AWAITED} is {awaited:g}, expected 0: the pods stored by bench.answers and those asked about by "
            "bench/client must have the same names"
        )


def rows(count: int, legs: list[Leg], limits: collections.abc.Mapping[str, float]) -> list[Row]:
    """Of each verb p50 and p99 beside the reference's: the medians of the legs, and how far their ratios lie apart;
    `limits` are the ratios allowed, by quantile.
    """
    table_rows = []
    for verb in VERBS:
        for quantile in ("p50",) if verb == PAUSED else ("p50", "p99"):  # a leg has too few of these for a p99
            key = f"{quantile}_microseconds"
            ours, theirs = (
                [leg[name][verb][key] / 1e3 for leg in legs] for name in (contestants.US, contestants.REFERENCE)
            )
            ratios = [mine / yardstick for mine, yardstick in zip(ours, theirs, strict=True)]
            what = f"{verb}, {count:,} names, {quantile}"
            limit = None if verb == PAUSED or quantile not in limits else limits[quantile] * ALLOWANCES.get(verb, 1.0)
            medians = statistics.median(ours), "ms", statistics.median(theirs)
            table_rows.append(Row(what, *medians, limit, legs=(min(ratios), max(ratios))))
    return table_rows


def _leg_seed(settings: Settings, leg: int) -> int:
    return settings.seed * 1000 + leg


def _processor_row(settings: Settings, count: int, legs: list[tuple[float, float]]) -> Row:
    """Processor time of a pod's filter and prioritize: two of the requests of a leg, the first round included."""
    requests_made = settings.rounds * settings.calls * REQUESTS_OF_A_POD
    ours, theirs = ([2e3 * seconds / requests_made for seconds in column] for column in zip(*legs, strict=True))
    ratios = [mine / yardstick for mine, yardstick in zip(ours, theirs, strict=True) if yardstick]
    medians = statistics.median(ours), "ms", statistics.median(theirs)
    what = f"processor time of filter and prioritize, {count:,} names"
    return Row(what, *medians, legs=(min(ratios), max(ratios)) if ratios else None)


def _metrics_text(ours: contestants.Contestant) -> str:
    with ours.session() as session:
        answer = session.get(f"{ours.url}/metrics", timeout=10)
        answer.raise_for_status()
        return answer.text


def _ask(
    settings: Settings, count: int, leg: int, pair: tuple[contestants.Contestant, ...], *, directory: pathlib.Path
) -> Leg:
    names = directory / "names"
    client = programs.built(contestants.HERE / "client")
    command = [str(client), "-names", str(names), "-pod", str(directory / "pod.json")]
    for one in pair:
        command += ["-target", f"{one.name}={one.url}"]
    if (tls := pair[0].tls) is not None:
        command += ["-ca", str(tls.authority), "-cert", str(tls.client_certificate), "-key", str(tls.client_key)]
    command += ["-count", str(count), "-rounds", str(settings.rounds), "-calls", str(settings.calls)]
    answer = subprocess.run(
        [*command, "-seed", str(_leg_seed(settings, leg))], capture_output=True, text=True, timeout=600, check=True
    )
    measured_leg: Leg = json.loads(answer.stdout)
    for name, verbs in measured_leg.items():
        for verb, summary in verbs.items():
            if summary["failed"]:
                raise FailedCalls(f"{name} {verb}: {summary['failed']} of {summary['calls']}: {summary['errors']}")
    return measured_leg
