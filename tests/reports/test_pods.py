"""Reports about series of pods: the words of doctor and annotator (real/test_pods_real.py has the queries)."""

import functools

import prometheus_client
import pytest

from annotator import metrics, usage_sync
from annotator.placements import pod_index
from cli.doctor import command, facts, findings
from descheduler.snapshot import interned_pods
from descheduler.sources import pod_windows
from kube import objects
from policy.schema import load_policy
from policy.schema.load_policy import LoadPolicy
from promql.queries import pod_queries
from runtime import clock
from tests import builders, clocks, fake_kube_writes, fake_prometheus
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.cli.doctor import worlds


def judged(check: str, **changes: object) -> findings.Finding:
    """A check of a healthy cluster with some facts replaced."""
    return command.CHECKS[check](worlds.well(**changes))


def text(finding: findings.Finding) -> str:
    """The finding as it is printed."""
    return f"{finding.verdict}: {finding.observation} -> {finding.fix}"


@reported("pods", "prometheus-community/helm-charts#5050", "prometheus/prometheus#13060", before=Before.WRONG)
@situation("the scrape job of cAdvisor honours its times and does not track their staleness")
@behaviour("doctor counts the pods with dead containers and names both settings that end them")
def test_doctor_names_the_setting_that_ends_dead_series() -> None:
    line = text(judged("pod series", pod_series=facts.PodSeries(60, dead=7)))
    assert line.startswith("warn: 7 of 60 pods have containers that have ended")
    assert "track_timestamps_staleness: true" in line
    assert "honor_timestamps: false" in line


@reported("pods", "kubernetes/kubernetes#111077", before=Before.WRONG)
@situation("doctor on a cluster with a runtime that cAdvisor does not know")
@behaviour("a failure with the targets; the next step is /metrics/resource, whose series have the label")
def test_doctor_names_the_targets_without_containers() -> None:
    line = text(judged("pod series", pod_series=facts.PodSeries(0, without_containers=("10.0.0.1:10250",))))
    assert line.startswith("fail: cAdvisor's series of 10.0.0.1:10250 have pods and no label `container`")
    assert "/metrics/resource" in line


@reported("pods", "google/cadvisor#3572", before=Before.WRONG)
@situation("an annotator begins over a cAdvisor without the label container")
@behaviour("log and /readyz?verbose say so; nothing is published")
def test_the_annotator_says_that_no_pod_has_a_value() -> None:
    now = clocks.ManualClock(clock.from_rfc3339(builders.SCHEDULED) + 4000)
    prometheus, kube = fake_prometheus.FakePrometheus(), fake_kube_writes.FakeKubeWrites()
    for query in (pod_queries.cpu_cores(300), pod_queries.memory_bytes(300)):
        prometheus.answer_samples(query)
    usage = usage_sync.OwnerUsage(
        functools.partial(usage_sync.ask, prometheus.query),
        functools.partial(usage_sync.write, kube, "ours"),
        metrics.Telemetry(prometheus_client.CollectorRegistry(), now.now),
        now.now,
    )
    pods = pod_index.PodIndex()
    pods.follow({pod.key: pod for pod in [builders.lean_pod(name, node="node-1") for name in ("a", "b", "c")]})
    usage.sync(pods, load_policy.defaults())
    assert "without a single pod, although 3 have been Ready for 300 s" in usage.problem
    assert "label `container`" in usage.problem
    assert kube.config_maps == {}


@pytest.mark.parametrize("missing", ["main", "proxy"])
@pytest.mark.parametrize("ready", [True, False])
@reported("pods", "kubernetes-sigs/metrics-server#1781", before=Before.WRONG)
@situation("metrics-server leaves out a container, or the sidecar, of a running pod")
@behaviour("the pod has no usage, and the plan names the container")
def test_a_part_of_a_pod_is_not_taken_for_the_whole(missing: str, ready: bool) -> None:
    def mutate(body: builders.Body) -> None:
        body["spec"]["initContainers"] = [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}]
        body["status"]["conditions"][1]["status"] = str(ready)

    pod = builders.decoded(builders.pod_body(node="hot", mutate=mutate), interned_pods.Pod)
    policy, windows = LoadPolicy.of({}), pod_windows.PodWindows()
    windows.follow([pod], policy)
    for at_seconds in range(700, 1001, 30):
        listed = {"main", "proxy"} - ({missing} if at_seconds > 900 else set())
        body = {
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "timestamp": clock.to_rfc3339(at_seconds),
            "window": "30s",
            "containers": [{"name": name, "usage": {"cpu": "1", "memory": "1Gi"}} for name in listed],
        }
        windows.add([builders.decoded(body, objects.PodMetrics)], [pod], now_seconds=at_seconds)
    used = windows.usage([pod], policy, now_seconds=1000)[pod.key]
    if ready:
        assert used.memory_bytes == 2 * 2**30, "by the samples that are whole"
        assert windows.absence(pod, policy, now_seconds=1000).endswith(f"are refused: container {missing} is missing")
    else:
        assert used.memory_bytes < 2 * 2**30, "a container that is not running uses nothing"
