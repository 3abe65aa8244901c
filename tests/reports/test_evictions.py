"""Evictions that ended, restarted or changed a workload elsewhere, or never came: here they do not happen."""

from typing import Any

import pytest

from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot import interned_pods
from descheduler.snapshot.eviction_history import History, PendingReplacement
from descheduler.snapshot.workloads import Workload
from kube import objects
from runtime import clock
from tests import builders
from tests.reports.register import Before, reported
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene

HOUR = 3600.0
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LIMITS = {"perWorkload": 10, "perNode": 5}


def scene() -> Scene:
    """A node at 90 % of its memory beside a cool one, with pods as a run has them."""
    return Scene(struct=interned_pods.Pod).node("hot", memory=0.9).node("cool")


def workload(kind: str, replicas: int, **fields: Any) -> Any:
    """A Deployment, StatefulSet or Job called `web` with so many replicas, all of them ready; `fields` are sections of
    its spec and status.
    """
    struct = {"Deployment": objects.Deployment, "StatefulSet": objects.StatefulSet, "Job": objects.Job}[kind]
    counts = {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    size = {"parallelism": replicas} if kind == "Job" else {"replicas": replicas}
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", **fields.get("metadata", {})},
        "spec": {**size, **fields.get("spec", {})},
        "status": {**counts, "ready": replicas, "active": replicas, **fields.get("status", {})},
    }
    return builders.decoded(body, struct)


def planned(kind: str, controller: Any, *pods: dict[str, Any]) -> EvictionPlan:
    """The plan for a hot node with the first of the pods of a controller, the others on the cool one."""
    made = scene().controller(kind, controller)
    for number, fields in enumerate(pods):
        made.pod(f"web-{number}", "cool" if number else "hot", owner=(kind, "web"), **fields)
    return made.plan(scenes.policy(limits=LIMITS, protect={"minReadyRatio": 0.1}))


def sentence(plan: EvictionPlan, pod: str = "web-0") -> str:
    """The verdict about a pod in words."""
    return str(scenes.judged(plan)[pod].verdict)


def spec(**fields: object) -> builders.Mutator:
    """A mutator of a pod's spec."""
    return lambda body: body["spec"].update(fields)


def status(**fields: object) -> builders.Mutator:
    """A mutator of a pod's status."""
    return lambda body: body["status"].update(fields)


def terminating(since_seconds: float, grace_seconds: int = 30) -> builders.Mutator:
    """A mutator of a pod that was deleted so long ago; its deletionTimestamp is the end of its grace period."""
    end = clock.to_rfc3339(NOW - since_seconds + grace_seconds)
    return lambda body: body["metadata"].update(deletionTimestamp=end, deletionGracePeriodSeconds=grace_seconds)


# Pods that do not end.


@reported(
    "evictions",
    "kubernetes-sigs/descheduler#766",
    "kubernetes-sigs/descheduler#797",
    "kubernetes/kubernetes#91141",
    situation="a pod has been Terminating for 10 h after a grace period of 30 s, and still uses 40 % of its node",
    expected="its load is load: the node is relieved of others; within its grace period it counts as gone",
    before=Before.WRONG,
)
@pytest.mark.parametrize(
    ("since_seconds", "expected"),
    [
        pytest.param(10 * HOUR, ["web-0"], id="for ten hours"),
        pytest.param(20.0, [], id="within its grace period"),
        pytest.param(30.0 + 59.0, [], id="the kubelet may still be at work"),
        pytest.param(30.0 + 61.0, ["web-0"], id="it should have gone"),
    ],
)
def test_the_load_of_a_pod_that_does_not_end_is_load(since_seconds: float, expected: list[str]) -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], gib=10)
    made.pod("stuck", "hot", gib=12.8, owner=("ReplicaSet", "other"), mutate=terminating(since_seconds))
    assert scenes.evicted(made.plan()) == expected


@reported(
    "evictions",
    "kubernetes/kubernetes#91141",
    situation="a terminating pod has a grace period of two hours, of which one has passed",
    expected="it counts as gone: it is on its way out for as long as it was granted",
    before=Before.RIGHT,
)
def test_a_long_grace_period_is_granted() -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], gib=10)
    made.pod("slow", "hot", gib=12.8, owner=("ReplicaSet", "other"), mutate=terminating(HOUR, 7200))
    assert scenes.evicted(made.plan()) == []


# Kinds of other groups.


@reported(
    "evictions",
    "openkruise/kruise#2285",
    situation="a StatefulSet of apps.kruise.io is evicted from and never replaced; its scale was not read in this run",
    expected="the eviction counts in limits.unreplaced for an hour, as of every owner of another API group",
    before=Before.WRONG,
)
@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "Job", "CloneSet"])
def test_a_kind_of_another_group_is_not_taken_for_kubernetes_own(kind: str) -> None:
    evicted = Workload(kind, "default", "db", "uid-db", 3, 2, api_version="apps.kruise.io/v1beta1")
    waiting = PendingReplacement("default", str(evicted), "uid-db", NOW - 60)
    plan = scene().workload("web", on=["hot", "cool", "cool"]).plan(history=History(awaited=(waiting,)))
    assert plan.unreplaced == (waiting,)
    own = PendingReplacement("default", str(evicted._replace(api_version="")), "uid-db", NOW - 60)
    assert bool(scene().plan(history=History(awaited=(own,))).unreplaced) is (kind == "CloneSet")


# Groups.


@reported(
    "evictions",
    "pdb-operator/pdb-operator#81",
    "kubernetes/enhancements#6326",
    situation="a pod is one of a group that starts and restarts as a whole: LeaderWorkerSet, JobSet, a gang",
    expected="it stays with the verdict `group`, whose detail names the reference; one of an unknown form stays too",
    before=Before.WRONG,
)
@pytest.mark.parametrize(
    ("fields", "reference"),
    [
        pytest.param(
            {"labels": {"app": "web", "leaderworkerset.sigs.k8s.io/name": "llm"}},
            "leaderworkerset.sigs.k8s.io/name: llm",
            id="a worker of a LeaderWorkerSet",
        ),
        pytest.param(
            {"labels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
            "jobset.sigs.k8s.io/jobset-name: train",
            id="JobSet",
        ),
        pytest.param(
            {"labels": {"scheduling.x-k8s.io/pod-group": "g"}}, "scheduling.x-k8s.io/pod-group: g", id="coscheduling"
        ),
        pytest.param(
            {"annotations": {"scheduling.k8s.io/group-name": "g"}}, "scheduling.k8s.io/group-name: g", id="Volcano"
        ),
        pytest.param(
            {"annotations": {"gang.scheduling.koordinator.sh/name": "g"}},
            "gang.scheduling.koordinator.sh/name: g",
            id="koordinator",
        ),
        pytest.param(
            {"mutate": spec(workloadRef={"name": "train", "podGroup": "workers"})},
            "spec.workloadRef",
            id="a gang of Kubernetes 1.35",
        ),
        pytest.param(
            {"mutate": spec(schedulingGroup={"podGroupName": "train-0"})},
            "spec.schedulingGroup",
            id="a gang of Kubernetes 1.36",
        ),
        pytest.param(
            {"mutate": spec(schedulingGroup={"compositeName": {"name": "x"}})},
            "spec.schedulingGroup",
            id="a reference of a form to come",
        ),
    ],
)
def test_a_pod_of_a_group_stays(fields: dict[str, Any], reference: str) -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], **{"labels": {"app": "web"}, **fields})
    assert sentence(made.plan()) == f"group: {reference}: its group may start and end as a whole"
