"""metrics-server as the source: what of its list is used, what is refused, and a sync over it from end to end."""

import functools
import json
from typing import Any

import pytest

from annotator.collect import metrics_server
from annotator.sync_outcome import Outcome
from kube import errors, objects
from kube.objects import NodeMetrics
from policy import metrics
from policy.contract import heartbeat, owner_usage
from policy.schema import load_policy
from runtime import clock as clocks_of_services
from tests import builders, fake_kube_writes
from tests.unit.annotator import test_node_sync
from tests.unit.annotator.test_node_sync import POLICY

NAMES = metrics.names(POLICY.metrics_in_force)


# 40 % and 50 % of a node of 8 cores and 32 GiB
item = functools.partial(builders.node_metrics_body, cpu="3200m", memory="16Gi", window="15.02s")


class FakeMetricsServer(fake_kube_writes.FakeKubeWrites):
    """The recorder of writes, whose list of metrics.k8s.io may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.error: errors.KubeError | None = None

    def list(self, kind: Any, **options: object) -> Any:
        """See FakeKubeWrites."""
        if self.error is not None:
            raise self.error
        assert kind.path == "apis/metrics.k8s.io/v1beta1"
        return super().list(kind, **options)


class Bench(test_node_sync.Bench):
    """An annotator over metrics-server; `run` syncs every 30 s with items 10 s old."""

    kube: FakeMetricsServer

    def __init__(self, *, policy: load_policy.LoadPolicy = POLICY) -> None:
        super().__init__(policy)
        self.kube = FakeMetricsServer()
        self.restart()

    def restart(self) -> None:
        """A new process."""
        self.begin(None, source=metrics_server.MetricsServerSource(self.kube, clock=self.clock))

    def items(self, *bodies: Any) -> None:
        """The list from now on."""
        self.kube.lists["nodes"] = tuple(builders.decoded(body, NodeMetrics) for body in bodies)

    def run(self, seconds: float, **amounts: str) -> Outcome:
        """The last sync of so long under a steady load of all nodes."""
        outcomes = []
        for _ in range(round(seconds / 30)):
            outcomes.append(self.sync_of(*self.names, **amounts))
        return outcomes[-1]

    def sync_of(self, *names: str, **amounts: str) -> Outcome:
        """A sync after 30 s, of a list that has these nodes alone."""
        self.clock.advance(30)
        self.items(*(item(name, self.clock.now() - 10, **amounts) for name in names))
        return self.sync()

    def values(self, name: str = "node-1") -> dict[str, float]:
        return dict(self.reading(name).values) if name in self.texts else {}


@pytest.fixture
def bench() -> Bench:
    return Bench()


HOUR: Any = {"name": "cpu_avg_1h", "resource": "cpu", "statistic": "avg", "window": "1h"}


@pytest.mark.parametrize("more", [[], [HOUR]], ids=["built-in metrics", "an average of an hour beside them"])
def test_nodes_are_annotated_when_half_of_an_average_is_observed(more: list[Any]) -> None:
    bench = Bench(policy=load_policy.LoadPolicy.of({"metrics": more}))
    outcome = bench.run(120)
    assert (outcome.whole, outcome.read_nothing, bench.texts) == (False, False, {})
    assert outcome.unmatched == (
        "0 of 2 nodes matched; node-1 was observed for 105 s, expected 150 s; "
        "node-2 was observed for 105 s, expected 150 s"
    )
    assert bench.run(60).whole
    assert bench.values() == {name: 0.4 if name.startswith("cpu") else 0.5 for name in NAMES}
    assert len(bench.kube.patches) == 2, "and no more while the load is steady"
    assert bench.heartbeat().at_seconds == bench.clock.now() - 10, "as old as the items"
    assert f"ours/{owner_usage.CONFIG_MAP}" not in bench.kube.config_maps


def test_the_annotation_says_since_when_and_the_log_what_that_means(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    began = bench.clock.now()
    bench.run(180)
    windows = json.loads(bench.texts["node-1"])["windows"]
    assert windows["since"] == clocks_of_services.to_rfc3339(began + 20 - 15.02)[:19] + "Z"
    assert set(windows["peaks"]) == {name for name in NAMES if "max" in name}
    assert bench.annotator.shortage == (
        "cpu_max_1h, cpu_max_1d, memory_max_1h, memory_max_1d of most nodes: the annotator has not observed them for "
        "so long yet; until it has, such metrics cover less and may be too low"
    )
    bench.run(3600)
    assert bench.annotator.shortage.startswith("cpu_max_1d, memory_max_1d of most nodes")
    assert caplog.text.count("windows are not full") == 2


def test_a_restart_loses_neither_values_nor_peaks(bench: Bench) -> None:
    bench.run(600, cpu="6400m")
    bench.run(600)
    assert (bench.values()["cpu_avg_5m"], bench.values()["cpu_max_1h"]) == (0.4, 0.8)
    patches = len(bench.kube.patches)
    bench.restart()
    assert bench.run(30).whole
    assert (bench.values()["cpu_avg_5m"], bench.values()["cpu_max_1h"]) == (0.4, 0.8)
    assert len(bench.kube.patches) == patches, "nothing changed"
    bench.run(3600)
    assert bench.values()["cpu_max_1h"] == 0.4
    assert bench.values()["cpu_max_1d"] == 0.8


BAD: dict[str, dict[str, Any]] = {
    "stale": {"at": -121},
    "future": {"at": 61},
    "window": {"window": "a while"},
    "quantity": {"cpu": "much"},
    "negative": {"cpu": "-1m"},
    "over_range": {"cpu": "12001m"},
    "zero": {"cpu": "0"},
}


@pytest.mark.parametrize("reason", BAD)
def test_an_item_that_cannot_be_used_costs_its_node_only_and_is_counted(bench: Bench, reason: str) -> None:
    bench.run(300)
    fields = dict(BAD[reason])
    bench.clock.advance(30)
    at_seconds = bench.clock.now() + fields.pop("at", -10)
    bench.items(item("node-1", at_seconds, **fields), item("node-2", bench.clock.now() - 10))
    before = bench.values("node-1")
    outcome = bench.sync()
    assert bench.values("node-1") == before, "the last good values stand"
    assert bench.values("node-2")["cpu_avg_5m"] == 0.4
    both = 6.0 if reason not in ("negative", "over_range", "zero") else 3.0
    assert bench.metric("evenload_annotator_invalid_samples_total", reason=reason) == both
    assert (f"{reason}: cpu_avg_5m" in outcome.unmatched, "memory_avg_5m" in outcome.unmatched) == (True, both == 6.0)


def test_two_items_of_a_node_and_a_node_without_capacity_are_refused(bench: Bench) -> None:
    at_seconds = bench.clock.now()
    node = builders.node("node-1", cpu="0")
    decoded = builders.decoded(item("node-1", at_seconds), NodeMetrics)
    assert metrics_server.refusal(decoded, node, at_seconds) == "no_capacity"
    assert metrics_server.refusal(decoded, builders.node("node-1"), at_seconds) is None
    without_time = builders.decoded({"metadata": {"name": "node-1"}}, objects.NodeMetrics)
    assert metrics_server.refusal(without_time, node, at_seconds) == "no_time"
    bench.run(300)
    assert "double: cpu_avg_5m" in bench.sync_of("node-1", "node-1", "node-2").unmatched
    assert (len(bench.values("node-1")), len(bench.values("node-2"))) == (6, 6)


def test_a_node_that_is_not_listed_keeps_its_values_with_their_time(bench: Bench) -> None:
    bench.run(300)
    seen_at = bench.clock.now() - 10
    for seconds in (30, 60, 90):
        assert bench.sync_of("node-2").whole, seconds
        assert bench.heartbeat().at_seconds == seen_at, "nothing is presented younger than it is"
    for _ in range(4):
        unmatched = bench.sync_of("node-2").unmatched
        assert unmatched.startswith("last values of 1 of 2 nodes stand and age: node-1 (no series: ")
        beat = bench.heartbeat()
        assert (beat.at_seconds, beat.excluded) == (bench.clock.now() - 10, frozenset({"node-1"}))
        assert (bench.reading("node-1").at_seconds, len(bench.values("node-1"))) == (seen_at, 6)
    assert bench.sync_of("node-2").unmatched == (
        "1 of 2 nodes matched; node-1 is not in the list of metrics.k8s.io/v1beta1: metrics-server does not reach its "
        "kubelet"
    )
    assert (bench.values("node-1"), len(bench.values("node-2"))) == ({}, 6)


def test_both_heartbeats_of_a_sync_have_the_time_of_the_oldest_sample(bench: Bench) -> None:
    bench.run(180)
    bench.clock.advance(30)
    now_seconds = bench.clock.now()
    bench.items(item("node-1", now_seconds - 20, cpu="8000m"), item("node-2", now_seconds - 10))
    bench.kube.done.clear()
    bench.sync()
    (_, early), (patched, _), (_, late) = bench.kube.done
    times = [heartbeat.decode(body["data"]).at_seconds for body in (early, late)]
    assert (patched, times) == ("node-1", [now_seconds - 20] * 2), "an extender ignores one that is older than the last"


@pytest.mark.parametrize("how", ["away", "empty", "stale", "others"])
def test_a_metrics_server_that_tells_nothing_takes_nothing_away(bench: Bench, how: str) -> None:
    bench.run(300)
    bench.clock.advance(30)
    now_seconds = bench.clock.now()
    if how == "away":
        bench.kube.error = errors.ServerError("GET x", status=503, reason="ServiceUnavailable", message="no endpoints")
    bench.items(
        *{
            "stale": [item(name, now_seconds - 300) for name in bench.names],
            "others": [item("elsewhere", now_seconds)],
        }.get(how, [])
    )
    patches = len(bench.kube.patches)
    outcome = bench.sync()
    assert outcome.read_nothing
    assert len(bench.kube.patches) == patches
    words = {"away": "503 ServiceUnavailable", "stale": "(2 stale)"}.get(how, "none is of this cluster")
    (first, *_) = outcome.problems()
    assert first.startswith("metrics-server was not read: ")
    assert words in first
    assert "kubectl get apiservice v1beta1.metrics.k8s.io" in first
    assert bench.metric("evenload_annotator_syncs_total", result="failed") == 1
    bench.kube.error = None
    assert bench.run(60).whole


def test_metrics_that_cannot_be_had_are_said_and_cost_no_others() -> None:
    own = [{"name": "cpu_p95", "resource": "cpu", "statistic": "p95", "window": "1h"}]
    bench = Bench(policy=load_policy.LoadPolicy.of({"metrics": own}))
    assert bench.run(300).whole
    assert set(bench.values()) == set(NAMES)
    assert bench.annotator.shortage.startswith(
        "cpu_p95 cannot be had from metrics-server: it gives averages of at most"
    )
