"""Pools: nodes are relieved by the lines, limits and mode of their pool, and without pools a plan is as ever."""

import json
import pathlib
from collections.abc import Mapping

import pytest

from descheduler.ledger.rows import Query
from descheduler.planning import overload
from descheduler.planning.overload import Memory
from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot.eviction_history import History
from descheduler.snapshot.node_policies import NodePolicies
from descheduler.snapshot.usage import NodeUsage
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy
from tests import builders
from tests.unit.descheduler import ledger_files, scenes
from tests.unit.descheduler.scenes import NOW, UNCAPPED, Scene
from tests.unit.descheduler.worlds import World

SPOT = {"lifecycle": "spot"}
METRIC = "memory_avg_5m"


def pool(name: str = "spot", labels: Mapping[str, str] = SPOT, **descheduler: object) -> dict[str, object]:
    """A pool of the nodes with these labels."""
    return {"name": name, "nodeSelector": {"matchLabels": dict(labels)}, "descheduler": descheduler}


def band(above: float, until: float) -> dict[str, object]:
    """Lines of memory."""
    return {METRIC: {"evictAbove": above, "evictUntil": until}}


def policy(*pools: Mapping[str, object], **descheduler: object) -> LoadPolicy:
    """A policy with these pools; the filter is out of the way."""
    return LoadPolicy.of({"descheduler": descheduler, "pools": list(pools), "filter": {"thresholds": {}}})


def nodes(**labels: Mapping[str, str]) -> list[Node]:
    """Nodes with labels."""
    return [builders.node(name, labels=own) for name, own in labels.items()]


def two_hot(memory: float = 0.9, count: int = 3) -> Scene:
    """A spot node and another, equally hot, each with a pod of each of some workloads, and two cool ones."""
    scene = Scene().node("spot", memory=memory, labels=SPOT).node("plain", memory=memory)
    scene.node("cool-1").node("cool-2")
    for number in range(count):
        scene.workload(f"s{number}", on=["spot", "cool-1"], gib=2, memory="1Gi")
        scene.workload(f"p{number}", on=["plain", "cool-2"], gib=2, memory="1Gi")
    return scene


def leaving(plan: EvictionPlan) -> dict[str, int]:
    """How many pods leave which node."""
    found: dict[str, int] = {}
    for one in plan.evictions:
        found[one.overload.node] = found.get(one.overload.node, 0) + 1
    return found


def test_a_node_is_overloaded_by_the_line_of_its_pool() -> None:
    policies = NodePolicies(policy(pool(thresholds=band(0.95, 0.7))), nodes(spot=SPOT, plain={}))

    def usages(ratio: float, at_seconds: float) -> dict[str, NodeUsage]:
        return {name: NodeUsage(name, {METRIC: ratio}, at_seconds) for name in ("spot", "plain")}

    memory = Memory()
    for at_seconds in (NOW, NOW + 180):
        memory = overload.observe(memory, usages(0.9, at_seconds), policies, now_seconds=at_seconds)
    found = overload.confirmed(memory, usages(0.9, NOW + 180), policies, now_seconds=NOW + 180)
    assert [(one.node, one.evict_above_ratio, one.evict_until_ratio) for one in found] == [("plain", 0.8, 0.6)]
    assert overload.over_a_line(usages(0.9, NOW), policies)
    assert not overload.over_a_line({"spot": NodeUsage("spot", {METRIC: 0.9}, NOW)}, policies)
    for at_seconds in (NOW + 200, NOW + 380):
        memory = overload.observe(memory, usages(0.96, at_seconds), policies, now_seconds=at_seconds)
    found = overload.confirmed(memory, usages(0.96, NOW + 380), policies, now_seconds=NOW + 380)
    assert {one.node: one.evict_above_ratio for one in found} == {"spot": 0.95, "plain": 0.8}


def test_a_pool_with_a_lower_line_is_found_though_the_policys_is_not_crossed() -> None:
    policies = NodePolicies(policy(pool(thresholds=band(0.5, 0.4))), nodes(spot=SPOT, plain={}))
    usages = {name: NodeUsage(name, {METRIC: 0.6}, NOW) for name in ("spot", "plain")}
    memory = overload.observe(Memory(), usages, policies, now_seconds=NOW)
    assert set(memory.streaks) == {("spot", METRIC)}


def test_relief_of_a_pools_node_goes_down_to_its_own_target() -> None:
    plan = two_hot(count=4).plan(policy(pool(thresholds=band(0.85, 0.8)), limits=UNCAPPED))
    assert leaving(plan) == {"plain": 4, "spot": 2}, "2 GiB of 32 are 0.06: from 0.9 to 0.65, and to 0.78"
    by_node = {one.node.name: one for one in plan.nodes}
    assert (by_node["spot"].pool, by_node["plain"].pool) == ("spot", "")
    assert {one.pool for one in plan.evictions if one.overload.node == "spot"} == {"spot"}


@pytest.mark.parametrize(
    ("until", "detail"),
    [
        pytest.param(0.3, "expected on cool", id="room under its own line"),
        pytest.param(0.1, "no other node takes it: 1 over evictUntil with it", id="a destination stays under its own"),
    ],
)
def test_a_destination_is_judged_by_the_target_of_its_pool(until: float, detail: str) -> None:
    scene = Scene().node("hot", memory=0.9).node("cool", memory=0.1, labels=SPOT)
    scene.workload("web", on=["hot", "cool"], gib=4)
    plan = scene.plan(policy(pool(thresholds=band(0.8, until)), coolNodes=0))
    assert scenes.judged(plan)["web-0"].verdict.detail == detail


def test_a_node_is_cool_by_the_target_of_its_pool() -> None:
    scene = Scene().node("hot", memory=0.9).node("warm", memory=0.3, labels=SPOT).workload("web", on=["hot", "warm"])
    assert scene.plan(policy()).blocked == ""
    assert scene.plan(policy(pool(thresholds=band(0.8, 0.2)))).blocked == "0 cool nodes, 1 needed (coolNodes)"


SPENT = "4 of 4 an hour in pool spot"


@pytest.mark.parametrize(
    ("limits", "hour", "chosen", "detail"),
    [
        pytest.param({"perRun": 1}, {}, {"spot": 1, "plain": 3}, "1 of 1 a run in pool spot", id="per run"),
        pytest.param({"perNode": 2}, {}, {"spot": 2, "plain": 3}, "2 of 2 a run and node", id="per node"),
        pytest.param(
            {"perHour": 4}, {"spot": 2, "plain": 7}, {"spot": 2, "plain": 3}, SPENT, id="per hour, of it alone"
        ),
        pytest.param({"perHour": 4}, {"gone": 3}, {"spot": 1, "plain": 3}, SPENT, id="a node that has gone may count"),
        pytest.param({"perHour": 4}, {"spot": 4}, {"plain": 3}, SPENT, id="the pool's hour is spent"),
    ],
)
def test_a_limit_of_a_pool_holds_on_its_nodes_only(
    limits: dict[str, object], hour: dict[str, int], chosen: dict[str, int], detail: str
) -> None:
    history = History(in_last_hour=sum(hour.values()), last_hour_by_node=hour)
    plan = two_hot().plan(policy(pool(limits=limits), limits=UNCAPPED), history)
    assert leaving(plan) == chosen
    stayed = [one for node in plan.nodes for one in node.candidates if one.verdict.cause.endswith("_cap")]
    assert {one.verdict.detail for one in stayed} == {detail}
    assert {one.pod.node_name for one in stayed} == {"spot"}


def test_a_pool_may_take_more_from_one_node_than_the_policy() -> None:
    plan = two_hot().plan(policy(pool(limits={"perNode": 3}), limits={**UNCAPPED, "perNode": 1}))
    assert leaving(plan) == {"spot": 3, "plain": 1}


@pytest.mark.parametrize("memory", [0.5, 0.85, 0.99])
def test_pools_that_match_no_node_change_no_plan(memory: float) -> None:
    nowhere = pool("nowhere", {"none": "such"}, mode="Enforce", thresholds=band(0.2, 0.1), limits={"perRun": 1})
    scene = two_hot(memory, count=5)
    history = History(in_last_hour=2, last_hour_by_node={"spot": 1, "gone": 1})
    for options in ({}, {"limits": UNCAPPED}):
        assert scene.plan(policy(nowhere, **options), history) == scene.plan(policy(**options), history)


# modes


def world(tmp_path: pathlib.Path, *pools: Mapping[str, object], **descheduler: object) -> World:
    """A descheduler over two hot nodes, one of them of the pool."""
    return World(two_hot(count=1), tmp_path, pools=list(pools), **descheduler)


def test_a_pool_that_enforces_is_relieved_while_the_others_are_observed(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, pool(mode="Enforce"))
    report = here.report()
    assert [name for name, _, _ in here.door.evictions] == ["default/s0-0"]
    assert {row.pod: (row.mode, row.result) for row in here.ledger.rows(Query())} == {
        "s0-0": ("Enforce", "evicted"),
        "p0-0": ("Observe", "observed"),
    }
    assert report.summary == "1 evicted; Observe elsewhere: 1 would be evicted (observing)"
    assert here.metric("evenload_overloaded_nodes") == 2
    evicted = {"result": "evicted", "metric": METRIC}
    assert here.metric("evenload_evictions_total", mode="Enforce", **evicted) == 1
    assert here.metric("evenload_evictions_total", mode="Observe", result="observed", metric=METRIC) == 1
    assert here.metric("evenload_eviction_candidates", verdict="chosen") == 2


def test_a_pool_that_observes_is_planned_and_not_relieved_while_the_others_are(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, pool(mode="Observe"), mode="Enforce")
    report = here.report()
    assert [name for name, _, _ in here.door.evictions] == ["default/p0-0"]
    assert [name for name, _ in here.door.patches] == ["plain"], "a relief hint only where pods leave"
    assert [(one.run.mode, scenes.evicted(one.plan)) for one in report.parts] == [
        ("Enforce", ["p0-0"]),
        ("Observe", ["s0-0"]),
    ]
    notes = {
        body["regarding"]["name"]: body["note"] for body in here.door.created if body["regarding"]["kind"] == "Pod"
    }
    assert notes["s0-0"].startswith("OBSERVE ONLY: memory_avg_5m 0.90 > 0.80 on spot of pool spot, until 0.60")
    assert notes["p0-0"].startswith("memory_avg_5m 0.90 > 0.80 on plain, until 0.60")


def test_each_mode_has_its_own_run_in_the_ledger_and_its_own_past(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, pool(mode="Observe"), mode="Enforce", limits={"perHour": 1}, cooldown={"node": "0s"})
    report = here.report()
    assert {one.run.run for one in report.parts} == {row.run for row in here.ledger.rows(Query())}
    assert ledger_files.last_summary(tmp_path / "ledger.sqlite") == "1 would be evicted (observing)"
    here.clock.advance(1)
    again = here.report()
    verdicts = {
        one.pod.name: one.verdict.cause for part in again.parts for node in part.plan.nodes for one in node.candidates
    }
    assert verdicts == {"p0-0": "hour_cap", "s0-0": "hour_cap"}, "one an hour in each mode"


def test_an_overloaded_node_of_another_mode_takes_no_pods(tmp_path: pathlib.Path) -> None:
    scene = Scene().node("spot", memory=0.9, labels=SPOT).node("plain", memory=0.9)
    scene.workload("web", on=["spot", "plain"], gib=1, memory="1Gi")
    here = World(scene, tmp_path, pools=[pool(mode="Observe")], mode="Enforce", coolNodes=0)
    details = [scenes.judged(part.plan) for part in here.report().parts]
    assert [{one.verdict.detail for one in pods.values()} for pods in details] == [
        {"no other node takes it: 1 overloaded"},
        {"no other node takes it: 1 overloaded"},
    ]


def test_outside_its_windows_no_pool_enforces(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, pool(mode="Enforce"), windows=[{"from": "20:00", "to": "22:00"}])  # NOW is 04:00
    report = here.report()
    assert (report.run.mode, report.others, here.door.evictions) == ("Observe", (), [])
    assert report.summary == "2 would be evicted (observing)"
    assert "windows" in report.why


def test_a_pools_mode_that_changes_ends_the_run_before_its_next_eviction(tmp_path: pathlib.Path) -> None:
    scene = two_hot(count=2)
    here = World(scene, tmp_path, pools=[pool(mode="Enforce", limits={"perNode": 2})])

    def paused() -> None:
        text = (tmp_path / "policy.yaml").read_text().replace("mode: Enforce", "mode: Observe")
        (tmp_path / "policy.yaml").write_text(text)
        here.reload()

    here.door.before_evict = paused
    here.report()
    assert len(here.door.evictions) == 1


def test_the_page_of_the_plan_names_pools_and_modes(tmp_path: pathlib.Path) -> None:
    page = world(tmp_path, pool(mode="Enforce")).pages().test_client().get("/plan").get_json()
    assert page["mode"] == "Enforce"
    assert page["pools"] == [
        {"pool": "spot", "mode": "Enforce", "mode_reason": ""},
        {"pool": None, "mode": "Observe", "mode_reason": ""},
    ]
    assert [(one["node"], one["pool"], one["mode"]) for one in page["nodes"]] == [
        ("spot", "spot", "Enforce"),
        ("plain", None, "Observe"),
    ]
    assert [(one["pod"], one["pool"], one["mode"]) for one in page["evictions"]] == [
        ("s0-0", "spot", "Enforce"),
        ("p0-0", None, "Observe"),
    ]
    plain = world(tmp_path, mode="Enforce").pages().test_client().get("/plan").get_json()
    assert plain["pools"] == []


def test_an_event_of_an_eviction_from_a_pool_has_its_name_in_the_decision(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, pool(mode="Enforce"))
    here.report()
    decisions = {
        body["regarding"]["name"]: json.loads(body["metadata"]["annotations"]["evenload.io/decision"])
        for body in here.door.created
        if body["regarding"]["kind"] == "Pod"
    }
    assert (decisions["s0-0"]["pool"], decisions["s0-0"]["mode"]) == ("spot", "Enforce")
    assert ("pool" in decisions["p0-0"], decisions["p0-0"]["mode"]) == (False, "Observe")
