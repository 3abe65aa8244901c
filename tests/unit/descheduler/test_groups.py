"""Groups that may leave: all pods of one or none, as one candidate, and nothing is kept for a group that stays."""

import pathlib
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from descheduler.eviction import followup
from descheduler.ledger.ledger import Ledger
from descheduler.ledger.rows import Query, Run
from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot import cluster_reader, groups, workloads
from kube import errors, kinds, objects
from policy.schema.load_policy import LoadPolicy
from runtime import clock
from tests import builders
from tests.unit.descheduler import doors, scenes, test_last_look, test_plan_invariants, test_protections
from tests.unit.descheduler.scenes import NOW, UNCAPPED, Scene
from tests.unit.descheduler.worlds import World

GANG = {"app": "train", "scheduling.x-k8s.io/pod-group": "t"}
OF_GANG = "scheduling.x-k8s.io/pod-group: t, 3 pods"
LWS = "leaderworkerset.sigs.k8s.io"
OF_LWS = f"{LWS}/name: llm, group 0, 3 pods, one eviction restarts it"

OF_SET = "jobset.sigs.k8s.io/replicatedjob-name"

LATER = clock.to_rfc3339(NOW + 5)
HOST = "kubernetes.io/hostname"
TERM = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": HOST}
BESIDE_TRAIN = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
PARALLEL: Any = {"podManagementPolicy": "Parallel"}
IN_TWO = {**GANG, "ray.io/cluster": "x"}
BY_CREW = scenes.owned_by("Crew", "crew", api_version="example.org/v1")
OF_DB: Any = {"owner": ("StatefulSet", "db"), "labels": GANG}
DB = scenes.controller(objects.StatefulSet, "db", replicas=2)
ORDERED = Scene().node("hot", memory=0.9).node("cool").controller(DB)
ORDERED.pod("db-0", "hot", **OF_DB).pod("db-1", "hot", **OF_DB)


def obeyed(limits: dict[str, object] | None = None, **protect: object) -> Any:
    """A policy that lets groups go, with these limits."""
    return scenes.policy(limits={**UNCAPPED, **(limits or {})}, protect={"groups": False, **protect})


def nodes() -> Scene:
    """A node at 90 % of its memory, a cool one, and one that takes one pod of 4 GiB more."""
    scene = Scene().node("hot", memory=0.9, labels={HOST: "hot"}).node("cool", labels={HOST: "cool"})
    return scene.node("mild", memory=0.4, labels={HOST: "mild"})


def gang(scene: Scene | None = None, **fields: Any) -> Scene:
    """A gang with two pods on the hot node and one on the mild one."""
    return (scene or nodes()).workload("train", on=["hot", "hot", "mild"], **{"labels": GANG, **fields})


def lws(group: int, *on: str, size: str = "3", replicas: int = 2, scene: Scene | None = None, **fields: Any) -> Scene:
    """A group of a LeaderWorkerSet: its leader is a pod of one StatefulSet, its workers of another."""
    made = scene or nodes()
    leaders = scenes.controller(objects.StatefulSet, "llm", replicas=replicas, **PARALLEL)
    workers = scenes.controller(objects.StatefulSet, f"llm-{group}", replicas=len(on) - 1, **PARALLEL)
    made.controllers = list({one.uid: one for one in (*made.controllers, leaders, workers)}.values())
    for number, node in enumerate(on):
        labels = {f"{LWS}/name": "llm", f"{LWS}/group-index": str(group), f"{LWS}/worker-index": str(number)}
        name = f"llm-{group}-{number}" if number else f"llm-{group}"
        owner = ("StatefulSet", f"llm-{group}" if number else "llm")
        annotations = {f"{LWS}/size": size} if size else {}
        made.pod(name, node, owner=owner, **{"labels": labels, "annotations": annotations, **fields})
    return made


def verdicts(plan: EvictionPlan) -> dict[str, str]:
    """Every candidate's verdict in words, by pod name."""
    return {name: str(one.verdict) for name, one in scenes.judged(plan).items()}


def test_a_gang_leaves_whole_and_each_pod_brings_the_relief_of_its_own() -> None:
    plan = gang().plan(obeyed())
    ends = [(one.pod.name, one.destination, round(one.projected_ratio, 3)) for one in plan.evictions]
    assert ends == [("train-0", "cool", 0.775), ("train-1", "cool", 0.65), ("train-2", "cool", 0.65)]
    assert [one.expected_5m_ratio is None for one in plan.evictions] == [False, False, True]
    assert verdicts(plan)["train-1"] == f"chosen: expected on cool (train-1 of {OF_GANG})"
    assert len(gang(gib=0.1).plan(obeyed()).evictions) == 3, "each alone is under 2 % of the excess"


@pytest.mark.parametrize(("memory", "first", "left"), [(0.85, "hot", 0.725), (0.95, "warm", 0.825)])
def test_pods_of_a_gang_relieve_each_hot_node_whichever_is_planned_for_first(
    memory: float, first: str, left: float
) -> None:
    scene = Scene().node("hot", memory=0.9).node("warm", memory=memory).node("cool").node("cool2")
    plan = scene.workload("train", on=["hot", "hot", "warm"], labels=GANG).plan(obeyed())
    assert scenes.causes(plan) == dict.fromkeys(("train-0", "train-1", "train-2"), "chosen")
    assert [one.overload.node for one in plan.evictions] == [first] * 3
    relieved = {one.node.name: round(sum(one.projected.values()), 3) for one in plan.nodes}
    assert relieved == {"hot": 0.65, "warm": left}


REFUSALS = [
    pytest.param({"groups": True}, {}, {}, "group: scheduling.x-k8s.io/pod-group: t: its group may start", id="off"),
    pytest.param({}, {"perNode": 1}, {}, "node_cap: 1 of 1 a run and node (train-1 of", id="its node's cap"),
    pytest.param({}, {"perRun": 2}, {}, "run_cap: 2 of 2 a run (train-2 of", id="the run's cap"),
    pytest.param({}, {"perWorkload": 2}, {}, "workload_cap: ReplicaSet/train has 2 unavailable, 2 allo", id="workload"),
    pytest.param({"labelSelector": {"matchLabels": {"app": "web"}}}, {}, {}, "label: ", id="a protection of each"),
    pytest.param({}, {}, {"replicas": 4}, f"in_flight: {OF_GANG[:-8]}: it waits until all", id="one is missing"),
    pytest.param({}, {}, {"gib": 12.0}, "no_destination: no other node takes it: 2 over evictUntil", id="no room"),
    pytest.param({}, {}, {"gib": 0.09}, "too_small: ", id="little use together"),
]


@pytest.mark.parametrize(("protect", "limits", "fields", "expected"), REFUSALS)
def test_what_keeps_one_pod_keeps_the_gang(
    protect: dict[str, object], limits: dict[str, object], fields: dict[str, Any], expected: str
) -> None:
    plan = gang(**fields).plan(obeyed(limits, **protect))
    assert plan.evictions == ()
    assert all(verdict.startswith(expected) for verdict in verdicts(plan).values()), verdicts(plan)


def test_a_node_that_cools_down_once_the_first_of_a_gang_has_left_tears_no_gang_apart(tmp_path: pathlib.Path) -> None:
    here, asked = World(gang(), tmp_path, mode="Enforce", limits=UNCAPPED, protect={"groups": False}), list[float]()

    def cool_down() -> None:
        asked.append(here.clock.now())
        if len(asked) == 4:  # after a dry run of each
            here.clock.advance(2)
            here.prometheus.show(gang(nodes().node("hot", memory=0.6)))

    here.door.before_evict = cool_down
    assert [one.result for one in here.report().outcomes or ()] == ["evicted"] * 3


def test_a_label_of_a_group_lets_no_pod_alone_pass_for_one() -> None:
    plan = nodes().workload("web", on=["hot"], labels={"ray.io/cluster": "x"}).plan(obeyed())
    assert verdicts(plan)["web-0"].startswith("few_replicas: ReplicaSet/web wants 1, at least 2 needed")


def test_a_budget_that_would_refuse_the_third_pod_is_foreseen_and_keeps_nothing_for_the_gang() -> None:
    plan = gang().budget("train", allowed=2).plan(obeyed())
    held = "budget: train allows 2 (3 healthy, 2 needed, 2 in this plan)"
    assert verdicts(plan)["train-0"] == f"{held} (train-2 of {OF_GANG})"
    assert (plan.evictions, [one.reserved for one in plan.headroom.budgets]) == ((), [0])


@pytest.mark.parametrize(
    ("limits", "train", "web", "destination"),
    [
        pytest.param({"perRun": 2, "perNode": 2}, {}, {}, "cool", id="of caps and flow rules"),
        pytest.param({}, {"gib": 8.0, "memory": "8Gi"}, {"gib": 8.0}, "cool", id="of room"),
        pytest.param({}, {"gib": 8.0}, {"spec": {"affinity": BESIDE_TRAIN}}, "mild", id="of its places"),
    ],
)
def test_a_gang_that_stays_takes_nothing_from_others(
    limits: dict[str, object], train: dict[str, Any], web: dict[str, Any], destination: str
) -> None:
    flow, protect = [{"allow": {"perMinute": 3}}], {"groups": False}
    section = {"limits": {**UNCAPPED, **limits}, "protect": protect, "flow": flow}
    policy = LoadPolicy.of({"descheduler": section, "filter": {"thresholds": {"memory_avg_5m": 0.55}}})
    scene = gang(status={"qosClass": "BestEffort"}, **train).workload("web", on=["hot", "cool"], memory="12Gi", **web)
    plan = scene.plan(policy)
    assert [(one.pod.name, one.destination) for one in plan.evictions] == [("web-0", destination)], verdicts(plan)


def test_a_pod_elsewhere_that_may_not_leave_keeps_the_gang_and_is_named() -> None:
    young = nodes().workload("train", on=["hot", "hot"], replicas=3, labels=GANG)
    young.pod("train-2", "mild", labels=GANG, owner=("ReplicaSet", "train"), scheduled_at=clock.to_rfc3339(NOW - 100))
    assert verdicts(young.plan(obeyed()))["train-0"] == f"young: 100 s of 300 s (train-2 of {OF_GANG})"
    text = f"usage_unknown: it has not run for a whole window yet (train-2 of {OF_GANG})"
    assert verdicts(young.plan(obeyed(minPodAge="0s")))["train-0"] == text


def test_a_workload_that_is_more_than_the_gang_keeps_its_ready_share() -> None:
    scene = nodes().workload("train", on=["cool", "cool"], replicas=5, ready=5)
    for number, node in enumerate(("hot", "hot", "mild")):
        scene.pod(f"t-{number}", node, labels=GANG, owner=("ReplicaSet", "train"))
    assert "few_ready: ReplicaSet/train would keep 2 ready of 5, needs 3" in verdicts(scene.plan(obeyed()))["t-0"]


def test_a_gang_on_nodes_of_two_pools_stays() -> None:
    pools = [{"name": "p", "nodeSelector": {"matchLabels": {"pool": "p"}}, "descheduler": {"mode": "Observe"}}]
    policy = LoadPolicy.of({"descheduler": {"limits": UNCAPPED, "protect": {"groups": False}}, "pools": pools})
    assert len(gang().plan(policy).evictions) == 3
    mixed = gang().node("mild", memory=0.4, labels={"pool": "p"})
    assert verdicts(mixed.plan(policy))["train-0"].endswith("its pods are on nodes of several pools")


def test_rules_about_neighbours_hold_as_if_all_of_the_gang_had_left() -> None:
    plan = nodes().workload("train", on=["hot"] * 3, labels=GANG, spec={"affinity": BESIDE_TRAIN}).plan(obeyed())
    assert [one.destination for one in plan.evictions] == ["cool"] * 3


def test_of_a_leaderworkerset_one_pod_of_the_hot_node_is_evicted_for_the_whole_group() -> None:
    plan = lws(0, "mild", "hot", "hot", scene=lws(1, "cool", "cool", "cool")).plan(obeyed())
    (only,) = plan.evictions
    assert (only.pod.name, str(only.workload), only.group) == ("llm-0-1", "StatefulSet/llm", OF_LWS)
    assert (only.before_ratio, round(only.projected_ratio, 3)) == (0.9, 0.65)
    assert verdicts(plan)["llm-0-2"] == f"chosen: expected on cool (llm-0-2 of {OF_LWS})"


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        pytest.param(lws(0, "hot", "hot", "mild", replicas=1), "few_replicas: StatefulSet/llm wants 1", id="alone"),
        pytest.param(lws(0, "hot", "hot", size=""), "its size is unknown", id="of unknown size"),
        pytest.param(lws(0, "hot", labels={f"{LWS}/name": "llm"}), "which pods are of it is not known", id="no index"),
        pytest.param(gang(annotations={groups.NOT_UNIQUE: "x"}), "which pods are of it is not known", id="YuniKorn"),
        pytest.param(gang(spec={"schedulingGroup": {}}), "spec.schedulingGroup: which pods", id="a field of its spec"),
        pytest.param(ORDERED, "in_flight: StatefulSet/db starts its pods in order", id="one would wait for the other"),
        pytest.param(gang(mutate=BY_CREW), "what its owner does then is not known", id="of an owner of another API"),
        pytest.param(
            gang().workload("more", on=["mild"], labels=IN_TWO), "several groups", id="one is of another, too"
        ),
    ],
)
def test_a_group_of_which_not_all_is_known_stays(scene: Scene, expected: str) -> None:
    crew = workloads.Workload("Crew", "default", "crew", "uid-crew", 3, 3, api_version="example.org/v1")
    scene.custom["uid-crew"] = crew
    plan = scene.plan(obeyed())
    assert plan.evictions == ()
    assert all(expected in verdict for verdict in verdicts(plan).values()), verdicts(plan)


@pytest.mark.parametrize("other", [lws(1, "cool"), lws(1, "cool", "cool", size="2", status={"conditions": []})])
def test_a_group_whose_leader_alone_is_ready_serves_nobody(other: Scene) -> None:
    other.pods[0] = builders.pod("llm-1", node="cool", owner=("StatefulSet", "llm"), labels=other.pods[0].labels)
    plan = lws(0, "hot", "hot", "mild", scene=other).plan(obeyed())
    assert scenes.causes(plan) == {"llm-0": "in_flight", "llm-0-1": "in_flight"}


def test_a_pod_that_would_be_deleted_with_the_evicted_one_is_looked_at_too(tmp_path: pathlib.Path) -> None:
    scene = lws(0, "mild", "hot", "hot", scene=lws(1, "cool", "cool", "cool"))
    here = World(scene, tmp_path, mode="Enforce", limits=UNCAPPED, protect={"groups": False})
    here.door.objects["statefulsets"] = tuple(scene.controllers)
    leader, *others = here.door.objects["pods"][3:]
    labels = {**leader.labels, "evenload.io/protected": "true"}
    protected = msgspec.structs.replace(leader, metadata=msgspec.structs.replace(leader.metadata, labels=labels))
    test_last_look.while_the_hint_is_written(here, lambda: here.door.objects.update(pods=(protected, *others)))
    message = f'llm-0-1 of its group: opted_out: evenload.io/protected: "true" (llm-0 of {OF_LWS})'
    assert [one.answer.message for one in here.report().outcomes or ()] == [message]


def test_pods_of_a_group_have_one_and_the_same_list_of_it() -> None:
    first, second, _ = map((taken := gang().snapshot()).groups.of, taken.pods)
    assert first.pods is second.pods, "else a group of thousands is sorted thousands of times"


def job(name: str, made_at_seconds: float, spec: dict[str, object], of: str = "t", version: str = "v1alpha2") -> Any:
    """A Job of three pods that a JobSet controls."""
    metadata: builders.Body = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {OF_SET: "w"}}
    body = {"metadata": metadata | {"creationTimestamp": clock.to_rfc3339(made_at_seconds)}, "status": {"ready": 3}}
    scenes.owned_by("JobSet", of, api_version=f"jobset.x-k8s.io/{version}")(body)
    return builders.decoded({**body, "spec": {"parallelism": 3, **spec}}, objects.Job)


def job_set(policy: dict[str, object], counted: int = 0, restarts: int = 0, uid: str = "uid-t") -> objects.JobSet:
    """The JobSet `t` with this failurePolicy, and restarts of which so many counted."""
    status = {"restarts": restarts or counted, "restartsCountTowardsMax": counted}
    metadata = {"name": "t", "namespace": "default", "uid": uid}
    return builders.decoded({"metadata": metadata, "spec": {"failurePolicy": policy}, "status": status}, objects.JobSet)


def on_failure(action: str, *, most: int = 3, **fields: object) -> dict[str, object]:
    """The failurePolicy that restarts `most` times, with one rule."""
    return {"maxRestarts": most, "rules": [{"name": "one", "action": action, **fields}]}


FAILS = "job_without_retry: Job/train has 0 failures left (backoffLimit, podFailurePolicy), and an eviction is one"
BY_ONE: dict[str, object] = {"backoffLimit": 0}
OF_POLICY: dict[str, Any] = {"onJobFailureReasons": ["PodFailurePolicy"]}
FREE = "RestartJobSetAndIgnoreMaxRestarts"
FAIL_SET = "; a rule of JobSet t has the action FailJobSet"
WHEN_DISRUPTED = test_protections.when_disrupted


@pytest.mark.parametrize(
    ("spec", "there", "expected"),
    [
        pytest.param({"backoffLimit": 4}, None, "chosen", id="its Job bears all"),
        pytest.param(WHEN_DISRUPTED("Ignore"), None, "chosen", id="its Job ignores disruptions"),
        pytest.param(BY_ONE, None, f"{FAILS}; GET: 404 NotFound: t", id="a JobSet that is not there"),
        pytest.param(BY_ONE, job_set({}), f"{FAILS}; JobSet t has 0 of 0 restarts left (max", id="no restart"),
        pytest.param({"backoffLimit": 3}, job_set({}), f"{FAILS.replace('0 f', '3 f')}; JobSet t", id="of three each"),
        pytest.param(BY_ONE, job_set({"maxRestarts": 3}), "chosen", id="three restarts"),
        pytest.param(BY_ONE, job_set({"maxRestarts": 3}, 2), f"{FAILS}; JobSet t has 1 of 3", id="the last one"),
        pytest.param(BY_ONE, job_set({"maxRestarts": 3}, restarts=2), f"{FAILS}; JobSet t has 1", id="before v0.6"),
        pytest.param(BY_ONE, job_set({"maxRestarts": 9}, 1, uid="x"), f"{FAILS}; JobSet t: another", id="another uid"),
        pytest.param(BY_ONE, job_set(on_failure("FailJobSet")), FAILS + FAIL_SET, id="a rule that fails it"),
        pytest.param(BY_ONE, job_set(on_failure("FailJobSet", **OF_POLICY)), "chosen", id="for another reason"),
        pytest.param(
            BY_ONE, job_set(on_failure("FailJobSet", targetReplicatedJobs=["x"])), "chosen", id="for other Jobs"
        ),
        pytest.param(
            BY_ONE, job_set(on_failure("FailJobSet", targetReplicatedJobs=["w"])), FAILS + FAIL_SET, id="for its Jobs"
        ),
        pytest.param(BY_ONE, job_set(on_failure("Later")), f"{FAILS}; a rule of JobSet t has the", id="not known"),
        pytest.param(WHEN_DISRUPTED("FailJob"), job_set(on_failure(FREE, most=0, **OF_POLICY)), "chosen", id="free"),
        pytest.param(
            WHEN_DISRUPTED("FailJob"), job_set(on_failure("FailJobSet", **OF_POLICY)), FAILS + FAIL_SET, id="disruption"
        ),
        pytest.param(
            BY_ONE,
            job_set(on_failure(FREE, most=1, onJobFailureMessagePatterns=["x"])),
            f"{FAILS}; JobSet t has 1 of 1",
            id="a rule that may not match",
        ),
        pytest.param(
            WHEN_DISRUPTED("FailIndex"), job_set({"maxRestarts": 9}), f"{FAILS}; train would fail for", id="an index"
        ),
        pytest.param(
            BY_ONE,
            job_set({"maxRestarts": 9}, 2),
            "workload_cooldown: 800 s left, JobSet restarted 2 times",
            id="a pause that grows",
        ),
    ],
)
def test_a_jobset_leaves_if_its_jobs_bear_it_or_it_restarts_and_another_time(
    spec: dict[str, object], there: objects.JobSet | None, expected: str, tmp_path: pathlib.Path
) -> None:
    scene = nodes()
    for number, node in enumerate(("hot", "hot", "mild")):
        scene.pod(f"train-{number}", node, labels={groups.JOB_SET: "t"}, owner=("Job", "train"))
    here = World(scene, tmp_path, limits=UNCAPPED, protect={"groups": False, "jobsWithoutRetry": False})
    here.door.objects |= {"jobs": (job("train", NOW - 1000, spec),), "jobsets": (there,) if there is not None else ()}
    plan = here.previews.plan().plan
    assert verdicts(plan)["train-0"].startswith(expected), verdicts(plan)
    assert len(plan.evictions) == (3 if expected == "chosen" else 0)


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (errors.Unreachable("GET jobsets: no answer within 10 s"), ["t"]),
        (errors.Forbidden("GET jobsets", status=403, reason="Forbidden", message="no right"), ["t", "u"]),
    ],
)
def test_a_jobset_is_asked_for_once_and_none_after_it_where_nobody_answers(error: Exception, calls: list[str]) -> None:
    asked = list[str]()

    class Failing(doors.FakeDoor):
        def get(self, kind: kinds.Kind[Any], name: str, *, namespace: str = "") -> Any:
            asked.append(name)
            raise error

    jobs = [job(f"train-{number}", NOW, BY_ONE, of) for number, of in enumerate("ttu")]
    jobs.append(job("later", NOW, BY_ONE, version="v9"))  # of which nothing is known
    refusals = [one.refusal for one in cluster_reader.job_set_restarts(Failing(), jobs).values()]
    last = str(error) if "u" in calls else f"not asked in this run: {error}"
    assert (asked, refusals) == (calls, [str(error), str(error), last])


@pytest.mark.parametrize(
    ("accepted", "calls", "expected"),
    [
        pytest.param(9, 6, ["evicted", "evicted", "evicted"], id="all"),
        pytest.param(2, 3, ["refused"], id="none where the third's dry run is refused"),
        pytest.param(3, 4, ["refused"], id="none where the first is refused all the same"),
        pytest.param(4, 6, ["evicted", "refused", "evicted"], id="what can, once one went"),
    ],
)
def test_before_the_first_pod_goes_all_of_its_gang_are_asked_for_in_a_dry_run(
    tmp_path: pathlib.Path, accepted: int, calls: int, expected: list[str]
) -> None:
    here = World(gang(), tmp_path, mode="Enforce", limits=UNCAPPED, protect={"groups": False})
    here.door.answers = [*[doors.ACCEPTED] * accepted, doors.BLOCKED]
    here.service.run()
    assert [dry_run for _, _, dry_run in here.door.evictions] == [True] * 3 + [False] * (calls - 3)
    rows = here.ledger.rows(Query())[::-1]
    assert [row.result for row in rows] == expected
    assert str(rows[0].message).startswith("train-2 of its group: Cannot evict") is (accepted == 2)


def test_a_pod_from_a_cool_node_has_not_come_back_where_its_replacement_is_there(ledger: Ledger) -> None:
    for planned in gang().plan(obeyed()).evictions:
        row = ledger.intend(Run("4f2a", NOW, "Enforce", "9c1e"), planned, at_seconds=NOW)
        ledger.decide(row.row_id, "evicted", status=201, message="", at_seconds=NOW)
    later: dict[str, Any] = {"owner": ("ReplicaSet", "train"), "metadata": {"creationTimestamp": LATER}}
    new = [builders.pod(f"new-{number}", node=node, **later) for number, node in enumerate(("cool", "cool", "mild"))]
    assert followup.follow(ledger, ledger.unfinished(0.0), new, now_seconds=NOW + 60) == ()
    assert [row.landed_node for row in ledger.rows(Query())[::-1]] == ["cool", "cool", "mild"]


@test_plan_invariants.many
@hypothesis.given(test_plan_invariants.clusters(), test_plan_invariants.CAPS, st.randoms())
def test_each_gang_of_a_random_cluster_leaves_whole_or_not_at_all(scene: Scene, caps: dict[str, Any], rng: Any) -> None:
    gangs = {pod.uid: f"g{rng.randrange(3)}" for pod in scene.pods}
    for number, pod in enumerate(scene.pods):
        labels = {**pod.labels, "scheduling.x-k8s.io/pod-group": gangs[pod.uid]}
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        scene.pods[number] = msgspec.structs.replace(pod, metadata=metadata)
    policy = obeyed({"perRun": 2 * caps["perRun"]}, minReadyRatio=0, minReplicas=1, bare=False)
    plan = scene.plan(policy)
    leaving = {one.pod.uid for one in plan.evictions}
    for name in set(gangs.values()):
        members = {uid for uid, of in gangs.items() if of == name}
        assert not members & leaving or members <= leaving
    assert all(one.reserved <= one.allowed for one in plan.headroom.budgets)
    assert scene.shuffled(rng).plan(policy) == plan


def test_a_snapshot_that_grows_old_amid_a_gang_tears_it_not_apart(tmp_path: pathlib.Path) -> None:
    here = World(gang(), tmp_path, mode="Enforce", limits=UNCAPPED, protect={"groups": False})
    here.door.before_evict = lambda: here.clock.advance(7)  # of 30 s
    here.report()
    assert [dry_run for _, _, dry_run in here.door.evictions] in ([True] * 3, [True] * 3 + [False] * 3)
