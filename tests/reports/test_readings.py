"""Readings of nodes: a reading that is missing or doubtful makes no hot node look idle."""

import math
from typing import Any

import pytest

from annotator.collect import collector, metrics_server
from annotator.diagnostics import matching
from descheduler.planning import overload
from descheduler.snapshot import usage
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.sources import pod_windows
from extender.state import node_cache
from kube import objects
from policy import metrics
from policy.contract import freshness, load_annotation
from promql import door, readings
from promql.queries import identity
from runtime import clock
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.annotator import test_metrics_server
from tests.unit.annotator.test_node_sync import EXPRESSIONS, POLICY, Bench
from tests.unit.descheduler import scenes

HOT, COOL, GIB = 0.95, 0.3, 2**30
PERIOD_SECONDS, STALE_SECONDS = POLICY.sync.period_seconds, POLICY.sync.stale_after_seconds


class Extender:
    """An extender's table of the bench's nodes and its heartbeats."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._table = node_cache.NodeTable(metrics.names(POLICY.metrics_in_force))

    def load(self, node: str) -> tuple[float, float]:
        """The average of a node's CPU as the extender has it now, NaN where it may not be used; and its age."""
        for each in self._bench.nodes():
            self._table.node_changed(None, each)
        now_seconds = self._bench.clock.now()
        self._table.heartbeat_changed(self._bench.kube.config_maps["ours/evenload-heartbeat"], now_seconds)
        loads = self._table.loads()
        row = loads.index[node]
        effective_seconds = float(loads.effective_seconds[row])
        usable = freshness.usable(effective_seconds, now_seconds, STALE_SECONDS) == "usable"
        return float(loads.values[row, 0]) if usable else math.nan, now_seconds - effective_seconds


@reported("readings", "2i2c-org/infrastructure#2646", "prometheus/node_exporter#1161", before=Before.WRONG)
@situation("an overloaded node misses one scrape")
@behaviour(
    "its last reading stands, ages alone and is confirmed by the next scrape; "
    "one that stays away is missing before `staleAfter`"
)
def test_a_hot_node_that_misses_scrapes_stays_hot_until_its_reading_is_old() -> None:
    bench = Bench()
    extender = Extender(bench)
    bench.load(node_1=COOL, node_2=HOT)
    bench.sync()
    for _ in range(10):  # quiet: no patch for minutes
        bench.clock.advance(PERIOD_SECONDS)
        bench.sync()
    assert extender.load("node-2") == (HOT, 0.0)
    bench.load(node_1=COOL)
    for syncs in (1, 2):
        bench.clock.advance(PERIOD_SECONDS)
        bench.sync()
        assert extender.load("node-2") == (HOT, syncs * PERIOD_SECONDS)
        assert extender.load("node-1") == (COOL, 0.0), "the others do not age with it"
        assert Extender(bench).load("node-2") == (HOT, syncs * PERIOD_SECONDS), "nor does a restart forget it"
    bench.load(node_1=COOL, node_2=HOT)
    bench.clock.advance(PERIOD_SECONDS)
    assert bench.sync().whole
    assert extender.load("node-2") == (HOT, 0.0)
    bench.load(node_1=COOL)
    bench.clock.advance(collector.keep_seconds(PERIOD_SECONDS, STALE_SECONDS))
    bench.sync()
    assert math.isnan(extender.load("node-2")[0])


@reported("readings", "prometheus/node_exporter#1161", before=Before.WRONG)
@situation("for a sync a value of a hot node is NaN, out of range, or of two exporters")
@behaviour("the last good value stands and ages; the annotator says node, metric and reason")
@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        pytest.param([math.nan], "nan", id="a frozen exporter"),
        pytest.param([-3.0], "negative", id="an idle counter that was reset alone"),
        pytest.param([7.0], "over_range", id="a total that shrank"),
        pytest.param([0.1, 0.2], "double", id="exporters of two jobs"),
    ],
)
def test_a_doubtful_value_does_not_replace_a_good_one(samples: list[float], reason: str) -> None:
    bench = Bench()
    extender = Extender(bench)
    bench.load(node_1=COOL, node_2=HOT)
    bench.sync()
    doubtful = [
        door.Sample({"instance": "10.0.0.2:9100", "job": str(job)}, value, 0.0) for job, value in enumerate(samples)
    ]
    bench.prometheus.answer_samples(
        EXPRESSIONS["cpu_avg_5m"], door.Sample({"instance": "10.0.0.1:9100"}, COOL, 0.0), *doubtful
    )
    bench.clock.advance(PERIOD_SECONDS)
    outcome = bench.sync()
    assert extender.load("node-2") == (HOT, PERIOD_SECONDS)
    assert outcome.problems() == [f"last values of 1 of 2 nodes stand and age: node-2 ({reason}: cpu_avg_5m)"]


@reported("readings", "prometheus-operator/prometheus-operator#4958", before=Before.RIGHT)
@situation("each query is answered by another shard of Prometheus, which scrapes half of the nodes")
@behaviour("what one lacks stands until the other confirms it; the annotator names the nodes")
def test_a_shard_that_does_not_scrape_a_node_takes_no_reading_away() -> None:
    bench = Bench()
    bench.load(node_1=COOL, node_2=HOT)
    bench.sync()
    for turn in range(40):
        bench.load(**({"node_2": HOT} if turn % 2 else {"node_1": COOL}))
        outcome = bench.sync(after_seconds=PERIOD_SECONDS)
        assert Extender(bench).load("node-2") == (HOT, 0.0 if turn % 2 else PERIOD_SECONDS)
        assert outcome.problems()[0].startswith("last values of 1 of 2 nodes stand and age")


@reported("readings", "kubernetes-sigs/metrics-server#552", "kubernetes-sigs/metrics-server#419", before=Before.RIGHT)
@situation("two replicas of metrics-server answer in turn, and one of them is a minute behind")
@behaviour("its older samples count nothing")
def test_a_replica_that_is_behind_does_not_change_the_averages() -> None:
    bench = test_metrics_server.Bench()
    bench.run(300, cpu="7600m", memory="30Gi")
    for turn in range(20):
        bench.clock.advance(30)
        use, ago = ({"cpu": "80m", "memory": "1Gi"}, 70) if turn % 2 else ({"cpu": "7600m", "memory": "30Gi"}, 10)
        bench.items(*(test_metrics_server.item(name, bench.clock.now() - ago, **use) for name in bench.names))
        bench.sync()
        assert (bench.values()["cpu_avg_5m"], bench.values()["memory_avg_5m"]) == (0.95, 0.9375)


@reported("readings", "kubernetes-sigs/metrics-server#759", before=Before.WRONG)
@situation("metrics-server says 0 CPU and 0 bytes of a running node")
@behaviour("refused and counted (`zero`); the last good values stand, and doctor names the node")
@pytest.mark.parametrize("resource", ["both", "cpu", "memory"])
def test_a_running_node_that_uses_nothing_was_not_measured(resource: str) -> None:
    bench = test_metrics_server.Bench()
    bench.run(300, cpu="7600m", memory="30Gi")
    amounts = {name: "0" for name in ("cpu", "memory") if resource in (name, "both")}
    outcome = bench.run(30, **{"cpu": "7600m", "memory": "30Gi", **amounts})
    assert bench.values()["cpu_avg_5m"] == 0.95
    assert bench.values()["memory_avg_5m"] == 0.9375
    assert bench.metric("evenload_annotator_invalid_samples_total", reason="zero") == 2 * 3 * len(amounts)
    assert all(f"{name}_avg_5m" in outcome.unmatched for name in amounts)
    item = test_metrics_server.item("node-1", bench.clock.now() - 10, **amounts)
    seen = builders.decoded(item, objects.NodeMetrics)
    assert metrics_server.refusal(seen, builders.node("node-1"), bench.clock.now()) == "zero"


@reported("readings", "kubernetes-sigs/metrics-server#759", before=Before.WRONG)
@situation("metrics-server says 0 bytes of a running pod")
@behaviour("the pod has no usage, which the plan says; idle CPU is usage")
def test_a_running_pod_without_memory_was_not_measured() -> None:
    pod, now_seconds = builders.pod("web-1"), 1000.0

    def windows_of(cpu: str, memory: str) -> pod_windows.PodWindows:
        windows = pod_windows.PodWindows()
        windows.follow([pod], POLICY)
        for at_seconds in range(700, 1000, 30):
            body = {
                "metadata": {"name": pod.name, "namespace": pod.namespace},
                "timestamp": clock.to_rfc3339(at_seconds),
                "window": "30s",
                "containers": [{"name": "app", "usage": {"cpu": cpu, "memory": memory}}],
            }
            windows.add([builders.decoded(body, objects.PodMetrics)], [pod], now_seconds=at_seconds)
        return windows

    idle, unmeasured = windows_of("0", "1Gi"), windows_of("250m", "0")
    assert idle.usage([pod], POLICY, now_seconds=now_seconds)[pod.key].cpu_millicores == 0.0
    assert unmeasured.usage([pod], POLICY, now_seconds=now_seconds) == {}
    assert unmeasured.absence(pod, POLICY, now_seconds=now_seconds).endswith("are refused: zero")


@reported("readings", "vexxhost/atmosphere#3934", before=Before.WRONG)
@situation("720 of 768 GiB are huge pages: capacity has them, allocatable memory has not")
@behaviour("load, shares of pods and predictions are of the 48 GiB without the pool")
def test_shares_are_of_the_memory_without_the_pool_of_huge_pages() -> None:
    node = builders.node("node-1", memory="46Gi", mutate=_with_pool)
    assert (node.capacity.memory_bytes, node.allocatable.memory_bytes) == (48 * GIB, 46 * GIB)
    pod = usage.PodUsage("shop/web-1", 500.0, 12.0 * GIB, 1000.0)
    assert usage.share(pod, node.capacity, metrics.MEMORY) == 0.25
    bench = _PoolBench()
    bench.run(300, memory="30Gi")
    assert bench.values()["memory_avg_5m"] == 0.625


def _with_pool(body: dict[str, Any]) -> None:
    body["status"]["capacity"] |= {"memory": "768Gi", "hugepages-1Gi": "704Gi", "hugepages-2Mi": "16Gi"}


class _PoolBench(test_metrics_server.Bench):
    """Nodes with pools of huge pages."""

    def nodes(self) -> list[objects.Node]:
        carried = {name: {load_annotation.KEY: text} for name, text in self.texts.items()}
        return [builders.node(name, annotations=carried.get(name), mutate=_with_pool) for name in self.names]


@reported("readings", "giantswarm/prometheus-meta-operator#823", before=Before.WRONG)
@situation("a query of the policy's own, or an earlier version's rule, keeps the label of the exporter's pod")
@behaviour("one reading while both agree; else the last good one stands (`replicas_disagree`)")
@pytest.mark.parametrize(("second", "reason"), [(0.9, None), (0.2, "replicas_disagree")])
def test_series_of_two_pods_of_one_exporter_are_one_target(second: float, reason: str | None) -> None:
    directory = identity.build([identity.NodeAddress("node-1", ("10.0.0.1",))])
    target = {"instance": "10.0.0.1:9100", "job": "node-exporter"}
    answer = door.Answer.of(
        door.Sample({**target, "pod": pod}, value, 0.0) for pod, value in (("ne-a", HOT), ("ne-b", second))
    )
    found = readings.by_node(answer, directory, label="instance", judge=load_annotation.invalid_reason)
    assert found.values == ({} if reason else {"node-1": HOT})
    assert found.refused == ({"node-1": reason} if reason else {})


@reported("readings", "prometheus-operator/prometheus-operator#6548", before=Before.WRONG)
@situation("a dead Node object still holds the address that its successor got")
@behaviour("the living node has the reading, also after a restart; annotator and doctor name both")
@pytest.mark.parametrize("known", [True, False], ids=["while running", "at the start"])
def test_the_living_node_has_the_address_of_a_dead_one(known: bool) -> None:
    dead = builders.node("node-old", address="10.0.0.1", mutate=_of(created="2026-11-01T00:00:00Z", ready="Unknown"))
    living = builders.node("node-new", address="10.0.0.1", mutate=_of(created="2026-11-20T00:00:00Z", ready="True"))
    before = identity.follow([dead]) if known else None
    assert before is None or before.resolve("10.0.0.1:9100") == "node-old"
    directory = identity.follow([dead, living], before)
    assert directory.resolve("10.0.0.1:9100") == "node-new"
    assert matching.claims(directory) == "node-old claims 10.0.0.1, which node-new has while node-old is not Ready"


@reported("readings", "prometheus-operator/prometheus-operator#6548", before=Before.RIGHT)
@situation("the node that has an address is not Ready for a while, and another one claims the address")
@behaviour("it has the address again as soon as it is Ready")
def test_a_node_that_was_away_has_its_address_again() -> None:
    other = builders.node("node-2", address="10.0.0.1", mutate=_of(created="2026-11-20T00:00:00Z", ready="True"))
    directory, holders = None, []
    for ready in ("True", "Unknown", "True"):
        own = builders.node("node-1", address="10.0.0.1", mutate=_of(created="2026-11-01T00:00:00Z", ready=ready))
        directory = identity.follow([own, other], directory)
        holders.append(directory.resolve("10.0.0.1"))
    assert holders == ["node-1", "node-2", "node-1"]


def _of(*, created: str, ready: str) -> builders.Mutator:
    def mutate(body: dict[str, Any]) -> None:
        body["metadata"]["creationTimestamp"] = created
        body["status"]["conditions"][0]["status"] = ready

    return mutate


NAMES: dict[str, list[tuple[str, str | None]]] = {
    "gke-pool-1": [("gke-pool-1:metrics", "gke-pool-1"), ("gke-pool-1:http-metrics", "gke-pool-1")],
    "ip-10-0-0-1.ec2.internal": [
        ("ip-10-0-0-1:9100", "ip-10-0-0-1.ec2.internal"),
        ("ip-10-0-0-1.other.internal", None),
    ],
    "worker-1": [("worker-1.example.org:9100", "worker-1"), ("WORKER-1.example.org.", "worker-1"), ("worker-10", None)],
    "10.0.0.1": [("10.9.9.9:9100", None), ("10", None), ("10.0.0.1:metrics", "10.0.0.1")],
}


@reported(
    "readings", "GoogleCloudPlatform/prometheus-engine", "kubernetes-sigs/scheduler-plugins#702", before=Before.WRONG
)
@situation("`instance` has the name of a port, or a host's full name where the node has the short one")
@behaviour("matched; another domain, or the first part of an address, is not")
@pytest.mark.parametrize(
    ("node", "label", "expected"), [(node, *pair) for node, pairs in NAMES.items() for pair in pairs]
)
def test_a_label_names_its_node_in_other_words(node: str, label: str, expected: str | None) -> None:
    directory = identity.build([identity.NodeAddress(node), identity.NodeAddress("other")])
    assert directory.resolve(label) == expected
    assert directory.resolved([label]) == [expected]


@reported("readings", "kubernetes-sigs/scheduler-plugins#702", before=Before.RIGHT)
@situation("two nodes have one short name, or a machine of another domain has a node's short name")
@behaviour("neither has the reading; a series that names the node itself stands alone")
def test_an_ambiguous_short_name_is_no_nodes() -> None:
    twins = identity.build([identity.NodeAddress(f"worker-1.{zone}.example.org") for zone in "ab"])
    assert twins.resolve("worker-1:9100") is None
    single = identity.build([identity.NodeAddress("worker-1")])
    assert single.resolved(["worker-1:9100", "worker-1.elsewhere.org:9100"]) == ["worker-1", None]


@reported("readings", "kubernetes-sigs/scheduler-plugins#702", before=Before.WRONG)
@situation("an IPv6 address is written in another form than the node's")
@behaviour("matched")
@pytest.mark.parametrize("label", ["[FD00:0:0:0::7]:9100", "fd00::7", "[fd00::0007]:metrics", "[::ffff:10.0.0.7]:9100"])
def test_an_address_has_more_than_one_form(label: str) -> None:
    nodes = [identity.NodeAddress("node-7", ("10.0.0.7", "fd00:0::7")), identity.NodeAddress("node-8", ("fd00::8",))]
    assert identity.build(nodes).resolve(label) == "node-7"


@reported("readings", "prometheus/node_exporter#1161", before=Before.WRONG)
@situation("the hourly maximum, or the average, of the only cool node is missing in one run")
@behaviour("it is no destination; with the reading it is, if it was cool for the hour")
@pytest.mark.parametrize(
    ("absent", "hour", "evicted"),
    [
        pytest.param("memory_max_1h", 0.1, False, id="the maximum is missing"),
        pytest.param("cpu_avg_5m", 0.1, False, id="an average is missing"),
        pytest.param("", 0.7, False, id="it was hot within the hour"),
        pytest.param("", 0.1, True, id="nothing is missing"),
    ],
)
def test_a_node_of_which_a_reading_is_missing_is_no_destination(absent: str, hour: float, evicted: bool) -> None:
    scene = scenes.hot_and_cool().reading("cool", memory_max_1h=hour)
    scene.readings["cool"].pop(absent, None)
    assert bool(scenes.evicted(scene.plan())) is evicted


@reported("readings", "2i2c-org/infrastructure#2646", before=Before.RIGHT)
@situation("a node over a line for minutes misses a scrape in one run")
@behaviour("nothing is evicted in that run, and no minute over the line is forgotten")
def test_a_missed_scrape_neither_acts_nor_forgets() -> None:
    policies = NodePolicies(scenes.policy())
    memory, start_seconds = overload.Memory(), 1000.0
    seconds = [start_seconds + 60.0 * minute for minute in range(8)]
    for at_seconds in seconds:
        read = {} if at_seconds == seconds[4] else {"hot": usage.NodeUsage("hot", {"memory_avg_5m": 0.9}, at_seconds)}
        memory = overload.observe(memory, read, policies, now_seconds=at_seconds)
        found = overload.confirmed(memory, read, policies, now_seconds=at_seconds)
        assert not found or read
    (streak,) = memory.streaks.values()
    assert (streak.since_seconds, streak.last_seconds) == (seconds[0], seconds[-1])
