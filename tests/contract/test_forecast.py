"""Forecasts by the past that a real Prometheus holds: the load that comes every day at its hour is known before it."""

import contextlib
import json
import math
import time

import numpy as np
import prometheus_client
import pytest

import cluster
from annotator import metrics, node_sync
from annotator.forecast.owner_hours import DAY, HOUR_SECONDS, hour_of
from cluster import past
from kube.pods.compact import Pod
from policy.contract import load_annotation
from policy.schema import load_policy
from promql import door
from promql.http import client
from promql.queries import identity
from runtime import clock
from simulator.contention import Load
from simulator.scenario import NEVER, Machine, Owner, Replica, Scenario, Usage
from tests import builders, clocks, fake_kube_writes

pytestmark = pytest.mark.cluster
GIB = 2.0**30
STEP_SECONDS, HOURS = 300.0, 60
AGO_SECONDS = 3 * 3600.0  # what is back-filled must be older than what Prometheus holds in its head
CALM_MILLICORES, BUSY_MILLICORES = 400.0, 1200.0
OWNER = Owner("shop", "web", Load(500.0, GIB))
POLICY = load_policy.LoadPolicy.of(
    {
        "metrics": [
            {"name": f"{resource}_forecast_4h", "resource": resource, "statistic": "forecast", "window": "4h"}
            for resource in ("cpu", "memory")
        ],
        "score": {"weights": {"cpu_forecast_4h": 1, "memory_forecast_4h": 1}},
    }
)


class At:
    """Prometheus as if it were another time now."""

    def __init__(self, prometheus: client.Client, now_seconds: float) -> None:
        self._prometheus, self._now_seconds = prometheus, now_seconds

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        """See promql.door."""
        return self._prometheus.query(expression, at_seconds=self._now_seconds if at_seconds is None else at_seconds)

    def query_range(
        self, expression: str, *, start_seconds: float, end_seconds: float, step_seconds: float
    ) -> door.RangeAnswer:
        """See promql.door."""
        return self._prometheus.query_range(
            expression, start_seconds=start_seconds, end_seconds=end_seconds, step_seconds=step_seconds
        )


def happened(end_seconds: float) -> Scenario:
    """A node with three replicas that are busy in one hour of each day, the one two hours after the end."""
    steps = round(HOURS * HOUR_SECONDS / STEP_SECONDS)
    start_seconds = end_seconds - steps * STEP_SECONDS
    hours = [hour_of(start_seconds + step * STEP_SECONDS) for step in range(steps)]
    busy = np.array([hour % DAY == (hour_of(end_seconds) + 2) % DAY for hour in hours])
    cpu = np.where(busy, BUSY_MILLICORES, CALM_MILLICORES).astype(np.float32)
    usage = Usage(np.tile(cpu, 3), np.full(3 * steps, GIB, np.float32))
    replicas = tuple(Replica(0, number, start_seconds, NEVER, offset=number * steps) for number in range(3))
    machines = (Machine("node-0", Load(8000.0, 32 * GIB), max_pods=60),)
    return Scenario("daily", start_seconds, STEP_SECONDS, steps, machines, (OWNER,), replicas, usage)


def pods(since_seconds: float) -> dict[str, Pod]:
    """The replicas as the apiserver has them."""

    def begun(body: builders.Body) -> None:
        for condition in body["status"]["conditions"]:
            condition["lastTransitionTime"] = clock.to_rfc3339(since_seconds)

    made = [
        builders.lean_pod(past.pod_name(OWNER, number), namespace="shop", node="node-0", mutate=begun)
        for number in range(3)
    ]
    return {pod.key: pod for pod in made}


def test_a_daily_peak_is_on_the_node_hours_before_it_comes() -> None:
    now_seconds = math.floor((time.time() - AGO_SECONDS) / HOUR_SECONDS) * HOUR_SECONDS - 1800.0
    truth = happened(now_seconds)
    with cluster.Cluster(kubernetes=False, node_exporter=False) as running:
        running.backfill(past.openmetrics(truth, ["node-0"] * 3))
        with contextlib.closing(client.connect(running.prometheus_url, timeout_seconds=60.0)) as prometheus:
            readings = synced(At(prometheus, now_seconds), now_seconds, pods(truth.start_seconds))
    before, after = readings
    system = truth.machines[0].system.cpu_ratio
    calm = system + 3 * CALM_MILLICORES / 8000.0
    assert before.values["cpu_forecast_4h"] == before.values["cpu_avg_5m"] == pytest.approx(calm, abs=0.02)
    assert after.values["cpu_forecast_4h"] == pytest.approx(system + 3 * BUSY_MILLICORES / 8000.0, abs=0.03)
    assert after.peaks["cpu_forecast_4h"].at_seconds == (hour_of(now_seconds) + 2) * HOUR_SECONDS
    assert after.values["memory_forecast_4h"] == pytest.approx(after.values["memory_avg_5m"], abs=0.02)


def synced(
    prometheus: At, now_seconds: float, there: dict[str, Pod]
) -> tuple[load_annotation.Reading, load_annotation.Reading]:
    """The readings of the node after the first sync, and after as many as there are hours in the past."""
    ticking, kube = clocks.ManualClock(now_seconds), fake_kube_writes.FakeKubeWrites()
    settings = node_sync.Settings("evenload-system", identity.SeriesLabels())
    telemetry = metrics.Telemetry(prometheus_client.CollectorRegistry(), ticking.now)
    annotator = node_sync.Annotator(prometheus, kube, kube, settings, clock=ticking, telemetry=telemetry)
    nodes = [builders.node("node-0", address="10.1.0.1")]
    for _ in range(HOURS + 2):
        outcome = annotator.sync(node_sync.World(nodes, there), node_sync.Rulebook(POLICY, "hash"))
        assert outcome.whole, json.dumps(outcome.as_json())
    texts = [body["metadata"]["annotations"][load_annotation.KEY] for _, body in kube.patches]
    return load_annotation.decode(texts[0]), load_annotation.decode(texts[-1])
