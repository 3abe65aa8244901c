"""Pools: each node is judged by its pool's thresholds, and a policy without pools answers as ever, byte for byte."""

from typing import Any

import msgspec
import pytest

from extender.state import cluster_view, digests
from extender.verbs import explain
from policy.schema import load_policy
from tests.unit.extender import test_fast_path, worlds

SPOT = {"lifecycle": "spot"}
WARM = {**worlds.IDLE, "cpu_avg_5m": 0.8}


def pool(name: str, selected: dict[str, str], **thresholds: float) -> dict[str, object]:
    """A pool of the nodes with these labels."""
    return {"name": name, "nodeSelector": {"matchLabels": selected}, "filter": {"thresholds": thresholds}}


POOLED = worlds.policy(
    filter={"whenAllRejected": "pending"},
    pools=[pool("spot", SPOT, cpu_avg_5m=0.85, cpu_max_1h=0), pool("database", {"role": "db"}, memory_avg_5m=0.05)],
)


def view_of(in_force: load_policy.LoadPolicy = POOLED, **labelled: dict[str, str]) -> cluster_view.ClusterView:
    """Warm nodes with these labels."""
    world = cluster_view.ClusterView(in_force, "0123456789ab", worlds.NOW)
    for name, labels in labelled.items():
        world.nodes.node_changed(None, worlds.node(name, WARM, labels=labels))
    return world


def reasons(world: cluster_view.ClusterView) -> dict[str, str]:
    """By node why the filter rejects it, "" if it does not."""
    candidates = world.all_nodes(worlds.NOW)
    return dict(zip(candidates.names, candidates.verdicts().reasons, strict=True))


def test_a_node_is_judged_by_the_thresholds_of_its_pool() -> None:
    world = view_of(spot=SPOT, db={"role": "db"}, plain={})
    assert reasons(world) == {"spot": "", "db": "cpu_avg_5m over 0.65", "plain": "cpu_avg_5m over 0.65"}
    hotter = worlds.node("spot", {**WARM, "cpu_avg_5m": 0.86, "cpu_max_1h": 0.99}, labels=SPOT)
    world.nodes.node_changed(None, hotter)
    assert reasons(world)["spot"] == "cpu_avg_5m over 0.85"
    cooler = worlds.node("db", {**worlds.IDLE, "memory_avg_5m": 0.06}, labels={"role": "db"})
    world.nodes.node_changed(None, cooler)
    assert reasons(world)["db"] == "memory_avg_5m over 0.05"


def test_a_node_is_scored_by_the_weights_of_its_pool_on_both_paths() -> None:
    only_cpu = {"weights": {name: 0 for name in worlds.IDLE if name.startswith("memory")}}
    batch = {"name": "batch", "nodeSelector": {"matchLabels": SPOT}, "score": only_cpu}
    pair = test_fast_path.Pair()
    pair.policy(worlds.policy(pools=[batch], score={"incomingPod": False, "spread": "none"}))
    full = {**worlds.IDLE, "memory_avg_5m": 0.6, "memory_max_1h": 0.6, "memory_max_1d": 0.6}
    pair.node("batch", full, labels=SPOT)
    pair.node("plain", full)
    found = pair.ask("prioritize", test_fast_path.go_body(["batch", "plain"], "p"))
    assert {row["Host"]: row["Score"] for row in found} == {"batch": 9, "plain": 4}
    assert pair.fast.declined == 0
    rows: Any = {
        row["name"]: row for row in msgspec.to_builtins(explain.all_nodes(pair.fast.view, pair.now()))["nodes"]
    }
    assert {name: (row["score"], row["terms"]["memory_avg_5m"] > 0) for name, row in rows.items()} == {
        "batch": (9, False),
        "plain": (4, True),
    }
    pair.compare()


def test_a_pool_may_be_packed_while_the_others_are_spread_on_both_paths() -> None:
    batch = {"name": "batch", "nodeSelector": {"matchLabels": SPOT}, "score": {"goal": "pack", "target": 0.4}}
    pair = test_fast_path.Pair()
    pair.policy(worlds.policy(pools=[batch], score={"incomingPod": False, "spread": "none"}))
    third = dict.fromkeys(worlds.IDLE, 0.3)
    for name, labels in (("packed", SPOT), ("spread", {})):
        pair.node(name, third, labels=labels)
        pair.node(f"{name}-idle", dict.fromkeys(worlds.IDLE, 0.0), labels=labels)
    names = ["packed", "packed-idle", "spread", "spread-idle"]
    found = pair.ask("prioritize", test_fast_path.go_body(names, "p"))
    assert {row["Host"]: row["Score"] for row in found} == {
        "packed": 9,
        "packed-idle": 4,
        "spread": 7,
        "spread-idle": 10,
    }
    assert pair.fast.declined == 0
    rows: Any = {
        row["name"]: row for row in msgspec.to_builtins(explain.all_nodes(pair.fast.view, pair.now()))["nodes"]
    }
    assert rows["packed"]["packing"] == {
        "target_ratio": 0.4,
        "load_ratio": pytest.approx(0.3),
        "base": pytest.approx(8.5),
    }
    assert (rows["packed"]["score"], rows["spread"]["packing"]) == (9, None)
    pair.compare()


def test_a_metric_that_only_another_pool_weighs_is_not_missed() -> None:
    batch = {"name": "batch", "nodeSelector": {"matchLabels": SPOT}, "score": {"weights": {"cpu_max_1d": 5}}}
    cpu_only = {"weights": {"cpu_avg_5m": 1}}
    in_force = worlds.policy(pools=[batch], score=cpu_only, filter={"thresholds": {}})
    without = {name: ratio for name, ratio in worlds.IDLE.items() if name != "cpu_max_1d"}
    world = cluster_view.ClusterView(in_force, "0123456789ab", worlds.NOW)
    world.nodes.node_changed(None, worlds.node("plain", without))
    assert world.all_nodes(worlds.NOW).degradations() == ()
    world.nodes.node_changed(None, worlds.node("batch", without, labels=SPOT))
    assert world.all_nodes(worlds.NOW).degradations() == ("missing_metric",)


def test_a_nodes_own_threshold_comes_before_its_pools_metric_by_metric() -> None:
    world = view_of(spot=SPOT)
    own = worlds.node("spot", WARM, thresholds='{"cpu_avg_5m": 0.7}', labels=SPOT)
    world.nodes.node_changed(None, own)
    assert reasons(world) == {"spot": "cpu_avg_5m over 0.7"}
    off = worlds.node("spot", {**WARM, "cpu_max_1h": 0.99}, thresholds='{"cpu_avg_5m": 0}', labels=SPOT)
    world.nodes.node_changed(own, off)
    assert reasons(world) == {"spot": ""}, "cpu_max_1h is off by the pool"


def test_other_labels_are_another_pool_from_the_next_request_on() -> None:
    world = view_of(n=SPOT)
    assert reasons(world) == {"n": ""}
    before, after = (worlds.node("n", WARM, labels=labels) for labels in (SPOT, {}))
    world.nodes.node_changed(before, after)
    assert reasons(world) == {"n": "cpu_avg_5m over 0.65"}
    world.nodes.node_changed(after, before)
    assert reasons(world) == {"n": ""}


def test_a_new_node_in_the_row_of_one_that_went_is_in_its_own_pool() -> None:
    world = view_of(old=SPOT)
    world.nodes.loads()
    world.nodes.node_changed(worlds.node("old", WARM, labels=SPOT), None)
    world.nodes.loads()
    world.nodes.node_changed(None, worlds.node("new", WARM))
    assert reasons(world) == {"new": "cpu_avg_5m over 0.65"}
    assert "old" not in world.nodes.loads().index


def test_pools_of_a_new_policy_are_in_force_with_it_and_so_are_labels_that_changed_meanwhile() -> None:
    world = view_of(worlds.PENDING, spot=SPOT, plain={}, other={})
    assert set(reasons(world).values()) == {"cpu_avg_5m over 0.65"}
    layout = world.nodes.laid_out(world.in_force.metric_names, POOLED.pools)
    world.nodes.node_changed(worlds.node("other", WARM), worlds.node("other", WARM, labels=SPOT))
    world.nodes.use(layout)
    loads = world.nodes.loads()
    assert loads.pools is not None
    assert {name: int(loads.pools[row]) for name, row in loads.index.items()} == {"spot": 0, "plain": -1, "other": 0}
    world.use_policy(POOLED, "1", lambda: (), worlds.NOW)
    assert reasons(world) == {"spot": "", "plain": "cpu_avg_5m over 0.65", "other": ""}
    world.use_policy(worlds.PENDING, "2", lambda: (), worlds.NOW)
    assert set(reasons(world).values()) == {"cpu_avg_5m over 0.65"}
    assert world.nodes.loads().pools is None


def test_explain_names_the_pool_and_which_limits_are_its() -> None:
    world = view_of(spot=SPOT, plain={})
    world.nodes.node_changed(
        None, worlds.node("spot", WARM, thresholds='{"memory_avg_5m": 0.9, "memory_max_1h": 0}', labels=SPOT)
    )
    rows: Any = {row["name"]: row for row in msgspec.to_builtins(explain.all_nodes(world, worlds.NOW))["nodes"]}
    assert (rows["spot"]["pool"], rows["plain"]["pool"]) == ("spot", None)
    assert {rule["metric"]: (rule["limit"], rule["own"], rule["pool"]) for rule in rows["spot"]["rules"]} == {
        "cpu_avg_5m": (0.85, False, True),
        "memory_avg_5m": (0.9, True, False),
    }
    assert (rows["spot"]["rules_off"], rows["spot"]["pool_rules_off"]) == (["memory_max_1h"], ["cpu_max_1h"])
    assert not any(rule["own"] or rule["pool"] for rule in rows["plain"]["rules"])
    assert (rows["plain"]["rules_off"], rows["plain"]["pool_rules_off"]) == ([], [])


def test_a_decision_of_the_past_names_the_pools_of_its_time() -> None:
    pair = test_fast_path.Pair()
    pair.policy(POOLED)
    for at, name in enumerate(test_fast_path.NAMES):
        pair.node(name, WARM, labels=SPOT if at % 2 else None)
    passed = pair.ask("filter", test_fast_path.go_body(list(test_fast_path.NAMES), "p"))["NodeNames"]
    assert passed == list(test_fast_path.NAMES[1::2])
    pair.policy(worlds.PENDING)
    for side in pair.both:
        (decision,) = side.ring.find("", "p", 1, now_seconds=side.clock.now())
        (shown,) = msgspec.to_builtins(explain.decided([decision], with_nodes=True))
        assert [row["pool"] for row in shown["nodes"]] == [None, "spot"] * 6
    pair.compare()


def test_replicas_that_see_other_labels_differ_in_their_digests_where_the_policy_has_pools() -> None:
    def view_digest(in_force: load_policy.LoadPolicy, labels: dict[str, str]) -> str:
        return digests.digests(view_of(in_force, n=labels), worlds.NOW).view

    assert view_digest(POOLED, SPOT) != view_digest(POOLED, {})
    assert view_digest(worlds.PENDING, SPOT) == view_digest(worlds.PENDING, {})


@pytest.mark.parametrize("with_fast_path", [True, False], ids=["fast path", "slow path"])
def test_without_pools_and_with_pools_that_match_no_node_answers_are_equal_byte_for_byte(with_fast_path: bool) -> None:
    sections: dict[str, object] = {"filter": {"whenAllRejected": "pending"}}
    answers = []
    nowhere = pool("nowhere", {"none": "such"}, cpu_avg_5m=0.1, memory_avg_5m=0) | {
        "score": {"weights": {"cpu_max_1d": 9}}
    }
    for pools in ([], [nowhere]):
        side = test_fast_path.Side(with_fast_path=with_fast_path)
        side.view.use_policy(worlds.policy(**sections, pools=pools), "0", lambda: (), worlds.NOW)
        for at, name in enumerate(test_fast_path.NAMES):
            own = '{"cpu_avg_5m": 0.333}' if at % 5 == 0 else None
            load = WARM if at % 3 else {**worlds.IDLE, "memory_avg_5m": at / 20}
            side.view.nodes.node_changed(None, worlds.node(name, load, thresholds=own, labels=SPOT))
        names = list(test_fast_path.NAMES)
        answers.append([side.reply(verb, test_fast_path.go_body(names, "p")) for verb in ("filter", "prioritize")])
    assert answers[0] == answers[1]
    assert b"over 0.65" in answers[0][0][1]
