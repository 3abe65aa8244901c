"""When owners' usage is read and written: seldom, and never with numbers that are not whole."""

import functools

import prometheus_client
import pytest

from annotator import metrics, usage_sync
from annotator.placements import pod_index
from kube import errors as kube_errors
from policy.contract import owner_usage
from policy.schema import load_policy
from promql import door, errors
from promql.queries import pod_queries
from runtime import clock
from tests import builders, clocks, fake_kube_writes, fake_prometheus

CPU, MEMORY = pod_queries.cpu_cores(300), pod_queries.memory_bytes(300)
POLICY = load_policy.defaults()
NAME = "ours/evenload-usage"
WEB = "default/ReplicaSet/web"
MIB = 2.0**20


class Bench:
    """An OwnerUsage between a fake Prometheus and a recorder, over two replicas of one owner."""

    def __init__(self) -> None:
        self.clock = clocks.ManualClock(clock.from_rfc3339(builders.SCHEDULED) + 4000)
        self.prometheus = fake_prometheus.FakePrometheus()
        self.kube = fake_kube_writes.FakeKubeWrites()
        self.registry = prometheus_client.CollectorRegistry()
        telemetry = metrics.Telemetry(self.registry, self.clock.now)
        asking = functools.partial(usage_sync.ask, self.prometheus.query)
        writing = functools.partial(usage_sync.write, self.kube, "ours")
        self.usage = usage_sync.OwnerUsage(asking, writing, telemetry, self.clock.now)
        self.followed = pod_index.PodIndex()
        self.pods = [builders.lean_pod(name, node="node-1") for name in ("a", "b")]
        self.use(0.1)

    def use(self, cores: float, *, warnings: tuple[str, ...] = ()) -> None:
        """Both replicas use so much CPU, and 100 MiB."""
        for text, amount in ((CPU, cores), (MEMORY, 100 * MIB)):
            labels = ({"namespace": "default", "pod": name} for name in ("a", "b"))
            self.prometheus.answer_samples(text, *(door.Sample(one, amount, 0.0) for one in labels))
        if warnings:
            self.prometheus.answer(CPU, {}, warnings=warnings)

    def sync(self, policy: load_policy.LoadPolicy = POLICY, *, after_seconds: float = 60) -> str:
        self.clock.advance(after_seconds)
        self.followed.follow({pod.key: pod for pod in self.pods})
        self.usage.sync(self.followed, policy)
        return self.usage.problem

    def written(self) -> owner_usage.PublishedUsage:
        return owner_usage.decode(self.kube.config_maps[NAME])

    def writes(self, result: str = "written") -> float:
        return self.registry.get_sample_value("evenload_annotator_usage_writes_total", {"result": result}) or 0.0


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_means_are_written_and_say_when_they_were_measured(bench: Bench) -> None:
    assert bench.sync() == ""
    assert bench.written() == owner_usage.PublishedUsage(
        float(int(bench.clock.now())), {WEB: owner_usage.Mean(100.0, 100 * MIB, 2)}
    )


def test_prometheus_is_asked_every_second_sync(bench: Bench) -> None:
    for _ in range(4):
        bench.sync(after_seconds=30)
    assert bench.prometheus.asked == [CPU, MEMORY] * 2


def test_quiet_means_are_written_again_only_before_they_turn_stale(bench: Bench) -> None:
    for _ in range(60):
        bench.sync()
    assert bench.writes() == 3  # the first and one every 20 minutes
    assert owner_usage.usable(bench.written(), bench.clock.now(), POLICY.sync)


def test_a_move_is_written_and_what_is_gone_leaves(bench: Bench) -> None:
    bench.sync()
    bench.use(0.11)
    bench.sync()
    assert bench.writes() == 1
    bench.use(0.2)
    bench.sync()
    assert bench.written().means[WEB].cpu_millicores == 200
    bench.pods = []
    bench.sync()
    assert bench.written().means == {}


def test_a_large_config_map_is_written_less_often(bench: Bench) -> None:
    bench.pods = [
        builders.lean_pod(f"pod-{n}", node="node-1", owner=("StatefulSet", f"{'x' * 200}-{n}")) for n in range(2000)
    ]
    labels = [{"namespace": "default", "pod": pod.name} for pod in bench.pods]
    for at in range(4):
        bench.prometheus.answer_samples(CPU, *(door.Sample(one, 0.1 * 2**at, 0.0) for one in labels))
        bench.sync()
    assert bench.writes() == 2  # 470 KiB may be written every 2 minutes


def test_nothing_is_written_where_nothing_is_known(bench: Bench) -> None:
    bench.pods = []
    assert bench.sync() == ""
    assert bench.kube.config_maps == {}


@pytest.mark.parametrize("cores", [float("nan"), -1.0, 1e9])
def test_an_amount_that_cannot_be_is_missing_and_counted(bench: Bench, cores: float) -> None:
    bench.use(cores)
    bench.sync()
    assert bench.written().means[WEB].cpu_millicores is None


def test_a_partial_answer_changes_nothing_and_is_told(bench: Bench) -> None:
    bench.sync()
    before = bench.written()
    bench.use(0.9, warnings=("store is down",))
    assert "store is down" in bench.sync()
    assert bench.written() == before


@pytest.mark.parametrize("text", [CPU, MEMORY])
def test_an_answer_without_a_single_pod_is_none_while_pods_of_owners_run(bench: Bench, text: str) -> None:
    bench.sync()
    before = bench.written()
    bench.prometheus.answer_samples(text)
    assert "without a single pod" in bench.sync()
    assert bench.written() == before
    bench.use(0.4)
    assert bench.sync() == ""
    assert bench.written().means[WEB].cpu_millicores == 400


@pytest.mark.parametrize("text", [CPU, MEMORY])
def test_an_answer_without_a_single_pod_is_none_from_the_first_sync_on(bench: Bench, text: str) -> None:
    """As of a cAdvisor whose series have no label `container`."""
    bench.prometheus.answer_samples(text)
    assert "without a single pod, although 2 have been Ready for 300 s" in bench.sync()
    assert "evenload doctor: pod series" in bench.sync(after_seconds=1)
    assert bench.kube.config_maps == {}


def test_pods_that_have_just_begun_have_no_series_yet(bench: Bench) -> None:
    just_now = clock.to_rfc3339(bench.clock.now() - 10)
    bench.pods = [builders.lean_pod("a", node="node-1", scheduled_at=just_now)]
    bench.prometheus.answer_samples(CPU)
    bench.prometheus.answer_samples(MEMORY)
    assert bench.sync() == ""


def test_a_failing_query_or_write_is_told_and_tried_again(bench: Bench) -> None:
    bench.prometheus.fail(CPU, errors.Unreachable("no route"))
    assert "no route" in bench.sync()
    bench.use(0.1)
    bench.kube.fail("evenload-usage", kube_errors.Unreachable("gone"))
    assert "gone" in bench.sync()
    assert "gone" in bench.sync(after_seconds=1)  # not the time to look yet, and still so
    bench.kube.fail("evenload-usage", None)
    assert bench.sync() == ""
    assert (bench.writes(), bench.writes("failed")) == (1, 1)


def test_a_policy_that_does_not_want_it_asks_nothing(bench: Bench) -> None:
    for recent_pods in ({"ownerUsage": False}, {"enabled": False}):
        assert bench.sync(load_policy.LoadPolicy.of({"recentPods": recent_pods})) == ""
    assert bench.prometheus.asked == []


def test_the_windows_are_those_that_show_a_pod_on_its_node(bench: Bench) -> None:
    short = {"name": "cpu_avg_5m", "resource": "cpu", "statistic": "avg", "window": "20s"}
    bench.prometheus.answer_samples(
        pod_queries.cpu_cores(20), door.Sample({"namespace": "default", "pod": "a"}, 0.1, 0.0)
    )
    bench.sync(load_policy.LoadPolicy.of({"metrics": [short]}))
    assert bench.prometheus.asked == [pod_queries.cpu_cores(20), MEMORY]


def test_a_clock_set_back_neither_ends_the_asking_nor_leaves_means_from_the_future(bench: Bench) -> None:
    bench.sync()
    bench.clock.jump(-8 * 3600)
    bench.sync()
    assert bench.prometheus.asked == [CPU, MEMORY] * 2
    assert owner_usage.usable(bench.written(), bench.clock.now(), POLICY.sync)
