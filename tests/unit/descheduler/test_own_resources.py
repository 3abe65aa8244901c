"""A resource of the operator's own: nodes are relieved by it as by CPU and memory, by what its query says of pods."""

import dataclasses
import pathlib

import pytest

from descheduler.ledger import prediction_errors
from descheduler.ledger.rows import Query
from descheduler.snapshot.eviction_history import EvictedPod, History, PodUse
from policy.schema.load_policy import LoadPolicy
from tests.unit.descheduler import scenes
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.worlds import World

METRIC = {
    "name": "disk_avg_5m",
    "resource": "disk",
    "statistic": "avg",
    "window": "5m",
    "query": "node_disk_busy",
    "podQuery": "pod_disk_busy",
}
BANDS = {"disk_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}}
POLICY = LoadPolicy.of({"metrics": [METRIC], "descheduler": {"thresholds": BANDS}})


def busy(**shares: float | None) -> Scene:
    """A node whose disk is busy beside an idle one, with pods of these shares; None for a pod without a series."""
    scene = Scene().node("busy").reading("busy", disk_avg_5m=0.9).node("idle").reading("idle", disk_avg_5m=0.1)
    for name, share in shares.items():
        scene.workload(name, on=["busy", "idle"], memory="1Gi")
        disk = {} if share is None else {"disk": share}
        key = f"default/{name}-0"
        scene.used[key] = dataclasses.replace(scene.used[key], shares=disk)
    return scene


def test_the_pod_that_covers_the_excess_leaves() -> None:
    plan = busy(small=0.02, right=0.35, large=0.5).plan(POLICY)
    assert scenes.evicted(plan) == ["right-0"]
    (eviction,) = plan.evictions
    assert (eviction.destination, round(eviction.projected_ratio, 6)) == ("idle", 0.55)
    assert eviction.destination_ratio == pytest.approx(0.45)


def test_a_pod_without_a_series_uses_nothing_of_it_and_stays() -> None:
    plan = busy(blind=None, right=0.3).plan(POLICY)
    assert scenes.evicted(plan) == ["right-0"]
    without = busy(blind=None).plan(POLICY)
    assert scenes.judged(without)["blind-0"].verdict.detail == "it uses too little disk to help"


@pytest.mark.parametrize(
    ("share", "idle", "chosen"),
    [
        pytest.param(0.4, 0.1, ["pod-0"], id="room"),
        pytest.param(0.4, 0.25, [], id="over the target with the pod"),
        pytest.param(0.4, None, [], id="a node without a reading takes none"),
    ],
)
def test_a_destination_stays_under_the_line_of_the_resource(
    share: float, idle: float | None, chosen: list[str]
) -> None:
    scene = busy(pod=share)
    if idle is None:
        del scene.readings["idle"]["disk_avg_5m"]
    else:
        scene.reading("idle", disk_avg_5m=idle)
    obeyed = LoadPolicy.of({"metrics": [METRIC], "descheduler": {"thresholds": BANDS, "coolNodes": 0}})
    assert scenes.evicted(scene.plan(obeyed)) == chosen


def test_a_pod_evicted_for_cpu_needs_room_for_its_disk_too() -> None:
    bands = {"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.6}, **BANDS}
    obeyed = LoadPolicy.of({"metrics": [METRIC], "descheduler": {"thresholds": bands, "coolNodes": 0}})
    for share, chosen in ((0.45, ["pod-0"]), (0.55, [])):
        scene = busy(pod=share).node("busy", cpu=0.9).reading("busy", disk_avg_5m=0.5)
        assert scenes.evicted(scene.plan(obeyed)) == chosen


@pytest.mark.parametrize(("metric", "expected"), [("disk_avg_5m", []), ("memory_avg_5m", ["pod-0"])])
def test_a_pod_evicted_for_it_a_moment_ago_counts_as_gone(metric: str, expected: list[str]) -> None:
    gone = EvictedPod("busy", "uid-gone", NOW - 10, PodUse(100.0, 1e9, metric, 0.35))
    plan = busy(pod=0.4).plan(POLICY, History(departed=(gone,)))
    assert scenes.evicted(plan) == expected


@pytest.mark.parametrize(
    ("metric", "age_seconds", "expected"),
    [
        pytest.param("", 120, ["pod-0"], id="not by the ledger"),
        pytest.param("memory_avg_5m", 120, ["pod-0"], id="evicted for memory"),
        pytest.param("disk_avg_5m", 120, [], id="the window shows two fifths of it"),
        pytest.param("disk_avg_5m", 290, ["pod-0"], id="the window shows all but a thirtieth"),
    ],
)
def test_a_replacement_counts_on_its_destination_until_the_window_shows_it(
    metric: str, age_seconds: float, expected: list[str]
) -> None:
    """Before, the next run gave the destination a second pod for which it had no room: 0.2 + 0.3 * 3/5 + 0.3 > 0.6."""
    scene = busy(pod=0.3).reading("idle", disk_avg_5m=0.2)
    scene.workload("new", on=["idle"], memory="64Mi", mutate=scenes.bound_ago(age_seconds))
    plan = scene.plan(POLICY, History(landed={"uid-new-0": PodUse(100.0, 1e9, metric, 0.3)}))
    assert scenes.evicted(plan) == expected


def test_a_whole_run_asks_for_both_queries_and_records_the_share(tmp_path: pathlib.Path) -> None:
    world = World(
        busy(pod=0.4), tmp_path, metrics=[METRIC], mode="Enforce", thresholds=BANDS, overloadedFor="0s", coolNodes=0
    )
    world.service.run()
    assert [name for name, _, _ in world.door.evictions] == ["default/pod-0"]
    (row,) = world.ledger.rows(Query())
    assert (row.metric, round(row.before_ratio - row.projected_ratio, 6)) == ("disk_avg_5m", 0.4)
    assert {"node_disk_busy", "pod_disk_busy"} <= {text for text, _ in world.prometheus.asked}


def test_a_pod_whose_share_is_no_ratio_is_not_known_and_stays(tmp_path: pathlib.Path) -> None:
    scene = busy(wrong=float("nan"), right=0.4)
    world = World(scene, tmp_path, metrics=[METRIC], thresholds=BANDS, overloadedFor="0s", coolNodes=0)
    report = world.report()
    verdicts = {name: str(one.verdict.cause) for name, one in scenes.judged(report.plan).items()}
    assert verdicts == {"wrong-0": "usage_unknown", "right-0": "chosen"}


def test_without_a_line_of_it_pods_are_not_asked_about_it(tmp_path: pathlib.Path) -> None:
    scene = busy(pod=0.4).node("busy", memory=0.9)
    world = World(scene, tmp_path, metrics=[METRIC], overloadedFor="0s", coolNodes=0)
    world.service.run()
    assert "pod_disk_busy" not in {text for text, _ in world.prometheus.asked}


def test_what_another_eviction_moved_is_its_own_share_of_the_same_resource(tmp_path: pathlib.Path) -> None:
    world = World(busy(pod=0.4), tmp_path, metrics=[METRIC], thresholds=BANDS, overloadedFor="0s", coolNodes=0)
    world.service.run()
    (row,) = world.ledger.rows(Query())
    row = row._replace(node="a", result="evicted")
    other = row._replace(id=row.id + 1, landed_node="a", landed_at_seconds=row.at_seconds, before_ratio=0.5)
    other = other._replace(projected_ratio=0.3)
    later = row.at_seconds + 300
    assert prediction_errors.moved_ratio(row, [other], POLICY, later) == pytest.approx(0.2)
    memory = other._replace(metric="memory_avg_5m")
    assert prediction_errors.moved_ratio(row, [memory], POLICY, later) == 0.0
