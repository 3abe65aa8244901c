"""Evictions that ended, restarted or changed a workload elsewhere, or never came: here they do not happen."""

from typing import Any

import pytest

from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot import interned_pods
from descheduler.snapshot.eviction_history import History, PendingReplacement
from descheduler.snapshot.groups import Restarts
from descheduler.snapshot.workloads import Workload
from kube import objects
from runtime import clock
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene

HOUR = 3600.0
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
LIMITS = {"perWorkload": 10, "perNode": 5}


def scene() -> Scene:
    """A node at 90 % of its memory beside a cool one, with pods as a run has them."""
    return Scene(struct=interned_pods.Pod).node("hot", memory=0.9).node("cool")


def workload(kind: str, replicas: int, **fields: Any) -> Any:
    """A Deployment, StatefulSet or Job `web`, all of it ready; `fields` are sections of its spec and status."""
    structs: dict[str, Any] = {"Deployment": objects.Deployment, "StatefulSet": objects.StatefulSet, "Job": objects.Job}
    counts = {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    size = {"parallelism": replicas} if kind == "Job" else {"replicas": replicas}
    body = {
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web", **fields.get("metadata", {})},
        "spec": {**size, **fields.get("spec", {})},
        "status": {**counts, "ready": replicas, "active": replicas, **fields.get("status", {})},
    }
    return builders.decoded(body, structs[kind])


def planned(kind: str, controller: Any, *pods: dict[str, Any]) -> EvictionPlan:
    """The plan for a hot node with the first of the pods of a controller, the others on the cool one."""
    made = scene().controller(controller)
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
    before=Before.WRONG,
)
@situation("a pod has been Terminating for 10 h after a grace period of 30 s, and still uses 40 % of its node")
@behaviour("its load counts; within its grace period it is gone")
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


@reported("evictions", "kubernetes/kubernetes#91141", before=Before.RIGHT)
@situation("a terminating pod has a grace period of two hours, of which one has passed")
@behaviour("it counts as gone")
def test_a_long_grace_period_is_granted() -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], gib=10)
    made.pod("slow", "hot", gib=12.8, owner=("ReplicaSet", "other"), mutate=terminating(HOUR, 7200))
    assert scenes.evicted(made.plan()) == []


# Kinds of other groups.


@reported("evictions", "openkruise/kruise#2285", before=Before.WRONG)
@situation("an evicted pod of an apps.kruise.io StatefulSet is never replaced, its scale not read")
@behaviour("it counts in limits.unreplaced for an hour, as of every other API group")
@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "Job", "CloneSet"])
def test_a_kind_of_another_group_is_not_taken_for_kubernetes_own(kind: str) -> None:
    evicted = Workload(kind, "default", "db", "uid-db", 3, 2, api_version="apps.kruise.io/v1beta1")
    waiting = PendingReplacement("default", str(evicted), "uid-db", NOW - 60)
    plan = scene().workload("web", on=["hot", "cool", "cool"]).plan(history=History(awaited=(waiting,)))
    assert plan.unreplaced == (waiting,)
    own = PendingReplacement("default", str(evicted._replace(api_version="")), "uid-db", NOW - 60)
    assert bool(scene().plan(history=History(awaited=(own,))).unreplaced) is (kind == "CloneSet")


# Groups.


@reported("evictions", "pdb-operator/pdb-operator#81", "kubernetes/enhancements#6326", before=Before.WRONG)
@situation("a pod is one of a group that starts and restarts as a whole: LeaderWorkerSet, JobSet, a gang")
@behaviour("it stays (`group`), also one of an unknown form")
@pytest.mark.parametrize(
    ("fields", "reference"),
    [
        pytest.param(
            {"labels": {"app": "web", "leaderworkerset.sigs.k8s.io/name": "llm"}},
            "leaderworkerset.sigs.k8s.io/name: llm",
            id="a worker of a LeaderWorkerSet",
        ),
        pytest.param(
            {"labels": {"jobset.sigs.k8s.io/jobset-name": "t"}}, "jobset.sigs.k8s.io/jobset-name: t", id="a JobSet"
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


@reported("evictions", "volcano-sh/volcano#4607", before=Before.BY_CHOICE)
@situation("pods of several gangs on a hot node are evicted one by one, and every gang fails")
@behaviour("by default all stay; with `protect.groups: false` one gang leaves whole, and the others stay whole")
def test_of_two_gangs_on_a_node_one_leaves_whole() -> None:
    made = scene()
    for name in ("a", "b"):
        made.workload(name, on=["hot", "hot"], gib=6.0, labels={"volcano.sh/job-name": name})
    assert made.plan().evictions == ()
    assert scenes.evicted(made.plan(scenes.policy(limits=LIMITS, protect={"groups": False}))) == ["a-0", "a-1"]


@reported("evictions", "kubernetes-sigs/jobset#1117", "flyteorg/flyte#7947", before=Before.BY_CHOICE)
@situation("an eviction fails a Job of a JobSet, and the restart counts against maxRestarts")
@behaviour("its pods stay; with `protect.groups: false` all leave unless that is the last restart, or none is left")
def test_an_eviction_does_not_use_up_the_last_restart_of_a_jobset() -> None:
    made = scene().controller(workload("Job", 2, spec={"backoffLimit": 0}))
    for name in ("web-0", "web-1"):
        made.pod(name, "hot", owner=("Job", "web"), labels={"jobset.sigs.k8s.io/jobset-name": "t"})
    policy = scenes.policy(limits=LIMITS, protect={"groups": False})
    assert made.plan(restarts={"uid-web": Restarts("")}).evictions == ()
    assert len(made.plan(policy, restarts={"uid-web": Restarts("")}).evictions) == 2
    last = made.plan(policy, restarts={"uid-web": Restarts("JobSet t has 1 of 3 restarts left (maxRestarts)")})
    assert (last.evictions, "1 of 3 restarts" in sentence(last)) == ((), True)


# Rollouts.

PARTITIONED = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}
ON_DELETE = {"updateStrategy": {"type": "OnDelete"}}
TWO_REVISIONS = {"currentRevision": "web-a", "updateRevision": "web-b", "currentReplicas": 2, "updatedReplicas": 1}
ROLLED = {"updatedReplicas": 4}


@reported("evictions", "kubernetes-sigs/descheduler#618", before=Before.WRONG)
@situation("a Deployment has one pod of the new revision, or is paused with a new template")
@behaviour("its pods wait for the rollout")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param(
            {"status": {"updatedReplicas": 1}},
            "rollout: Deployment/web has 3 pods of an older revision",
            id="one of four",
        ),
        pytest.param(
            {"status": {"replicas": 5, "updatedReplicas": 4}},
            "rollout: Deployment/web has 1 pod of an older revision",
            id="surge",
        ),
        pytest.param(
            {"spec": {"paused": True}, "status": {"updatedReplicas": 0}},
            "rollout: Deployment/web has 4 pods of an older revision",
            id="paused with a new template",
        ),
        pytest.param(
            {"metadata": {"generation": 7}, "status": {**ROLLED, "observedGeneration": 6}},
            "rollout: Deployment/web has generation 7, its status is of 6",
            id="its controller has not looked yet",
        ),
    ],
)
def test_pods_of_a_deployment_wait_for_its_rollout(fields: dict[str, Any], expected: str) -> None:
    assert sentence(planned("Deployment", workload("Deployment", 4, **fields), {}, {}, {}, {})) == expected


@reported("evictions", "kubernetes-sigs/descheduler#618", before=Before.RIGHT)
@situation("a Deployment is rolled out, scaled up or paused without a new template")
@behaviour("its pod may leave")
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"status": ROLLED}, id="rolled out"),
        pytest.param({"spec": {"paused": True}, "status": ROLLED}, id="paused"),
        pytest.param({"spec": {"replicas": 5}, "status": ROLLED}, id="scaled up"),
    ],
)
def test_a_deployment_that_is_rolled_out_may_lose_a_pod(fields: dict[str, Any]) -> None:
    assert scenes.evicted(planned("Deployment", workload("Deployment", 4, **fields), {}, {}, {}, {})) == ["web-0"]


@reported("evictions", "kubernetes/kubernetes#70442", before=Before.WRONG)
@situation("a StatefulSet of 3 has one pod of the new revision")
@behaviour("its pods wait for the rollout; with a partition only until the pods above it are updated")
@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param({}, "rollout: StatefulSet/web has 1 of 3 pods updated", id="one of three"),
        pytest.param(PARTITIONED, "chosen: expected on cool", id="one of one above the partition"),
    ],
)
def test_pods_of_a_stateful_set_wait_for_its_rollout(strategy: dict[str, Any], expected: str) -> None:
    controller = workload("StatefulSet", 3, spec=strategy, status=TWO_REVISIONS)
    hashes = [{"labels": {"controller-revision-hash": name}} for name in ("web-a", "web-a", "web-b")]
    assert sentence(planned("StatefulSet", controller, *hashes)) == expected


@reported("evictions", "kubernetes/kubernetes#70442", "kubernetes/kubernetes#106055", before=Before.WRONG)
@situation("a StatefulSet with OnDelete has a new revision that waits for deletions")
@behaviour("pods of the older revision stay: an eviction would roll the new one out; others may leave")
@pytest.mark.parametrize(
    ("revision", "strategy", "expected"),
    [
        pytest.param("web-a", ON_DELETE, "rollout: StatefulSet/web would replace it by revision web-b", id="old"),
        pytest.param("web-b", ON_DELETE, "chosen: expected on cool", id="new"),
        pytest.param(
            "web-a",
            {"updateStrategy": {"type": "Someday"}},
            "rollout: StatefulSet/web would replace it by revision web-b",
            id="a strategy of a version to come",
        ),
    ],
)
def test_an_eviction_rolls_no_revision_out(revision: str, strategy: dict[str, Any], expected: str) -> None:
    controller = workload("StatefulSet", 3, spec=strategy, status=TWO_REVISIONS)
    labels = {"labels": {"controller-revision-hash": revision}}
    assert sentence(planned("StatefulSet", controller, labels, labels, labels)) == expected


@reported("evictions", "kubernetes-sigs/descheduler#618", "openkruise/kruise#2285", before=Before.WRONG)
@situation("an owner of another kind (CloneSet, Rollout) has pods of two revisions; its status cannot be read")
@behaviour("its pods wait until they are of one revision")
@pytest.mark.parametrize(
    ("label", "other", "expected"),
    [
        pytest.param("controller-revision-hash", "b", "rollout: Clone/web has pods of 2 revisions", id="a CloneSet"),
        pytest.param("rollouts-pod-template-hash", "b", "rollout: Clone/web has pods of 2 revisions", id="a Rollout"),
        pytest.param("controller-revision-hash", "a", "chosen: expected on cool", id="of one revision"),
        pytest.param("app", "b", "chosen: expected on cool", id="another label"),
    ],
)
def test_pods_of_another_kind_wait_until_they_are_of_a_single_revision(label: str, other: str, expected: str) -> None:
    made = scene()
    made.custom["uid-web"] = Workload("Clone", "default", "web", "uid-web", 3, 3, api_version="kruise.test/v1")
    for number, (node, revision) in enumerate([("hot", "a"), ("cool", "a"), ("cool", other)]):
        made.pod(f"web-{number}", node, owner=("Clone", "web"), labels={label: revision})
    assert sentence(made.plan()) == expected


@reported("evictions", "run-house/kubetorch#2052", "kubeflow/trainer#2000", before=Before.RIGHT)
@situation("the owner of a hot pod is a PyTorchJob, which has a scale as a Deployment has")
@behaviour("it stays (`group`): the others would train on without it, and fail")
def test_workers_of_a_training_job_are_no_replicas_although_it_has_a_scale() -> None:
    made = scene()
    made.custom["uid-t"] = Workload("PyTorchJob", "default", "t", "uid-t", 4, 4, api_version="kubeflow.org/v1")
    for number in range(4):
        labels = {"training.kubeflow.org/job-name": "t", "training.kubeflow.org/replica-type": "worker"}
        made.pod(f"t-{number}", "cool" if number else "hot", owner=("PyTorchJob", "t"), labels=labels)
    assert scenes.causes(made.plan()) == {"t-0": "group"}


@reported("evictions", "kubernetes-sigs/descheduler#618", before=Before.WRONG)
@situation("a Rollout (Argo) stands at a canary: each of its two ReplicaSets has pods")
@behaviour("its pods wait, though the Rollout itself is read by its scale only")
@pytest.mark.parametrize(
    ("canary", "expected"),
    [
        pytest.param("b", "rollout: Rollout/web has pods of 2 revisions", id="a canary"),
        pytest.param("a", "chosen: expected on cool", id="all of one ReplicaSet"),
    ],
)
def test_pods_of_a_rollout_wait_for_its_canary(canary: str, expected: str) -> None:
    def above(body: builders.Body) -> None:
        reference = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "name": "web", "uid": "uid-web"}
        body["metadata"]["ownerReferences"] = [{**reference, "controller": True}]

    made = scene()
    made.custom["uid-web"] = Workload("Rollout", "default", "web", "uid-web", 3, 3, api_version="argoproj.io/v1alpha1")
    made.owners += [builders.replica_set(name, mutate=above) for name in ("a", "b")]
    for number, (node, version) in enumerate([("hot", "a"), ("cool", "a"), ("cool", canary)]):
        labels = {"rollouts-pod-template-hash": version}
        made.pod(f"web-{number}", node, owner=("ReplicaSet", version), labels=labels)
    assert sentence(made.plan()) == expected


@reported("evictions", "kubernetes/website#37768", before=Before.WRONG)
@situation("pods of a Deployment with minReadySeconds are Ready and not available yet")
@behaviour("they are not counted as there: minReadyRatio and limits.perWorkload are about available pods")
def test_pods_that_are_on_trial_are_not_counted_as_ready() -> None:
    controller = workload("Deployment", 4, spec={"minReadySeconds": 600}, status={**ROLLED, "availableReplicas": 2})
    made = scene().controller(controller)
    for number in range(4):
        made.pod(f"web-{number}", "cool" if number else "hot", owner=("Deployment", "web"))
    assert sentence(made.plan()) == "few_ready: Deployment/web would keep 1 ready of 4, needs 2"


# Jobs.


def failure(of_disruptions: str, **rule: object) -> dict[str, object]:
    """A podFailurePolicy with a rule before that about disruptions."""
    disrupted = {"action": of_disruptions, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {"podFailurePolicy": {"rules": [*([rule] if rule else []), disrupted]}}


@reported("evictions", "kelos-dev/kelos#1348", "kubernetes/autoscaler#7095", before=Before.WRONG)
@situation("a Job reaches its backoffLimit with one more failed pod")
@behaviour("its pods stay: an eviction is a failed pod, and takes no last retry")
@pytest.mark.parametrize(
    ("limit", "state", "left"),
    [
        pytest.param(3, {"failed": 2}, 1, id="failed pods"),
        pytest.param(3, {"failed": 3}, 0, id="the next one ends it"),
        pytest.param(1, {}, 1, id="a single retry"),
        pytest.param(0, {}, 0, id="no retry"),
        pytest.param(3, {"failed": 1, "uncountedTerminatedPods": {"failed": ["uid-x"]}}, 1, id="not counted yet"),
        pytest.param(None, {"failed": 5}, 1, id="six by default"),
    ],
)
def test_a_job_does_not_lose_its_last_retry(limit: int | None, state: dict[str, Any], left: int) -> None:
    limited = {} if limit is None else {"backoffLimit": limit}
    plan = planned("Job", workload("Job", 3, spec=limited, status=state), {}, {}, {})
    words = f"Job/web has {left} failures left (backoffLimit, podFailurePolicy), and an eviction is one"
    assert sentence(plan) == f"job_without_retry: {words}"


@reported("evictions", "kelos-dev/kelos#1348", before=Before.RIGHT)
@situation("a Job has retries left, or ignores disruptions by its podFailurePolicy")
@behaviour("its pod may leave: with Ignore on DisruptionTarget an eviction is free")
@pytest.mark.parametrize(
    ("limited", "state"),
    [
        pytest.param({"backoffLimit": 3}, {"failed": 1}, id="two retries left"),
        pytest.param({"backoffLimit": 3, **failure("Ignore")}, {"failed": 3}, id="disruptions are ignored"),
        pytest.param({}, {}, id="by default"),
    ],
)
def test_a_job_that_can_bear_it_may_lose_a_pod(limited: dict[str, Any], state: dict[str, Any]) -> None:
    plan = planned("Job", workload("Job", 3, spec=limited, status=state), {}, {}, {})
    assert scenes.evicted(plan) == ["web-0"]


@reported("evictions", "kelos-dev/kelos#1348", before=Before.WRONG)
@situation("pods of a Job terminate, or its containers restarted in place")
@behaviour("they count toward the backoffLimit before the Job's status says so")
@pytest.mark.parametrize(
    ("others", "policy", "stays"),
    [
        pytest.param([status(containerStatuses=[{"restartCount": 2}])], "OnFailure", True, id="restarts"),
        pytest.param([status(initContainerStatuses=[{"restartCount": 2}])], "OnFailure", True, id="of init containers"),
        pytest.param([status(containerStatuses=[{"restartCount": 1}])], "OnFailure", False, id="a single restart"),
        pytest.param([status(containerStatuses=[{"restartCount": 9}])], "Always", False, id="restarts that are free"),
        pytest.param([terminating(5), terminating(9)], "Never", True, id="evictions in flight"),
        pytest.param([terminating(5)], "Never", False, id="a single one in flight"),
    ],
)
def test_failures_on_their_way_count(others: list[builders.Mutator], policy: str, stays: bool) -> None:
    def mutated(change: builders.Mutator) -> builders.Mutator:
        return lambda body: (spec(restartPolicy=policy)(body), change(body))

    made = scene().controller(workload("Job", 4, spec={"backoffLimit": 3}))
    made.pod("web-0", "hot", owner=("Job", "web"), mutate=spec(restartPolicy=policy))
    for number, change in enumerate([*others, spec(), spec()], start=1):
        made.pod(f"web-{number}", "cool", owner=("Job", "web"), mutate=mutated(change))
    plan = made.plan(scenes.policy(limits=LIMITS, protect={"minReadyRatio": 0.1}))
    assert (scenes.causes(plan)["web-0"] == "job_without_retry") is stays
    assert (scenes.evicted(plan) == []) is stays


@reported("evictions", "kelos-dev/kelos#1348", before=Before.WRONG)
@situation("an indexed Job has backoffLimitPerIndex, and the pod's index has failed before")
@behaviour("the pod stays if a failure takes its index's last retry, or its count is not known")
@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param("0", "chosen: expected on cool", id="none"),
        pytest.param("1", "2 of 2", id="one more takes the last retry"),
        pytest.param(None, "unknown", id="not written"),
        pytest.param("many", "unknown", id="not a number"),
    ],
)
def test_an_index_does_not_lose_its_last_retry(count: str | None, expected: str) -> None:
    key = "batch.kubernetes.io/job-index-failure-count"
    annotated: dict[str, Any] = {"annotations": {} if count is None else {key: count}}
    limited: dict[str, object] = {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2}
    plan = planned("Job", workload("Job", 3, spec=limited), annotated, annotated, annotated)
    words = {
        "2 of 2": "job_without_retry: its index of Job/web has 1 failures left (backoffLimitPerIndex), "
        "and an eviction is one",
        "unknown": f"job_without_retry: how often its index of Job/web has failed is not known ({key})",
    }
    assert sentence(plan) == words.get(expected, expected)


@reported("evictions", "kelos-dev/kelos#1348", before=Before.WRONG)
@situation("a rule of the podFailurePolicy before that about disruptions matches the exit code of SIGTERM")
@behaviour("the first matching rule decides: the eviction is not free; an unknown action protects")
@pytest.mark.parametrize(
    ("rules", "failed"),
    [
        pytest.param(
            failure("Ignore", action="Count", onExitCodes={"operator": "In", "values": [143]}), 2, id="it is counted"
        ),
        pytest.param(failure("Forgive"), 0, id="an action of a version to come"),
    ],
)
def test_a_rule_that_is_not_ignore_is_not_free(rules: dict[str, object], failed: int) -> None:
    controller = workload("Job", 3, spec={"backoffLimit": 3, **rules}, status={"failed": failed})
    assert scenes.causes(planned("Job", controller, {}, {}, {}))["web-0"] == "job_without_retry"


@reported("evictions", "kubernetes/autoscaler#7095", "kubernetes/kubernetes#17242", before=Before.WRONG)
@situation("a Job's pod has run for longer than is left until its activeDeadlineSeconds")
@behaviour("the pod stays")
@pytest.mark.parametrize(
    ("ran_seconds", "stays"), [pytest.param(3599, False, id="it can"), pytest.param(3601, True, id="it cannot")]
)
def test_a_job_does_not_miss_its_deadline(ran_seconds: float, stays: bool) -> None:
    started = {"startTime": clock.to_rfc3339(NOW - HOUR)}
    controller = workload("Job", 3, spec={"activeDeadlineSeconds": 7200}, status=started)
    since = {"mutate": status(startTime=clock.to_rfc3339(NOW - ran_seconds))}
    plan = planned("Job", controller, since, {}, {})
    words = f"job_without_retry: it has run for {ran_seconds} s, and Job/web ends in 3600 s (activeDeadlineSeconds)"
    assert (sentence(plan) == words) is stays
    assert (scenes.evicted(plan) == []) is stays


# Volumes.


@reported("evictions", "istio/istio#19395", "kubernetes/autoscaler#3947", before=Before.WRONG)
@situation("pods of a mesh declare scratch volumes safe to lose, for the cluster autoscaler")
@behaviour("local storage does not keep them if all is declared; every other protection stays")
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        pytest.param({SAFE: "true"}, "chosen: expected on cool", id="the whole pod is declared"),
        pytest.param({f"{SAFE}-local-volumes": "tmp,data"}, "chosen: expected on cool", id="both volumes"),
        pytest.param({f"{SAFE}-local-volumes": " data , tmp"}, "chosen: expected on cool", id="with spaces"),
        pytest.param({f"{SAFE}-local-volumes": "tmp"}, "local_storage: volume data", id="not both"),
        pytest.param({f"{SAFE}-local-volumes": ""}, "local_storage: volume tmp", id="none"),
        pytest.param({SAFE: "yes"}, "local_storage: volume tmp", id="not true"),
        pytest.param({}, "local_storage: volume tmp", id="nothing declared"),
        pytest.param(
            {SAFE: "false", f"{SAFE}-local-volumes": "tmp,data"}, f'not_safe_to_evict: {SAFE}: "false"', id="refused"
        ),
    ],
)
def test_local_storage_that_is_declared_safe_may_leave(annotations: dict[str, str], expected: str) -> None:
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "data", "hostPath": {"path": "/data"}}]
    made = scene().workload("web", on=["hot", "cool", "cool"], annotations=annotations, mutate=spec(volumes=volumes))
    assert sentence(made.plan()) == expected


@reported("evictions", "kubernetes/autoscaler#3947", before=Before.RIGHT)
@situation("a pod that is declared safe to evict is protected by something else than local storage")
@behaviour("it stays: the annotation lifts local storage only")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({"mutate": spec(priority=2_000_000_000)}, "priority", id="priority"),
        pytest.param({"owner": None}, "bare", id="bare"),
        pytest.param(
            {"mutate": spec(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])},
            "node_bound_volume",
            id="a volume of its node",
        ),
        pytest.param({"labels": {"evenload.io/protected": "true"}}, "opted_out", id="the guard's label"),
    ],
)
def test_safe_to_evict_lifts_nothing_else(fields: dict[str, Any], expected: str) -> None:
    declared = {"annotations": {SAFE: "true", f"{SAFE}-local-volumes": "data"}}
    made = scene().workload("web", on=["hot", "cool", "cool"], **{**declared, **fields})
    assert scenes.causes(made.plan())["web-0"] == expected


@reported("evictions", "kubernetes/autoscaler#3947", before=Before.WRONG)
@situation("a pod has a volume of a kind, or is in a phase, that a later Kubernetes brought")
@behaviour("it stays (`unrecognised`), whatever the policy says about volumes")
@pytest.mark.parametrize(
    ("mutate", "expected"),
    [
        pytest.param(
            spec(volumes=[{"name": "data", "localNvme": {"size": "1Gi"}}]),
            "unrecognised: volume data is of a kind that this version does not know",
            id="a volume",
        ),
        pytest.param(
            spec(volumes=[{"name": "data"}]),
            "unrecognised: volume data is of a kind that this version does not know",
            id="a volume of no kind",
        ),
        pytest.param(status(phase="Restoring"), "unrecognised: phase Unknown", id="a phase"),
        pytest.param(status(phase="Unknown"), "unrecognised: phase Unknown", id="a node that is out of reach"),
    ],
)
def test_a_pod_that_is_not_understood_stays(mutate: builders.Mutator, expected: str) -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], mutate=mutate, annotations={SAFE: "true"})
    protect = {"localStorage": "none", "nodeBoundVolumes": False}
    assert sentence(made.plan(scenes.policy(protect=protect))) == expected


@reported("evictions", "kubernetes/autoscaler#3947", before=Before.RIGHT)
@situation("a pod has a volume of each of the kinds that bring their data to any node")
@behaviour("it may leave")
@pytest.mark.parametrize(
    "source",
    ["configMap", "secret", "projected", "downwardAPI", "csi", "nfs", "image", "scaleIO", "awsElasticBlockStore", "fc"],
)
def test_volumes_that_are_not_local_keep_no_pod(source: str) -> None:
    made = scene().workload("web", on=["hot", "cool", "cool"], mutate=spec(volumes=[{"name": "data", source: {}}]))
    assert scenes.evicted(made.plan(scenes.policy(protect={"localStorage": "all"}))) == ["web-0"]


# Owners.


@reported("evictions", "kubevirt/kubevirt#15423", before=Before.RIGHT)
@situation("a virt-launcher pod is owned by a VirtualMachineInstance, which has no scale")
@behaviour("it stays (`unknown_owner`): nothing known would make it anew")
def test_a_pod_of_an_owner_without_a_scale_stays() -> None:
    made = scene().pod("virt-launcher-vm", "hot", owner=("VirtualMachineInstance", "vm"))
    words = "unknown_owner: VirtualMachineInstance vm: its replicas cannot be counted"
    assert sentence(made.plan(), "virt-launcher-vm") == words
