"""Reports about series of pods: a real Prometheus scrapes pages with times of their own; promtool, VictoriaMetrics."""

import json
import pathlib
import subprocess
import time
from collections.abc import Iterator

import pytest
import requests

from lab.cluster import binaries
from promql.http import client
from promql.queries import pod_queries
from tests.contract import test_victoria_metrics
from tests.e2e import waiting
from tests.reports.real import kubelet_pages
from tests.reports.real.kubelet_pages import MIB, Job, Life
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
WINDOW_SECONDS = 300.0
JOBS = tuple(Job(f"every{seconds}", float(seconds)) for seconds in (10, 30, 60))
WITHOUT_TIMES = tuple(Job(f"own{seconds}", float(seconds), {"honor_timestamps": False}) for seconds in (10, 60))
LIVES = (
    Life("crash-1", 40, "proxy"),
    *(Life("crash-1", 315, begin=end - 30, end=end) for end in (-290.0, -230.0, -160.0)),
    Life("alone-1", 315, begin=-190.0, end=-160.0),
    Life("killed-1", 900, end=-160.0),
    Life("killed-1", 40, begin=-155.0),
    Life("prepared-1", 2048, "migrate", end=-160.0),
    Life("prepared-1", 40, begin=-160.0),
    Life("db-0", 800, end=-160.0),
    Life("db-0", 100, node="b", begin=-150.0),
    Life("db-1", 800, node="b", end=-160.0),
    Life("db-1", 100, node="b", begin=-150.0),
    Life("slow-1", 70, begin=-719.0, housekeeping_seconds=60.0),
    Life("slow-2", 60, begin=-715.0, node="b", housekeeping_seconds=20.0),
    Life("late-1", 80, node="c"),
)
LATE = {"c": -200.0}  # the last scrape of another cluster's node that has the same address
LIVING = {
    "crash-1": 40, "killed-1": 40, "prepared-1": 40, "db-0": 100, "db-1": 100, "slow-1": 70, "slow-2": 60, "late-1": 80,
}  # fmt: skip


class Story:
    """A Prometheus after the story, and its end."""

    def __init__(self, url: str, end_seconds: float) -> None:
        self.door = client.connect(url, timeout_seconds=60.0)
        self.end_seconds = end_seconds

    def memory(self, job: Job, *names: str) -> dict[str, float]:
        """MiB by pod at the end: of the story where samples have its times, else of now."""
        selector = f'job="{job.name}"' + (f",{pod_queries.naming(names)}" if names else "")
        answer = self.door.query(pod_queries.memory_bytes(WINDOW_SECONDS, selector=selector), at_seconds=self._at(job))
        return {sample.labels["pod"]: sample.value / MIB for sample in answer.samples}

    def dead(self, job: Job) -> list[float]:
        """The count of pods with dead containers; nothing for none."""
        text = pod_queries.dead_pods(selector=f'job="{job.name}"')
        return [sample.value for sample in self.door.query(text, at_seconds=self._at(job)).samples]

    def _at(self, job: Job) -> float | None:
        return None if job in WITHOUT_TIMES else self.end_seconds


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """The story, scraped by all jobs."""
    jobs = JOBS + WITHOUT_TIMES
    kubelets = kubelet_pages.Kubelets(LIVES, time.time() - 5, LATE)
    with kubelet_pages.prometheus(tmp_path_factory.mktemp("prometheus"), kubelets, jobs) as url:
        waiting.eventually(lambda: kubelets.ended(jobs), 2 * waiting.LIMIT_SECONDS, "every page to be scraped")
        scraped = Story(url, kubelets.end_seconds)
        yield scraped
        scraped.door.close()


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
@reported("pods", "prometheus-operator/kube-prometheus#695", "google/cadvisor#2526", before=Before.WRONG)
@situation(
    "containers that crash, are killed for memory or were init containers, and pods of a StatefulSet that come back, "
    "stay in Prometheus for 5 minutes (scrapes of 10, 30 and 60 s)"
)
@behaviour("the pod uses what its living containers use; one without any has no value")
def test_only_living_containers_count(story: Story, job: Job) -> None:
    assert story.memory(job) == pytest.approx(LIVING)
    assert story.dead(job) == [6.0]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
@reported("pods", "prometheus-operator/kube-prometheus#695", before=Before.WRONG)
@situation("the query names only a pod of a StatefulSet that was recreated on another node")
@behaviour("the root cgroup of its old node says that the old series are dead")
def test_a_pod_asked_for_by_name_counts_as_among_all(story: Story, job: Job) -> None:
    assert story.memory(job, "db-0") == pytest.approx({"db-0": 100})
    assert story.memory(job, "alone-1", "late-1", "slow-1") == pytest.approx({"late-1": 80, "slow-1": 70})


@pytest.mark.parametrize("job", WITHOUT_TIMES, ids=lambda job: job.name)
@reported("pods", "prometheus-operator/kube-prometheus#695", before=Before.RIGHT)
@situation("containers that end, scraped with honor_timestamps: false")
@behaviour("series end with their containers; nothing is dead, and no living one is left out")
def test_series_that_end_are_no_finding(story: Story, job: Job) -> None:
    assert story.memory(job) == pytest.approx(LIVING)
    assert story.dead(job) == []


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.name)
@reported("pods", "prometheus-community/helm-charts#5063", before=Before.WRONG)
@situation("cAdvisor looks at a living container every 20 or 60 s, at others every 10 s")
@behaviour("it counts at every moment; of a container that restarts, one life")
def test_no_living_container_is_left_out_at_any_moment(story: Story, job: Job) -> None:
    text = pod_queries.memory_bytes(WINDOW_SECONDS, selector=f'job="{job.name}"')
    end_seconds = story.end_seconds
    answer = story.door.query_range(text, start_seconds=end_seconds - 300, end_seconds=end_seconds, step_seconds=5)
    values = {series.labels["pod"]: [value / MIB for _, value in series.points] for series in answer.series}
    for pod in ("slow-1", "slow-2", "late-1"):
        assert values[pod] == pytest.approx([LIVING[pod]] * 61), pod
    assert max(values["crash-1"]) <= 40 + 315
    assert max(values["killed-1"]) <= 900


@reported("pods", "prometheus/prometheus#13060", before=Before.RIGHT)
@situation("the scrape job has track_timestamps_staleness: true")
@behaviour("a series ends with its container at the next scrape")
def test_a_series_with_a_stale_marker_is_not_dead(tmp_path: pathlib.Path) -> None:
    labels = 'namespace="shop",pod="web-1",container="app",instance="10.0.0.1:10250",job="kubelet"'
    series = [
        {"series": f'{kubelet_pages.SERIES}{{{labels},id="1"}}', "values": f"{900 * MIB}+0x18 stale"},
        {"series": f'{kubelet_pages.SERIES}{{{labels},id="2"}}', "values": f"_x19 {40 * MIB}+0x5"},
    ]
    expected = [{"labels": '{namespace="shop",pod="web-1"}', "value": 40 * MIB}]
    judged(tmp_path, series, {pod_queries.memory_bytes(WINDOW_SECONDS): expected, pod_queries.dead_pods(): []})


@reported("pods", "kubernetes/kubernetes#111077", "google/cadvisor#3572", before=Before.WRONG)
@situation("cAdvisor does not know the runtime: its series have pods and no label container")
@behaviour("no value; annotator and doctor say so, with the next step; the pod's cgroup is not read")
def test_targets_whose_series_have_no_containers_are_found(tmp_path: pathlib.Path) -> None:
    def of(node: int, more: str) -> dict[str, str]:
        labels = f'namespace="shop",pod="web-{node}",instance="10.0.0.{node}:10250",job="kubelet"'
        return {"series": f"{kubelet_pages.SERIES}{{{labels},{more}}}", "values": "1000+0x40"}

    cgroups = [of(node, f'id="/kubepods/pod{node}",metrics_path="/metrics/cadvisor"') for node in (1, 2, 3)]
    containers = [of(2, 'id="/kubepods/pod2/a",container="app",metrics_path="/metrics/cadvisor"')]
    containers += [of(3, 'container="app",metrics_path="/metrics/resource"')]  # beside a cAdvisor without the label
    pods = [{"labels": f'{{namespace="shop",pod="web-{node}"}}', "value": 1000} for node in (2, 3)]
    unlabelled = [{"labels": '{instance="10.0.0.1:10250"}', "value": 1}]
    expected = {
        pod_queries.memory_bytes(WINDOW_SECONDS): pods,
        pod_queries.without_containers("instance"): unlabelled,
        pod_queries.measured_pods(): [{"labels": "{}", "value": 2}],
    }
    judged(tmp_path, cgroups + containers, expected)


CACHE = "total_active_file"
KUBELET = 'namespace="shop",pod="web-1",container="app",job="kubelet",instance="10.0.0.1:10250"'
TWICE = {
    "two Services select the kubelets": ('service="kubelet"', 'service="elastic-kubelet"'),
    "two Prometheus behind one Thanos": ('prometheus="monitoring/k8s"', 'prometheus="tenant/k8s"'),
    "the container runtime is nested in a container": ('id="/kubepods/a"', 'id="/docker/1/kubepods/a"'),
}


@pytest.mark.parametrize("case", TWICE)
@reported("pods", "prometheus-community/helm-charts#614", "kubernetes-sigs/kubernetes-mixin#512", before=Before.WRONG)
@situation(
    "two Services select the kubelets, two Prometheus are behind one Thanos, or the node is a container: "
    "each series is there twice"
)
@behaviour("a container counts once; its lives within a window add up")
def test_a_container_whose_series_are_there_twice_counts_once(tmp_path: pathlib.Path, case: str) -> None:
    lives = (("one", "0+30x14 stale"), ("two", "_x15 0+15x5"))  # a core until minute 7, half a core from 7.5 on
    series = [
        {"series": f'container_cpu_usage_seconds_total{{{KUBELET},name="{name}",{copy}}}', "values": values}
        for copy in TWICE[case]
        for name, values in lives
    ]
    pod = {"labels": '{namespace="shop",pod="web-1"}', "value": 0.7}
    judged(tmp_path, series, {f"round({pod_queries.cpu_cores(WINDOW_SECONDS)}, 0.01)": [pod]})


@reported(
    "pods", "kubernetes/kubernetes#43916", "kubernetes/kubernetes#138372", "google/cadvisor#3445", before=Before.WRONG
)
@situation("of a pod's 10 GiB 8 are active page cache, which its node has as available memory")
@behaviour("it uses 2 GiB; all 10 where cAdvisor has no series of the cache")
def test_page_cache_that_its_node_calls_available_is_no_use_of_a_pod(tmp_path: pathlib.Path) -> None:
    def of(series: str, pod: str, gib: int, values: str = "{}+0x20", **labels: str) -> dict[str, str]:
        target = {"namespace": "shop", "pod": pod, "container": "app", "instance": "n", "name": "a", **labels}
        text = ",".join(f'{name}="{value}"' for name, value in target.items())
        return {"series": f"container_memory_{series}_bytes{{{text}}}", "values": values.format(gib)}

    series = [of("working_set", "old", 10), of("working_set", "small", 3), of(CACHE, "small", 4)]
    for service in ("kubelet", "elastic-kubelet"):
        series += [of("working_set", "db", 10, service=service), of(CACHE, "db", 8, service=service)]
    for life, cache_gib, values in (("a", 0, "{}+0x10 stale"), ("b", 8, "_x11 {}+0x8")):
        series += [
            of("working_set", "killed", 10, values, name=life),
            of(CACHE, "killed", cache_gib, values, name=life),
        ]
    used = {"db": 2, "old": 10, "small": 0, "killed": 2}
    samples = [{"labels": f'{{namespace="shop",pod="{pod}"}}', "value": gib} for pod, gib in used.items()]
    judged(tmp_path, series, {pod_queries.memory_bytes(WINDOW_SECONDS): samples})


@reported("pods", "deckhouse/deckhouse#8138", before=Before.RIGHT)
@situation("a StatefulSet's pod of 1.5 cores is recreated every 90 s, scraped every 30")
@behaviour("1.5 cores, no sum of four lives")
def test_lives_that_follow_each_other_are_no_sum_of_loads(tmp_path: pathlib.Path) -> None:
    starts = range(10, 21, 3)  # in scrapes; each life has three of them, and no stale marker
    lives = [f"_x{start} 0+45x{min(2, 20 - start)}" for start in starts]
    series = [
        {
            "series": f'container_cpu_usage_seconds_total{{{KUBELET},id="/pod{number}/a",name="{number}"}}',
            "values": life,
        }
        for number, life in enumerate(lives)
    ]
    inside = f"{pod_queries.cpu_cores(WINDOW_SECONDS)} >= 1.2 <= 1.65 > bool 0"
    judged(tmp_path, series, {inside: [{"labels": '{namespace="shop",pod="web-1"}', "value": 1}]})


def judged(directory: pathlib.Path, series: list[dict[str, str]], expected: dict[str, list[dict[str, object]]]) -> None:
    """Compares by promtool what the expressions say of the series after ten minutes."""
    (promtool,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "promtool"]).values()
    tests = [{"expr": expr, "eval_time": "10m", "exp_samples": samples} for expr, samples in expected.items()]
    body = {"tests": [{"interval": "30s", "input_series": series, "promql_expr_test": tests}]}
    (directory / "test.yaml").write_text(json.dumps(body), encoding="utf-8")
    words = [str(promtool), "test", "rules", str(directory / "test.yaml")]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr


@reported("pods", "VictoriaMetrics/VictoriaMetrics#1526", before=Before.WRONG)
@situation("VictoriaMetrics has the samples of containers that ended, and no marker of their end")
@behaviour("it answers as Prometheus does")
def test_victoria_metrics_says_the_same(tmp_path: pathlib.Path) -> None:
    (binary,) = binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "victoria-metrics"]).values()
    kubelets = kubelet_pages.Kubelets(LIVES, time.time() - 5, LATE)
    pages = kubelet_pages.pages(kubelets, JOBS[1])

    def command(port: int) -> list[str]:
        return [
            str(binary),
            f"-httpListenAddr=127.0.0.1:{port}",
            f"-storageDataPath={tmp_path / 'data'}",
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]

    with test_victoria_metrics.running("victoria-metrics", command, "/health", tmp_path) as url:
        requests.post(f"{url}/api/v1/import/prometheus", data="".join(pages), timeout=60).raise_for_status()
        stored = Story(url, kubelets.end_seconds)
        waiting.eventually(lambda: stored.memory(JOBS[1]), waiting.LIMIT_SECONDS, "the samples to be there")
        assert stored.memory(JOBS[1]) == pytest.approx(LIVING)
        assert stored.memory(JOBS[1], "db-0") == pytest.approx({"db-0": 100})
        stored.door.close()
