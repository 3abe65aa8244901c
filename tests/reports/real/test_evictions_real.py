"""Evictions of Jobs, rollouts and StatefulSets under the real controllers, and that none is asked for."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from descheduler.planning import protections
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot.cluster_watch import ClusterView, ClusterWatch
from descheduler.snapshot.snapshot import Snapshot
from descheduler.snapshot.workloads import Controller, Index
from kube import kinds, objects
from kube.door import KubeDoor
from policy.schema.load_policy import LoadPolicy
from runtime import clock
from tests.e2e import waiting
from tests.reports.register import Before, behaviour, reported, situation

pytestmark = pytest.mark.cluster
LIMIT = waiting.LIMIT_SECONDS
POLICY = LoadPolicy.of({"descheduler": {"protect": {"minPodAge": "0s", "minReadyRatio": 0.1}}})
HOURS = {"cluster.evenload.io/complete-after": "3h", "cluster.evenload.io/delete-delay": "20s"}
IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


Judge = Callable[[], dict[str, Verdict | None]]


@pytest.fixture
def judge(descheduler: KubeDoor, namespace: str) -> Judge:
    """The verdicts about all pods of the namespace, by name, of a view that is listed anew."""

    def judged() -> dict[str, Verdict | None]:
        watch = ClusterWatch(descheduler, clock=clock.WallClock(), rng=random.Random(0))
        watch.begin_lists()
        taken = snapshot(watch.view())
        contexts = protections.CandidateContexts(taken, POLICY)
        ours = [pod for pod in taken.pods if pod.namespace == namespace]
        return {pod.name: protections.verdict(contexts.of(pod, taken.at_seconds)) for pod in ours}

    return judged


def snapshot(view: ClusterView) -> Snapshot:
    """The view as a run has it, without usage."""
    controllers: list[Controller] = [*view.replica_sets, *view.deployments, *view.stateful_sets, *view.jobs]
    return Snapshot(clock.WallClock().now(), view.nodes, pods=view.pods, workloads=Index(controllers))


def job(limit: int, **spec: object) -> dict[str, Any]:
    """A Job of three pods that run for hours."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    template = {"metadata": {"annotations": HOURS}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    sized = {"parallelism": 3, "completions": 3, "backoffLimit": limit, "template": template}
    return {"metadata": {"name": "sums"}, "spec": {**sized, **spec}}


def workload(**spec: object) -> dict[str, Any]:
    """A Deployment or StatefulSet of three pods."""
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    sized = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web"}, "spec": {**sized, **spec}}


NEW = {"spec": {"template": {"metadata": {"annotations": {"revision": "2"}}}}}


def running(admin: KubeDoor, namespace: str, failed: int = 0) -> list[objects.Pod]:
    """Waits until three pods of the namespace are ready and not leaving, and their Job has counted so many failures."""

    def ready() -> list[objects.Pod]:
        pods = [pod for pod in admin.list(kinds.PODS, namespace=namespace).items if not pod.finished]
        jobs = admin.list(kinds.JOBS, namespace=namespace).items
        counted = all((one.available_replicas, one.status.failed) == (3, failed) for one in jobs)
        return pods if counted and len(pods) == 3 and all(pod.ready and not pod.deleting for pod in pods) else []

    def state() -> list[object]:
        return [one.status for one in admin.list(kinds.JOBS, namespace=namespace).items]

    return waiting.eventually(ready, LIMIT, f"three pods of {namespace} to be ready, {failed} failed", state)


def evict(admin: KubeDoor, pod: objects.Pod) -> None:
    """Asks for the eviction, which is accepted."""
    answer = admin.evict(namespace=pod.namespace, name=pod.name, uid=pod.uid, dry_run=False)
    assert answer.accepted, answer
    ended = {
        "status": {"phase": "Failed"}
    }  # as a kubelet reports it; the cluster's own takes the finalizer of Jobs away
    admin.merge_patch(kinds.PODS, pod.name, ended, namespace=pod.namespace, subresource="status")


def conditions(admin: KubeDoor, namespace: str) -> set[str]:
    """The conditions of the Job that hold."""
    [sums] = admin.list(kinds.JOBS, namespace=namespace).items
    return {one.type for one in sums.status.conditions if one.status == "True"}


@reported("evictions", "kelos-dev/kelos#1348", "kubernetes/autoscaler#7095", before=Before.WRONG)
@situation("a Job with backoffLimit 2 loses pods under the real Job controller")
@behaviour("one leaves, all others stay, and the Job runs on; evicted nevertheless, it fails")
def test_a_real_job_keeps_its_last_retry(admin: KubeDoor, namespace: str, judge: Judge) -> None:
    admin.create(kinds.JOBS, job(2), namespace=namespace)
    pods = running(admin, namespace)
    assert judge() == {pod.name: None for pod in pods}
    evict(admin, pods[0])
    running(admin, namespace, failed=1)
    causes = {verdict.cause if verdict is not None else None for verdict in judge().values()}
    assert causes == {Cause.JOB_WITHOUT_RETRY}
    assert not conditions(admin, namespace)
    for failed in (1, 2):  # what the verdict keeps us from
        evict(admin, running(admin, namespace, failed)[0])
    waiting.eventually(lambda: "Failed" in conditions(admin, namespace), LIMIT, "the Job to fail")


@reported("evictions", "kelos-dev/kelos#1348", before=Before.RIGHT)
@situation("a real Job with backoffLimit 1 ignores DisruptionTarget by its podFailurePolicy")
@behaviour("its pods may leave: three evictions later nothing is counted, and it runs")
def test_an_eviction_that_a_real_job_ignores_is_free(admin: KubeDoor, namespace: str, judge: Judge) -> None:
    admin.create(kinds.JOBS, job(1, podFailurePolicy={"rules": [IGNORED]}), namespace=namespace)
    for _ in range(3):
        pods = running(admin, namespace)
        assert judge() == {pod.name: None for pod in pods}
        evict(admin, pods[0])
    running(admin, namespace)
    [sums] = admin.list(kinds.JOBS, namespace=namespace).items
    assert (sums.status.failed, conditions(admin, namespace)) == (0, set())


@reported("evictions", "kelos-dev/kelos#1348", before=Before.WRONG)
@situation("an indexed Job with backoffLimitPerIndex 2 loses a pod, under the real controller")
@behaviour("the next pod of this index stays, those of the others may leave")
def test_an_index_of_a_real_job_keeps_its_last_retry(admin: KubeDoor, namespace: str, judge: Judge) -> None:
    indexed = {"completionMode": "Indexed", "backoffLimitPerIndex": 2, "backoffLimit": 100}
    admin.create(kinds.JOBS, job(100, **indexed), namespace=namespace)
    pods = running(admin, namespace)
    assert judge() == {pod.name: None for pod in pods}
    index = pods[0].labels["batch.kubernetes.io/job-completion-index"]
    evict(admin, pods[0])
    after = {
        pod.name: pod.labels["batch.kubernetes.io/job-completion-index"] for pod in running(admin, namespace, failed=1)
    }
    staying = {after[name] for name, verdict in judge().items() if verdict is not None}
    assert staying == {index}


@reported("evictions", "kubernetes/kubernetes#70442", "kubernetes/kubernetes#106055", before=Before.WRONG)
@situation("a StatefulSet with OnDelete gets a new template, under the real controller")
@behaviour("its pods stay; a deleted one's successor may leave")
def test_a_real_revision_is_not_rolled_out_by_an_eviction(admin: KubeDoor, namespace: str, judge: Judge) -> None:
    strategy = {"updateStrategy": {"type": "OnDelete"}, "podManagementPolicy": "Parallel", "serviceName": "web"}
    admin.create(kinds.STATEFUL_SETS, workload(**strategy), namespace=namespace)
    names = {pod.name for pod in running(admin, namespace)}
    waiting.eventually(lambda: judge() == dict.fromkeys(names), LIMIT, "pods that may leave", judge)
    admin.merge_patch(kinds.STATEFUL_SETS, "web", NEW, namespace=namespace)

    def staying() -> set[str]:
        return {name for name, verdict in judge().items() if verdict is not None and verdict.cause is Cause.ROLLOUT}

    waiting.eventually(lambda: staying() == names, LIMIT, "pods that stay", judge)
    admin.delete(kinds.PODS, "web-1", namespace=namespace)
    running(admin, namespace)
    waiting.eventually(lambda: staying() == names - {"web-1"}, LIMIT, "the updated pod to be free", judge)


@reported("evictions", "kubernetes-sigs/descheduler#618", before=Before.WRONG)
@situation("a paused Deployment gets a new template and is resumed, under the real controller")
@behaviour("its pods wait until all are of the new revision")
def test_pods_wait_for_a_real_rollout(admin: KubeDoor, namespace: str, judge: Judge) -> None:
    admin.create(kinds.DEPLOYMENTS, workload(), namespace=namespace)
    running(admin, namespace)

    def causes() -> set[Cause | None]:
        return {verdict.cause if verdict is not None else None for verdict in judge().values()}

    waiting.eventually(lambda: causes() == {None}, LIMIT, "pods that may leave", judge)
    paused = {**NEW["spec"], "paused": True}
    admin.merge_patch(kinds.DEPLOYMENTS, "web", {"spec": paused}, namespace=namespace)
    waiting.eventually(lambda: causes() == {Cause.ROLLOUT}, LIMIT, "pods that wait", judge)
    admin.merge_patch(kinds.DEPLOYMENTS, "web", {"spec": {"paused": False}}, namespace=namespace)

    def updated() -> bool:
        pods = [pod for pod in admin.list(kinds.PODS, namespace=namespace).items if not pod.deleting]
        return len(pods) == 3 and all(pod.annotations.get("revision") == "2" for pod in pods)

    waiting.eventually(lambda: updated() and causes() == {None}, LIMIT, "the new pods to be free", judge)
