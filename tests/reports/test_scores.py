"""Reports about scores: how many points load is worth beside a burst, a peak that is over, and what is not measured."""

import collections
import random
from collections.abc import Mapping
from typing import Any

import pytest

from extender.state.cluster_view import ClusterView
from tests import builders
from tests.reports.register import Before, behaviour, reported, situation
from tests.reports.test_placements import appears, filtered, scores
from tests.unit.extender import worlds

NOW = worlds.NOW
WEIGHTS = {"cpu_avg_5m": 0.6, "cpu_max_1h": 0.4, "memory_avg_5m": 0.6, "memory_max_1h": 0.4}
HOT_SPOTS = [{"window": "1m", "pods": 2, "penalty": 1}, {"window": "5m", "pods": 5, "penalty": 1}]
THRESHOLDS = {"cpu_avg_5m": 0.65, "cpu_max_1h": 0.75, "memory_avg_5m": 0.65, "memory_max_1h": 0.75}
SMALL: dict[str, Any] = {"cpu": "100m", "memory": "64Mi"}  # less than a thousandth of a node of 64 cores


def view_of(
    nodes: Mapping[str, Mapping[str, float] | float | None], *, cores: int = 8, spread: str = "none", **sections: Any
) -> ClusterView:
    """Nodes with these readings: a number is that of every window of CPU."""
    score = {"weights": WEIGHTS, "combine": "worst", "spread": spread}
    in_force = worlds.policy(
        **{"sync": {"staleAfter": "2h"}, "score": score, "filter": {"thresholds": THRESHOLDS}, **sections}
    )
    world = worlds.view_of({}, in_force)
    for name, load in nodes.items():
        read(world, name, load, cores=cores)
    return world


def read(world: ClusterView, name: str, load: Mapping[str, float] | float | None, *, cores: int = 8) -> None:
    """A node's reading comes, or none."""
    windows = {**worlds.IDLE, **dict.fromkeys(("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d"), load)}
    windows = windows if isinstance(load, float) else load  # type: ignore[assignment]
    room = {"cpu": str(cores), "memory": f"{4 * cores}Gi", "pods": "1000"}
    world.nodes.node_changed(None, worlds.node(name, None if load is None else windows, **room))  # type: ignore[arg-type]


def place(world: ClusterView, count: int, *, every_seconds: float, **requests: Any) -> collections.Counter[str]:
    """Cycles of a kube-scheduler with no other scores, which draws lots among the best, each bound at once."""
    lots, names = random.Random(7), sorted(world.nodes.loads().index)
    spread = collections.Counter[str]()
    for at in range(count):
        now, name = NOW + every_seconds * at, f"job-{at}"
        body = builders.pod_body(name, **requests)
        appears(world, body, now)
        points = scores(world, filtered(world, names, body, now), body, now)
        node = lots.choice([one for one in sorted(points) if points[one] == max(points.values())])
        spread[node] += 1
        world.placements.pod_changed(None, worlds.bound(name, node, now, **requests), now)
    return spread


@reported("scores", "kubernetes/kubernetes#130692", "kubernetes/kubernetes#129138", before=Before.WRONG)
@situation("a scale-up brings so many pods that hot spots cost every node all its points")
@behaviour("what every candidate loses is taken off none: the busy node scores below idle ones")
@pytest.mark.parametrize("spread", ["none", "stretch"])
def test_a_burst_over_all_nodes_does_not_end_in_scores_of_0(spread: str) -> None:
    nodes = {"busy": 0.5, "a": 0.1, "b": 0.1}
    world = view_of(nodes, cores=64, spread=spread, hotSpots=HOT_SPOTS)
    for node in nodes:
        worlds.bind(world, node, *(f"{node}-{at}" for at in range(30)), **SMALL)
    points = scores(world, sorted(nodes), builders.pod_body("next", **SMALL), NOW)
    assert points["busy"] + 3 < min(points["a"], points["b"])


PEAKS = {f"n-{at}": {**worlds.IDLE, "cpu_avg_5m": 0.2, "cpu_max_1h": 0.76 + 0.02 * at} for at in range(10)}


@reported("scores", "koordinator-sh/koordinator#2538", before=Before.WRONG)
@situation("a spike of all nodes is over, and hourly maxima keep each over a threshold")
@behaviour("all that are cool now take pods, not only the node of the lowest peak")
def test_after_a_spike_of_all_nodes_pods_go_where_it_is_cool_now() -> None:
    world = view_of(PEAKS, hotSpots=[])
    now, spread = NOW, collections.Counter[str]()
    for _ in range(6):  # every 5 minutes 5 pods, which the next reading shows
        for _ in range(5):
            name = f"job-{sum(spread.values())}"
            body = builders.pod_body(name, cpu="500m", memory="64Mi")
            points = scores(world, filtered(world, sorted(PEAKS), body, now), body, now)
            node = max(sorted(points), key=points.__getitem__)
            spread[node] += 1
            world.placements.pod_changed(None, worlds.bound(name, node, now, cpu="500m", memory="64Mi"), now)
        now += 300
        for node, load in PEAKS.items():
            text = worlds.load_text({**load, "cpu_avg_5m": 0.2 + spread[node] * 0.35 / 8}, now)
            world.nodes.node_changed(None, worlds.node(node, text))
    assert len(spread) == len(PEAKS), spread
    assert 0.2 + max(spread.values()) * 0.35 / 8 < THRESHOLDS["cpu_avg_5m"], spread


@reported("scores", "koordinator-sh/koordinator#2538", before=Before.WRONG)
@situation("after such a spike one node has no average, one is still hot, and one has a threshold of its own")
@behaviour("each is judged by its load now and its own line; an unknown load by the maximum")
def test_what_is_not_known_now_is_judged_by_its_maximum() -> None:
    peak = {**worlds.IDLE, "cpu_max_1h": 0.9}
    world = view_of({"cool": peak, "unread": {**peak}, "hot": {**peak, "cpu_avg_5m": 0.7}})
    without = {name: value for name, value in peak.items() if name != "cpu_avg_5m"}
    world.nodes.node_changed(None, worlds.node("unread", without))
    world.nodes.node_changed(None, worlds.node("strict", {**peak, "cpu_avg_5m": 0.3}, thresholds='{"cpu_avg_5m": 0.2}'))
    assert filtered(world, ["cool", "unread", "hot", "strict"], builders.pod_body("new")) == ["cool"]
    assert filtered(world, ["unread", "hot"], builders.pod_body("new")) == ["hot"]


@reported("scores", "kubernetes/kubernetes#61607", "k0sproject/k0s#2467", before=Before.RIGHT)
@situation("a new node joins four at 55 %, and 20 pods are placed within 20 s")
@behaviour("it takes most, and is no hotter than they are when the pods run")
@pytest.mark.parametrize("spread", ["none", "stretch"])
def test_a_new_node_is_not_flooded(spread: str) -> None:
    nodes = {"new": 0.02, **{f"old-{at}": 0.55 for at in range(4)}}
    placed = place(view_of(nodes, spread=spread), 20, every_seconds=1, cpu="500m", memory="64Mi")
    then = {name: load + placed[name] * 0.35 / 8 for name, load in nodes.items()}
    assert placed["new"] == max(placed.values())
    assert then["new"] <= max(then.values()), then
    assert then["new"] <= 0.65


@reported("scores", "koordinator-sh/koordinator#2076", before=Before.RIGHT)
@situation("the exporter of a hot node went away: its last reading is old, others have fresh ones")
@behaviour("the old reading closes it for no pod; it scores as the middle of the others")
@pytest.mark.parametrize("spread", ["none", "stretch"])
def test_a_node_whose_reading_is_old_is_neither_closed_nor_flooded(spread: str) -> None:
    world = view_of({"a": 0.2, "b": 0.3, "c": 0.4}, spread=spread)
    world.nodes.node_changed(None, worlds.node("old", worlds.load_text(worlds.HOT, NOW - 3 * 3600)))
    placed = place(world, 12, every_seconds=30, cpu="250m", memory="64Mi")
    assert placed["old"] <= placed["a"]
    assert "old" in filtered(world, ["a", "b", "c", "old"], builders.pod_body("new"))


@reported("scores", "volcano-sh/volcano#2129", before=Before.RIGHT)
@situation("a node is idle by CPU and nearly full by memory")
@behaviour("the worse resource decides")
def test_a_node_full_of_memory_does_not_win_by_its_idle_cpu() -> None:
    full = {**dict.fromkeys(worlds.IDLE, 0.02), "memory_avg_5m": 0.64, "memory_max_1h": 0.64}
    points = scores(view_of({"full": full, "even": 0.45}), ["full", "even"], builders.pod_body("new"), NOW)
    assert points["full"] < points["even"]


@reported("scores", "intel/platform-aware-scheduling#111", before=Before.RIGHT)
@situation("an extender gives the best node 10 points and the next 9, whatever their loads")
@behaviour("points are by load: 20 % fuller is 7 points behind, 30 % ten; as they are 2 and 3")
@pytest.mark.parametrize(
    ("load", "spread", "difference"),
    [
        (0.3, "none", 2),
        (0.4, "none", 3),
        (0.6, "none", 5),
        (0.3, "stretch", 7),
        (0.4, "stretch", 10),
        (0.6, "stretch", 10),
    ],
)
def test_points_are_as_far_apart_as_loads(load: float, spread: str, difference: int) -> None:
    points = scores(view_of({"a": 0.1, "b": load}, spread=spread), ["a", "b"], builders.pod_body("new"), NOW)
    assert points["a"] - points["b"] == difference


@reported("scores", "koordinator-sh/koordinator#490", before=Before.BY_CHOICE)
@situation("a rollout replaces every pod: windows still show the old ones, the new ones count in full")
@behaviour("nodes seem up to twice as loaded for a window; no pod waits")
def test_a_rollout_that_counts_twice_for_a_window_leaves_no_pod_waiting() -> None:
    nodes = {"a": 0.5, "b": 0.5, "c": 0.5}
    placed = place(view_of(nodes, hotSpots=[]), 12, every_seconds=5, cpu="2", memory="64Mi")
    assert placed == {"a": 4, "b": 4, "c": 4}
