"""One sync end to end over the two doors: what is read, held, written and renewed."""

from collections.abc import Mapping

import prometheus_client
import pytest

from annotator import metrics, node_sync
from annotator.collect import collector
from annotator.collect.collector import Source
from annotator.sync_outcome import Outcome
from kube import errors as kube_errors
from kube.door import KubeWriter, WriteRequest
from kube.objects import Node
from kube.pods.compact import Pod
from policy.contract import heartbeat, load_annotation, timestamps
from policy.schema import load_policy
from promql import door, errors
from promql.queries import identity, node_queries
from tests import builders, clocks, fake_kube_writes, fake_prometheus

LABELS = identity.SeriesLabels()
POLICY = load_policy.defaults()
NAMES = [metric.name for metric in POLICY.metrics_in_force]
EXPRESSIONS = {metric.name: node_queries.of_metric(metric) for metric in POLICY.metrics_in_force}


class Bench:
    """An annotator between a fake Prometheus and a recorder; `sync` feeds its writes back as the next state."""

    def __init__(self, policy: load_policy.LoadPolicy = POLICY) -> None:
        self.clock = clocks.ManualClock()
        self.prometheus = fake_prometheus.FakePrometheus()
        self.kube = fake_kube_writes.FakeKubeWrites()
        self.policy = policy
        self.texts: dict[str, str] = {}
        self.names = ["node-1", "node-2"]
        self.uids: dict[str, str] = {}
        self.begin(self.prometheus)

    def begin(
        self,
        prometheus: door.QueryDoor | None,
        labels: identity.SeriesLabels = LABELS,
        source: Source | None = None,
        writer: KubeWriter | None = None,
        *,
        once: bool = False,
    ) -> None:
        """A new process that asks this Prometheus or metrics-server, and writes through the recorder or `writer`."""
        self.registry = prometheus_client.CollectorRegistry()
        telemetry, settings = (
            metrics.Telemetry(self.registry, self.clock.now),
            node_sync.Settings("ours", labels, once=once),
        )
        self.annotator = node_sync.Annotator(
            prometheus, self.kube, writer or self.kube, settings, clock=self.clock, telemetry=telemetry, source=source
        )

    def load(self, **ratios: float) -> None:
        """Every metric answers these ratios per node (node_1=0.3)."""
        values = {f"10.0.0.{name.rpartition('_')[2]}:9100": ratio for name, ratio in ratios.items()}
        for expression in EXPRESSIONS.values():
            self.prometheus.answer(expression, values)

    def load_by_name(self, ratios: Mapping[str, float]) -> None:
        """The same, with series that carry the nodes' names."""
        for expression in EXPRESSIONS.values():
            self.prometheus.answer(expression, ratios)

    def fail(self, error: errors.PromqlError) -> None:
        """Every metric's query raises."""
        for expression in EXPRESSIONS.values():
            self.prometheus.fail(expression, error)

    def nodes(self) -> list[Node]:
        return [
            builders.node(
                name,
                address=f"10.0.0.{index}",
                annotations={load_annotation.KEY: self.texts[name]} if name in self.texts else None,
                metadata={"uid": self.uids.get(name, f"uid-{name}")},
            )
            for index, name in enumerate(self.names, 1)
        ]

    def sync(self, *pods: Pod, after_seconds: float = 0.0) -> Outcome:
        self.clock.advance(after_seconds)
        done = len(self.kube.patches)
        world = node_sync.World(self.nodes(), {pod.key: pod for pod in pods})
        outcome = self.annotator.sync(world, node_sync.Rulebook(self.policy, "hash"))
        for name, body in self.kube.patches[done:]:
            self.texts[name] = body["metadata"]["annotations"][load_annotation.KEY]
        return outcome

    def reading(self, name: str) -> load_annotation.Reading:
        return load_annotation.decode(self.texts[name])

    def times(self) -> heartbeat.EffectiveTimes:
        """Times of an extender that has what the nodes carry now."""
        times = heartbeat.EffectiveTimes()
        for name, text in self.texts.items():
            times.put(name, text)
        return times

    def heartbeat(self) -> heartbeat.Heartbeat:
        return heartbeat.decode(self.kube.config_maps["ours/evenload-heartbeat"])

    def metric_nodes(self, metric: str) -> list[float | None]:
        """On how many nodes a metric is fresh, stale and missing."""
        name = "evenload_annotator_metric_nodes"
        return [self.metric(name, metric=metric, state=state) for state in ("fresh", "stale", "missing")]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.load(node_1=0.3, node_2=0.7)
    return made


@pytest.fixture
def synced(bench: Bench) -> Bench:
    """A bench whose first sync is over."""
    bench.sync()
    return bench


def test_a_sync_writes_every_node_once_and_vouches_for_the_texts(bench: Bench) -> None:
    assert bench.sync().whole
    assert len(bench.prometheus.asked) == 6 + 2, "one per metric, two for owners"
    assert bench.reading("node-2").values == dict.fromkeys(EXPRESSIONS, 0.7)
    assert bench.heartbeat() == (heartbeat.Heartbeat(bench.clock.now(), "hash", 2, heartbeat.digest(bench.texts)))


def test_a_sync_exports_how_load_is_spread_and_the_lines_it_is_measured_against(bench: Bench) -> None:
    assert bench.metric("evenload_node_load_ratio", metric="cpu_max_1h", quantile="1") is None
    bench.sync()
    assert bench.metric("evenload_node_load_ratio", metric="cpu_max_1h", quantile="1") == 0.7
    assert bench.metric("evenload_node_load_ratio", metric="cpu_max_1h", quantile="0.5") == 0.5
    assert bench.metric("evenload_policy_threshold_ratio", metric="cpu_avg_5m", line="filter") == 0.65
    assert bench.metric("evenload_policy_threshold_ratio", metric="memory_avg_5m", line="evict_until") == 0.6


def test_a_load_that_is_stale_is_exported_no_more(synced: Bench) -> None:
    synced.fail(errors.Refused("401: the token has expired"))
    found = []
    for _ in range(2):
        synced.sync(after_seconds=POLICY.sync.stale_after_seconds - 1)
        found.append(synced.metric("evenload_node_load_ratio", metric="cpu_max_1h", quantile="1"))
    assert found == [0.7, None]
    assert synced.metric("evenload_policy_threshold_ratio", metric="cpu_avg_5m", line="filter") == 0.65


def test_placeholders_are_counted_at_every_sync_also_while_nothing_can_be_read() -> None:
    bench = Bench()
    pods = [placeholder("a", "node-1"), placeholder("b", "")]
    bench.sync(*pods)
    kinds = [(preset, state) for preset in ("order", "soak") for state in ("placed", "waiting")]
    told = [bench.metric("evenload_annotator_placeholders", preset=preset, state=state) for preset, state in kinds]
    assert told == [1, 1, 0, 0]


def placeholder(name: str, node: str) -> Pod:
    """A placeholder, on a node or waiting for one."""
    return builders.lean_pod(name, node=node, mutate=builders.placeholder)


def test_no_sync_ever_asks_more_than_eight_queries(bench: Bench) -> None:
    asked = []
    for _ in range(45):
        before = len(bench.prometheus.asked)
        bench.sync()
        asked.append(len(bench.prometheus.asked) - before)
        bench.clock.advance(30)
    assert (min(asked), max(asked)) == (6, 8)
    assert SCRAPES in bench.prometheus.asked


def test_without_any_answer_nothing_is_written_and_nothing_renewed(synced: Bench) -> None:
    before = synced.heartbeat()
    synced.fail(errors.Unreachable("Prometheus at http://p cannot be reached"))
    outcome = synced.sync(after_seconds=30)
    assert outcome.read_nothing
    assert outcome.problems() == [
        "Prometheus at http://p cannot be reached",
        "6 of 6 queries failed, the first as above",
    ]
    assert synced.heartbeat() == before
    assert len(synced.kube.patches) == 2


def test_a_failing_metric_holds_the_heartbeat_back_and_is_dropped_before_it_is_stale(synced: Bench) -> None:
    first = synced.clock.now()
    synced.prometheus.fail(EXPRESSIONS["cpu_max_1d"], errors.Unavailable("too many samples"))
    for _ in range(8):
        assert not synced.sync(after_seconds=29).whole
        assert synced.heartbeat().at_seconds == first
        assert synced.reading("node-1").values["cpu_max_1d"] == 0.3
    synced.sync(after_seconds=29)
    assert synced.heartbeat().at_seconds == synced.clock.now()
    assert "cpu_max_1d" not in synced.reading("node-1").values
    assert synced.clock.now() - first < POLICY.sync.stale_after_seconds


def test_a_node_whose_series_vanish_is_missing_not_idle(synced: Bench) -> None:
    synced.load(node_1=0.3)
    outcome = synced.sync()
    assert synced.reading("node-2").values == dict.fromkeys(EXPRESSIONS, 0.7)
    assert (outcome.without_values, outcome.whole) == ((), False)
    assert outcome.problems() == [f"last values of 1 of 2 nodes stand and age: node-2 (no series: {', '.join(NAMES)})"]
    keep_seconds = collector.keep_seconds(POLICY.sync.period_seconds, POLICY.sync.stale_after_seconds)
    outcome = synced.sync(after_seconds=keep_seconds)
    assert synced.reading("node-2").values == {}
    assert outcome.without_values == ("node-2",)
    assert not outcome.whole
    assert synced.metric("evenload_annotator_nodes", state="unmatched") == 1.0
    assert outcome.problems() == [
        "1 of 2 nodes matched; node-2 has no series: no target with instance 10.0.0.2 or node-2"
    ]


def mates_of_one_bucket() -> list[str]:
    return [name for name in (f"node-{n}" for n in range(1, 5000)) if heartbeat.bucket_of(name) == 7][:2]


def test_a_node_whose_patch_fails_for_long_ages_alone_and_recovers(bench: Bench) -> None:
    stuck, mate = bench.names = mates_of_one_bucket()
    bench.load_by_name(dict.fromkeys(bench.names, 0.3))
    bench.sync()
    bench.kube.fail(stuck, kube_errors.Forbidden("PATCH", status=403, reason="Forbidden", message="no"))
    bench.load_by_name({stuck: 0.9, mate: 0.3})
    seen = bench.times()
    for _ in range(3):
        outcome = bench.sync(after_seconds=30)
        assert any("PATCH" in problem for problem in outcome.problems())
        seen.accept(bench.heartbeat(), bench.clock.now())
        assert seen.settle() == {mate}, "the same bucket, and yet it is renewed"
    bench.kube.fail(stuck, None)
    assert bench.sync().patches == {"written": 1}
    assert bench.reading(stuck).values["cpu_avg_5m"] == 0.9
    assert bench.heartbeat().excluded == frozenset()


def test_quiet_nodes_are_renewed_before_any_patch_and_moved_ones_by_nothing_older_than_their_new_text() -> None:
    bench = Bench()
    moved, quiet = bench.names = mates_of_one_bucket()
    bench.load_by_name(dict.fromkeys(bench.names, 0.3))
    bench.sync()
    seen = bench.times()
    bench.load_by_name({moved: 0.5, quiet: 0.3})
    bench.kube.done.clear()
    bench.sync(after_seconds=30)
    (_, early), (patched, _), (_, late) = bench.kube.done
    seen.accept(heartbeat.decode(early["data"]), bench.clock.now())
    assert patched == moved
    assert seen.settle() == {quiet}
    seen.put(moved, bench.texts[moved])
    assert not seen.settle()
    seen.accept(heartbeat.decode(late["data"]), bench.clock.now())
    assert seen.settle() == {moved}


def test_where_no_node_is_quiet_one_heartbeat_is_enough(synced: Bench) -> None:
    synced.load(node_1=0.5, node_2=0.9)
    synced.kube.done.clear()
    synced.sync(after_seconds=30)
    assert sorted(name for name, _ in synced.kube.done) == ["evenload-heartbeat", "node-1", "node-2"]


def test_patches_end_after_two_thirds_of_a_period_and_the_rest_comes_first_in_the_next_sync(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bench.names = [f"node-{at}" for at in range(35)]
    bench.load_by_name(dict.fromkeys(bench.names, 0.3))
    bench.sync()
    skipped, write = set[str](), bench.kube.write

    def slow(request: WriteRequest) -> None:
        write(request)
        bench.clock.advance(1)

    monkeypatch.setattr(bench.kube, "write", slow)
    for ratio in (0.4, 0.5):
        bench.load_by_name(dict.fromkeys(bench.names, ratio))
        outcome, before = bench.sync(after_seconds=30), skipped
        skipped = {name for name in bench.names if bench.reading(name).values["cpu_avg_5m"] != ratio}
        assert not before & skipped
        assert outcome.patches == {"written": 35 - len(skipped), "skipped": len(skipped)}
        assert bench.heartbeat().excluded == skipped != set()
    assert caplog.text.count("node annotations not written") == 1
    bench.load_by_name(dict.fromkeys(bench.names, 0.6))
    bench.begin(bench.prometheus, once=True)
    assert bench.sync().patches == {"written": 35}, "no next sync would write the rest"


def test_pods_without_a_node_are_counted_as_woken_once_a_sync_that_patches(bench: Bench) -> None:
    pods = [builders.lean_pod("waits-1"), builders.lean_pod("waits-2"), builders.lean_pod("bound", node="node-1")]
    world = node_sync.World(bench.nodes(), {pod.key: pod for pod in pods})
    bench.annotator.sync(world, node_sync.Rulebook(POLICY, "hash"))
    assert bench.metric("evenload_annotator_wakeups_total") == 2
    bench.annotator.sync(world, node_sync.Rulebook(POLICY, "hash"))
    assert bench.metric("evenload_annotator_wakeups_total") == 2, "a sync that patches nothing wakes nobody"


def test_a_heartbeat_that_cannot_be_written_is_part_of_the_outcome(bench: Bench) -> None:
    bench.kube.fail("evenload-heartbeat", kube_errors.Unreachable("no route"))
    outcome = bench.sync()
    assert (outcome.whole, outcome.problems()) == (False, ["heartbeat not written: no route"])


def test_series_of_other_machines_are_counted(bench: Bench) -> None:
    bench.load(node_1=0.3, node_2=0.7, node_77=0.1)
    assert bench.sync().whole
    assert bench.metric("evenload_annotator_unmatched_series") == 1.0


def test_the_age_of_a_metric_grows_until_it_is_confirmed(synced: Bench) -> None:
    synced.clock.advance(45)
    assert synced.metric("evenload_node_metric_age_seconds", metric="cpu_avg_5m") == 45.0


def test_short_jobs_at_constant_load_cause_no_patch_and_their_counts_go_along_with_the_next(synced: Bench) -> None:
    first = len(synced.kube.patches)
    for number in range(80):  # each starts before one sync and has finished before the next
        synced.sync(placed_now(synced, f"job-{number}"))
        synced.sync(after_seconds=10)
        assert synced.heartbeat().digest == heartbeat.digest(synced.texts)
    assert len(synced.kube.patches) - first == 0
    synced.load(node_1=0.5, node_2=0.7)
    synced.sync(placed_now(synced, "web"))
    assert [node for node, _ in synced.kube.patches[first:]] == ["node-1"]
    assert synced.reading("node-1").hot == {"1m": 1, "5m": 1, "30m": 1}


def placed_now(bench: Bench, name: str) -> Pod:
    """A pod that was bound to node-1 this second."""
    return builders.lean_pod(name, node="node-1", scheduled_at=timestamps.encode(bench.clock.now()))


def restarted(bench: Bench, *, after_seconds: float, heartbeat_readable: bool = True) -> Bench:
    """A fresh process over the same nodes and heartbeat, to whom the 1d query of CPU is not answered."""
    successor = Bench()
    successor.clock.advance(bench.clock.now() - successor.clock.now() + after_seconds)
    successor.texts = dict(bench.texts)
    if heartbeat_readable:
        successor.kube.config_maps = bench.kube.config_maps
    successor.load(node_1=0.3, node_2=0.7)
    successor.prometheus.fail(EXPRESSIONS["cpu_max_1d"], errors.Unavailable("too many samples"))
    return successor


def test_a_restart_into_a_failing_query_loses_no_value_the_heartbeat_vouches_for(synced: Bench) -> None:
    synced.sync(after_seconds=3600)
    confirmed = synced.heartbeat().at_seconds
    successor = restarted(synced, after_seconds=60)
    assert successor.sync().patches == {}
    assert successor.heartbeat().at_seconds == confirmed, "and nothing looks fresher than it is"
    assert successor.heartbeat().digest == synced.heartbeat().digest


def test_a_restart_beside_an_empty_prometheus_empties_no_node(synced: Bench) -> None:
    successor = restarted(synced, after_seconds=60)
    successor.load()
    assert successor.sync().read_nothing
    assert successor.texts == synced.texts
    assert successor.kube.patches == []


def test_a_restart_while_prometheus_is_down_tells_what_the_nodes_carry(synced: Bench) -> None:
    successor = restarted(synced, after_seconds=60)
    del successor.texts["node-2"]
    successor.fail(errors.Unreachable("away"))
    successor.sync()
    assert successor.annotator.freshness_line(POLICY).startswith("cpu_avg_5m missing for 1 of 2 nodes; ")
    successor.sync(after_seconds=POLICY.sync.stale_after_seconds)
    line = successor.annotator.freshness_line(POLICY)
    assert "memory_max_1d missing for 1 of 2 nodes; memory_max_1d stale for 1 of 2 nodes" in line
    assert successor.metric_nodes("cpu_max_1d") == [0, 1, 1]


@pytest.mark.parametrize(
    ("after_seconds", "heartbeat_readable"),
    [pytest.param(300.0, True, id="it is too old"), pytest.param(60.0, False, id="no heartbeat can be read")],
)
def test_a_value_nobody_vouches_for_is_not_taken_over(
    synced: Bench, after_seconds: float, heartbeat_readable: bool
) -> None:
    synced.sync(after_seconds=3600)
    successor = restarted(synced, after_seconds=after_seconds, heartbeat_readable=heartbeat_readable)
    successor.sync()
    assert "cpu_max_1d" not in successor.reading("node-1").values


def test_a_new_machine_does_not_inherit_what_was_held_of_its_namesake(synced: Bench) -> None:
    synced.prometheus.fail(EXPRESSIONS["cpu_max_1d"], errors.Unavailable("too many samples"))
    del synced.texts["node-1"]
    synced.uids["node-1"] = "another-machine"
    synced.sync()
    assert "cpu_max_1d" not in synced.reading("node-1").values
    assert "cpu_max_1d" in synced.reading("node-2").values


def test_a_node_that_cooled_is_written_once_more_so_that_a_pod_refused_meanwhile_is_asked_again(bench: Bench) -> None:
    bench.load(node_1=0.7, node_2=0.7)
    bench.sync()
    bench.load(node_1=0.6, node_2=0.6)
    assert bench.sync().patches == {"written": 2}
    before = dict(bench.texts)
    assert bench.sync(after_seconds=30).patches == {"written": 1}
    assert bench.texts["node-2"] == before["node-2"], "one node is enough"
    assert bench.reading("node-1").at_seconds == bench.clock.now()
    assert bench.reading("node-1").values == load_annotation.decode(before["node-1"]).values
    assert bench.sync(after_seconds=30).patches == {}


def test_metrics_that_failed_are_asked_last_so_that_an_opening_circuit_costs_only_them(bench: Bench) -> None:
    for name in ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d"):
        bench.prometheus.fail(EXPRESSIONS[name], errors.Unavailable("too many samples"))
    bench.sync()
    bench.prometheus.asked.clear()
    outcome = bench.sync(after_seconds=30)
    names = {expression: name for name, expression in EXPRESSIONS.items()}
    assert [names[expression] for expression in bench.prometheus.asked if expression in names] == [
        *("memory_avg_5m", "memory_max_1h", "memory_max_1d"),
        *("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d"),
    ]
    assert outcome.answered == 3
    assert list(bench.reading("node-1").values) == ["memory_avg_5m", "memory_max_1h", "memory_max_1d"]


def test_a_pause_of_the_circuit_is_the_same_complaint_as_the_failure_behind_it(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    down = errors.Unreachable("Prometheus at http://p cannot be reached")
    for error in (down, errors.Paused(down), down):
        bench.fail(error)
        bench.sync()
    assert caplog.text.count("queries failed") == 1


def test_freshness_goes_on_counting_while_nothing_can_be_read(bench: Bench) -> None:
    assert "nothing read since the start" in bench.annotator.freshness_line(POLICY)
    bench.sync()
    assert bench.annotator.freshness_line(POLICY) == "all 6 metrics fresh for all 2 nodes"
    bench.fail(errors.Unreachable("away"))
    bench.sync(after_seconds=300)
    assert bench.annotator.freshness_line(POLICY).startswith("cpu_avg_5m stale for 2 of 2 nodes; ")
    assert bench.metric_nodes("cpu_max_1d") == [0, 2, 0]


SCRAPES, KNOWN = node_queries.scrapes("cpu", 300.0), node_queries.known_share(86400.0)


def look_again(bench: Bench) -> str:
    """Two syncs, of which one has no owners to ask for, ten minutes later."""
    bench.clock.advance(600)
    for _ in range(2):
        assert bench.sync().whole, "a warning, not a failure"
        bench.clock.advance(30)
    return bench.annotator.shortage


def test_windows_that_hold_too_little_are_complained_of_once_and_looked_at_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.prometheus.answer_samples(SCRAPES, door.Sample({}, 2.0, 0.0))
    bench.prometheus.answer_samples(KNOWN, door.Sample({}, 0.6, 0.0))
    assert look_again(bench) == (
        "cpu_avg_5m averages over 300 s, in which a node is scraped only 2 times, expected at least 4: "
        "scrape node-exporter more often or give the metric a longer window"
    )
    for _ in range(3):
        bench.sync()
        bench.clock.advance(30)
    assert bench.prometheus.asked.count(SCRAPES) == 1
    assert caplog.text.count("windows are not full") == 1
    bench.prometheus.fail(SCRAPES, errors.Unavailable("busy"))
    assert look_again(bench) != "", "no answer is no proof that all is well"
    bench.prometheus.answer_samples(SCRAPES, door.Sample({}, 4.0, 0.0))
    assert look_again(bench) == ""


def test_a_prometheus_younger_than_the_longest_window_is_said_to_be(bench: Bench) -> None:
    assert look_again(bench) == "", "without any series nothing is known"
    bench.prometheus.answer_samples(SCRAPES, door.Sample({}, 20.0, 0.0))
    assert look_again(bench) == (
        "cpu_max_1d looks back over 86400 s, but Prometheus knew only 0% of the nodes so long ago: "
        "until it did, such metrics cover less and may be too low"
    )
    bench.prometheus.answer_samples(KNOWN, door.Sample({}, 1.0, 0.0))
    bench.clock.jump(-8 * 3600)
    assert look_again(bench) == "", "looked at again, although that was in the future"


def test_a_prometheus_that_lost_its_data_takes_nothing_away_before_it_is_stale(synced: Bench) -> None:
    before, texts = synced.heartbeat(), dict(synced.texts)
    synced.load()
    outcome = synced.sync(after_seconds=30)
    assert outcome.read_nothing
    assert "without a single series" in outcome.problems()[0]
    assert (synced.texts, synced.heartbeat()) == (texts, before)
    for name in ("cpu_avg_5m", "memory_avg_5m"):  # what fills first
        synced.prometheus.answer(EXPRESSIONS[name], {"node-1": 0.4, "node-2": 0.7})
    synced.sync(after_seconds=30)
    assert synced.reading("node-1").values == {**dict.fromkeys(EXPRESSIONS, 0.4)}, "a maximum is at least the average"
    assert synced.reading("node-2").values == dict.fromkeys(EXPRESSIONS, 0.7)
    synced.sync(after_seconds=POLICY.sync.stale_after_seconds)
    assert set(synced.reading("node-2").values) == {"cpu_avg_5m", "memory_avg_5m"}


def test_an_answer_without_series_is_believed_of_a_metric_nobody_had() -> None:
    assert not Bench().sync().read_nothing


def test_readings_are_as_old_as_the_question_however_late_the_last_answer_comes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    began_seconds, query = bench.clock.now(), bench.prometheus.query

    def frozen_before_the_last(expression: str, *, at_seconds: float | None = None) -> door.Answer:
        if len(bench.prometheus.asked) == len(EXPRESSIONS) - 1:
            bench.clock.advance(600)
        return query(expression, at_seconds=at_seconds)

    monkeypatch.setattr(bench.prometheus, "query", frozen_before_the_last)
    bench.sync()
    assert bench.clock.now() == began_seconds + 600
    assert bench.reading("node-1").at_seconds == began_seconds
    assert bench.heartbeat().at_seconds == began_seconds
    assert bench.annotator.levels is not None
    assert bench.annotator.levels.at_seconds == began_seconds


@pytest.mark.parametrize("jump_seconds", [-3600.0, 3600.0], ids=["back", "forward"])
def test_a_clock_that_was_set_renews_no_value_that_is_not_answered(synced: Bench, jump_seconds: float) -> None:
    synced.clock.jump(jump_seconds)
    synced.prometheus.fail(EXPRESSIONS["cpu_max_1d"], errors.BadQuery("too many samples"))
    synced.sync(after_seconds=30)
    assert set(synced.reading("node-1").values) == EXPRESSIONS.keys() - {"cpu_max_1d"}
    assert synced.heartbeat().at_seconds == synced.clock.now()
