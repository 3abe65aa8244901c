"""Forecasts from the reading of hours to the annotation, over the fake doors."""

import math
from collections.abc import Mapping

import prometheus_client
import pytest

from annotator import metrics, node_sync
from annotator.forecast.owner_hours import DAY, HOUR_SECONDS, WEEK, hour_of
from annotator.forecast_sync import PAUSE_SECONDS, SETTLING_SECONDS
from kube.pods.compact import Pod
from policy.contract import load_annotation
from policy.schema import load_policy
from promql import door, errors
from promql.queries import identity, node_queries, pod_queries
from tests import builders, clocks, fake_kube_writes

FORECASTS = [{"name": "cpu_forecast_4h", "resource": "cpu", "statistic": "forecast", "window": "4h"}]
POLICY = load_policy.LoadPolicy.of({"metrics": FORECASTS, "score": {"weights": {"cpu_forecast_4h": 1}}})
NODE = "10.0.0.1:9100"
PODS = [builders.lean_pod(name, node="node-1") for name in ("a", "b", "c")]
PER_POD_CORES = 0.4


class Prometheus:
    """A door with a node at half of its CPU, and pods that use 1.2 cores at one hour of each day and 0.4 else."""

    def __init__(self, busy_hour: int) -> None:
        self.busy_hour = busy_hour
        self.asked_of: list[int] = []  # the hours whose use was asked for
        self.error: errors.PromqlError | None = None
        self.node_error: errors.PromqlError | None = None
        windows = {pod_queries.cpu_cores(span): PER_POD_CORES for span in (300.0, HOUR_SECONDS)}
        self._pods = windows | dict.fromkeys((pod_queries.memory_bytes(span) for span in (300.0, HOUR_SECONDS)), 1e9)
        self._nodes = {
            node_queries.of_metric(metric) for metric in POLICY.metrics_in_force if metric.statistic != "forecast"
        }

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """See promql.door."""
        if expression in self._nodes:
            if self.node_error is not None:
                raise self.node_error
            return _answer({"instance": NODE}, 0.5)
        if expression not in self._pods:
            return door.Answer()
        if at_seconds is None:
            return self._of_pods(self._pods[expression])
        if self.error is not None:
            raise self.error
        hour = hour_of(at_seconds) - 1
        self.asked_of += [hour] * (expression == pod_queries.cpu_cores(HOUR_SECONDS))
        busy = expression == pod_queries.cpu_cores(HOUR_SECONDS) and hour % DAY == self.busy_hour
        return self._of_pods(1.2 if busy else self._pods[expression])

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        """No service asks for one."""
        raise AssertionError(expression)

    def _of_pods(self, amount: float) -> door.Answer:
        labels = [{"namespace": pod.namespace, "pod": pod.name} for pod in PODS]
        return door.Answer.of([door.Sample(each, amount, 0.0) for each in labels])


def _answer(labels: Mapping[str, str], value: float) -> door.Answer:
    return door.Answer.of([door.Sample(labels, value, 0.0)])


class Bench:
    """An annotator over the doors; the busy hour of each day is two hours after the first sync."""

    def __init__(self, policy: load_policy.LoadPolicy = POLICY) -> None:
        self.policy = policy
        self.clock = clocks.ManualClock()
        self.clock.advance(WEEK * HOUR_SECONDS - self.clock.now() % HOUR_SECONDS + 600.0)
        self.hour = hour_of(self.clock.now())
        self.prometheus = Prometheus((self.hour + 2) % DAY)
        self.kube = fake_kube_writes.FakeKubeWrites()
        self.registry = prometheus_client.CollectorRegistry()
        telemetry = metrics.Telemetry(self.registry, self.clock.now)
        settings = node_sync.Settings("ours", identity.SeriesLabels())
        self.annotator = node_sync.Annotator(
            self.prometheus, self.kube, self.kube, settings, clock=self.clock, telemetry=telemetry
        )

    def sync(self, times: int = 1, pods: list[Pod] = PODS) -> load_annotation.Reading:
        """So many syncs, and the reading that is written in the end."""
        for _ in range(times):
            world = node_sync.World([builders.node("node-1")], {pod.key: pod for pod in pods})
            self.annotator.sync(world, node_sync.Rulebook(self.policy, "hash"))
            self.clock.advance(30.0)
        body = self.kube.patches[-1][1]
        return load_annotation.decode(body["metadata"]["annotations"][load_annotation.KEY])


def test_a_peak_of_other_days_is_published_with_its_hour_before_it_comes() -> None:
    bench = Bench()
    reading = bench.sync(30)
    # three pods that will use 0.8 cores more each, of the node's eight
    assert reading.values["cpu_forecast_4h"] == pytest.approx(0.5 + 3 * 0.8 / 8, abs=1e-4)
    assert reading.peaks["cpu_forecast_4h"].at_seconds == (bench.hour + 2) * HOUR_SECONDS
    assert reading.values["cpu_avg_5m"] == 0.5


def test_before_any_hour_is_known_the_forecast_is_the_present_average() -> None:
    reading = Bench().sync(1)
    assert reading.values["cpu_forecast_4h"] == reading.values["cpu_avg_5m"] == 0.5


def test_hours_are_read_newest_first_one_a_sync_and_a_week_of_them() -> None:
    bench = Bench()
    bench.sync(3)
    assert bench.prometheus.asked_of == [bench.hour - 1, bench.hour - 2, bench.hour - 3]
    for _ in range(WEEK):
        bench.clock.advance(-30.0)  # within the hour
        bench.sync()
    assert len(bench.prometheus.asked_of) == len(set(bench.prometheus.asked_of)) == WEEK
    assert bench.registry.get_sample_value("evenload_annotator_forecast_hours") == WEEK
    assert bench.registry.get_sample_value("evenload_annotator_forecast_owners") == 1


def test_the_next_hour_is_read_once_its_last_scrapes_are_there() -> None:
    bench = Bench()
    bench.sync()
    bench.clock.advance((bench.hour + 1) * HOUR_SECONDS + SETTLING_SECONDS - bench.clock.now() - 1)
    bench.sync()
    assert bench.hour not in bench.prometheus.asked_of
    bench.sync()
    assert bench.prometheus.asked_of[-1] == bench.hour


def test_a_past_that_cannot_be_read_is_left_alone_for_a_while_and_costs_no_reading() -> None:
    bench = Bench()
    bench.prometheus.error = errors.BadQuery("no such past")
    assert bench.sync(3).values["cpu_forecast_4h"] == 0.5
    bench.prometheus.error = None
    bench.sync(2)
    assert not bench.prometheus.asked_of
    bench.clock.advance(PAUSE_SECONDS)
    bench.sync()
    assert bench.prometheus.asked_of == [bench.hour - 1]


def test_without_the_present_average_there_is_no_forecast_and_it_ages_like_a_reading() -> None:
    bench = Bench()
    bench.sync(30)
    bench.prometheus.node_error = errors.Unavailable("down")
    patches = len(bench.kube.patches)
    outcome = bench.annotator.sync(
        node_sync.World([builders.node("node-1")], {pod.key: pod for pod in PODS}), node_sync.Rulebook(POLICY, "hash")
    )
    assert outcome.read_nothing
    assert len(bench.kube.patches) == patches


def test_a_policy_without_a_forecast_reads_no_hour_and_writes_none() -> None:
    bench = Bench(load_policy.defaults())
    reading = bench.sync(5)
    assert not bench.prometheus.asked_of
    assert reading.peaks == {}
    assert not any("forecast" in name for name in reading.values)


def test_no_forecast_is_over_what_an_annotation_can_say() -> None:
    bench = Bench()
    many = [builders.lean_pod(f"p{number}", node="node-1") for number in range(60)]
    bench.sync(30)
    assert math.isclose(bench.sync(30, [*PODS, *many]).values["cpu_forecast_4h"], load_annotation.MAX_RATIO)
