"""By what a recent pod is estimated, and that a published mean reaches placements, scores and people."""

import json
from typing import Any

import msgspec
import pytest

from extender.state import cluster_view, placements
from extender.verbs import decision_log, explain, verbs
from policy.contract import owner_usage
from policy.contract.owner_usage import Mean
from tests.unit.extender import worlds

NOW = worlds.NOW
MIB = 2.0**20
WEB = "default/ReplicaSet/web"  # the owner of builders' pods
MEANS = {WEB: Mean(2000.0, 1024 * MIB, 7)}
BY = "owner's mean over 7 replicas"
BY_MEANS = {"cpu_millicores": 2000.0, "cpu_by": BY, "memory_bytes": 1024 * MIB, "memory_by": BY, "ignored": None}
OWN: dict[str, Any] = {"annotations": {"evenload.io/expected-usage": "cpu=4,memory=1Gi"}}
TOO_LARGE: dict[str, Any] = {"annotations": {"evenload.io/expected-usage": "cpu=9"}}  # nodes have 8


def usage_of(
    world: cluster_view.ClusterView, means: owner_usage.Means = MEANS, at_seconds: float = NOW
) -> cluster_view.ClusterView:
    """The world after the ConfigMap said so."""
    world.usage_changed(owner_usage.encode(at_seconds, means), NOW)
    return world


def expected(world: cluster_view.ClusterView, now: float = NOW) -> float:
    """Expected CPU of the recent pods on node n, a ratio of its 8 cores."""
    return float(world.candidates(("n",), now).expected[0, 0])


def estimate(world: cluster_view.ClusterView, now: float = NOW, **pod: Any) -> dict[str, object]:
    """What explain says of a pod's estimate."""
    args = worlds.args(["n"], **pod)
    found = json.loads(json.dumps(msgspec.to_builtins(explain.explain(world, args.pod, args.names, now))))["estimate"]
    assert isinstance(found, dict)
    return found


def test_a_pod_is_estimated_by_the_mean_of_its_owner_and_explain_says_so() -> None:
    assert estimate(usage_of(worlds.view_of({"n": worlds.IDLE})), cpu="100m", memory="128Mi") == BY_MEANS


def test_a_mean_is_at_least_a_share_of_the_request_and_explain_says_so() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}), {WEB: Mean(2.0, 512 * MIB, 1)})
    assert estimate(world, cpu="1", memory="1Gi") == {
        "cpu_millicores": 500.0,
        "cpu_by": "50% of the request, over an owner's mean of less over 1 replica",
        "memory_bytes": 512 * MIB,
        "memory_by": "owner's mean over 1 replica",
        "ignored": None,
    }


def test_a_pods_own_estimate_counts_on_its_node_and_in_its_score_until_more_is_measured() -> None:
    in_force = worlds.policy(score={"incomingPod": True, "spread": "none", "weights": {"cpu_avg_5m": 1}})
    world = worlds.view_of({"n": worlds.IDLE}, in_force)
    worlds.bind(world, "n", "p", cpu="100m", **OWN)
    assert expected(world) == pytest.approx(4000 / 8000)
    by = {"cpu_by": "annotation", "memory_by": "annotation", "ignored": None}
    assert estimate(world, cpu="100m", **OWN) == {"cpu_millicores": 4000.0, "memory_bytes": 1024 * MIB, **by}
    (score,) = json.loads(verbs.answer("prioritize", world, worlds.args(["n"], cpu="100m", **OWN), NOW).body)
    assert score["Score"] == 0  # 10 * (1 - 0.1 - 0.5 - 0.5)
    usage_of(world, {WEB: Mean(6000.0, None, 3)})
    assert expected(world) == pytest.approx(6000 / 8000)


def test_an_estimate_of_more_than_any_node_has_is_ignored_also_after_a_change_of_policy() -> None:
    world = worlds.view_of({"n": worlds.IDLE})
    worlds.bind(world, "n", "p", cpu="100m", **TOO_LARGE)
    pod = worlds.watch_sees("p", "n", cpu="100m", **TOO_LARGE)
    assert expected(world) == pytest.approx(70 / 8000)
    world.use_policy(worlds.policy(recentPods={"usagePerRequest": {"cpu": 1.0}}), "new", lambda: [pod], NOW)
    assert expected(world) == pytest.approx(100 / 8000)
    assert estimate(world, cpu="100m", **TOO_LARGE)["ignored"] == "more than any node has"


def test_a_changed_estimate_counts_at_once() -> None:
    world = worlds.view_of({"n": worlds.IDLE})
    for text, millicores in (("cpu=1", 1000), ("cpu=8", 8000), ("nonsense", 70)):
        worlds.bind(world, "n", "p", cpu="100m", annotations={"evenload.io/expected-usage": text})
        assert expected(world) == pytest.approx(millicores / 8000)


def test_an_owner_that_scales_from_idle_does_not_herd() -> None:
    """One replica that is idle, then fifty have work: they go where each finds a part of what it requests."""
    loads = {name: dict.fromkeys(worlds.IDLE, 0.4) for name in "abcdefgh"} | {"n": dict.fromkeys(worlds.IDLE, 0.05)}
    world = usage_of(worlds.view_of({}, worlds.policy(hotSpots=[])), {WEB: Mean(2.0, 50 * MIB, 1)})
    for name, load in loads.items():
        world.nodes.node_changed(None, worlds.node(name, load, cpu="64"))
    landed = dict.fromkeys(loads, 0)
    for at in range(50):
        worlds.wait(world, f"p{at}", cpu="1", memory="64Mi")
        made = verbs.answer(
            "prioritize", world, worlds.args(list(loads), f"p{at}", cpu="1", memory="64Mi"), NOW
        ).decision
        landed[made.assumed] += 1
    assert landed["n"] < 50, "each took 2 millicores of 64 cores for what its like would use"
    assert landed["n"] > 35, "and the idle node has room for more than the others"


def test_each_resource_falls_back_by_itself() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}), {WEB: Mean(None, 1024 * MIB, 1)})
    found = estimate(world, cpu="100m", memory="128Mi")
    assert (found["cpu_by"], found["cpu_millicores"]) == ("request ratio", 70.0)
    assert found["memory_by"] == "owner's mean over 1 replica"
    assert estimate(worlds.view_of({"n": worlds.IDLE}), cpu="0", memory="0")["cpu_by"] == "default"


@pytest.mark.parametrize(
    ("pod", "by"),
    [
        pytest.param({"owner": ("ReplicaSet", "web-5d4f8c7b9")}, "owner's mean over 7 replicas", id="a new version"),
        pytest.param({"owner": ("ReplicaSet", "api")}, "request ratio", id="another owner"),
        pytest.param({"owner": ("StatefulSet", "web")}, "request ratio", id="another kind"),
        pytest.param({"namespace": "other"}, "request ratio", id="another namespace"),
        pytest.param({"owner": None}, "request ratio", id="a bare pod"),
    ],
)
def test_the_owner_is_told_apart_by_namespace_kind_and_name(pod: dict[str, Any], by: str) -> None:
    assert estimate(usage_of(worlds.view_of({"n": worlds.IDLE})), **pod)["cpu_by"] == by


def test_stale_means_and_those_from_the_future_are_not_used() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}))
    assert estimate(world, NOW + 3599)["cpu_by"] == "owner's mean over 7 replicas"
    assert estimate(world, NOW + 3600)["cpu_by"] == "request ratio"
    assert estimate(usage_of(world, at_seconds=NOW + 120))["cpu_by"] == "request ratio"


def test_a_policy_may_not_want_means() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}, worlds.policy(recentPods={"ownerUsage": False})))
    assert estimate(world)["cpu_by"] == "request ratio"
    assert msgspec.to_builtins(explain.all_nodes(world, NOW))["owner_usage"] == {
        "at": "2026-11-21T04:00:00Z",
        "age_seconds": 0.0,
        "owners": 0,
        "problem": None,
    }


def test_a_recent_pod_counts_by_its_owners_mean_whichever_came_first() -> None:
    before, after = usage_of(worlds.view_of({"n": worlds.IDLE})), worlds.view_of({"n": worlds.IDLE})
    for world in (before, after):
        worlds.bind(world, "n", "p", cpu="100m")
    assert expected(after) == pytest.approx(70 / 8000)
    usage_of(after)
    assert expected(before) == expected(after) == pytest.approx(2000 / 8000)
    assert expected(after, NOW + 150) == pytest.approx(1000 / 8000)


def test_a_mean_that_moved_or_went_re_estimates_what_counts() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}))
    worlds.bind(world, "n", "p", cpu="100m")
    usage_of(world, {WEB: Mean(400.0, None, 2)})
    assert expected(world) == pytest.approx(400 / 8000)
    world.usage_changed(None, NOW)
    assert expected(world) == pytest.approx(70 / 8000)


def test_an_assumed_winner_is_re_estimated_and_stays_assumed() -> None:
    world = worlds.view_of({"n": worlds.IDLE, "m": worlds.HOT})
    worlds.wait(world, "new", cpu="100m")
    verbs.answer("filter", world, worlds.args(["n", "m"], cpu="100m"), NOW)
    assert expected(world) == pytest.approx(70 / 8000)
    usage_of(world)
    assert expected(world) == pytest.approx(0.25)
    assert world.placements.assumed(NOW) == 1
    assert world.placements.assumed(NOW + placements.ASSUMED_SECONDS) == 0


def test_means_survive_a_change_of_policy() -> None:
    world = usage_of(worlds.view_of({"n": worlds.IDLE}))
    world.use_policy(worlds.policy(recentPods={"usagePerRequest": {"cpu": 1.0}}), "new", list, NOW)
    assert estimate(world)["cpu_millicores"] == 2000.0


def test_the_incoming_pods_own_load_is_its_owners_mean() -> None:
    in_force = worlds.policy(score={"incomingPod": True, "spread": "none", "weights": {"cpu_avg_5m": 1}})
    world = usage_of(worlds.view_of({"n": worlds.IDLE}, in_force))
    (score,) = json.loads(verbs.answer("prioritize", world, worlds.args(["n"], cpu="100m"), NOW).body)
    assert score["Score"] == 7  # 10 * (1 - 0.1 - 2000 / 8000) = 6.5, half up


def test_a_remembered_decision_keeps_the_estimate_it_was_made_with() -> None:
    world, ring = usage_of(worlds.view_of({"n": worlds.IDLE})), decision_log.DecisionLog()
    ring.add(verbs.answer("prioritize", world, worlds.args(["n"]), NOW).decision)
    usage_of(world, {WEB: Mean(1.0, None, 1)})
    (shown,) = msgspec.to_builtins(explain.decided(ring.find("", "", 1, now_seconds=NOW), with_nodes=True))
    assert shown["estimate"] == BY_MEANS
    ring.add(verbs.answer("prioritize", world, worlds.args(["n"], **OWN), NOW).decision)
    shown, _ = msgspec.to_builtins(explain.decided(ring.find("", "", 2, now_seconds=NOW), with_nodes=True))
    assert shown["estimate"]["cpu_by"] == "annotation"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "none seen yet"),
        ({"v": "7"}, "ConfigMap evenload-usage is unusable (version): '7'; expected version 1"),
        ({"v": "1", "at": "2026-11-21T04:00:00Z", "ns.default": "nonsense"}, "1 lines cannot be read"),
    ],
)
def test_what_cannot_be_read_is_a_reason_in_nodes(data: dict[str, str] | None, problem: str) -> None:
    world = worlds.view_of({"n": worlds.IDLE})
    world.usage_changed(data, NOW)
    shown = json.loads(json.dumps(msgspec.to_builtins(explain.all_nodes(world, NOW))))["owner_usage"]
    assert (shown["owners"], shown["problem"]) == (0, problem)
