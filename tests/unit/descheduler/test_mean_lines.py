"""Lines that follow the mean: a node far above the others is overloaded though it is under every fixed line."""

import collections.abc
import pathlib
from typing import Any

import pytest

from descheduler.ledger.rows import Query
from descheduler.planning import mean_lines
from descheduler.snapshot.usage import NodeUsage
from kube.objects import Node
from policy.schema.load_policy import LoadPolicy
from tests import builders
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.worlds import World

METRIC = "memory_avg_5m"
SPOT = {"lifecycle": "spot"}


def band(**over_mean: float) -> dict[str, object]:
    """The default lines of memory and lines that follow the mean."""
    over = {"evictAbove": 0.25, "evictUntil": 0.1, **over_mean}
    return {METRIC: {"evictAbove": 0.8, "evictUntil": 0.6, "overMean": over}}


def policy(*pools: collections.abc.Mapping[str, object], **over_mean: float) -> LoadPolicy:
    """A policy with lines that follow the mean, and pools."""
    return LoadPolicy.of({"descheduler": {"thresholds": band(**over_mean)}, "pools": list(pools)})


def lines(obeyed: LoadPolicy, *nodes: tuple[Node, float | None], age_seconds: float = 0.0) -> list[Any]:
    """The lines of nodes with these readings, None for a node without one, as (pool, nodes, mean, above, until)."""
    usages = {
        node.name: NodeUsage(node.name, {METRIC: ratio}, NOW - age_seconds)
        for node, ratio in nodes
        if ratio is not None
    }
    found = mean_lines.lines(obeyed, [node for node, _ in nodes], usages, now_seconds=NOW)
    assert {line.metric for line in found} <= {METRIC}
    rounded = [[round(ratio, 6) for ratio in line[3:]] for line in found]
    return [(line.pool, line.nodes, *ratios) for line, ratios in zip(found, rounded, strict=True)]


def nodes(*ratios: float | None, **fields: Any) -> list[tuple[Node, float | None]]:
    """Nodes with these readings."""
    return [(builders.node(f"n{number}", **fields), ratio) for number, ratio in enumerate(ratios)]


@pytest.mark.parametrize(
    ("ratios", "mean", "above", "until"),
    [
        pytest.param((0.1, 0.2, 0.6), 0.3, 0.55, 0.4, id="points above the mean"),
        pytest.param((0.05, 0.05, 0.2), 0.1, 0.4, 0.2, id="the floor"),
        pytest.param((0.5, 0.7, 0.9), 0.7, 0.8, 0.6, id="the fixed lines are lower"),
        pytest.param((0.5, 0.5, 0.59), 0.53, 0.78, 0.6, id="the fixed target is lower"),
    ],
)
def test_the_lower_of_the_fixed_line_and_the_one_above_the_mean_holds(
    ratios: tuple[float, ...], mean: float, above: float, until: float
) -> None:
    assert lines(policy(), *nodes(*ratios)) == [("", 3, mean, pytest.approx(above), pytest.approx(until))]


@pytest.mark.parametrize(
    ("ratios", "age_seconds"),
    [
        pytest.param((0.1, None, None, 0.6, None), 0.0, id="fewer than half can be read"),
        pytest.param((0.6,), 0.0, id="a single node is its own mean"),
        pytest.param((0.1, 0.2, 0.6), 3600.0, id="stale readings"),
        pytest.param((float("nan"), -1.0, 0.6), 0.0, id="values that are none"),
        pytest.param((), 0.0, id="no node"),
    ],
)
def test_where_the_mean_is_not_known_the_fixed_lines_hold(ratios: tuple[float | None, ...], age_seconds: float) -> None:
    obeyed = policy()
    assert lines(obeyed, *nodes(*ratios), age_seconds=age_seconds) == []
    assert mean_lines.in_run(obeyed, ()) is obeyed


def test_half_of_the_nodes_are_enough() -> None:
    assert lines(policy(), *nodes(0.1, 0.5, None, None)) == [("", 2, 0.3, 0.55, 0.4)]


def test_nodes_that_take_no_pods_do_not_count() -> None:
    cordoned = builders.node("cordoned", spec={"unschedulable": True})
    broken = builders.node("broken", mutate=lambda body: body["status"]["conditions"][0].update(status="False"))
    assert lines(policy(), *nodes(0.2, 0.4), (cordoned, 0.0), (broken, 0.0)) == [("", 2, 0.3, 0.55, 0.4)]


def test_each_pool_has_the_mean_of_its_own_nodes() -> None:
    spot = {"name": "spot", "nodeSelector": {"matchLabels": SPOT}}
    hot = [(builders.node(f"spot{number}", labels=SPOT), 0.5) for number in range(2)]
    found = lines(policy(spot), *nodes(0.1, 0.1), *hot)
    assert found == [("", 2, 0.1, 0.4, 0.2), ("spot", 2, 0.5, pytest.approx(0.75), pytest.approx(0.6))]


def test_a_pool_may_have_lines_that_follow_the_mean_where_the_policy_has_none() -> None:
    spot = {"name": "spot", "nodeSelector": {"matchLabels": SPOT}, "descheduler": {"thresholds": band()}}
    obeyed = LoadPolicy.of({"pools": [spot]})
    usages = {name: NodeUsage(name, {METRIC: 0.3}, NOW) for name in ("a", "b", "c")}
    every = [builders.node("a", labels=SPOT), builders.node("b", labels=SPOT), builders.node("c")]
    found = mean_lines.lines(obeyed, every, usages, now_seconds=NOW)
    assert [line.pool for line in found] == ["spot"]
    run = mean_lines.in_run(obeyed, found)
    bands = {name: run.on_node(labels).descheduler.thresholds[METRIC] for name, labels in (("a", SPOT), ("c", {}))}
    assert {name: round(held.evict_above_ratio, 6) for name, held in bands.items()} == {"a": 0.55, "c": 0.8}
    assert run.on_node(SPOT).descheduler.thresholds["cpu_avg_5m"].evict_above_ratio == 0.8


def test_other_metrics_and_sections_stay_as_they_are() -> None:
    obeyed = policy()
    usages = {name: NodeUsage(name, {METRIC: 0.2}, NOW) for name in ("n0", "n1")}
    found = mean_lines.lines(obeyed, [node for node, _ in nodes(0.1, 0.2)], usages, now_seconds=NOW)
    run = mean_lines.in_run(obeyed, found)
    held = run.descheduler.thresholds[METRIC]
    assert (held.evict_above_ratio, held.evict_until_ratio) == pytest.approx((0.45, 0.3))
    assert obeyed.model_copy(update={"descheduler": run.descheduler}) == run
    without = {"thresholds": dict[str, object]()}
    assert run.descheduler.model_copy(update=without) == obeyed.descheduler.model_copy(update=without)


# a whole run


def one_above(**labels: str) -> Scene:
    """A node at 72 % beside three at 20 %: under every fixed line."""
    scene = Scene().node("busy", memory=0.72, labels=labels)
    for name in ("quiet-1", "quiet-2", "quiet-3"):
        scene.node(name, memory=0.2, labels=labels)
    return scene.workload("web", on=["busy", "quiet-1"], gib=2, memory="1Gi")


def test_a_node_far_above_the_others_is_relieved_and_the_lines_of_the_run_are_recorded(tmp_path: pathlib.Path) -> None:
    world = World(one_above(), tmp_path, mode="Enforce", thresholds=band(), overloadedFor="0s")
    world.report()
    assert [name for name, _, _ in world.door.evictions] == ["default/web-0"]
    (row,) = world.ledger.rows(Query())
    assert (row.node, round(row.threshold_ratio, 6), round(row.target_ratio, 6)) == ("busy", 0.58, 0.43)
    notes = [body["note"] for body in world.door.created if body["regarding"]["kind"] == "Pod"]
    assert any("memory_avg_5m 0.72 > 0.58 on busy, until 0.43" in note for note in notes), notes


def test_a_destination_stays_at_or_under_the_target_above_the_mean(tmp_path: pathlib.Path) -> None:
    scene = Scene().node("busy", memory=0.7).node("quiet", memory=0.2).node("near", memory=0.38)
    scene.workload("web", on=["busy", "near"], gib=12, memory="1Gi")  # 12 of 32 GiB: 0.2 + 0.375 is over 0.53
    world = World(scene, tmp_path, mode="Enforce", thresholds=band(), overloadedFor="0s")
    report = world.report()
    assert world.door.evictions == []
    (node,) = report.plan.nodes
    details = {one.verdict.detail for one in node.candidates if one.pod.node_name == "busy"}
    assert details == {"no other node takes it: 2 over evictUntil with it"}


def test_the_page_of_the_plan_has_the_mean_and_both_lines(tmp_path: pathlib.Path) -> None:
    world = World(one_above(), tmp_path, thresholds=band(), overloadedFor="0s")
    page = world.pages().test_client().get("/plan").get_json()
    line = {"pool": None, "metric": METRIC, "nodes": 4}
    ratios = {"mean_ratio": 0.33, "threshold_ratio": 0.58, "target_ratio": 0.43}
    assert page["mean_lines"] == [{**line, **ratios}]
    assert World(one_above(), tmp_path).pages().test_client().get("/plan").get_json()["mean_lines"] == []
