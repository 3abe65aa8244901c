"""What people are shown: the numbers the scheduler gets, with every factor, and a reason for what is unusable."""

import json
from typing import Any, cast

import msgspec

from extender import protocol
from extender.state import cluster_view
from extender.verbs import decided_pod, decision_log, explain, verbs
from policy.contract import relief_hint
from tests.unit.extender import worlds

NOW = worlds.NOW


def explained(world: cluster_view.ClusterView, *names: str, **pod: Any) -> dict[str, Any]:
    args = worlds.args(names, **pod)
    answer = msgspec.to_builtins(explain.explain(world, args.pod, args.names, NOW))
    return cast(dict[str, Any], json.loads(json.dumps(answer, allow_nan=False)))


def nodes(world: cluster_view.ClusterView, now: float = NOW) -> dict[str, Any]:
    answer = cast(
        dict[str, Any], json.loads(json.dumps(msgspec.to_builtins(explain.all_nodes(world, now)), allow_nan=False))
    )
    return {row["name"]: row for row in answer["nodes"]}


def test_explain_gives_the_scores_and_verdicts_that_the_scheduler_gets() -> None:
    world = worlds.view_of({"hot": worlds.HOT, "cool": worlds.IDLE, "blind": None})
    worlds.bind(world, "cool", "p1", "p2")
    names = ("hot", "cool", "blind", "unknown")
    shown = explained(world, *names)
    scores = json.loads(verbs.answer("prioritize", world, worlds.args(names), NOW).body)
    assert {row["name"]: row["score"] for row in shown["nodes"]} == {row["Host"]: row["Score"] for row in scores}
    assert [row["name"] for row in shown["nodes"] if not row["allowed"]] == ["hot"]
    assert shown["nodes"][0]["rejected"] == "cpu_avg_5m over 0.65"
    assert shown["degraded"] == ["unknown_node", "missing_reading"]
    assert shown["policy"] == "0123456789ab"


def test_explain_names_metric_value_limit_and_every_term() -> None:
    world = worlds.view_of({"n": worlds.HOT})
    worlds.bind(world, "n", "p", cpu="800m")
    shown = explained(world, "n")
    row = shown["nodes"][0]
    assert row["rules"][0] == {
        "metric": "cpu_avg_5m",
        "limit": 0.65,
        "value": 0.97,
        "reading": 0.9,
        "expected": 0.07,
        "own": False,
        "pool": False,
        "pod_class": False,
        "age_seconds": 0.0,
        "broken": True,
    }
    assert row["expected"]["cpu_avg_5m"] == 0.07
    assert row["values"]["cpu_avg_5m"] == 0.9
    assert row["age_seconds"] == 0
    assert abs(row["incoming"]["cpu_avg_5m"] - 0.7 * 250 / 8000) < 1e-12
    assert shown["means"] == [list(worlds.IDLE)[:3], list(worlds.IDLE)[3:]]
    means = [sum(row["terms"][name] for name in mean) for mean in shown["means"]]
    assert abs(min(means) - row["own_base"]) < 1e-9
    assert row["raw_score"] == row["base"] - row["penalty"]
    assert row["hot"] == {"1m": 1, "5m": 1, "30m": 1}


def test_a_nodes_own_threshold_is_marked_and_what_of_it_is_not_in_force_has_its_reason() -> None:
    world = worlds.view_of({"n": worlds.HOT, "plain": worlds.HOT})
    text = '{"cpu_avg_5m": 0.95, "cpu_max_1h": 0, "disk": 0.5, "memory_avg_5m": 65}'
    world.nodes.node_changed(None, worlds.node("n", worlds.HOT, thresholds=text))
    row, plain = nodes(world)["n"], nodes(world)["plain"]
    assert (row["rejected"], plain["rejected"]) == (None, "cpu_avg_5m over 0.65")
    assert {rule["metric"]: (rule["limit"], rule["own"]) for rule in row["rules"]} == {
        "cpu_avg_5m": (0.95, True),
        "memory_avg_5m": (0.65, False),
        "memory_max_1h": (0.75, False),
    }
    assert (row["rules_off"], plain["rules_off"]) == (["cpu_max_1h"], [])
    assert row["thresholds_ignored"].startswith("memory_avg_5m: 65 is not a ratio")
    assert row["thresholds_ignored"].endswith("; disk: no metric of this name")
    assert plain["thresholds_ignored"] is None
    assert explain.thresholds(world) == {"own": 1, "ignored": 1}


def test_an_annotation_of_which_nothing_is_in_force_is_counted_as_ignored_only() -> None:
    world = worlds.view_of({}, worlds.PENDING)
    world.nodes.node_changed(None, worlds.node("n", worlds.HOT, thresholds="cpu=0.9"))
    assert nodes(world)["n"]["rejected"] == "cpu_avg_5m over 0.65"
    assert explain.thresholds(world) == {"own": 0, "ignored": 1}


def test_explain_says_why_a_pod_is_exempt() -> None:
    shown = explained(worlds.view_of({"hot": worlds.HOT}), "hot", namespace="kube-system")
    assert shown["exempt"] == "namespace kube-system"
    assert shown["nodes"][0]["allowed"]


def test_a_rule_says_how_old_the_reading_is_that_it_judges() -> None:
    world = worlds.view_of({"n": worlds.load_text(worlds.HOT, NOW - 12)})
    assert {rule["age_seconds"] for rule in explained(world, "n")["nodes"][0]["rules"]} == {12}


def decision(world: cluster_view.ClusterView, verb: str, *names: str) -> dict[str, Any]:
    """A decision of the verb over the names, as it is shown half an hour and a changed node later."""
    args = worlds.args(names)
    candidates = world.candidates(args.names, NOW)
    ranking = candidates.score(args.pod).ranking
    best = verbs.ranked(candidates, ranking) if verb == "prioritize" else ()
    rejected = verbs.judge(candidates, args.pod)[1].rejected if verb == "filter" else {}
    inputs = decision_log.Inputs(candidates, decided_pod.slim(args.pod), rejected)
    made = decision_log.Decision(verb, NOW, "default", "new", "u", len(names), 0, "h", best=best, inputs=inputs)
    for name in names:
        world.nodes.node_changed(None, worlds.node(name, dict.fromkeys(worlds.IDLE, 0.5)))
    worlds.bind(world, names[0], "later-1", "later-2")
    (shown,) = msgspec.to_builtins(explain.decided([made], with_nodes=True))
    return cast(dict[str, Any], json.loads(protocol.encode(shown)))


def test_a_past_decision_is_explained_by_the_numbers_of_its_moment() -> None:
    names = ("hot", "cool", "blind", "unknown")
    loads = {"hot": worlds.HOT, "cool": worlds.IDLE, "blind": None}
    then = explained(worlds.view_of(loads), *names)["nodes"]
    shown = decision(worlds.view_of(loads), "prioritize", *names)["nodes"]
    for row, expected in zip(shown, then, strict=True):
        apart = {"allowed", "rejected", "state", "reason", "unusable"}  # the filter's; the words of the annotation
        assert {key: row[key] for key in row if key not in apart} == {
            key: expected[key] for key in expected if key not in apart
        }
    assert [row["state"] for row in shown] == ["usable", "usable", "missing", "unknown node"]


def test_a_past_filter_answer_has_verdicts_and_no_scores() -> None:
    hot, cool = decision(worlds.view_of({"hot": worlds.HOT, "cool": worlds.IDLE}), "filter", "hot", "cool")["nodes"]
    assert (hot["allowed"], hot["rejected"], hot["rules"][0]["reading"]) == (False, "cpu_avg_5m over 0.65", 0.9)
    assert (cool["allowed"], cool["rejected"]) == (True, None)
    assert (hot["score"], hot["base"], cool["score"]) == (None, None, None)


def test_a_decision_without_its_inputs_says_that_all_nodes_are_left_out() -> None:
    made = decision_log.Decision("filter", NOW, "default", "new", "u", 7, 7, "h")
    (shown,) = msgspec.to_builtins(explain.decided([made], with_nodes=True))
    assert (shown["nodes"], shown["omitted"]) == ([], 7)


def test_only_the_newest_decision_of_each_verb_carries_its_nodes() -> None:
    made = [
        decision_log.Decision(verb, NOW, "default", "new", "u", 1, 1, "h") for verb in ("filter", "preempt", "filter")
    ]
    assert ["nodes" in shown for shown in msgspec.to_builtins(explain.decided(made, with_nodes=True))] == [
        True,
        True,
        False,
    ]


def test_explaining_assumes_nothing() -> None:
    world = worlds.view_of({"n": worlds.IDLE})
    explained(world, "n")
    assert world.placements.assumed(NOW) == 0


def test_nodes_gives_a_reason_exactly_where_a_reading_is_unusable() -> None:
    partial = '{"v":1,"at":"2026-11-21T04:00:00Z","m":{"cpu_avg_5m":0.1,"cpu_max_1h":7}}'
    world = worlds.view_of({"whole": worlds.IDLE, "partial": partial, "none": None, "garbage": "{"})
    shown = nodes(world)
    assert shown["whole"]["unusable"] == {}
    assert shown["whole"]["usable"]
    assert {name: row["reason"] for name, row in shown.items()} == {
        "whole": None,
        "partial": None,
        "none": "no annotation",
        "garbage": "annotation unusable: not_json",
    }
    assert shown["partial"]["values"] == {"cpu_avg_5m": 0.1}
    assert shown["partial"]["unusable"]["cpu_max_1h"] == "over_range"
    assert shown["partial"]["unusable"]["cpu_max_1d"] == "not in the annotation"
    assert set(shown["none"]["unusable"].values()) == {"no annotation"}
    assert shown["none"]["age_seconds"] is None
    assert set(shown["garbage"]["unusable"].values()) == {"annotation unusable: not_json"}


def test_a_fresh_annotation_without_any_value_is_not_usable() -> None:
    row = nodes(worlds.view_of({"n": {}}))["n"]
    assert (row["usable"], row["reason"]) == (False, "no valid metric in the annotation")
    assert explain.states(worlds.view_of({"n": {}}), NOW)["missing"] == 1


def test_a_stale_node_shows_its_age_and_no_values() -> None:
    row = nodes(worlds.view_of({"n": worlds.IDLE}), NOW + 301)["n"]
    assert (row["usable"], row["state"], row["age_seconds"], row["values"]) == (False, "stale", 301, {})


def test_nodes_shows_the_heartbeat_and_who_differs_from_it() -> None:
    world = worlds.view_of({"a": worlds.IDLE, "b": worlds.IDLE})
    text = worlds.load_text(worlds.IDLE)
    world.nodes.heartbeat_changed(worlds.beat({"a": text, "b": "else"}, NOW + 20), NOW + 20)
    shown = cast(dict[str, Any], msgspec.to_builtins(explain.all_nodes(world, NOW + 30))["heartbeat"])
    assert (shown["matches"], shown["differing"], shown["age_seconds"]) == (False, ["b"], 10)


def test_nodes_shows_what_else_keeps_pods_away() -> None:
    world = worlds.view_of({"well": worlds.IDLE})
    world.nodes.node_changed(None, worlds.node("n", worlds.IDLE, mutate=worlds.under_pressure))
    shown = {name: row["conditions"] for name, row in nodes(world).items()}
    assert shown == {"well": [], "n": ["NotReady", "MemoryPressure", "SchedulingDisabled"]}


def test_nodes_shows_a_relief_hint() -> None:
    world = worlds.view_of({})
    hint = relief_hint.encode(relief_hint.Relief({"uid-web": NOW + 60}))
    world.nodes.node_changed(None, worlds.node("n", worlds.IDLE, relief=hint))
    assert nodes(world)["n"]["relief_until"] == "2026-11-21T04:01:00Z"


def test_states_are_counted_for_the_metrics() -> None:
    world = worlds.view_of({"a": worlds.IDLE, "b": worlds.load_text(worlds.IDLE, NOW - 400), "c": None, "d": "{"})
    assert explain.states(world, NOW) == {"usable": 1, "stale": 1, "future": 0, "missing": 2}
