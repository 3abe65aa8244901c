"""The plan as a whole: order of nodes and pods, deductions, one verdict per candidate, why nothing is done."""

import dataclasses
from typing import Any

import pytest

from descheduler.planning import candidate_order, planner, verdicts
from descheduler.planning.departed_load import DepartedLoad
from descheduler.planning.plans import NO_HEADROOM, EvictionPlan
from descheduler.planning.verdicts import Cause, Verdict
from descheduler.snapshot import pod_annotations
from descheduler.snapshot.eviction_history import EvictedPod, History, PodUse
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import PodUsage
from policy.schema.load_policy import LoadPolicy
from runtime import clock
from tests import builders
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import GIB, NOW, Scene

PREFER = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def test_a_node_between_the_lines_is_not_touched() -> None:
    assert Scene().node("warm", memory=0.75).node("cool").workload("web", on=["warm", "warm"]).plan().nodes == ()


@pytest.mark.parametrize(
    ("above", "until", "pods_ratio", "needed"),
    [
        pytest.param(0.8, 0.5, 0.1, 3, id="80 % to 50 % by pods of 10 %"),
        pytest.param(0.9, 0.6, 0.1, 3, id="90 % to 60 % by pods of 10 %"),
        pytest.param(0.7, 0.55, 0.05, 3, id="70 % to 55 % by pods of 5 %"),
    ],
)
def test_at_round_numbers_no_pod_leaves_for_what_sums_of_floats_are_off(
    above: float, until: float, pods_ratio: float, needed: int
) -> None:
    scene = Scene().node("hot", memory=above).node("cool").node("cool2")
    for number in range(6):
        scene.workload(f"w{number}", on=["hot", "cool"], gib=32 * pods_ratio, memory="64Mi")
    band = {"evictAbove": above - 0.01, "evictUntil": until}
    obeyed = scenes.policy(limits=scenes.UNCAPPED, thresholds={"memory_avg_5m": band})
    assert len(scene.plan(obeyed).evictions) == needed


@pytest.mark.parametrize(
    ("gib_of", "evicted"),
    [
        pytest.param({"small": 4, "fits": 9.6, "large": 12}, ["fits-0"], id="the one that just covers the excess"),
        pytest.param({"large": 6, "mid": 5, "small": 4}, ["large-0", "small-0"], id="then what is left of it"),
        pytest.param({"tiny": 0.01}, [], id="none that is too small to help"),
    ],
)
def test_pods_are_chosen_by_what_they_cover(gib_of: dict[str, float], evicted: list[str]) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")  # 9.6 GiB over the target line
    for name, gib in gib_of.items():
        scene.workload(name, on=["hot", "cool"], gib=gib, memory="64Mi")
    plan = scene.plan(scenes.policy(limits=scenes.UNCAPPED))
    assert scenes.evicted(plan) == evicted
    assert scenes.causes(plan).get("tiny-0", "too_small") == "too_small"


def test_a_pod_too_small_for_one_metric_is_asked_for_the_next() -> None:
    bands = {"evictAbove": 0.8, "evictUntil": 0.6}
    obeyed = scenes.policy(limits=scenes.UNCAPPED, thresholds={"memory_avg_5m": bands, "cpu_avg_5m": bands})
    scene = Scene().node("hot", memory=0.9, cpu=0.85).node("cool")
    scene.workload("lean", on=["hot", "cool"], gib=0.01, cores=2.5, memory="8Mi")
    assert scenes.evicted(scene.plan(obeyed)) == ["lean-0"]


def test_the_node_whose_excess_is_the_largest_share_of_its_allocatable_is_relieved_first() -> None:
    scene = Scene().node("equal", memory=0.85).node("reserved", memory=0.82, mutate=halve_allocatable).node("cool")
    scene.node("a", memory=0.84)  # the first by name
    scene.workload("web", on=["equal", "reserved", "a", "cool"])
    assert [one.node.name for one in scene.plan().nodes] == ["reserved", "equal", "a"]


def halve_allocatable(body: builders.Body) -> None:
    """Half of the memory is the system's own."""
    body["status"]["allocatable"]["memory"] = "16Gi"


def test_an_overloaded_node_that_is_not_ready_is_left_alone_with_its_readings() -> None:
    scene = Scene().node("cool").workload("web", on=["hot", "cool"])
    scene.node("hot", memory=0.9, mutate=lambda body: body["status"]["conditions"][0].update(status="False"))
    (node,) = scene.plan().nodes
    assert (node.node.name, node.left_alone, node.candidates, node.pool) == ("hot", "it is not ready", (), "")
    assert node.projected["memory_avg_5m"] == pytest.approx(0.9)
    assert [one.metric for one in node.overloads] == ["memory_avg_5m"]


def test_every_pod_of_an_overloaded_node_is_listed_by_name_with_its_workload_and_use() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool")
    scene.workload("web", on=["hot", "hot", "cool"]).workload("api", on=["hot", "cool"])
    (node,) = scene.plan().nodes
    listed = [(one.pod.name, one.workload, one.used) for one in node.candidates]
    assert [(name, workload and workload.name) for name, workload, _ in listed] == [
        ("api-0", "api"),
        ("web-0", "web"),
        ("web-1", "web"),
    ]
    assert all(used is not None and used.memory_bytes == 4 * GIB for _, _, used in listed)


def test_a_pod_that_prefers_to_stay_goes_last_and_the_plan_says_so() -> None:
    """Presence alone counts, as upstream has it: "false" is the same wish."""
    scene = Scene().node("hot", memory=0.9).node("cool")
    for name, gib in (("fits", 10), ("large", 12)):
        scene.workload(name, on=["hot", "cool"], gib=gib, annotations={} if name == "large" else {PREFER: "false"})
    plan = scene.plan()
    assert scenes.evicted(plan) == ["large-0"]
    assert scenes.judged(plan)["fits-0"].verdict.detail.endswith(f"{PREFER} has it come last")
    for ignored in ({"markers": {"preferNoEviction": False}}, {"optOut": {"exceptNamespaces": ["default"]}}):
        assert scenes.evicted(scene.plan(scenes.policy(protect=ignored))) == ["fits-0"]


@pytest.mark.parametrize(
    ("used", "rank", "misfit"),
    [
        pytest.param((2.0, 2.0, 2.0), (True, False), 2.0, id="all of its request, and just the excess"),
        pytest.param((2.1, 2.0, 2.0), (False, False), 2.1, id="more than either"),
        pytest.param((1.9, 2.0, 2.0), (True, True), -1.9, id="less than either"),
    ],
)
@pytest.mark.parametrize(("qos", "place"), [("BestEffort", 0), ("Burstable", 1), ("Guaranteed", 2), ("New", 2)])
def test_a_pod_is_ranked_by_its_wish_priority_request_and_quality_and_by_what_it_covers(
    used: tuple[float, float, float], rank: tuple[bool, bool], misfit: float, qos: str, place: int
) -> None:
    pod, (within, short) = builders.pod("web-0", spec={"priority": 7}, status={"qosClass": qos}), rank
    for last in (True, False):
        ranked = candidate_order.Rank(last, 7, within, place, short)
        expected = candidate_order.Key(ranked, misfit, -pod.created_at_seconds, pod.uid)
        assert candidate_order.key(pod, candidate_order.Use(*used), last=last) == expected


@pytest.mark.parametrize(
    ("used", "excess", "expected"),
    [(0.02, 1.0, True), (0.0199, 1.0, False), (0.0, 0.0, False), (0.0, -1.0, False), (0.1, -1.0, True)],
)
def test_a_pod_under_two_percent_of_the_excess_is_too_small(used: float, excess: float, expected: bool) -> None:
    assert candidate_order.worthwhile(candidate_order.Use(used, excess, 0.0)) is expected


@pytest.mark.parametrize(
    ("annotations", "cost"),
    [
        ({pod_annotations.DELETION_COST: "-7"}, -7),
        ({}, 0),
        ({pod_annotations.DELETION_COST: "dear"}, 0),
        ({pod_annotations.DELETION_COST: ""}, 0),
    ],
)
def test_a_cost_that_is_absent_or_no_number_is_zero(annotations: dict[str, str], cost: int) -> None:
    assert candidate_order.cost(builders.pod("web-0", annotations=annotations), pod_annotations.DELETION_COST) == cost


@pytest.mark.parametrize(
    ("fat_cores", "cpu_ratio", "evicted"),
    [
        pytest.param(3, 0.9, {"fat-0": "memory_avg_5m"}, id="the pod's CPU is deducted too"),
        pytest.param(0.1, 0.95, {"fat-0": "memory_avg_5m", "busy-0": "cpu_avg_5m"}, id="CPU is still over"),
    ],
)
def test_memory_is_relieved_before_cpu(fat_cores: float, cpu_ratio: float, evicted: dict[str, str]) -> None:
    scene, on = Scene().node("hot", memory=0.9, cpu=cpu_ratio).node("cool"), ["hot", "cool"]
    scene.workload("fat", on=on, gib=10, cores=fat_cores).workload("busy", on=on, gib=0.1, cores=3)
    plan = scene.plan(scenes.policy(limits=scenes.UNCAPPED))
    assert [(one.pod.name, one.overload.metric) for one in plan.evictions] == list(evicted.items())
    left = cpu_ratio - (fat_cores + 3 * (len(evicted) - 1)) / 8
    assert plan.nodes[0].projected["cpu_avg_5m"] == pytest.approx(left)


def with_one_leaving(gib: float) -> Scene:
    """The hot node with a pod of so many GiB more, which is terminating."""
    scene = scenes.hot_and_cool(gib=10)
    leaving = builders.pod("old", node="hot", metadata={"deletionTimestamp": clock.to_rfc3339(NOW + 20)})
    scene.pods.append(leaving)
    scene.used[leaving.key] = PodUsage(leaving.key, 100, gib * GIB, NOW - 10)
    return scene


def test_a_pod_already_terminating_counts_as_gone() -> None:
    plan = with_one_leaving(10).plan()
    assert plan.evictions == ()
    assert scenes.causes(plan) == {"old": "terminating", "web-0": "not_needed", "web-1": "not_needed"}


def test_a_terminating_pod_is_deducted_by_its_share_of_the_capacity() -> None:
    scene = with_one_leaving(4)
    scene.node("hot", memory=0.9, mutate=halve_allocatable)
    here = [pod for pod in scene.pods if pod.node_name == "hot"]
    echoes = DepartedLoad(scene.snapshot(), scenes.policy(), ())
    left_ratios = echoes.without_the_gone(scene.nodes["hot"], scene.overloads(scenes.policy()), here)
    assert left_ratios == {"memory_avg_5m": pytest.approx(0.9 - 4 / 32)}


def test_a_pod_that_the_ledger_knows_as_gone_and_is_still_there_counts_once() -> None:
    gone = EvictedPod("hot", "uid-old", NOW, PodUse(0.0, 6 * GIB))
    plan = with_one_leaving(6).plan(history=History(departed=(gone,)))
    assert scenes.evicted(plan) == ["web-0"]


@pytest.mark.parametrize(
    ("metric", "age_seconds", "expected"),
    [
        pytest.param("memory_avg_5m", 10.0, [], id="the window still shows nearly all of it"),
        pytest.param("memory_avg_5m", 290.0, ["web-0"], id="the window has nearly forgotten it"),
        pytest.param("memory_max_1h", 600.0, [], id="the maximum of the hour shows all of it"),
        pytest.param("memory_max_1h", 3840.0, ["web-0"], id="its hour has passed, the averages behind it fade"),
    ],
)
def test_a_pod_that_has_just_left_still_echoes_in_the_window_and_in_a_maximum_until_it_has_passed(
    metric: str, age_seconds: float, expected: list[str]
) -> None:
    obeyed = scenes.policy(thresholds={metric: {"evictAbove": 0.8, "evictUntil": 0.6}})
    gone = EvictedPod("hot", "uid-gone", NOW - age_seconds, PodUse(0.0, 12 * GIB))
    assert scenes.evicted(scenes.hot_and_cool().plan(obeyed, History(departed=(gone,)))) == expected


@pytest.mark.parametrize(
    ("at_readings", "shown_ratio"),
    [
        pytest.param(False, 140 / 300, id="at the moment of asking"),
        pytest.param(True, 150 / 300, id="at the reading, ten seconds before"),
    ],
)
def test_a_pod_that_has_just_left_fades_until_its_nodes_windows_end(at_readings: bool, shown_ratio: float) -> None:
    gone = EvictedPod("hot", "uid-gone", NOW - 160, PodUse(0.0, 8 * GIB))
    obeyed, past = scenes.policy(coolNodes=2), History(departed=(gone,))
    (node,) = scenes.hot_and_cool().plan(obeyed, past, windows_end_at_readings=at_readings).nodes
    assert node.projected == {"memory_avg_5m": pytest.approx(0.9 - shown_ratio * 8 / 32)}


@pytest.mark.parametrize(
    ("age_seconds", "absences", "detail"),
    [
        pytest.param(None, {}, "no window of it is known", id="none"),
        pytest.param(None, {"default/web-0": "it is new"}, "it is new", id="none, and the source knows why"),
        pytest.param(300, {"default/web-0": "it is new"}, "its usage is 300 s old", id="as old as staleAfter"),
        pytest.param(299, {}, "", id="a moment before"),
    ],
)
def test_a_pod_without_fresh_usage_is_skipped_alone(
    age_seconds: float | None, absences: dict[str, str], detail: str
) -> None:
    scene = scenes.hot_and_cool()
    used = scene.used.pop("default/web-0")
    if age_seconds is not None:
        scene.used["default/web-0"] = dataclasses.replace(used, at_seconds=NOW - age_seconds)
    plan = scene.plan(absences=absences)
    assert scenes.evicted(plan) == ["web-1" if detail else "web-0"]
    verdict = Verdict(Cause.USAGE_UNKNOWN, detail) if detail else Verdict(Cause.CHOSEN, "expected on cool")
    assert scenes.judged(plan)["web-0"].verdict == verdict


@pytest.mark.parametrize(
    ("age_seconds", "expected"),
    [
        (300, Verdict(Cause.CHOSEN, "expected on cool")),
        (299, Verdict(Cause.USAGE_UNKNOWN, "it has not run for a whole window yet")),
    ],
)
def test_a_pod_must_have_run_for_a_whole_window(age_seconds: float, expected: Verdict) -> None:
    started = {"startTime": clock.to_rfc3339(NOW - age_seconds)}
    plan = scenes.hot_and_cool(status=started).plan(scenes.policy(protect={"minPodAge": "0s"}))
    assert scenes.judged(plan)["web-0"].verdict == expected


def test_an_eviction_says_when_the_newest_pod_of_its_owner_was_made() -> None:
    def created(age_seconds: float) -> dict[str, object]:
        return {"creationTimestamp": clock.to_rfc3339(NOW - age_seconds)}

    fields: dict[str, Any] = {"owner": ("ReplicaSet", "web"), "labels": {"app": "web"}}
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot"], replicas=3, metadata=created(900))
    scene.pod("web-1", "cool", **fields, metadata=created(600)).pod("web-2", "cool", **fields, metadata=created(700))
    scene.pod("forged", "cool", **fields, namespace="other", metadata=created(100))
    scene.pod("bare", "hot", owner=None, metadata=created(800))
    plan = scene.plan(scenes.policy(limits=scenes.UNCAPPED, protect={"bare": False}))
    newest = {one.pod.name: one.newest_sibling_at_seconds for one in plan.evictions}
    assert newest == {"web-0": NOW - 600, "bare": NOW - 800}


def test_without_a_cool_node_nothing_is_evicted_and_the_plan_says_why() -> None:
    plan = Scene().node("hot", memory=0.9).node("warm", memory=0.7).workload("web", on=["hot", "warm"]).plan()
    assert plan.evictions == ()
    assert plan.blocked == "0 cool nodes, 1 needed (coolNodes)"
    assert plan.summary(verb="evicted") == f"0 evicted: 1 without a destination; blocked: {plan.blocked}"


@pytest.mark.parametrize(
    ("until", "blocked"),
    [
        pytest.param(0.5, "", id="the node of the pool is cool, too"),
        pytest.param(0.05, "1 cool nodes, 2 needed (coolNodes)", id="it is over the line of its pool"),
    ],
)
def test_without_an_overload_a_plan_says_whether_pods_could_leave_as_with_headroom(until: float, blocked: str) -> None:
    lines = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": until}}
    spot = {"name": "spot", "nodeSelector": {"matchLabels": {"pool": "spot"}}, "descheduler": {"thresholds": lines}}
    obeyed = LoadPolicy.of({"descheduler": {"coolNodes": 2}, "pools": [spot]})
    scene = Scene().node("a").node("b", labels={"pool": "spot"})
    idle = planner.plan(scene.snapshot(), (), NodePolicies(obeyed, scene.nodes.values()), History(), headroom=False)
    assert idle == EvictionPlan(NOW, blocked=blocked)
    thorough = planner.plan(scene.snapshot(), (), NodePolicies(obeyed, scene.nodes.values()), History())
    assert dataclasses.replace(thorough, headroom=NO_HEADROOM, unreplaced=None) == idle


CONTROL_PLANE = {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
POOL = {"taints": [{"key": "pool", "value": "gpu", "effect": "NoExecute"}]}
PRESSURE = {"taints": [{"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"}]}
NONE_COOL = "0 cool nodes, 1 needed (coolNodes)"
ADVICE = {"taints": [{"key": "full", "effect": "PreferNoSchedule"}]}


@pytest.mark.parametrize(
    ("hot", "cool", "blocked"),
    [
        pytest.param({}, CONTROL_PLANE, NONE_COOL, id="a control plane takes no pod"),
        pytest.param({}, ADVICE, "", id="a taint that is only advice"),
        pytest.param(POOL, POOL, "", id="of the same pool: what runs on the hot node tolerates it"),
        pytest.param(PRESSURE, PRESSURE, NONE_COOL, id="of a condition, later than the pods"),
        pytest.param(POOL, CONTROL_PLANE, NONE_COOL, id="of another pool"),
        pytest.param(CONTROL_PLANE, {}, "", id="an open node is open to all"),
    ],
)
def test_a_node_counts_as_cool_where_the_pods_in_question_could_go(
    hot: dict[str, object], cool: dict[str, object], blocked: str
) -> None:
    scene = Scene().node("hot", memory=0.9, spec=hot)
    scene.node("cool", spec=cool).workload("web", on=["hot", "hot", "hot"])
    assert scene.plan().blocked == blocked


def test_cool_nodes_are_the_open_ones_with_fresh_readings_at_or_under_every_line() -> None:
    scene = Scene().node("hot", memory=0.9).node("silent").node("stale").node("half-silent").node("warm", cpu=0.61)
    scene.node("cordoned", spec={"unschedulable": True}).node("control", spec=CONTROL_PLANE)
    scene.node("line", memory=0.6).node("cool")
    del scene.readings["silent"], scene.readings["half-silent"]["cpu_avg_5m"]
    taken, policies = scene.snapshot(), NodePolicies(scenes.policy(), scene.nodes.values())
    readings = {**taken.node_usage, "stale": taken.node_usage["stale"]._replace(at_seconds=NOW - 300)}
    taken = dataclasses.replace(taken, node_usage=readings)
    assert list(planner.cool_nodes(taken, policies, frozenset({"hot"}))) == ["line", "cool"]
    assert list(planner.cool_nodes(taken, policies, frozenset())) == ["control", "line", "cool"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        pytest.param(
            {"spec": {"unschedulable": True}}, "it is cordoned", id="a cordoned node is being drained by someone"
        ),
        pytest.param(
            {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
            "taint ToBeDeletedByClusterAutoscaler",
            id="the autoscaler is removing the node",
        ),
        pytest.param(
            {"metadata": {"deletionTimestamp": builders.CREATED}}, "it is being deleted", id="its object is going away"
        ),
    ],
)
def test_a_node_being_drained_is_left_alone_and_takes_nothing(fields: dict[str, Any], why: str) -> None:
    scene = Scene().node("hot", memory=0.9, **fields).node("cool")
    plan = scene.workload("web", on=["hot", "hot", "cool"]).plan()
    assert plan.evictions == ()
    assert plan.nodes[0].left_alone == why
    other = Scene().node("hot", memory=0.9).node("cool", **fields).workload("web", on=["hot", "hot", "cool"])
    detail = scenes.judged(other.plan(scenes.policy(coolNodes=0)))["web-0"].verdict.detail
    assert detail == "no other node takes it: 1 closed"


def test_a_pod_relieves_its_node_by_its_share_of_the_capacity_by_which_the_node_is_measured() -> None:
    scene = Scene().node("cool").workload("web", on=["hot", "hot", "cool"])
    scene.node("hot", memory=0.9, mutate=halve_allocatable)
    (eviction,) = scene.plan().evictions
    assert eviction.before_ratio - eviction.projected_ratio == pytest.approx(4 / 32)


def test_the_summary_counts_by_groups() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").budget("web", allowed=0)
    scene.workload("web", on=["hot", "hot", "cool"]).pod("bare", "hot", owner=None)
    scene.workload("large", on=["hot", "cool"], gib=20)
    plan = scene.plan()
    assert plan.summary(verb="evicted") == "0 evicted: 1 protected, 2 PDB, 1 without a destination"
    chosen = scenes.hot_and_cool().plan()
    assert [chosen.summary(), chosen.summary(count=0)] == ["1 to evict: 1 over a cap", "0 to evict: 1 over a cap"]


@pytest.mark.parametrize(
    ("evicted", "verb", "causes", "text"),
    [
        (2, "to evict", (Cause.CHOSEN, Cause.CHOSEN, Cause.NOT_NEEDED), "2 to evict"),
        (0, "to evict", (Cause.MIRROR, Cause.TOO_SMALL, Cause.BARE), "0 to evict: 2 protected, 1 too small to help"),
        (0, "would be evicted (observing)", (), "0 evicted"),
        (0, "evicted, 1 refused", (Cause.CHOSEN,), "0 evicted, 1 refused"),
    ],
)
def test_a_summary_says_how_many_leave_and_why_others_stay(
    evicted: int, verb: str, causes: tuple[Cause, ...], text: str
) -> None:
    assert verdicts.summary(evicted, causes, verb=verb) == text


def test_a_verdict_without_figures_is_its_cause() -> None:
    assert [str(Verdict(Cause.BARE, detail)) for detail in ("", "no owner")] == ["bare", "bare: no owner"]


def test_a_node_that_says_it_has_no_memory_is_left_alone() -> None:
    scene = Scene().node("odd", memory=0.9)
    scene.nodes["odd"] = builders.node("odd", memory="0")
    plan = scene.node("cool").workload("web", on=["odd", "odd", "cool"]).plan()
    assert plan.evictions == ()
    assert plan.nodes[0].left_alone == "its capacity is not known"
