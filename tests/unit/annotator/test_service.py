"""The service around the cycle: leadership gates effects, bindings are judged, the plain routes tell the state."""

import pathlib
import random
import threading

import prometheus_client
import pytest

from annotator import metrics, node_sync, service
from kube import policy_events
from kube.pods.compact import Pod
from policy.loading import loader
from promql import errors
from promql.http import circuit_breaker, client
from promql.queries import identity, node_queries
from runtime import clock, options, reloading
from tests import builders, clocks, fake_kube_writes, fake_prometheus, metric_docs

SCHEDULED = clock.from_rfc3339(builders.SCHEDULED)
POLICY = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


class Bench:
    """A service that was never started: its caches are empty, its methods are called by hand."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.leading = True
        self.clock = clocks.ManualClock(SCHEDULED - 5)
        self.file = directory / "policy.yaml"
        self.file.write_text(POLICY, encoding="utf-8")
        self.policy = reloading.Reloading(self.file, loader.load, clock=self.clock)
        self.policy.load()
        self.prometheus = fake_prometheus.FakePrometheus()
        self.kube = fake_kube_writes.FakeKubeWrites()
        self.registry = prometheus_client.CollectorRegistry()
        self.telemetry = metrics.Telemetry(self.registry, self.clock.now)
        settings = node_sync.Settings("ours", identity.SeriesLabels())
        self.annotator = node_sync.Annotator(
            self.prometheus, self.kube, self.kube, settings, clock=self.clock, telemetry=self.telemetry
        )
        self.service = self.begun(self.clock)
        for metric in self.policy.current.metrics_in_force:
            self.prometheus.answer(node_queries.of_metric(metric), {"node-1": 0.2, "node-2": 0.6})

    def begun(self, clock: clocks.ManualClock) -> service.Service:
        """A service by this clock."""
        speaker = policy_events.speaker("annotator", options.ServiceOptions(self.file, namespace="ours"))
        return service.Service(
            self.annotator,
            self.kube,
            self.policy,
            leads=lambda: self.leading,
            news=policy_events.PolicyEventPublisher(self.policy, self.kube, speaker, clock=clock),
            clock=clock,
            rng=random.Random(1),
            circuit=lambda: "as told",
        )

    def see_levels(self) -> None:
        """One sync over two nodes, outside the service's empty caches."""
        nodes = [builders.node("node-1"), builders.node("node-2", address="10.0.0.2")]
        self.service.results.begin(lambda: (), since_seconds=self.clock.now(), now_seconds=self.clock.now())
        self.annotator.sync(node_sync.World(nodes, {}), node_sync.Rulebook(self.policy.current, "hash"))

    def caches_are_full(self) -> None:
        """As if the first lists were through."""
        self.service.nodes.synced.set()
        self.service.pods.synced.set()


@pytest.fixture
def bench(tmp_path: pathlib.Path) -> Bench:
    return Bench(tmp_path)


def verbose(bench: Bench) -> str:
    """What the service says of its state."""
    return bench.service.app(prometheus_client.CollectorRegistry()).test_client().get("/readyz?verbose").text


def bound(name: str = "web-1", node: str = "node-1") -> Pod:
    return builders.lean_pod(name, node=node)


def test_a_new_binding_is_judged_by_the_levels_of_that_moment(bench: Bench) -> None:
    bench.see_levels()
    bench.service.on_pod(builders.lean_pod("web-1"), bound())
    tally = bench.service.results.tally
    assert (tally.total_schedule_count, tally.effective_dynamic_schedule_count) == (1, 1.0)


def test_levels_older_than_stale_after_judge_nothing(bench: Bench) -> None:
    bench.see_levels()
    bench.clock.advance(300)
    bench.service.on_pod(builders.lean_pod("web-1"), bound())
    bench.service.results.settle(None, now_seconds=bench.clock.now())
    tally = bench.service.results.tally
    assert (tally.schedule_results_left_out, tally.total_schedule_count) == (1, 0)


@pytest.mark.parametrize(("again", "judged"), [(True, 1), (False, 0)])
def test_what_is_placed_in_a_lapse_of_leadership_the_next_leader_judges(bench: Bench, again: bool, judged: int) -> None:
    bench.clock.advance(5)
    bench.caches_are_full()
    bench.see_levels()
    bench.leading = False
    bench.service.on_pod(builders.lean_pod("web-1"), bound())
    bench.leading = again
    bench.service.sync()
    bench.clock.advance(31)
    bench.service.sync()
    tally = bench.service.results.tally
    assert tally.total_schedule_count + tally.schedule_results_left_out == judged


def test_a_follower_neither_judges_nor_asks(bench: Bench) -> None:
    bench.leading = False
    bench.caches_are_full()
    bench.service.on_pod(None, bound())
    bench.service.sync()
    assert bench.service.results.tally.schedule_results_left_out == 0
    assert bench.prometheus.asked == []
    assert "[+]freshness ok: another replica leads" in verbose(bench)


def test_nothing_is_written_before_the_whole_cluster_was_seen(bench: Bench) -> None:
    bench.service.nodes.synced.set()
    bench.service.sync()
    assert bench.prometheus.asked == []
    bench.service.pods.synced.set()
    bench.service.sync()
    assert len(bench.prometheus.asked) == 6 + 2, "one per metric, two for owners"


def test_readiness_waits_for_the_first_lists_only(bench: Bench) -> None:
    routes = bench.service.app(bench.registry).test_client()
    assert routes.get("/readyz").status_code == 503
    bench.caches_are_full()
    for metric in bench.policy.current.metrics_in_force:
        bench.prometheus.fail(node_queries.of_metric(metric), errors.Unreachable("Prometheus is away"))
    bench.service.sync()
    answer = routes.get("/readyz?verbose")
    assert answer.status_code == 200
    assert "[+]last sync ok: nothing could be read; Prometheus is away" in answer.text
    assert "[+]circuit to Prometheus ok: as told" in answer.text
    assert routes.get("/livez").status_code == 200


def test_a_refused_policy_shows_everywhere_without_making_it_unready(bench: Bench) -> None:
    bench.caches_are_full()
    in_force = bench.policy.content_hash
    bench.file.write_text(POLICY + "nonsense: 1\n", encoding="utf-8")
    bench.service.poll()
    bench.service.poll()
    routes = bench.service.app(bench.registry).test_client()
    answer = routes.get("/readyz?verbose")
    assert answer.status_code == 200
    loaded_at = clock.to_rfc3339(bench.policy.loaded_at_seconds)
    assert f"[+]policy ok: {in_force} since {loaded_at}; the file as it is now is refused: " in answer.text
    state = routes.get("/configz").json["policyState"]  # type: ignore[index]
    assert (state["hash"], state["loadedAt"]) == (in_force, loaded_at)
    assert "nonsense" in answer.text
    assert "nonsense" in state["error"]
    assert bench.registry.get_sample_value("evenload_config_last_reload_successful") == 0
    assert bench.registry.get_sample_value("evenload_config_info", {"hash": in_force}) == 1
    assert bench.kube.events == ["PolicyRefused"]


def test_configz_tells_what_is_in_force_and_how_the_last_sync_went(bench: Bench) -> None:
    bench.caches_are_full()
    routes = bench.service.app(bench.registry).test_client()
    assert routes.get("/configz").json["lastSync"] is None  # type: ignore[index]
    bench.service.sync()
    body = routes.get("/configz").json
    assert body is not None
    assert body["policy"]["sync"]["period"] == "30s"
    assert body["policyState"]["hash"] == bench.policy.content_hash
    assert body["leader"] is True
    assert body["lastSync"]["queriesAnswered"] == 6


def test_the_figures_are_exported_under_their_fixed_names(bench: Bench) -> None:
    bench.service.app(bench.registry)
    bench.telemetry.leader.set(1)
    bench.see_levels()
    bench.service.on_pod(builders.lean_pod("web-1"), bound(node="node-2"))
    expected = {
        "evenload_cpu_utilization_total_avg": 0.6,
        "evenload_memory_utilization_total_avg": 0.6,
        "evenload_effective_dynamic_schedule_count": 0.0,
        "evenload_total_schedule_count": 1.0,
        "evenload_effective_schedule_ratio": 0.0,
        "evenload_annotator_leader": 1.0,
        "evenload_schedule_cpu_ratio_sum_total": 0.6,
        "evenload_schedule_memory_ratio_sum_total": 0.6,
    }
    assert {name: bench.registry.get_sample_value(name) for name in expected} == expected


def test_the_docs_name_exactly_the_metrics_that_are_exported(bench: Bench) -> None:
    guarded = circuit_breaker.CircuitBreaker(bench.prometheus, clock=bench.clock, rng=random.Random(1))
    bench.registry.register(circuit_breaker.DoorCollector(guarded, client.Traffic()))
    text = bench.service.app(bench.registry).test_client().get("/metrics").text
    assert metric_docs.exposed(text, "annotator") == metric_docs.named("annotator.md")


def test_a_thread_that_dies_is_begun_again_and_a_main_loop_that_dies_ends_the_process(bench: Bench) -> None:
    bench.service = bench.begun(clock := clocks.BreakingClock())
    stop = threading.Event()
    try:
        with pytest.raises(OverflowError):
            bench.service.run(stop)
        assert clock.threads_again(3) == {"read-nodes", "read-pods", "policy"}
    finally:
        stop.set()
    read = "[+]nodes watch ok: heard 0 s ago; NotImplementedError: nodes"
    assert read in verbose(bench), "this door lists and cannot watch"
