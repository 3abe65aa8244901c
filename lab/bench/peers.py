"""Schedulers that go by load, on one control plane and the same arrivals: Evenload's extender and peers' own binaries.

`python -m lab.bench peers` builds the peers from their Go modules (trimaran/, koordinator/; minutes the first time) and
runs them in turns with kube-scheduler as it is, and with a Go extender that knows no loads (`contestants`):

    kube-scheduler alone and with either extender     Kubernetes 1.36.3
    scheduler-plugins v0.34.7 (Trimaran)              Kubernetes 1.34.4
    koord-scheduler v1.8.0 (Koordinator)              Kubernetes 1.35.2

Each has the loads of the same annotations: Trimaran asks a load-watcher (`LoadWatcher` answers as one does, without a
deviation, which annotations do not have), Koordinator watches NodeMetrics. Processes that measure loads count for none.
Each has its defaults, but no limit for the age of loads; of Koordinator's plugins only LoadAwareScheduling is on.

A leg starts a scheduler over pods that wait, as `throughput` does, then lets pods come at a steady rate. kwok and
kube-controller-manager stand still: the scheduler, its extender, the apiserver and etcd run, on all processors.
"""

import collections.abc
import concurrent.futures
import contextlib
import os
import pathlib
import random
import statistics
import tempfile
import threading
from typing import Final, NamedTuple

import msgspec

from lab import cluster
from lab.bench import answers, arrivals, contestants, descheduler, fleet, metric_pages, prepared, scale, throughput
from lab.bench.table import Row
from lab.cluster import cache, extender_stanza, programs, site
from lab.cluster.api import Json
from policy import metrics
from policy.contract import load_annotation
from policy.schema import load_policy
from runtime import clock

GOGC: Final = "100"  # as installations have it, where `cluster` has 400
STOCK: Final = "kube-scheduler"
PACKING: Final = "Trimaran, TargetLoadPacking"
BALANCING: Final = "Trimaran, LoadVariationRiskBalancing"
KOORDINATOR: Final = "Koordinator"
SETTLE_SECONDS: Final = 5.0  # for the last pods of a leg
WARM_SHARE: Final = 0.1
AGE_SECONDS: Final = 86_400
ALGORITHM: Final = "scheduler_scheduling_algorithm_duration_seconds"
EXTENSIONS: Final = "apis/apiextensions.k8s.io/v1"
NODE_METRICS: Final = "apis/slo.koordinator.sh/v1alpha1/nodemetrics"
# By group, version and plural; koord-scheduler does not begin before it has listed each.
KINDS: Final = {
    NODE_METRICS: "NodeMetric",
    "apis/scheduling.koordinator.sh/v1alpha1/reservations": "Reservation",
    "apis/scheduling.koordinator.sh/v1alpha1/devices": "Device",
    "apis/scheduling.koordinator.sh/v1alpha1/clusternetworktopologies": "ClusterNetworkTopology",
}
UNITS: Final = {
    "pods bound a second": "pods/s",
    "scheduling algorithm, mean": "ms",
    "processor time a pod": "ms",
    "memory (PSS)": "MiB",
    "paced pods, p50": "ms",
    "paced pods, p99": "ms",
}
DEVIATIONS: Final = {"cpu": "cpu_deviation", "memory": "memory_deviation"}
WATCHED: Final = {  # load-watcher's words of each
    metrics.CPU_AVG_5M: ("CPU", "AVG"),
    metrics.MEMORY_AVG_5M: ("Memory", "AVG"),
    DEVIATIONS["cpu"]: ("CPU", "STD"),
    DEVIATIONS["memory"]: ("Memory", "STD"),
}
Loads = collections.abc.Mapping[str, collections.abc.Mapping[str, float]]  # ratios by metric, by node
_NEVER = threading.Event()


class Settings(NamedTuple):
    """Sizes of the cluster, pods that wait, legs of each, and pods that come a second for so long."""

    nodes: tuple[int, ...] = (1000, 5000)
    pods: int = 1000
    legs: int = 3
    arrivals_per_second: float = 50.0
    paced_seconds: float = 20.0
    seed: int = 1


class Blind(Exception):
    """A scheduler that goes by load has not gone by it, or none can be told from one that does."""


class Entrant(NamedTuple):
    """One of the compared: its profiles, its own program or its extender, and whether it goes by load."""

    name: str
    profiles: collections.abc.Sequence[Json] = ()
    program: pathlib.Path | None = None
    extender: contestants.Contestant | None = None
    by_load: bool = True


class Figures(NamedTuple):
    """One leg, in the order of UNITS; processor and memory of the scheduler and its extender together."""

    pods_per_second: float
    algorithm_milliseconds: float
    processor_milliseconds: float
    mebibytes: float
    p50_milliseconds: float
    p99_milliseconds: float


class LoadWatcher:
    """Answers as paypal/load-watcher does: averages of the last minutes in percent, for every node, and deviations
    where `loads` have them; `questions` counts.
    """

    def __init__(self, loads: Loads) -> None:
        self.loads, self.questions = loads, 0

    def body(self, expression: str) -> bytes:
        """Returns the answer of a watcher that has just read them; it takes no expression."""
        now = int(clock.WallClock().now())
        self.questions += 1
        nodes = {
            node: {
                "metrics": [
                    {"name": metric, "type": kind, "operator": operator, "rollup": "5m", "value": 100 * ratios[metric]}
                    for metric, (kind, operator) in WATCHED.items()
                    if metric in ratios
                ]
            }
            for node, ratios in self.loads.items()
        }
        window = {"duration": "5m", "start": now - 300, "end": now}
        data = {"NodeMetricsMap": nodes}
        return msgspec.json.encode({"timestamp": now, "window": window, "source": "bench", "data": data})


def measure(settings: Settings) -> list[Row]:
    """The rows of every size of the cluster."""
    os.environ.setdefault("GOGC", GOGC)
    return [row for count in settings.nodes for row in rows(f"{count:,} nodes", _legs(settings, count))]


def rows(
    size: str, legs: collections.abc.Mapping[str, collections.abc.Sequence[Figures]]
) -> collections.abc.Iterator[Row]:
    """Evenload's medians beside each other's, and the lowest and highest ratio of any leg."""
    for at, (figure, unit) in enumerate(UNITS.items()):
        ours = [leg[at] for leg in legs[contestants.US]]
        for name, others in legs.items():
            if name != contestants.US:
                theirs = [leg[at] for leg in others]
                ratios = [own / other for own, other in zip(ours, theirs, strict=True)]
                medians = statistics.median(ours), unit, statistics.median(theirs)
                yield Row(f"{figure}, {size}, beside {name}", *medians, legs=(min(ratios), max(ratios)))


def _legs(settings: Settings, count: int) -> dict[str, list[Figures]]:
    """The legs of each, in turns; each round begins with another."""
    now_seconds = clock.WallClock().now()
    nodes = list(fleet.stored_nodes(count, random.Random(settings.seed), now_seconds))
    loads = {key.rpartition("/")[2]: _ratios(body) for key, body in nodes}
    with (
        tempfile.TemporaryDirectory(prefix="evenload-bench-") as scratch,
        cluster.Cluster(prometheus=False, exporter=False, node_exporter=False) as running,
        prepared.serving(LoadWatcher(loads)) as watcher,
    ):
        for name in ("kube-scheduler", *scale.WORKERS):
            running.processes[name].stop()
        install_kinds(running)
        etcd = answers.etcd_url(running)
        fleet.store(etcd, nodes)
        fleet.store(etcd, node_metrics(loads, now_seconds))
        descheduler.caught_up(running, ("api/v1/nodes", NODE_METRICS))
        entrants = _entrants(running, loads, pathlib.Path(scratch), watcher)
        legs: dict[str, list[Figures]] = {one.name: [] for one in entrants}
        for leg in range(settings.legs):
            for one in (*entrants[leg:], *entrants[:leg]):
                legs[one.name].append(_leg(settings, running, one, hot(loads)))
                figures = zip(legs[one.name][-1], UNITS.values(), strict=True)
                words = ", ".join(f"{value:.1f} {unit}" for value, unit in figures)
                cache.say(f"{count:,} nodes, leg {leg + 1} of {settings.legs}: {one.name}: {words}")
    return legs


def _ratios(node: dict[str, object]) -> collections.abc.Mapping[str, float]:
    annotations = fleet.mapping(fleet.mapping(node["metadata"])["annotations"])
    return load_annotation.decode(str(annotations[load_annotation.KEY])).values


def hot(loads: Loads) -> set[str]:
    """The nodes over the default line of CPU, which is over every peer's, too."""
    line = load_policy.defaults().filter.thresholds[metrics.CPU_AVG_5M]
    return {node for node, ratios in loads.items() if ratios[metrics.CPU_AVG_5M] > line}


def _entrants(running: cluster.Cluster, loads: Loads, scratch: pathlib.Path, watcher: str) -> list[Entrant]:
    reference = contestants.reference(list(loads), scratch)
    return [
        Entrant(STOCK, by_load=False),
        Entrant(reference.name, extender=reference, by_load=False),
        Entrant(contestants.US, extender=contestants.evenload(running.kubeconfig, scratch)),
        *plugins(watcher),
    ]


def plugins(
    watcher: str, edits: collections.abc.Sequence[programs.Edit] = (), weights: tuple[int, int, int] = (1, 1, 1)
) -> list[Entrant]:
    """Trimaran's two, built with edits, which ask the load-watcher at a URL, and Koordinator; each with its weight."""
    trimaran = programs.built(contestants.HERE / "trimaran", edits)
    # As its page has it: what packs by requests goes against what packs by load.
    unscored, watched = ("NodeResourcesFit", "NodeResourcesBalancedAllocation"), {"watcherAddress": watcher}
    packing = profiles("TargetLoadPacking", watched, *unscored, weight=weights[0])
    balancing = profiles("LoadVariationRiskBalancing", watched, weight=weights[1])
    aware = profiles("LoadAwareScheduling", {"nodeMetricExpirationSeconds": AGE_SECONDS}, weight=weights[2])
    return [
        Entrant(PACKING, packing, trimaran),
        Entrant(BALANCING, balancing, trimaran),
        Entrant(KOORDINATOR, aware, programs.built(contestants.HERE / "koordinator")),
    ]


def profiles(plugin: str, arguments: Json, *unscored: str, weight: int = 1) -> list[Json]:
    """kube-scheduler's default profile with one more plugin, and without the scores of some."""
    sets = {
        "multiPoint": {"enabled": [{"name": plugin, "weight": weight}]},
        "score": {"disabled": [{"name": name} for name in unscored]},
    }
    configuration = [{"name": plugin, "args": arguments}]
    return [{"schedulerName": "default-scheduler", "plugins": sets, "pluginConfig": configuration}]


def install_kinds(running: cluster.Cluster) -> None:
    """Installs what koord-scheduler lists, without schemas, and lets every scheduler read it."""
    for path, kind in KINDS.items():
        group, version, plural = path.split("/")[1:]
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        versions = [{"name": version, "served": True, "storage": True, "schema": schema}]
        spec = {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": kind}, "versions": versions}
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
        metadata = {"name": f"{plural}.{group}"}
        running.api.create(f"{EXTENSIONS}/customresourcedefinitions", {**definition, "metadata": metadata})
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    subjects = [{"apiGroup": group, "kind": "User", "name": site.SCHEDULER[0]}]
    body = {"kind": "ClusterRoleBinding", "metadata": {"name": "peers"}, "roleRef": role, "subjects": subjects}
    running.api.create(f"apis/{group}/v1/clusterrolebindings", {"apiVersion": f"{group}/v1", **body})
    descheduler.caught_up(running, KINDS)


def node_metrics(
    loads: Loads, now_seconds: float, *, cores: float = fleet.CORES, gibibytes: float = fleet.GIBIBYTES
) -> collections.abc.Iterator[fleet.Stored]:
    """Koordinator's object of each node: the loads as cores and bytes of its capacity."""
    for name, ratios in loads.items():
        used = usage(cores * ratios[metrics.CPU_AVG_5M], gibibytes * ratios[metrics.MEMORY_AVG_5M])
        status = {"updateTime": clock.to_rfc3339(now_seconds), "nodeMetric": {"nodeUsage": used}}
        metadata = {"name": name, "uid": name, "generation": 1}
        body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": metadata}
        yield f"/registry/slo.koordinator.sh/nodemetrics/{name}", {**body, "spec": {}, "status": status}


def usage(cores: float, gibibytes: float) -> Json:
    """Use of a node or a pod, as a NodeMetric has it."""
    return {"resources": {"cpu": f"{1e3 * cores:.0f}m", "memory": f"{1024 * gibibytes:.0f}Mi"}}


def _leg(settings: Settings, running: cluster.Cluster, entrant: Entrant, hot_nodes: set[str]) -> Figures:
    """Pods that wait, then pods that come, with one scheduler; leaves no pod."""
    throughput.create_pods(running, "waiting", settings.pods)
    scheduler = running.processes["kube-scheduler"]
    with contextlib.ExitStack() as started:
        stanzas: list[Json] = []
        if entrant.extender is not None:
            started.enter_context(entrant.extender)
            # An extender that fails is to be noticed.
            stanzas = [{**extender_stanza.at(entrant.extender.url), "ignorable": False, "httpTimeout": "5s"}]
        started.callback(scheduler.stop)
        running.start_scheduler(extenders=stanzas, profiles=entrant.profiles, program=entrant.program)
        pids = [scheduler.pid, *([entrant.extender.process.pid] if entrant.extender is not None else [])]
        samples = throughput.drained(
            running, entrant.name, settings.pods, lambda: sum(map(contestants.processor_seconds, pids))
        )
        with scale.control_session(running) as session:
            page = metric_pages.read(session, running.url("kube-scheduler"))
        mebibytes = sum(map(contestants.pss_mebibytes, pids))
        waits = sorted(_paced(settings, running))
    check(entrant, [str(pod["spec"].get("nodeName")) for pod in running.api.items(arrivals.PODS)], hot_nodes)
    running.api.delete(arrivals.PODS)
    return Figures(
        throughput.rate([(sample.at_seconds, sample.scheduled) for sample in samples], settings.pods),
        1e3 * page.total(f"{ALGORITHM}_sum") / page.total(f"{ALGORITHM}_count"),
        1e3 / throughput.rate([(sample.processor_seconds, sample.scheduled) for sample in samples], settings.pods),
        mebibytes,
        1e3 * waits[len(waits) // 2],
        1e3 * waits[len(waits) * 99 // 100],
    )


def check(entrant: Entrant, placed: collections.abc.Sequence[str], hot_nodes: set[str]) -> None:
    """Raises Blind where one that goes by load has put pods on hot nodes, or one that does not has put none there."""
    count = sum(node in hot_nodes for node in placed)
    if entrant.by_load and count:
        raise Blind(f"{entrant.name}: {count} of {len(placed)} pods are on hot nodes, 0 expected: it knows no loads")
    if entrant.name == STOCK and not count:
        raise Blind(f"{entrant.name}: none of {len(placed)} pods is on a hot node: that others have none says nothing")


def _paced(settings: Settings, running: cluster.Cluster) -> list[float]:
    """Seconds from each pod's coming to its node, without those that warm up."""
    version = running.api.get(arrivals.PODS, limit="1")["metadata"]["resourceVersion"]
    ticking = clock.WallClock()

    def watch() -> list[tuple[float, Json]]:
        seconds = settings.paced_seconds + SETTLE_SECONDS
        events = running.api.watch(arrivals.PODS, resource_version=version, seconds=seconds)
        return [(ticking.monotonic(), event) for event in events]

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        events = pool.submit(watch)
        with arrivals.Arrivals(running.api, settings.arrivals_per_second, settings.seed) as coming:
            ticking.wait(_NEVER, settings.paced_seconds)
        waits = waits_seconds(events.result())
    if len(waits) != coming.created:
        raise throughput.Stuck(f"{len(waits)} of {coming.created} paced pods have a node after {SETTLE_SECONDS:g} s")
    return waits[int(WARM_SHARE * len(waits)) :]


def waits_seconds(events: collections.abc.Iterable[tuple[float, Json]]) -> list[float]:
    """From the event of each pod's coming to that of its node, as one watch has them."""
    came: dict[str, float] = {}
    waits = []
    for at_seconds, event in events:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "ADDED":
            came[name] = at_seconds
        elif event["object"]["spec"].get("nodeName") and name in came:
            waits.append(at_seconds - came.pop(name))
    return waits
