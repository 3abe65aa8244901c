"""Filter, prioritize and preempt: cases of docs/contract.md, scoring, worked out by hand, and degraded decisions."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from extender import protocol
from extender.state import cluster_view
from extender.verbs import verbs
from policy.contract import relief_hint
from policy.schema import load_policy
from tests import builders
from tests.unit.extender import worlds

NOW = worlds.NOW
IDLE, HOT = worlds.IDLE, worlds.HOT


def filtered(
    world: cluster_view.ClusterView, names: Sequence[str], now: float = NOW, **pod: Any
) -> tuple[list[str], dict[str, str]]:
    reply = json.loads(verbs.answer("filter", world, worlds.args(names, **pod), now).body)
    assert reply["FailedNodes"] == {}
    assert reply["Error"] == ""
    return reply["NodeNames"], reply["FailedAndUnresolvableNodes"]


def scored(world: cluster_view.ClusterView, names: Sequence[str], now: float = NOW, **pod: Any) -> dict[str, int]:
    reply = json.loads(verbs.answer("prioritize", world, worlds.args(names, **pod), now).body)
    assert all(type(row["Score"]) is int for row in reply)
    return {row["Host"]: row["Score"] for row in reply}


# filter


def test_a_hot_node_is_rejected_for_good_with_a_reason_that_names_the_rule() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    assert filtered(world, ["hot", "cool"]) == (["cool"], {"hot": "cpu_avg_5m over 0.65"})


def test_a_node_is_held_to_its_own_threshold_and_to_the_policys_again_when_the_annotation_goes() -> None:
    world = worlds.view_of({"n": HOT, "plain": HOT}, worlds.PENDING)
    own, plain = (worlds.node("n", HOT, thresholds=text) for text in ('{"cpu_avg_5m": 0.95}', None))
    world.nodes.node_changed(plain, own)
    assert filtered(world, ["n", "plain"]) == (["n"], {"plain": "cpu_avg_5m over 0.65"})
    world.nodes.node_changed(own, plain)
    assert filtered(world, ["n", "plain"])[0] == []


def test_a_reading_that_only_a_nodes_own_threshold_needs_degrades_the_decision() -> None:
    in_force = worlds.policy(filter={"thresholds": {}}, score={"weights": {"cpu_avg_5m": 1}})
    load = {"cpu_avg_5m": 0.1}
    world = worlds.view_of({"n": load}, in_force)
    assert world.candidates(("n",), NOW).degradations() == ()
    world.nodes.node_changed(None, worlds.node("n", load, thresholds='{"memory_avg_5m": 0.8}'))
    assert world.candidates(("n",), NOW).degradations() == ("missing_metric",)


def test_expected_load_of_recent_pods_counts_in_the_filter_until_the_window_shows_it() -> None:
    world = worlds.view_of({"n": {**IDLE, "cpu_avg_5m": 0.60}, "m": IDLE})
    worlds.bind(world, "n", "p", cpu="800m")  # 0.7 * 800m of 8 cores = 0.07
    assert filtered(world, ["n", "m"])[1] == {"n": "cpu_avg_5m over 0.65"}
    assert filtered(world, ["n", "m"], NOW + 60)[1] == {"n": "cpu_avg_5m over 0.65"}
    assert filtered(world, ["n", "m"], NOW + 100)[1] == {}


OFF = {"evenload.io/filter": "off"}


@pytest.mark.parametrize(
    ("opt_out", "annotations", "passes"),
    [
        pytest.param({}, OFF, True, id="a pod that opts out passes a hot node"),
        pytest.param({}, {"evenload.io/filter": "on"}, False, id="another value means nothing"),
        pytest.param({"exceptNamespaces": ["default"]}, OFF, False, id="in a namespace left out it is filtered"),
        pytest.param({"exceptNamespaces": ["other"]}, OFF, True, id="another namespace left out does not matter"),
        pytest.param({"enabled": False}, OFF, False, id="it counts nowhere when it is disabled"),
    ],
)
def test_a_pod_may_opt_out_where_the_policy_lets_it(
    opt_out: dict[str, object], annotations: dict[str, str], passes: bool
) -> None:
    in_force = worlds.policy(filter={"exempt": {"optOut": opt_out}, "whenAllRejected": "pending"})
    world = worlds.view_of({"hot": HOT}, in_force)
    assert filtered(world, ["hot"], annotations=annotations)[0] == (["hot"] if passes else [])
    decision = verbs.answer("filter", world, worlds.args(["hot"], annotations=annotations), NOW).decision
    assert decision.exempt == ("annotation evenload.io/filter: off" if passes else None)


def test_opting_out_changes_no_score() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    assert scored(world, ["hot", "cool"], annotations=OFF) == scored(world, ["hot", "cool"])


def test_a_node_just_relieved_of_its_workload_refuses_a_pod_that_opted_out() -> None:
    world = worlds.view_of({"other": IDLE})
    hint = relief_hint.encode(relief_hint.Relief({"uid-web": NOW + 60}))
    world.nodes.node_changed(None, worlds.node("n", HOT, relief=hint))
    assert filtered(world, ["n", "other"], annotations=OFF) == (["other"], {"n": relief_hint.REASON})


def test_an_all_hot_sample_keeps_its_coolest_nodes() -> None:
    world = worlds.view_of({"a": {**IDLE, "cpu_avg_5m": 0.9}, "b": {**IDLE, "cpu_avg_5m": 0.8}})
    outcome = verbs.answer("filter", world, worlds.args(["a", "b"]), NOW)
    assert json.loads(outcome.body)["NodeNames"] == ["b"]
    assert outcome.decision.degraded == ("all_rejected",)


WARM = {**IDLE, "cpu_avg_5m": 0.62}


@pytest.mark.parametrize(("until_ratio", "rejected"), [(0.61, True), (0.63, False)])
def test_a_node_is_cool_again_by_the_target_of_its_pool(until_ratio: float, rejected: bool) -> None:
    bands = {"cpu_avg_5m": {"evictAbove": 0.8, "evictUntil": until_ratio}}
    pool = {"name": "a", "nodeSelector": {"matchLabels": {"kind": "a"}}, "descheduler": {"thresholds": bands}}
    world = worlds.view_of({"other": IDLE}, worlds.policy(pools=[pool]))
    hint = relief_hint.encode(relief_hint.Relief({"uid-web": NOW + 60}))
    for name, labels in (("n", {"kind": "a"}), ("plain", {})):
        world.nodes.node_changed(None, worlds.node(name, WARM, relief=hint, labels=labels))
    _, failed = filtered(world, ["n", "plain", "other"])
    assert failed == {"plain": relief_hint.REASON, **({"n": relief_hint.REASON} if rejected else {})}


def test_a_relieved_node_is_not_kept_as_the_coolest() -> None:
    world = cluster_view.ClusterView(worlds.policy(filter={"whenAllRejected": "coolest"}), "h", NOW)
    hint = relief_hint.encode(relief_hint.Relief({"uid-web": NOW + 60}))
    world.nodes.node_changed(None, worlds.node("n", {**IDLE, "cpu_avg_5m": 0.7}, relief=hint))
    world.nodes.node_changed(None, worlds.node("m", {**IDLE, "cpu_avg_5m": 0.9}))
    assert filtered(world, ["n", "m"]) == (["m"], {"n": relief_hint.REASON})


def test_no_candidates_are_answered_with_none() -> None:
    world = worlds.view_of({"n": IDLE})
    assert filtered(world, []) == ([], {})
    assert scored(world, []) == {}


# prioritize


PLAIN = worlds.policy(score={"spread": "none"})  # bases as they are
FIELD = worlds.policy(
    score={"combine": "mean", "spread": "none", "weights": dict(zip(IDLE, [0.2, 0.3, 0.5] * 2, strict=True))}
)


BUSY = dict(zip(IDLE, [0.5, 0.6, 0.8, 0.2, 0.3, 0.4], strict=True))


@pytest.mark.parametrize(
    ("in_force", "load", "score"),
    [
        # 10 * (.6*.5 + .3*.4 + .1*.17) = 4.37, and .7 * 250m of 8 cores off: 4.15 -> 4
        pytest.param(PLAIN, {**BUSY, "cpu_max_1d": 0.83}, 4, id="by default of the worse resource with the pod on it"),
        # 10 * (.2*.5 + .3*.4 + .5*.2 + .2*.8 + .3*.7 + .5*.6) / 2.0 = 4.95 -> 5
        pytest.param(FIELD, BUSY, 5, id="ten times the weighted mean of headroom"),
        # 10 * (.2*.5 + .5*.9) / .7 = 7.857 -> 8
        pytest.param(FIELD, {"cpu_avg_5m": 0.5, "memory_max_1d": 0.1}, 8, id="only usable metrics share the weight"),
    ],
)
def test_the_score_is_the_formula(in_force: load_policy.LoadPolicy, load: dict[str, float], score: int) -> None:
    assert scored(worlds.view_of({"n": load}, in_force), ["n"]) == {"n": score}


def test_without_any_reading_all_score_the_same_and_nobody_is_assumed_to_win() -> None:
    world = worlds.view_of({"a": None, "b": worlds.load_text(HOT, NOW - 3600)})
    assert len(set(scored(world, ["a", "b", "unknown"]).values())) == 1
    assert world.placements.assumed(NOW) == 0


def test_hot_spots_take_points_off() -> None:
    no_estimates = worlds.policy(recentPods={"enabled": False}, score={"spread": "none"})
    world = worlds.view_of({"n": dict.fromkeys(IDLE, 0.1), "m": dict.fromkeys(IDLE, 0.1)}, no_estimates)
    worlds.bind(world, "n", *(f"p{at}" for at in range(5)))  # 5 // 2 + 5 // 5 + 5 // 20 = 3 points
    assert scored(world, ["n", "m"]) == {"n": 6, "m": 9}
    assert scored(world, ["n", "m"], NOW + 60) == {"n": 8, "m": 9}


def test_the_incoming_pod_weighs_only_if_the_policy_says_so() -> None:
    loads = {"small": dict.fromkeys(IDLE, 0.1), "large": dict.fromkeys(IDLE, 0.1)}
    for incoming, expected in ((False, {"small": 9, "large": 9}), (True, {"small": 5, "large": 7})):
        world = worlds.view_of(loads, worlds.policy(score={"incomingPod": incoming, "spread": "none"}))
        world.nodes.node_changed(None, worlds.node("small", loads["small"], cpu="4", memory="16Gi"))
        assert scored(world, ["small", "large"], cpu="2286m", memory="9362Mi") == expected


@pytest.mark.parametrize("behind", [0, 1, 3])
def test_a_burst_asked_one_by_one_spreads_before_the_watch_says_where_it_went(behind: int) -> None:
    """`behind`: by how many pods our watch is behind the scheduler's."""
    world = worlds.view_of({f"n{at}": dict.fromkeys(IDLE, 0.1 + at / 1000) for at in range(5)}, PLAIN)
    winners = []
    for at in range(30):
        worlds.wait(world, *(f"p{at - behind}",) if at >= behind else (), now_seconds=NOW + at / 100)
        scores = scored(world, [f"n{node}" for node in range(5)], NOW + at / 100, pod=f"p{at}")
        assert max(scores.values()) - min(scores.values()) <= 2 + behind
        decision = verbs.answer(
            "prioritize", world, worlds.args([f"n{node}" for node in range(5)], f"p{at}"), NOW + at / 100
        )
        winners.append(decision.decision.assumed)
    assert max(winners.count(f"n{at}") for at in range(5)) <= 6 + behind


def test_the_same_pod_asked_again_gets_the_same_answer() -> None:
    world = worlds.view_of({"a": IDLE, "b": dict.fromkeys(IDLE, 0.12)})
    worlds.wait(world, "p", "q", cpu="8")
    first = verbs.answer("prioritize", world, worlds.args(["a", "b"], "p", cpu="8"), NOW)
    assert verbs.answer("prioritize", world, worlds.args(["a", "b"], "p", cpu="8"), NOW) == first
    other = verbs.answer("prioritize", world, worlds.args(["a", "b"], "q", cpu="8"), NOW)
    assert (first.decision.assumed, other.decision.assumed) == ("a", "b")


def test_the_only_node_that_passes_the_filter_is_assumed_because_nobody_will_rank_it() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    worlds.wait(world, "new")
    assert verbs.answer("filter", world, worlds.args(["hot", "cool"]), NOW).decision.assumed == "cool"
    assert world.placements.assumed(NOW) == 1


# the nominated node, which kube-scheduler asks about first and alone


def nominated(node: str) -> dict[str, Any]:
    return {"mutate": lambda body: body["status"].update(nominatedNodeName=node)}


def test_a_hot_nominated_node_is_refused_once_and_passes_when_asked_about_again() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    for _ in range(3):
        assert filtered(world, ["hot"], **nominated("hot")) == ([], {"hot": "cpu_avg_5m over 0.65"})
        assert filtered(world, ["hot"], **nominated("hot")) == (["hot"], {})


def test_another_answer_about_the_pod_ends_the_cycle() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    for _ in range(3):
        assert filtered(world, ["hot"], **nominated("hot"))[0] == []
        assert filtered(world, ["hot", "cool"], **nominated("hot"))[0] == ["cool"]


def test_a_refusal_is_one_pods_own() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    for pod in ("p", "q"):
        assert filtered(world, ["hot"], pod=pod, **nominated("hot"))[0] == []


@pytest.mark.parametrize(
    ("loads", "pod"),
    [
        ({"hot": HOT}, nominated("hot")),
        ({"hot": HOT, "hotter": {**HOT, "cpu_avg_5m": 0.95}}, nominated("hot")),
        ({"hot": HOT, "cool": IDLE}, nominated("cool")),
        ({"hot": HOT, "cool": IDLE}, {}),
        ({"hot": IDLE, "cool": IDLE}, nominated("hot")),
        ({"hot": HOT, "cool": IDLE}, {"owner": ("DaemonSet", "agent"), **nominated("hot")}),
        ({"hot": HOT, "cool": IDLE}, {"annotations": {"evenload.io/filter": "off"}, **nominated("hot")}),
    ],
    ids=["the only node", "the coolest", "another one", "none", "it is cool", "of a DaemonSet", "opted out"],
)
def test_a_node_that_is_asked_about_alone_passes_otherwise(loads: dict[str, Any], pod: dict[str, Any]) -> None:
    for _ in range(2):
        assert filtered(worlds.view_of(loads), ["hot"], **pod) == (["hot"], {})


# preempt


def preempted(world: cluster_view.ClusterView, *names: str) -> dict[str, Any]:
    victims = {name: {"Pods": [{"UID": f"victim-{name}"}], "NumPDBViolations": 0} for name in names}
    request = json.dumps({"Pod": builders.pod_body("p"), "NodeNameToMetaVictims": victims}).encode()
    reply = json.loads(verbs.answer("preempt", world, protocol.decode_preemption(request), NOW).body)
    found: dict[str, Any] = reply["NodeNameToMetaVictims"]
    return found


def test_hot_nodes_leave_the_victims_map_and_the_rest_pass() -> None:
    world = worlds.view_of({"hot": HOT, "cool": IDLE})
    assert preempted(world, "hot", "cool", "unknown") == {
        name: {"Pods": [{"UID": f"victim-{name}"}], "NumPDBViolations": 0} for name in ("cool", "unknown")
    }


def test_preemption_on_hot_nodes_only_is_left_the_coolest() -> None:
    loads = {"hot": HOT, "less": {**IDLE, "cpu_avg_5m": 0.7}}
    assert list(preempted(worlds.view_of(loads), "hot", "less")) == ["less"]


# degraded decisions


@pytest.mark.parametrize(
    ("load", "cause"),
    [
        (None, "missing_reading"),
        (worlds.load_text(IDLE, NOW - 300), "stale_reading"),
        ({"cpu_avg_5m": 0.1}, "missing_metric"),
    ],
    ids=["no reading", "a stale reading", "a metric is absent"],
)
def test_a_decision_on_less_than_whole_data_says_why(load: Any, cause: str) -> None:
    world = worlds.view_of({"n": load, "whole": IDLE})
    assert verbs.answer("filter", world, worlds.args(["n", "whole"]), NOW).decision.degraded == (cause,)
    assert verbs.answer("prioritize", world, worlds.args(["n", "whole"]), NOW).decision.degraded == (cause,)
    assert verbs.answer("prioritize", world, worlds.args(["whole"]), NOW).decision.degraded == ()


def test_an_unknown_node_degrades_the_decision() -> None:
    world = worlds.view_of({"n": IDLE})
    assert verbs.answer("filter", world, worlds.args(["n", "new"]), NOW).decision.degraded == ("unknown_node",)
