"""A whole descheduler over metrics-server: what it observes and when it acts, what is missing, and what ends a run."""

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from descheduler.ledger.rows import Query
from descheduler.planning.verdicts import Cause
from descheduler.sources.metrics_server import MetricsServerUsage
from kube import errors, kinds, objects
from policy.contract import heartbeat, load_annotation
from policy.contract.load_annotation import Reading, Windows
from runtime import clock
from tests import builders
from tests.unit.descheduler import doors, scenes
from tests.unit.descheduler.worlds import World

AGE_SECONDS = 10.0  # of annotations and items
FAILURES = "evenload_descheduler_failures_total"
UNKNOWN = Cause.USAGE_UNKNOWN


class Bench(World):
    """Nodes and pods as the scene has them, of which annotations and metrics-server tell; `run` lets time pass."""

    def __init__(self, tmp_path: pathlib.Path, scene: scenes.Scene | None = None, **descheduler: object) -> None:
        self.scene = scene or scenes.hot_and_cool()
        self.annotates = self.beats = True
        self.unlisted: set[str] = set()
        self.texts: dict[str, str] = {}
        super().__init__(self.scene, tmp_path, **{"mode": "Enforce", **descheduler})

    def of_usage(self) -> MetricsServerUsage:
        """See World."""
        policy = lambda: self.policy.current  # noqa: E731
        return MetricsServerUsage(self.listed, self.door, policy, namespace="ours", clock=self.clock)

    def read(self) -> MetricsServerUsage:
        """The source."""
        assert isinstance(self.source, MetricsServerUsage)
        return self.source

    def tell(self) -> None:
        """Writes the annotations of changed nodes and a heartbeat over all, as the annotator does at this moment."""
        at_seconds = self.clock.now() - AGE_SECONDS
        for name, ratios in self.scene.readings.items() if self.annotates else ():
            before = load_annotation.decode(self.texts[name]).values if name in self.texts else None
            if ratios != before:
                reading = Reading(at_seconds, ratios, windows=Windows(at_seconds - 900, {}))
                self.texts[name] = load_annotation.encode(reading)
        nodes = [
            builders.node(name, annotations={load_annotation.KEY: self.texts[name]} if name in self.texts else None)
            for name in self.scene.nodes
        ]
        self.door.objects["nodes"] = tuple(nodes)
        if self.beats and self.annotates:
            data = heartbeat.encode(at_seconds, "hash", len(nodes), heartbeat.digest(dict(self.texts)))
            body = {"metadata": {"name": heartbeat.CONFIG_MAP, "namespace": "ours"}, "data": data}
            self.door.objects["configmaps"] = (builders.decoded(body, objects.ConfigMap),)
        listed = [pod for pod in self.scene.pods if pod.name not in self.unlisted]
        self.door.objects["PodMetrics"] = tuple(item(pod, self.scene, at_seconds) for pod in listed)

    def run(self, seconds: float, *, interval_seconds: float = 60) -> None:
        """Samples every 30 s, and runs every minute."""
        for step in range(1, round(seconds / 30) + 1):
            self.clock.advance(30)
            self.tell()
            self.read().sample()
            if step * 30 % interval_seconds == 0:
                self.service.cycle()

    def verdicts(self) -> dict[str, str]:
        """Why each pod of the hot node goes or stays, by the last run."""
        return {name: str(one.verdict) for name, one in scenes.judged(self.last.plan).items()}

    def evicted(self) -> list[str]:
        return [name for name, _, _ in self.door.evictions]


def item(pod: objects.Pod, scene: scenes.Scene, at_seconds: float, *, window: str = "15.02s") -> objects.PodMetrics:
    """A pod as metrics-server lists it: two containers."""
    used = scene.used[pod.key]
    usage = {"cpu": f"{used.cpu_millicores / 2:.0f}m", "memory": f"{used.memory_bytes / 2:.0f}"}
    body = {
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "timestamp": clock.to_rfc3339(at_seconds),
        "window": window,
        "containers": [{"name": name, "usage": usage} for name in ("main", "sidecar")],
    }
    return builders.decoded(body, objects.PodMetrics)


@pytest.fixture
def bench(tmp_path: pathlib.Path) -> Bench:
    return Bench(tmp_path)


def test_a_hot_node_is_relieved_after_its_pods_were_observed_for_half_of_the_window(bench: Bench) -> None:
    bench.run(180)
    assert bench.evicted() == []
    bench.run(120)
    assert bench.evicted() == ["default/web-0"]
    (row,) = bench.ledger.rows(Query())
    assert (row.result, row.node, row.destination) == ("evicted", "hot", "cool")
    assert row.memory_bytes == pytest.approx(bench.scene.used["default/web-0"].memory_bytes)
    assert row.cpu_millicores == pytest.approx(bench.scene.used["default/web-0"].cpu_millicores)
    assert bench.read().line == "2 of 2 pods on nodes over a line were observed for long enough"


def test_pods_without_enough_samples_stay_and_the_plan_says_why(tmp_path: pathlib.Path) -> None:
    bench = Bench(tmp_path, overloadedFor="0s")
    bench.run(60)
    why = "usage_unknown: it was observed through metrics-server for {} s, expected 150 s"
    assert bench.verdicts() == {name: why.format(0) for name in ("web-0", "web-1")}, "nothing was followed before"
    bench.run(60)
    assert set(bench.verdicts().values()) == {why.format(45)}, "15 s of the first sample, and 30 s"
    assert bench.evicted() == []
    bench.run(120)
    assert bench.evicted() == ["default/web-0"]


def test_a_pod_that_is_not_listed_is_not_moved_and_another_is(bench: Bench) -> None:
    bench.unlisted = {"web-0"}
    bench.run(300)
    assert bench.evicted() == ["default/web-1"]
    assert bench.verdicts()["web-0"] == "usage_unknown: metrics-server does not list it"


BAD: dict[str, Callable[[objects.Pod, Bench], objects.PodMetrics]] = {
    "stale": lambda pod, bench: item(pod, bench.scene, bench.clock.now() - 121),
    "future": lambda pod, bench: item(pod, bench.scene, bench.clock.now() + 61),
    "window": lambda pod, bench: item(pod, bench.scene, bench.clock.now(), window="a while"),
}


@pytest.mark.parametrize("reason", BAD)
def test_figures_that_cannot_be_trusted_are_refused_and_the_plan_says_why(bench: Bench, reason: str) -> None:
    bench.run(180)
    pod = bench.scene.pods[0]
    for _ in range(5):
        bench.clock.advance(30)
        bench.tell()
        others = [one for one in bench.door.objects["PodMetrics"] if one.name != pod.name]
        bench.door.objects["PodMetrics"] = (*others, BAD[reason](pod, bench))
        bench.read().sample()
    bench.service.cycle()
    assert bench.verdicts()[pod.name] == f"usage_unknown: metrics-server's figures of it are refused: {reason}"
    assert bench.evicted() == ["default/web-1"]


def test_a_pod_recreated_under_its_name_begins_with_nothing(bench: Bench) -> None:
    bench.run(180)
    first, *others = bench.scene.pods
    again = builders.pod(first.name, node="hot", metadata={"uid": "another"})
    bench.door.objects["pods"] = (again, *others)
    bench.scene.pods[0] = again
    bench.run(60)
    assert bench.verdicts()[first.name].startswith("usage_unknown: it was observed through metrics-server for ")
    assert bench.evicted() == ["default/web-1"]


def test_the_average_is_over_the_window_and_not_the_last_sample(tmp_path: pathlib.Path) -> None:
    bench = Bench(tmp_path, mode="Observe")
    bench.run(420)
    used = bench.scene.used["default/web-0"]
    bench.scene.used["default/web-0"] = type(used)(used.key, used.cpu_millicores, 2.0**20, used.at_seconds)
    bench.run(30)
    known = bench.read().pod_usage(bench.policy.current, bench.scene.pods, of_all=9)["default/web-0"]
    assert known.at_seconds == bench.clock.now() - AGE_SECONDS
    assert 0.8 < known.memory_bytes / used.memory_bytes < 1.0


def test_without_a_node_over_a_line_no_pod_is_listed(tmp_path: pathlib.Path) -> None:
    bench = Bench(tmp_path, scenes.Scene().node("warm", memory=0.7).node("cool").workload("web", on=["warm"]))
    bench.door.pod_metrics_failure = errors.Unreachable("no list of pods was expected")
    bench.run(600)
    assert bench.service.trouble is None
    assert bench.read().line == "no node is over a line, no pod is observed"


def test_a_process_that_runs_no_more_follows_no_pods(bench: Bench) -> None:
    bench.run(120)
    bench.leads = False
    bench.run(330)
    bench.door.pod_metrics_failure = errors.Unreachable("no list of pods was expected")
    bench.run(60)
    assert bench.read().line == "no node is over a line, no pod is observed"


def test_a_list_that_fails_ends_runs_with_an_overload_in_words_of_metrics_server(bench: Bench) -> None:
    bench.run(180)
    refused = errors.ServerError("GET x", status=503, reason="ServiceUnavailable", message="no endpoints")
    bench.door.pod_metrics_failure = refused
    bench.run(120)
    assert bench.evicted() == []
    trouble = str(bench.service.trouble)
    assert trouble.startswith("metrics-server was not read: GET x: 503 ServiceUnavailable: no endpoints")
    assert "kubectl get apiservice v1beta1.metrics.k8s.io" in trouble
    assert bench.metric(FAILURES, door="metrics-server") == 2, "in both runs"
    assert bench.metric(FAILURES, door="apiserver") == bench.metric(FAILURES, door="prometheus") == 0
    bench.door.pod_metrics_failure = None
    bench.run(60)
    assert bench.evicted() == ["default/web-0"]


def test_an_outage_of_metrics_server_fails_every_run_however_long_it_lasts(bench: Bench) -> None:
    bench.run(180)
    bench.door.pod_metrics_failure = errors.Unreachable("metrics-server is away")
    bench.run(1800)
    assert bench.metric(FAILURES, door="metrics-server") == 30
    assert bench.evicted() == []


def test_an_empty_list_of_pods_is_a_failed_one(bench: Bench) -> None:
    bench.run(180)
    bench.unlisted = {pod.name for pod in bench.scene.pods}
    bench.run(120)
    assert bench.evicted() == []
    assert "metrics.k8s.io/v1beta1 lists no pods" in str(bench.service.trouble)


def test_a_run_on_annotations_older_than_the_bound_plans_nothing_and_says_whose_they_are(bench: Bench) -> None:
    bench.run(180)
    bench.annotates = False
    bench.run(420)
    assert bench.evicted() == []
    assert bench.service.trouble == (
        "no node has a load annotation to act on: the newest is 430 s old, expected under 300 s (sync.staleAfter); the "
        "annotator writes them from metrics-server, and its /readyz?verbose says why"
    )
    assert bench.metric(FAILURES, door="metrics-server") == 3, "at 310, 370 and 430 s"
    assert bench.pages().test_client().get("/plan").status_code == 503


def test_without_any_annotation_nothing_is_planned(bench: Bench) -> None:
    bench.annotates = False
    bench.run(60)
    assert "no node has a load annotation to act on: none has one" in str(bench.service.trouble)


def test_a_node_whose_annotation_is_not_confirmed_ages_alone(bench: Bench) -> None:
    bench.run(60)
    bench.texts["hot"] = json.dumps({**json.loads(bench.texts["hot"]), "note": "edited by hand"})
    heartbeat_before = bench.door.objects["configmaps"]
    bench.beats = False
    bench.run(270)
    usages = bench.read().node_usage(bench.door.objects["nodes"], bench.policy.current)
    assert usages["cool"].at_seconds == clock.from_rfc3339(heartbeat_before[0].data["at"])
    bench.beats = True
    bench.run(30)
    usages = bench.read().node_usage(bench.door.objects["nodes"], bench.policy.current)
    assert {one.at_seconds for one in usages.values()} == {bench.clock.now() - AGE_SECONDS}


def test_texts_that_cannot_be_read_are_missing_and_a_broken_heartbeat_lets_readings_age(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.run(30)
    bench.beats = False
    bench.texts["hot"] = "{"
    bench.scene.readings.pop("hot")
    bench.tell()
    broken = {"metadata": {"name": heartbeat.CONFIG_MAP, "namespace": "ours"}, "data": {"v": "9"}}
    bench.door.objects["configmaps"] = (builders.decoded(broken, objects.ConfigMap),)
    usages = bench.read().node_usage(bench.door.objects["nodes"], bench.policy.current)
    assert set(usages) == {"cool"}
    assert "load annotation not used" in caplog.text
    assert "heartbeat not used, readings age" in caplog.text


def test_a_restart_counts_an_overload_anew_and_a_follower_that_leads_does_not(tmp_path: pathlib.Path) -> None:
    bench = Bench(tmp_path)
    bench.leads = False
    bench.run(600)
    assert bench.evicted() == []
    bench.leads = True
    bench.run(60)
    assert [node.node.name for node in bench.last.plan.nodes] == ["hot"]
    (tmp_path / "other").mkdir()
    started = Bench(tmp_path / "other")
    started.run(60)
    assert started.last.plan.nodes == ()


def test_a_departed_pod_counts_as_gone_until_the_readings_are_newer(bench: Bench) -> None:
    """The annotation is from before the pod went, so it shows all of it, however long ago that was."""
    bench.run(300)
    assert bench.evicted() == ["default/web-0"]
    bench.scene.pods.pop(0)
    bench.door.objects["pods"] = tuple(bench.scene.pods)
    bench.beats = bench.annotates = False
    bench.run(240)
    assert bench.evicted() == ["default/web-0"], "4 minutes later the readings are still from before"
    (node,) = bench.last.plan.nodes
    value_ratio, used = node.overloads[0].value_ratio, bench.scene.used["default/web-0"]
    share_ratio = used.memory_bytes / (scenes.NODE_GIB * scenes.GIB)
    assert node.projected["memory_avg_5m"] == pytest.approx(value_ratio - share_ratio)


def test_the_load_after_an_eviction_is_asked_for_when_readings_are_that_new(bench: Bench) -> None:
    bench.run(300)
    (row,) = bench.ledger.rows(Query())
    bench.scene.readings["hot"] = {**bench.scene.readings["hot"], "memory_avg_5m": 0.75}
    bench.run(240)
    assert bench.clock.now() == row.at_seconds + 300
    assert bench.ledger.rows(Query())[0].load_5m_ratio is None, "the readings are 10 s older than the moment"
    bench.run(60)
    assert bench.ledger.rows(Query())[0].load_5m_ratio == 0.75
    assert bench.ledger.rows(Query())[0].at_seconds == row.at_seconds


def test_the_last_look_ends_a_run_whose_readings_have_grown_stale(bench: Bench) -> None:
    bench.run(180)
    bench.run(60, interval_seconds=1000)
    before, reads = bench.door.objects["configmaps"], []

    def get(kind: Any, name: str, *, namespace: str = "") -> Any:
        reads.append(kind.plural)
        if kind is kinds.CONFIG_MAPS and "pods" in reads:
            bench.clock.advance(600)
            return before[0]
        return doors.FakeDoor.get(bench.door, kind, name, namespace=namespace)

    bench.door.get = get  # type: ignore[method-assign]
    bench.service.cycle()
    assert bench.evicted() == []
    (row,) = bench.ledger.rows(Query())
    assert (row.result, "no node has a load annotation to act on" in row.message) == ("not_done", True)
