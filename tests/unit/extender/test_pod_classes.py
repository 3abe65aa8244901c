"""Each pod is judged by its class on both paths; without classes answers are as ever, byte for byte."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import pytest

from extender.state import cluster_view, score_cache
from extender.verbs import explain
from kube import objects
from policy.schema import load_policy
from tests import builders
from tests.unit.extender import test_fast_path, worlds
from tests.unit.extender.test_fast_path import Pair, go_body

OWN = {"name": "production_cpu", "resource": "production-cpu", "statistic": "avg", "window": "5m", "query": "x:y"}
PRODUCTION = {
    "name": "production",
    "match": {"priority": {"min": 9000}},
    "filter": {"thresholds": {"production_cpu": 0.6, "cpu_avg_5m": 0.95}},
    "score": {"weights": {"production_cpu": 1, "cpu_avg_5m": 0, "cpu_max_1h": 0, "cpu_max_1d": 0}},
}
BATCH = {"name": "batch", "match": {"namespaces": ["jobs-*"]}, "filter": {"thresholds": {"memory_avg_5m": 0.05}}}
SECTIONS: dict[str, object] = {
    "metrics": [OWN],
    "filter": {"whenAllRejected": "pending"},
    "score": {"incomingPod": False},
}
CLASSES = [PRODUCTION, BATCH]
LOADS = {
    "busy with batch": {**worlds.HOT, "production_cpu": 0.1},
    "busy with production": {**worlds.IDLE, "cpu_avg_5m": 0.64, "production_cpu": 0.62},
}
NAMES = tuple(name.replace(" ", "-") for name in LOADS)


def prod(body: builders.Body) -> None:
    """Makes a pod one of production."""
    body["spec"].update(priority=9500, priorityClassName="production")


KINDS: dict[str, dict[str, Any]] = {"production": {"mutate": prod}, "batch": {"namespace": "jobs-night"}, "plain": {}}


def policy(classes: Iterable[object] = tuple(CLASSES), **sections: object) -> load_policy.LoadPolicy:
    """A policy with these classes."""
    return worlds.policy(**{**SECTIONS, **sections}, podClasses=list(classes))


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Two nodes, of which either is full for one kind of pods; both paths are compared after the test."""
    both = Pair()
    both.policy(policy())
    for name, load in zip(NAMES, LOADS.values(), strict=True):
        both.node(name, load)
    yield both
    both.compare()


def refusals(pair: Pair, kind: str, names: Iterable[str] = NAMES) -> dict[str, str]:
    """Why either path rejects nodes for a pod of a kind."""
    answer = pair.ask("filter", go_body(list(names), f"of-{kind}", **KINDS[kind]))
    found: dict[str, str] = answer["FailedAndUnresolvableNodes"]
    return found


def scores(pair: Pair, kind: str) -> dict[str, int]:
    """The scores of all nodes for a pod of a kind, as either path gives them."""
    rows = pair.ask("prioritize", go_body(list(NAMES), f"of-{kind}", **KINDS[kind]))
    return {row["Host"]: row["Score"] for row in rows}


def test_a_pod_is_filtered_by_the_thresholds_of_its_class_without_flask(pair: Pair) -> None:
    assert refusals(pair, "production") == {NAMES[1]: "production_cpu over 0.6"}
    assert refusals(pair, "batch") == {NAMES[0]: "cpu_avg_5m over 0.65", NAMES[1]: "memory_avg_5m over 0.05"}
    assert refusals(pair, "plain") == {NAMES[0]: "cpu_avg_5m over 0.65"}
    assert pair.fast.declined == 0


def test_a_pod_is_ranked_by_the_weights_of_its_class_without_flask(pair: Pair) -> None:
    production, plain = scores(pair, "production"), scores(pair, "plain")
    assert production[NAMES[0]] > production[NAMES[1]]
    assert plain[NAMES[0]] < plain[NAMES[1]]
    assert scores(pair, "batch") == plain, "batch has thresholds only"
    assert pair.fast.declined == 0


def test_the_nodes_annotation_comes_before_the_class_and_the_class_before_the_pool(pair: Pair) -> None:
    pool = {
        "name": "spot",
        "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
        "filter": {"thresholds": {"cpu_avg_5m": 0.7, "cpu_max_1h": 0.05}},
    }
    pair.policy(policy(pools=[pool]))
    labels, load = {"lifecycle": "spot"}, LOADS["busy with batch"]
    pair.node(NAMES[0], load, labels=labels)
    assert refusals(pair, "plain", NAMES[:1]) == {NAMES[0]: "cpu_avg_5m over 0.7"}
    assert refusals(pair, "production", NAMES[:1]) == {NAMES[0]: "cpu_max_1h over 0.05"}, "which it does not name"
    pair.node(NAMES[0], load, labels=labels, own={"cpu_max_1h": 0})
    assert refusals(pair, "production", NAMES[:1]) == {}
    pair.node(NAMES[0], load, labels=labels, own={"cpu_max_1h": 0, "production_cpu": 0.05})
    assert refusals(pair, "production", NAMES[:1]) == {NAMES[0]: "production_cpu over 0.05"}
    pair.node(NAMES[0], load, labels=labels, own={"cpu_max_1h": 0, "cpu_avg_5m": 0.85})
    assert refusals(pair, "production", NAMES[:1]) == {NAMES[0]: "cpu_avg_5m over 0.85"}
    assert pair.fast.declined == 0


def test_explain_names_the_class_and_the_limits_that_are_its(pair: Pair) -> None:
    pair.node(NAMES[1], LOADS["busy with production"], own={"cpu_avg_5m": 0.9})
    seen: Any = msgspec.to_builtins(explain.explain(pair.slow.view, builders.pod("p", mutate=prod), NAMES, pair.now()))
    assert seen["pod_class"] == "production"
    rules = {row["name"]: {rule["metric"]: rule for rule in row["rules"]} for row in seen["nodes"]}
    marks = {
        name: (rule["limit"], rule["own"], rule["pool"], rule["pod_class"]) for name, rule in rules[NAMES[1]].items()
    }
    assert marks == {
        "cpu_avg_5m": (0.9, True, False, False),
        "cpu_max_1h": (0.75, False, False, False),
        "memory_avg_5m": (0.65, False, False, False),
        "memory_max_1h": (0.75, False, False, False),
        "production_cpu": (0.6, False, False, True),
    }
    assert rules[NAMES[0]]["cpu_avg_5m"]["pod_class"]
    plain: Any = msgspec.to_builtins(explain.explain(pair.slow.view, builders.pod("p"), NAMES, pair.now()))
    assert plain["pod_class"] is None
    assert not any(rule["pod_class"] for row in plain["nodes"] for rule in row["rules"])


def test_a_decision_of_the_past_is_explained_by_the_class_of_its_time(pair: Pair) -> None:
    refusals(pair, "production")
    scores(pair, "production")
    pair.policy(worlds.policy())
    for side in pair.both:
        decisions = side.ring.find("", "of-production", 2, now_seconds=side.clock.now())
        assert [decision.pod_class for decision in decisions] == ["production", "production"]
        shown: Any = msgspec.to_builtins(explain.decided(decisions, with_nodes=True))
        assert {one["pod_class"] for one in shown} == {"production"}
        (hot,) = [row for row in shown[1]["nodes"] if row["name"] == NAMES[1]]
        assert hot["rejected"] == "production_cpu over 0.6"


def test_preemption_is_about_the_nodes_that_the_class_leaves(pair: Pair) -> None:
    for kind, left in (("production", [NAMES[0]]), ("plain", [NAMES[1]]), ("batch", [])):
        victims = {name: {"Pods": [{"UID": "v"}]} for name in NAMES}
        body = {"Pod": builders.pod_body("p", **KINDS[kind]), "NodeNameToMetaVictims": victims}
        answer = pair.ask("preempt", json.dumps(body).encode())
        assert list(answer["NodeNameToMetaVictims"]) == left


def test_pods_of_a_class_are_exempt_and_opt_out_as_all_others(pair: Pair) -> None:
    everywhere = {"name": "all", "match": {}, "filter": {"thresholds": {"cpu_avg_5m": 0.01}}}
    pair.policy(policy([everywhere]))
    for fields in ({"namespace": "kube-system"}, {"annotations": test_fast_path.OPTED_OUT}, {}):
        answer = pair.ask("filter", go_body(list(NAMES), "p", **fields))
        assert len(answer["NodeNames"]) == (2 if fields else 0)
    assert pair.fast.slow_path() == {"exempt": 2}


def test_shadow_mode_records_the_verdict_of_the_class(pair: Pair) -> None:
    pair.policy(policy(extender={"mode": "Shadow"}))
    assert refusals(pair, "production") == {}
    assert set(scores(pair, "production").values()) == {0}
    for side in pair.both:
        ranked, judged = side.ring.find("", "of-production", 2, now_seconds=side.clock.now())
        assert judged.rejected == {"production_cpu over 0.6": 1}
        assert [one.node for one in ranked.best] == [NAMES[0]]


def test_a_relief_hint_holds_for_pods_of_a_class_until_the_nodes_own_lines_are_met(pair: Pair) -> None:
    pool = {
        "name": "spot",
        "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
        "descheduler": {"thresholds": {"cpu_avg_5m": {"evictAbove": 0.99, "evictUntil": 0.95}}},
    }
    pair.policy(policy(pools=[pool]))
    pair.node(NAMES[0], LOADS["busy with batch"], relief=test_fast_path.RELIEF)
    assert refusals(pair, "production", NAMES[:1]) == {NAMES[0]: "relieved of this workload"}
    pair.node(NAMES[0], LOADS["busy with batch"], relief=test_fast_path.RELIEF, labels={"lifecycle": "spot"})
    assert refusals(pair, "production", NAMES[:1]) == {}, "its pool's line is met"


def test_recent_pods_count_against_the_thresholds_of_a_class(pair: Pair) -> None:
    load = {**worlds.IDLE, "cpu_avg_5m": 0.9, "production_cpu": 0.1}
    pair.node(NAMES[0], load)
    assert refusals(pair, "production", NAMES[:1]) == {}
    bound = worlds.bound("recent", NAMES[0], pair.now(), cpu="6")
    for side in pair.both:
        side.view.pod_changed(None, bound, pair.now())
    assert refusals(pair, "production", NAMES[:1]) == {NAMES[0]: "cpu_avg_5m over 0.95"}
    assert pair.fast.declined == 0


def test_a_pod_does_not_stand_in_the_way_of_itself_in_its_class(pair: Pair) -> None:
    pair.node(NAMES[0], {**worlds.IDLE, "cpu_avg_5m": 0.9, "production_cpu": 0.1})
    bound = worlds.bound("of-production", NAMES[0], pair.now(), cpu="6")
    for side in pair.both:
        side.view.pod_changed(None, bound, pair.now())
    assert refusals(pair, "production", NAMES[:1]) == {}
    assert refusals(pair, "plain", NAMES[:1]) == {NAMES[0]: "cpu_avg_5m over 0.65"}
    assert pair.fast.declined == 0


def test_a_metric_that_only_a_class_looks_at_is_missed_for_its_pods_alone() -> None:
    world = worlds.view_of({"n": worlds.IDLE}, policy())
    for fields, causes in (({"mutate": prod}, ("missing_metric",)), ({}, ())):
        pod = builders.pod("p", **fields)
        assert world.candidates(("n",), worlds.NOW, pod).degradations() == causes


@pytest.mark.parametrize("with_fast_path", [True, False], ids=["fast path", "slow path"])
def test_without_classes_and_with_one_that_matches_no_pod_answers_are_equal_byte_for_byte(with_fast_path: bool) -> None:
    nobody = {**PRODUCTION, "match": {"namespaces": ["nobody"]}}
    answers = []
    for classes in ([], [nobody]):
        side = test_fast_path.Side(with_fast_path=with_fast_path)
        side.view.use_policy(policy(classes), "0", lambda: (), worlds.NOW)
        for at, name in enumerate(test_fast_path.NAMES):
            load = {**worlds.IDLE, "cpu_avg_5m": at / 12, "production_cpu": 0.5}
            side.view.nodes.node_changed(None, worlds.node(name, load))
        body = go_body(list(test_fast_path.NAMES), "p", mutate=prod)
        answers.append([side.reply(verb, body) for verb in ("filter", "prioritize")])
    assert answers[0] == answers[1]
    assert b"over 0.65" in answers[0][0][1]


# The tables of classes


def tables_of(world: cluster_view.ClusterView) -> tuple[score_cache.ScoreCache, objects.Pod, objects.Pod]:
    """The tables of a view, a pod of production, and one without a class."""
    return score_cache.ScoreCache(world), builders.pod("prod", mutate=prod), builders.pod("plain")


def test_a_table_stands_while_nothing_changes_and_each_class_has_its_own() -> None:
    tables, production, plain = tables_of(worlds.view_of(LOADS, policy()))
    first, other = tables.current(worlds.NOW, pod=production), tables.current(worlds.NOW, pod=plain)
    assert first.allowed[1:3].tolist() == [True, False]
    assert other.allowed[1:3].tolist() == [False, True]
    assert tables.current(worlds.NOW, pod=production) is first
    assert tables.current(worlds.NOW) is other
    assert first.labels is other.labels
    assert first.standing.expected is other.standing.expected, "the view is kept once"


@pytest.mark.parametrize("steps", [1, 2, score_cache.CHANGES_MOST + 1])
def test_a_table_that_was_not_asked_for_a_while_catches_up_with_all_that_changed(steps: int) -> None:
    world = worlds.view_of({**LOADS, **{f"n{at}": LOADS["busy with batch"] for at in range(9)}}, policy())
    tables, production, plain = tables_of(world)
    before = tables.current(worlds.NOW, pod=production)
    for at in range(steps):
        worlds.bind(world, f"n{at % 9}", f"p{at}", cpu="2")
        tables.current(worlds.NOW, pod=plain)
    table = tables.current(worlds.NOW, pod=production)
    assert table is not before
    worlds.assert_equal_tables(table, score_cache.ScoreCache(world).current(worlds.NOW, pod=production))
    assert tables.current(worlds.NOW, pod=production) is table


def test_a_changed_reading_and_another_policy_reach_the_table_of_every_class() -> None:
    world = worlds.view_of(LOADS, policy())
    tables, production, plain = tables_of(world)
    for pod in (production, plain):
        tables.current(worlds.NOW, pod=pod)
    (name,) = [name for name in LOADS if name.endswith("production")]
    cooler = worlds.node(name, {**LOADS[name], "production_cpu": 0.2})
    world.nodes.node_changed(worlds.node(name, LOADS[name]), cooler)
    assert tables.current(worlds.NOW, pod=plain).allowed[1:3].tolist() == [False, True]
    assert tables.current(worlds.NOW, pod=production).allowed[1:3].tolist() == [True, True]
    world.use_policy(worlds.PENDING, "1", lambda: (), worlds.NOW)
    assert tables.current(worlds.NOW, pod=production) is tables.current(worlds.NOW, pod=plain)


def test_tables_are_made_ahead_for_the_classes_that_were_asked_about_since() -> None:
    world = worlds.view_of(LOADS, policy())
    tables, production, plain = tables_of(world)

    def seconds() -> dict[str | None, float]:
        """The moment of each table."""
        tables_by_class = {name: stored.table for name, stored in tables._tables.items()}
        return {name: table.standing.now_seconds - worlds.NOW for name, table in tables_by_class.items() if table}

    tables.ahead(worlds.NOW)
    assert seconds() == {None: 0}
    tables.current(worlds.NOW, pod=production)
    for later_seconds in (1, 2):
        worlds.bind(world, "busy with batch", f"p{later_seconds}", at_seconds=worlds.NOW + later_seconds)
        tables.ahead(worlds.NOW + later_seconds)
        assert seconds() == {None: later_seconds, "production": 1}
    worlds.assert_equal_tables(
        tables.current(worlds.NOW + 2, pod=production),
        score_cache.ScoreCache(world).current(worlds.NOW + 2, pod=production),
    )
    assert tables.current(worlds.NOW + 2, pod=plain).standing.in_force.class_name is None
    tables.ahead(worlds.NOW + 3)
    assert seconds() == {None: 3, "production": 3}
    world.nodes.node_changed(None, worlds.node("new", worlds.IDLE))
    tables.ahead(worlds.NOW + 4)
    assert seconds() == {None: 4}, "of production no row is current, and nobody asks"


def test_decisions_about_pods_of_several_classes_share_what_stood_for_all_nodes() -> None:
    kept_bytes = []
    for kinds in (("plain", "plain"), ("plain", "production")):
        side = test_fast_path.Side(with_fast_path=True)
        side.view.use_policy(policy(), "0", lambda: (), worlds.NOW)
        for at in range(200):
            side.view.nodes.node_changed(None, worlds.node(f"node-{at}", worlds.IDLE))
        for at in range(20):
            side.reply("filter", go_body(["node-1", "node-2"], f"p{at}", **KINDS[kinds[at % 2]]))
        kept_bytes.append(side.ring.size_bytes)
    assert kept_bytes[1] - kept_bytes[0] < 1000, "of 20 decisions, where the arrays of one moment are 20,000 bytes"
