"""Every protection of the policy, each by a pod that differs from an evictable one in one thing."""

from typing import Any

import pytest

from descheduler.planning.plans import EvictionPlan
from descheduler.planning.verdicts import Cause
from kube import objects
from kube.api import salvage
from runtime import clock
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene

NEVER = {"evenload.io/evictable": "false"}
ALWAYS = {"evenload.io/evictable": "true"}
OLDER_KEY = "descheduler.alpha.kubernetes.io/evictable"
PROTECTED = {"app": "web", "evenload.io/protected": "true"}
BACKGROUND = "descheduler.alpha.kubernetes.io/eviction-in-progress"
SAFE = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DISRUPT = "karpenter.sh/do-not-disrupt"
COST = "scheduling.koordinator.sh/eviction-cost"
PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
YOUNG = clock.to_rfc3339(NOW - 100)
OLDER = clock.to_rfc3339(NOW - 301)


def set_spec(**fields: object) -> builders.Mutator:
    """A mutator of the spec of a pod or node."""
    return lambda body: body["spec"].update(fields)


def set_status(**fields: object) -> builders.Mutator:
    """A mutator of the pod's status."""
    return lambda body: body["status"].update(fields)


def volume(**source: object) -> builders.Mutator:
    """A mutator that gives the pod one volume."""
    return set_spec(volumes=[{"name": "data", **source}])


def claim(name: str) -> dict[str, object]:
    """The source of a volume behind a claim."""
    return {"persistentVolumeClaim": {"claimName": name}}


CLAIMED = volume(**claim("data"))


def provision(scene: Scene, **spec: object) -> None:
    """Put a volume behind the claim."""
    body = {"metadata": {"name": "pv"}, "spec": spec}
    scene.volumes["default/data"] = builders.decoded(body, objects.PersistentVolume)


def case(name: str, expected: str, protect: dict[str, object] | None = None, **pod: Any) -> Any:
    """A pod of these fields under a policy that protects so."""
    return pytest.param(pod, protect or {}, expected, id=name)


MIRROR = "mirror: the kubelet runs it, not the apiserver"
OPTED_OUT, GUARDED = 'opted_out: evenload.io/evictable: "false"', 'opted_out: evenload.io/protected: "true"'
LOCAL = "local_storage: volume data"
CASES = [
    case("an ordinary replica may leave", "chosen"),
    case("a placeholder", "placeholder", labels={"app": "x", "evenload.io/placeholder": "true"}),
    case(
        "read in part",
        "undecodable: time: not all of it can be read, a protection neither",
        mutate=lambda body: body.update({salvage.MARK: "time"}),
    ),
    case("a finished pod", "finished: Succeeded", phase="Succeeded"),
    case("a pod whose containers are still starting", "chosen", phase="Pending"),
    case("a mirror pod", MIRROR, annotations={"kubernetes.io/config.mirror": "x"}),
    case("a static pod", MIRROR, annotations={"kubernetes.io/config.source": "file"}),
    case("a DaemonSet's pod", "daemon_set", owner=("DaemonSet", "agent")),
    case("a pod that says never", OPTED_OUT, annotations=NEVER),
    case("a pod that the guard protects", GUARDED, labels=PROTECTED),
    case("never wins over the other key's yes", OPTED_OUT, annotations={**NEVER, OLDER_KEY: "true"}),
    case("nobody may say never", "chosen", {"optOut": {"enabled": False}}, annotations=NEVER),
    case(
        "its namespace may say never by no key",
        "chosen",
        {"optOut": {"exceptNamespaces": ["default"]}},
        annotations={**NEVER, SAFE: "false", DISRUPT: "true"},
    ),
    case("what the guard refuses is not tried", GUARDED, {"optOut": {"enabled": False}}, labels=PROTECTED),
    case("a bare pod", "bare: no controller would replace it", owner=None),
    case("a bare pod that the policy lets go", "chosen", {"bare": False}, owner=None),
    case("at the priority line", "priority: 1000000000 >= 1000000000", mutate=set_spec(priority=1_000_000_000)),
    case("just under the priority line", "chosen", mutate=set_spec(priority=999_999_999)),
    case(
        "no annotation overrides a protection",
        "priority: 2000000000 >= 1000000000",
        {"optIn": True},
        mutate=set_spec(priority=2_000_000_000),
        annotations=ALWAYS,
    ),
    case("opt-in is asked and not given", 'not_opted_in: needs evenload.io/evictable: "true"', {"optIn": True}),
    case("opted in", "chosen", {"optIn": True}, annotations=ALWAYS),
    case("opted in by the field's older key", "chosen", {"optIn": True}, annotations={OLDER_KEY: "true"}),
    case("younger than minPodAge", "young: 100 s of 300 s", mutate=set_status(startTime=YOUNG)),
    case(
        "younger than a longer age", "young: 301 s of 600 s", {"minPodAge": "10m"}, mutate=set_status(startTime=OLDER)
    ),
    case("old enough", "chosen", mutate=set_status(startTime=OLDER)),
    case("old enough since now", "chosen", {"minPodAge": "301s"}, mutate=set_status(startTime=OLDER)),
    case("created long ago", "chosen", mutate=lambda body: body["status"].pop("startTime")),
    case("a hostPath", LOCAL, mutate=volume(hostPath={"path": "/x"})),
    case("an emptyDir on disk", LOCAL, mutate=volume(emptyDir={})),
    case("an emptyDir in memory", "chosen", mutate=volume(emptyDir={"medium": "Memory"})),
    case(
        "an emptyDir in memory where all storage is protected",
        LOCAL,
        {"localStorage": "all"},
        mutate=volume(emptyDir={"medium": "Memory"}),
    ),
    case("local storage is not protected", "chosen", {"localStorage": "none"}, mutate=volume(emptyDir={})),
    case("a volume that is not local", "chosen", {"localStorage": "all"}, mutate=volume(configMap={"name": "x"})),
    case("an unknown volume", "node_bound_volume: claim data is not known to be movable", mutate=CLAIMED),
    case("volumes are not protected", "chosen", {"nodeBoundVolumes": False}, mutate=CLAIMED),
    case(
        "an owner of an unknown kind",
        "unknown_owner: Rollout web: its replicas cannot be counted",
        owner=("Rollout", "web"),
    ),
    case("a protected namespace", "namespace: default", {"namespaces": ["default"]}),
    case(
        "outside the label selector",
        "label: labelSelector does not match",
        {"labelSelector": {"matchLabels": {"tier": "web"}}},
    ),
    case("inside the label selector", "chosen", {"labelSelector": {"matchLabels": {"app": "x"}}}),
    case("an autoscaler may not evict it", f'not_safe_to_evict: {SAFE}: "false"', annotations={SAFE: "false"}),
    case("an autoscaler may evict it", "chosen", annotations={SAFE: "true"}),
    case("safe-to-evict is off", "chosen", {"markers": {"safeToEvict": False}}, annotations={SAFE: "false"}),
    case("Karpenter may not disrupt it", f'do_not_disrupt: {DISRUPT}: "true"', annotations={DISRUPT: "true"}),
    case("Karpenter may disrupt it", "chosen", annotations={DISRUPT: "false"}),
    case("no time at which Karpenter may", f'do_not_disrupt: {DISRUPT}: "soon"', annotations={DISRUPT: "soon"}),
    case(
        "Karpenter may in two hours",
        f'do_not_disrupt: {DISRUPT}: "2h"',
        annotations={DISRUPT: "2h"},
        mutate=set_status(startTime=OLDER),
    ),
    case("Karpenter may since a second", "chosen", annotations={DISRUPT: "5m"}, mutate=set_status(startTime=OLDER)),
    case(
        "Karpenter may five minutes after a start that is not known",
        f'do_not_disrupt: {DISRUPT}: "5m"',
        annotations={DISRUPT: "5m"},
        mutate=lambda body: body["status"].pop("startTime"),
    ),
    case("a cost beyond Koordinator's", f'eviction_cost: {COST}: "2147483648"', annotations={COST: "2147483648"}),
    case("eviction-cost is off", "chosen", {"markers": {"evictionCost": False}}, annotations={COST: "2147483647"}),
    case("do-not-disrupt is off", "chosen", {"markers": {"doNotDisrupt": False}}, annotations={DISRUPT: "true"}),
    case(
        "its eviction goes on in the background",
        f"eviction_in_progress: {BACKGROUND}: its controller moves it",
        annotations={BACKGROUND: "kubevirt"},
    ),
    case("the only one that helps, though it prefers to stay", "chosen", annotations={PREFER: ""}),
    case("no budget is over it", "without_budget: no PodDisruptionBudget selects it", {"withoutBudget": True}),
    case(
        "fewer replicas than minReplicas", "few_replicas: ReplicaSet/x wants 3, at least 4 needed", {"minReplicas": 4}
    ),
    case(
        "too few would stay ready", "few_ready: ReplicaSet/x would keep 2 ready of 3, needs 3", {"minReadyRatio": 0.7}
    ),
    case("just enough stay ready", "chosen", {"minReadyRatio": "66%"}),
]


@pytest.mark.parametrize(("pod", "protect", "expected"), CASES)
def test_a_protection_holds(pod: dict[str, Any], protect: dict[str, object], expected: str) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    owner = pod.get("owner", ("ReplicaSet", "x"))
    name = owner[1] if owner is not None and owner[0] == "ReplicaSet" else "x"
    scene.workload(name, on=["cool", "cool"], replicas=3).pod(
        "it", "hot", **{"owner": ("ReplicaSet", "x"), "labels": {"app": "x"}, **pod}
    )
    if owner is not None and owner[0] == "Rollout":
        scene.owners.clear()
    assert sentence(scene.plan(scenes.policy(protect=protect)), "it") == expected


def sentence(plan: EvictionPlan, pod: str) -> str:
    """The verdict about a candidate as people read it; "chosen" without its figures, which other tests check."""
    verdict = scenes.judged(plan)[pod].verdict
    return str(verdict.cause) if verdict.cause is Cause.CHOSEN else str(verdict)


@pytest.mark.parametrize(
    ("value", "age_seconds", "stays"),
    [
        pytest.param("10m", 599.0, True, id="in its last second"),
        pytest.param("10m", 600.0, False, id="when it ends"),
        pytest.param("0s", -1.0, False, id="no time at all, by a clock that is behind"),
        pytest.param("1s", 0.0, True, id="a second"),
    ],
)
def test_a_pod_that_may_not_be_disrupted_for_a_while_may_be_to_the_second(
    value: str, age_seconds: float, stays: bool
) -> None:
    started = {"startTime": clock.to_rfc3339(NOW - age_seconds)}
    scene = scenes.beside_two(annotations={DISRUPT: value}, status=started)
    assert (scenes.causes(scene.plan(scenes.policy(protect={"minPodAge": "0s"})))["it"] == "do_not_disrupt") is stays


@pytest.mark.parametrize(
    ("ready", "expected"), [pytest.param(2, "chosen", id="enough others"), pytest.param(1, "few_ready", id="too few")]
)
def test_an_unready_pod_leaves_as_many_ready_as_there_are(ready: int, expected: str) -> None:
    unready = lambda body: body["status"]["conditions"].pop()  # noqa: E731
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["cool"] * ready, replicas=4, ready=ready)
    scene.pod("it", "hot", owner=("ReplicaSet", "web"), mutate=unready)
    assert scenes.causes(scene.plan(scenes.policy(limits={"perWorkload": 10})))["it"] == expected


DIRECTORY = {"hostPath": {"path": "/data"}}


@pytest.mark.parametrize(
    ("source", "terms", "expected"),
    [
        pytest.param({}, None, "chosen", id="a volume that every node can mount"),
        pytest.param({}, ["hot"], "node_bound_volume", id="a volume that one node can mount"),
        pytest.param({}, ["hot", "cool"], "chosen", id="a volume of both nodes' zone"),
        pytest.param({}, ["hot", "other"], "no_destination", id="a volume that the cool node cannot mount"),
        pytest.param(DIRECTORY, None, "node_bound_volume", id="a directory of the node stays where its data is"),
        pytest.param(DIRECTORY, ["hot", "cool"], "chosen", id="a directory that two nodes have"),
    ],
)
def test_a_known_volume_decides_for_itself(source: dict[str, object], terms: list[str] | None, expected: str) -> None:
    scene = scenes.beside_two(mutate=CLAIMED).node("other", memory=0.7)
    expressions = [{"key": "kubernetes.io/hostname", "operator": "In", "values": terms}]
    required = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}} if terms else None
    provision(scene, nodeAffinity=required, **source)
    assert scenes.causes(scene.plan())["it"] == expected


@pytest.mark.parametrize(
    ("modes", "others", "expected"),
    [
        pytest.param(["ReadWriteOnce"], ["hot"], "node_bound_volume", id="the other pod keeps it attached to its node"),
        pytest.param(["ReadWriteOnce"], ["hot", ""], "node_bound_volume", id="so it does beside one that is Pending"),
        pytest.param(["ReadWriteOnce"], ["cool"], "chosen", id="Ready on two nodes: nothing is attached"),
        pytest.param(["ReadWriteOnce", "ReadWriteMany"], ["hot"], "chosen", id="many nodes may have it"),
        pytest.param([], ["hot"], "chosen", id="nobody said"),
    ],
)
def test_a_volume_for_one_node_keeps_the_pods_that_share_it_together(
    modes: list[str], others: list[str], expected: str
) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    provision(scene, accessModes=modes)
    scene.workload("web", on=["hot", *others], mutate=CLAIMED)
    assert (
        scenes.causes(scene.plan(scenes.policy(protect={"minReadyRatio": 0.3}, limits={"perWorkload": 3})))["web-0"]
        == expected
    )


def test_a_volume_for_one_node_follows_the_only_pod_that_uses_it() -> None:
    scene = scenes.beside_two(mutate=CLAIMED)
    provision(scene, accessModes=["ReadWriteOnce"])
    assert scenes.causes(scene.plan())["it"] == "chosen"


def test_an_ephemeral_volume_is_not_taken_for_a_claim_of_its_name() -> None:
    scene = scenes.beside_two(mutate=volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}))
    provision(scene)
    assert sentence(scene.plan(), "it") == "node_bound_volume: ephemeral volume data goes with the pod"


def test_a_pod_under_a_budget_may_leave_where_pods_without_one_stay() -> None:
    scene = scenes.hot_and_cool().budget("web", allowed=1)
    assert scenes.evicted(scene.plan(scenes.policy(protect={"withoutBudget": True}))) == ["web-0"]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(
            {"tier": "gold"}, "namespace_selector: namespaceSelector matches default", id="a namespace with the label"
        ),
        pytest.param({"tier": "tin"}, "chosen", id="a namespace with another one"),
        pytest.param(
            None, "namespace_selector: the labels of default are not known", id="a namespace whose labels are not known"
        ),
    ],
)
def test_namespaces_are_protected_by_labels(labels: dict[str, str] | None, expected: str) -> None:
    scene = scenes.hot_and_cool()
    scene.namespaces |= {} if labels is None else {"default": labels}
    plan = scene.plan(scenes.policy(protect={"namespaceSelector": {"matchLabels": {"tier": "gold"}}}))
    assert sentence(plan, "web-0") == expected


UNKNOWN_CLASS = "storage_class: volume data: its storage class is not known"


@pytest.mark.parametrize(
    ("source", "classes", "expected"),
    [
        pytest.param(claim("data"), ["gold"], "storage_class: claim data is of gold", id="of that class"),
        pytest.param(claim("data"), ["tin"], "chosen", id="of another class"),
        pytest.param(claim("new"), ["gold"], UNKNOWN_CLASS, id="of no known class"),
        pytest.param(claim("new"), [], "chosen", id="no class is protected"),
        pytest.param({"ephemeral": {}}, ["gold"], UNKNOWN_CLASS, id="ephemeral, so of no known class"),
        pytest.param({"emptyDir": {"medium": "Memory"}}, ["gold"], "chosen", id="in memory"),
    ],
)
def test_volumes_are_protected_by_their_storage_class(
    source: dict[str, object], classes: list[str], expected: str
) -> None:
    scene = scenes.beside_two(mutate=volume(**source))
    provision(scene, storageClassName="gold")
    plan = scene.plan(scenes.policy(protect={"storageClasses": classes, "nodeBoundVolumes": False}))
    assert sentence(plan, "it") == expected


NO_RETRY = "job_without_retry: Job/sums has 0 failures left (backoffLimit, podFailurePolicy), and an eviction is one"
INDEX = "batch.kubernetes.io/job-index-failure-count"
NO_INDEX = f"job_without_retry: how often its index of Job/sums has failed is not known ({INDEX})"
FAILS_WHEN_KILLED: dict[str, object] = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0, 1]}}
FAILS_ON_BUG: dict[str, object] = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}
IGNORES_OTHERS: dict[str, object] = {"action": "Ignore", "onPodConditions": [{"type": "ConfigIssue", "status": "True"}]}


def when_disrupted(action: str, before: dict[str, object] | None = None) -> dict[str, object]:
    """The part of a Job's spec that says what an evicted pod means, after another rule."""
    rule = {"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    return {"podFailurePolicy": {"rules": [*([before] if before else []), rule]}}


@pytest.mark.parametrize(
    ("spec", "protect", "expected"),
    [
        pytest.param({"backoffLimit": 0}, {}, NO_RETRY, id="one failure fails the Job"),
        pytest.param({"backoffLimitPerIndex": 0}, {}, NO_INDEX, id="one failure fails the index"),
        pytest.param({"backoffLimit": 0}, {"jobsWithoutRetry": False}, "chosen", id="such Jobs are not protected"),
        pytest.param({"backoffLimit": 6}, {}, "chosen", id="a Job that tries again"),
        pytest.param({}, {}, "chosen", id="a Job that does not say, and gets six"),
        pytest.param({"backoffLimit": 0, **when_disrupted("Ignore")}, {}, "chosen", id="disruptions are ignored"),
        pytest.param({"backoffLimit": 0, **when_disrupted("Count")}, {}, NO_RETRY, id="they are counted"),
        pytest.param(when_disrupted("FailJob"), {}, NO_RETRY, id="a disruption fails the Job"),
        pytest.param(when_disrupted("Ignore", before=FAILS_WHEN_KILLED), {}, NO_RETRY, id="an exit code comes before"),
        pytest.param(when_disrupted("FailJob", before=IGNORES_OTHERS), {}, NO_RETRY, id="a rule about others"),
        pytest.param(
            {"backoffLimit": 0, **when_disrupted("Ignore", before=FAILS_ON_BUG)}, {}, "chosen", id="another exit code"
        ),
    ],
)
def test_a_job_that_may_not_fail_once_keeps_its_pods(
    spec: dict[str, object], protect: dict[str, object], expected: str
) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    for number, node in enumerate(("hot", "cool", "cool")):
        scene.pod(f"sums-{number}", node, owner=("Job", "sums"))
    body = {
        "metadata": {"name": "sums", "namespace": "default", "uid": "uid-sums"},
        "spec": {"parallelism": 3, **spec},
        "status": {"active": 3, "ready": 3},
    }
    plan = scene.controller(builders.decoded(body, objects.Job)).plan(scenes.policy(protect=protect))
    assert len(scenes.causes(plan)) == 1
    assert sentence(plan, "sums-0") == expected
