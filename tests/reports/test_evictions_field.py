"""Evictions from public reports: pods that come back, nodes that go, and loads that are already leaving."""

import dataclasses
import json
import pathlib

import pytest
from prometheus_client import CollectorRegistry

from descheduler.eviction.api_results import EvictionResult
from descheduler.eviction.evictor import EvictionOutcome
from descheduler.metrics import Telemetry
from descheduler.planning import overload, planner
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from descheduler.snapshot.workloads import Workload
from extender.verbs import verbs
from policy.contract import relief_hint
from policy.loading import loader
from policy.schema import lint, problems
from policy.schema.load_policy import LoadPolicy
from tests import builders, pages
from tests.reports.register import Before, behaviour, reported, situation
from tests.reports.test_evictions import spec
from tests.unit.descheduler import scenes, test_surges
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.worlds import two_to_evict
from tests.unit.extender import worlds

RELAXED = scenes.policy(protect={"minReadyRatio": 0}, coolNodes=0)
COST = "scheduling.koordinator.sh/eviction-cost"
EVICT = "descheduler.alpha.kubernetes.io/evict"
IN_PROGRESS = "descheduler.alpha.kubernetes.io/eviction-in-progress"


def tainted(key: str, effect: str) -> builders.Mutator:
    return spec(taints=[{"key": key, "effect": effect}])


@reported("evictions", "kubernetes-sigs/descheduler#335", before=Before.RIGHT)
@situation("the only cool node has a replica that the pod must avoid")
@behaviour("another pod goes")
def test_a_pod_that_could_only_come_back_stays() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "alone"}}}
    apart = spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    scene = scenes.hot_and_cool().workload("alone", on=["hot", "cool"], mutate=apart)
    plan = scene.plan(RELAXED)
    assert scenes.causes(plan)["alone-0"] == "no_destination"
    assert all(name.startswith("web") for name in scenes.evicted(plan))


@reported("evictions", "kubernetes-sigs/descheduler#1695", before=Before.RIGHT)
@situation("a pod is so large that it overloads whichever node it is on")
@behaviour("it stays: no node is a destination")
def test_a_pod_that_overloads_every_node_is_not_passed_around() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").node("free").workload("large", on=["hot", "cool"], gib=26.0)
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "koordinator-sh/koordinator#1721", before=Before.RIGHT)
@situation("the agent of a node is gone, and its last reading was high")
@behaviour("an old reading evicts no pod")
def test_the_last_high_reading_of_a_silent_node_evicts_nothing() -> None:
    taken = scenes.hot_and_cool().snapshot()
    assert scenes.evicted(scenes.hot_and_cool().plan(RELAXED))
    old = {name: NodeUsage(name, one.ratios, NOW - 3600) for name, one in taken.node_usage.items()}
    memory = overload.Memory(relieving={("hot", "memory_avg_5m"): NOW})
    over = [
        overload.confirmed(memory, usages, NodePolicies(RELAXED, taken.nodes), now_seconds=NOW)
        for usages in (taken.node_usage, old)
    ]
    assert ([one.node for one in over[0]], over[1]) == (["hot"], ())


@reported("evictions", "kubevirt/community#258", before=Before.WRONG)
@situation("a virtual machine's accepted eviction goes on in the background, its load is still there")
@behaviour("its load counts as leaving")
def test_a_migration_that_goes_on_is_relief_already() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "hot", "cool"], gib=4.0)
    scene.workload("machine", on=["hot", "cool"], gib=12.0, annotations={IN_PROGRESS: ""})
    new = tuple(dataclasses.replace(each, since_seconds=NOW - 180) for each in scene.overloads(RELAXED))
    assert (
        scenes.evicted(planner.plan(scene.snapshot(), new, NodePolicies(RELAXED, scene.nodes.values()), History()))
        == []
    )
    hour_old = tuple(dataclasses.replace(each, since_seconds=NOW - 3600) for each in scene.overloads(RELAXED))
    hangs = planner.plan(scene.snapshot(), hour_old, NodePolicies(RELAXED, scene.nodes.values()), History())
    assert scenes.evicted(hangs) == ["web-0"], "the annotation has no time: a migration that hangs must not hide load"


@reported("evictions", "openshift/cluster-kube-descheduler-operator#614", before=Before.RIGHT)
@situation('the owner writes `descheduler.alpha.kubernetes.io/evict: "false"` to keep a pod')
@behaviour("the value counts: it stays")
@pytest.mark.parametrize("key", [EVICT, "evenload.io/evictable"])
def test_an_annotation_that_says_false_is_no_permission(key: str) -> None:
    scene = scenes.hot_and_cool(annotations={key: "false"})
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "kubernetes-sigs/karpenter#651", "kubernetes-sigs/karpenter#624", before=Before.RIGHT)
@situation("a cool node is about to be consolidated away, and the pod tolerates every taint")
@behaviour("no destination, whatever the effect of the taint")
@pytest.mark.parametrize("effect", ["NoSchedule", "PreferNoSchedule", "NoExecute"])
@pytest.mark.parametrize("key", ["karpenter.sh/disrupted", "karpenter.sh/disruption"])
def test_a_node_that_is_consolidated_is_no_destination(key: str, effect: str) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool", mutate=tainted(key, effect))
    scene.workload("web", on=["hot", "cool"], mutate=spec(tolerations=[{"operator": "Exists"}]))
    assert set(scenes.causes(scene.plan(RELAXED)).values()) == {"no_destination"}


@reported("evictions", "kubernetes-sigs/karpenter#3194", "kubernetes-sigs/karpenter#3259", before=Before.WRONG)
@situation("Karpenter is about to reboot a hot node, or a cool one")
@behaviour("the hot one is left alone, the cool one no destination, although the pod tolerates every taint")
def test_a_node_that_is_rebooted_is_neither_relieved_nor_filled() -> None:
    rebooting = tainted("karpenter.sh/rebooting", "NoSchedule")
    tolerant = spec(tolerations=[{"operator": "Exists"}])
    hot = Scene().node("hot", memory=0.9, mutate=rebooting).node("cool").workload("web", on=["hot", "cool"])
    assert hot.plan(RELAXED).nodes[0].left_alone == "taint karpenter.sh/rebooting"
    cool = Scene().node("hot", memory=0.9).node("cool", mutate=rebooting)
    cool.workload("web", on=["hot", "cool"], mutate=tolerant)
    assert set(scenes.causes(cool.plan(RELAXED)).values()) == {"no_destination"}


@reported("evictions", "kubernetes-sigs/cluster-api#7043", "kubereboot/kured#19", before=Before.WRONG)
@situation("the coolest node is about to be replaced, as its taint PreferNoSchedule says")
@behaviour("kube-scheduler prefers others, and so does the plan; without another that takes the pod it is chosen")
@pytest.mark.parametrize(("new", "expected"), [(0.3, "new"), (0.59, "old")], ids=["room elsewhere", "none"])
def test_a_node_that_will_be_replaced_is_the_last_destination(new: float, expected: str) -> None:
    taint = {"key": "node.cluster.x-k8s.io/outdated-revision", "effect": "PreferNoSchedule"}
    made = Scene().node("hot", memory=0.9).node("old", mutate=lambda body: body["spec"].update(taints=[taint]))
    plan = made.node("new", memory=new).workload("web", on=["hot", "hot", "new"]).plan()
    assert [one.destination for one in plan.evictions] == [expected]


@reported("evictions", "kubernetes-sigs/karpenter#1167", before=Before.WRONG)
@situation('a pod carries karpenter.sh/do-not-disrupt: "true", a duration of a decade or more, or another text')
@behaviour("it stays: what cannot be read protects")
@pytest.mark.parametrize("value", ["true", "True", "100000h", "forever"])
def test_a_pod_that_must_not_be_disrupted_stays(value: str) -> None:
    scene = scenes.hot_and_cool(annotations={"karpenter.sh/do-not-disrupt": value})
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "kubernetes-sigs/cluster-proportional-autoscaler#58", before=Before.RIGHT)
@situation("a virtual kubelet offers thousands of cores and has no exporter")
@behaviour("no destination: it has no reading")
def test_a_virtual_node_without_a_reading_is_no_destination() -> None:
    scene = Scene().node("hot", memory=0.9)
    scene.nodes["virtual"] = builders.node("virtual", cpu="5000", memory="20Ti")
    scene.workload("web", on=["hot", "hot"], replicas=3, ready=3)
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "kubernetes-sigs/descheduler#886", "kubernetes-sigs/descheduler#524", before=Before.RIGHT)
@situation("pods are bound by selector to nodes that are all full")
@behaviour("they stay, however idle the other groups are")
def test_an_idle_node_of_another_group_is_no_destination() -> None:
    scene = Scene().node("hot", memory=0.9, labels={"group": "a"}).node("full", memory=0.69, labels={"group": "a"})
    scene.node("idle", labels={"group": "b"})
    scene.workload("web", on=["hot", "full"], mutate=spec(nodeSelector={"group": "a"}))
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "kubernetes-sigs/descheduler#566", before=Before.RIGHT)
@situation("a zone of tainted nodes counts as empty for topology spread")
@behaviour("domains count as with kube-scheduler: the pod stays")
def test_an_empty_tainted_zone_moves_no_pod() -> None:
    zone = "topology.kubernetes.io/zone"
    rule = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    scene = Scene().node("hot", memory=0.9, labels={zone: "a"}).node("cool", labels={zone: "a"})
    scene.node("closed", labels={zone: "b"}, mutate=tainted("dedicated", "NoSchedule"))
    scene.workload("web", on=["hot", "cool"], mutate=spec(topologySpreadConstraints=[rule]))
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "volcano-sh/volcano#5313", "koordinator-sh/koordinator#1327", before=Before.RIGHT)
@situation("a node looks idle: no window shows the large pods bound to it seconds ago")
@behaviour("their expected load counts: it is no destination")
def test_a_node_whose_load_is_still_to_come_is_no_destination() -> None:
    def just_bound(body: builders.Body) -> None:
        body["status"]["conditions"] = [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": builders.clock_text(NOW - 5)}
        ]

    scene = Scene().node("hot", memory=0.9).node("cool").workload("web", on=["hot", "hot", "hot"], gib=4.0)
    assert scenes.evicted(scene.plan(RELAXED))
    scene.workload("burst", on=["cool"] * 4, cpu="500m", memory="8Gi", mutate=just_bound)
    assert scenes.evicted(scene.plan(RELAXED)) == []


@reported("evictions", "koordinator-sh/koordinator#1975", before=Before.RIGHT)
@situation("one pod would bring the node under its target, many small ones are beside it")
@behaviour("one goes, not several")
def test_one_pod_that_suffices_goes_alone() -> None:
    scene = Scene().node("hot", memory=0.85).node("cool").node("free")
    scene.workload("small", on=["hot"] * 6 + ["cool"], gib=0.5).workload("fitting", on=["hot", "free"], gib=6.0)
    assert scenes.evicted(scene.plan(RELAXED)) == ["fitting-0"]


@reported("evictions", "kubernetes-sigs/descheduler#1026", "kubernetes-sigs/descheduler#616", before=Before.WRONG)
@situation("the scheduler fills nodes up to, or beyond, the descheduler's line")
@behaviour("`policy validate` and the log name both lines; a filter that stops under it is not doubted")
@pytest.mark.parametrize(("limit_ratio", "doubted"), [(0.85, True), (0.8, True), (0.65, False)])
def test_a_filter_that_stops_above_the_line_of_evictions_is_named(limit_ratio: float, doubted: bool) -> None:
    bands = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}
    policy = LoadPolicy.of(
        {
            "filter": {"thresholds": {"memory_avg_5m": limit_ratio}},
            "descheduler": {"mode": "Enforce", "thresholds": bands},
        }
    )
    found = [problems.path_text(one.path) for one in lint.doubts(policy)]
    assert found == ["filter.thresholds.memory_avg_5m"] * doubted


@reported("evictions", "koordinator-sh/koordinator#987", before=Before.RIGHT)
@situation("the load of a node rises for less than two minutes, and a run falls into the rise")
@behaviour("nothing is evicted: `overloadedFor` takes readings without one under the line between")
def test_a_spike_that_is_over_evicts_nothing() -> None:
    policy = scenes.policy(
        thresholds={"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}, overloadedFor="3m", interval="2m"
    )
    memory = overload.Memory()
    found: list[overload.Overload] = []
    for at_seconds, ratio in ((0, 0.95), (120, 0.9), (240, 0.7), (360, 0.85), (480, 0.85)):
        readings = {"n": NodeUsage("n", {"cpu_avg_5m": ratio}, NOW + at_seconds)}
        now = {"now_seconds": NOW + at_seconds}
        memory = overload.observe(memory, readings, NodePolicies(policy), **now)
        found += overload.confirmed(memory, readings, NodePolicies(policy), **now)
    assert found == []


@reported("evictions", "kubernetes-sigs/descheduler#994", before=Before.RIGHT)
@situation("the node that a pod was evicted from has the best score for it, or all others are hotter")
@behaviour("it refuses pods of that workload, and no others, until the hint ends or it is cool")
def test_the_relieved_node_refuses_the_replacement_also_where_others_are_hotter() -> None:
    hint = relief_hint.encode(relief_hint.Relief({"uid-web": NOW + 600}))
    world = worlds.view_of({"hotter": {**worlds.IDLE, "memory_avg_5m": 0.95}})
    world.nodes.node_changed(None, worlds.node("relieved", {**worlds.IDLE, "memory_avg_5m": 0.75}, relief=hint))

    def passing(owner: str) -> list[str]:
        args = worlds.args(["relieved", "hotter"], owner=("ReplicaSet", owner))
        names: list[str] = json.loads(verbs.answer("filter", world, args, NOW).body)["NodeNames"]
        return names

    assert passing("web") == ["hotter"]
    assert passing("other") == ["relieved"]


@reported("evictions", "koordinator-sh/koordinator#938", "kubernetes-sigs/descheduler#1250", before=Before.WRONG)
@situation("pods of a workload have Koordinator's eviction costs")
@behaviour("the lower one goes first, the greatest stays")
def test_an_eviction_cost_is_heeded() -> None:
    scene = Scene().node("hot", memory=0.9).node("cool").workload("paid", on=["cool", "cool"], replicas=5)
    for name, gib, cost in (("never", 9, "2147483647"), ("dear", 10, "5"), ("cheap", 12, "-1")):
        scene.pod(name, "hot", gib=gib, owner=("ReplicaSet", "paid"), labels={"app": "paid"}, annotations={COST: cost})
    plan = scene.plan(RELAXED)
    assert scenes.evicted(plan) == ["cheap"]
    assert scenes.causes(plan)["never"] == "eviction_cost"


@reported("evictions", "kubernetes-sigs/descheduler#1537", "kubernetes-sigs/descheduler#1633", before=Before.WRONG)
@situation("evicted pods are to end sooner, or later, than their own grace periods say")
@behaviour("`gracePeriod` is theirs; without it their own")
@pytest.mark.parametrize("period", [None, "45s"])
def test_the_grace_period_of_the_policy_is_asked_for(tmp_path: pathlib.Path, period: str | None) -> None:
    here = two_to_evict(tmp_path, gracePeriod=period)
    here.report()
    assert here.door.grace_periods_seconds == [None if period is None else 45.0] * 2


@reported("evictions", "kubernetes-sigs/descheduler#1262", "kubernetes-sigs/descheduler#919", before=Before.WRONG)
@situation("a workload is evicted again and again")
@behaviour("a metric names it, one of the first 500 of a process; the others count as one")
def test_evictions_are_counted_by_workload_within_a_bound() -> None:
    (eviction,) = scenes.crowd("a", gib=4.0).plan().evictions
    registry = CollectorRegistry()
    telemetry = Telemetry(registry)

    def counted(name: str, result: str = "evicted") -> float | None:
        of_workload = dataclasses.replace(eviction, workload=Workload("Deployment", "default", name, name, 2, 2))
        telemetry.carried_out([EvictionOutcome(of_workload, EvictionResult(result, 201, ""))], "Enforce")
        labels = {"workload_namespace": "default", "kind": "Deployment", "workload": name}
        return registry.get_sample_value("evenload_descheduler_workload_evictions_total", labels)

    assert [counted(f"web-{number}") for number in range(501)] == [1.0] * 500 + [None]
    assert (counted("web-0"), counted("web-501"), counted("web-1", "refused")) == (2.0, None, 1.0)
    other = dict.fromkeys(("workload_namespace", "kind", "workload"), "other")
    assert registry.get_sample_value("evenload_descheduler_workload_evictions_total", other) == 2.0


@reported("evictions", "openshift/enhancements#1760", before=Before.WRONG)
@situation("pods of one node wait for the CPU at 60 % of it, those of another use all of it and wait for nothing")
@behaviour("by the preset `pressure` the first is relieved, the second is not, nor does it get the pod")
def test_pods_that_wait_are_relieved_and_busy_ones_that_do_not_are_left_alone() -> None:
    preset = loader.load((pages.ROOT / "deploy" / "policies" / "pressure.yaml").read_text("utf-8"), "pressure")
    scene = Scene().node("waits", cpu=0.6).node("busy", cpu=0.99).node("cool")
    for name, pressure in (("waits", 0.5), ("busy", 0.01), ("cool", 0.0)):
        scene.reading(name, cpu_pressure_5m=pressure, memory_pressure_5m=0.0).workload(name, on=[name, "cool"])
        key = f"default/{name}-0"
        scene.used[key] = dataclasses.replace(scene.used[key], shares={"cpu-pressure": 0.15})
    (eviction,) = scene.plan(preset).evictions
    assert (eviction.pod.name, eviction.destination) == ("waits-0", "cool")
    assert {one.node for one in scene.overloads(scenes.policy())} == {"busy"}


@reported(
    "evictions",
    "kubernetes-sigs/descheduler#1841",
    "kubernetes-sigs/descheduler#1558",
    "kubernetes/enhancements#6245",
    "kubernetes/kubernetes#66811",
    before=Before.WRONG,
)
@situation("a node is hot, and the only replica of a Deployment has to leave it")
@behaviour("the Deployment gets another pod first, if it opts in; the old one is evicted once that is Ready elsewhere")
def test_the_only_replica_gets_another_one_before_it_is_evicted(tmp_path: pathlib.Path) -> None:
    here = test_surges.world(tmp_path)
    here.report()
    assert (here.door.scaled, here.door.evictions) == ([("web", 2, False)], [])


@reported("evictions", "kubernetes-sigs/karpenter#3013", "kubernetes/enhancements#4213", before=Before.WRONG)
@situation("the strategy of a Deployment of one replica is Recreate")
@behaviour("it stays, and the verdict says that the strategy is why it gets no other pod first")
def test_a_deployment_whose_pods_must_not_overlap_gets_no_other_pod_first(tmp_path: pathlib.Path) -> None:
    here = test_surges.world(tmp_path)
    here.door.objects["deployments"] = (test_surges.deployment(strategy={"type": "Recreate"}),)
    assert test_surges.why(here).endswith("no surge: its strategy is Recreate")
    here.report()
    assert here.door.scaled == []
