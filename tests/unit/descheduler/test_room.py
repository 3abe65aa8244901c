"""Room for a pod that no node takes: which small pods leave which node for it, and its own move to that node later."""

import collections.abc
import pathlib
import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from descheduler.ledger.rows import Query
from descheduler.placement import made_room
from descheduler.planning import room
from descheduler.planning.plans import EvictionPlan
from descheduler.snapshot import pod_annotations, usage
from descheduler.snapshot.eviction_history import EvictedPod, History
from descheduler.snapshot.node_policies import NodePolicies
from policy.contract import relief_hint
from policy.schema.load_policy import LoadPolicy
from tests import builders
from tests.unit.descheduler import doors, scenes, test_plan_invariants
from tests.unit.descheduler.scenes import NOW, Scene
from tests.unit.descheduler.worlds import World

REQUESTS: dict[str, Any] = {"memory": "64Mi", "cpu": "50m"}
SMALL: dict[str, Any] = {"gib": 0.5, "memory": "64Mi", "cpu": "50m"}


def policy(caps: collections.abc.Mapping[str, int] | None = None, **descheduler: object) -> LoadPolicy:
    """The default policy with room that is made."""
    return scenes.policy(makeRoom={"limits": caps or {}}, **descheduler)


def crowded(*, cores: float = 2.0, near: float = 0.45) -> Scene:
    """A hot node with one pod of two cores (25 %), and three nodes where it would be over 60 %: `near` takes it without
    the pods of `a` (6 %) and `b` (5 %), and each of these fits on the other two.
    """
    scene = Scene().node("hot", cpu=0.9).node("near", cpu=near).node("mid", cpu=0.5).node("far", cpu=0.52)
    scene.workload("big", on=["hot", "mid"], cores=cores, gib=1.0, memory="64Mi", cpu="100m")
    scene.workload("a", on=["near", "mid"], cores=0.5, **SMALL)
    return scene.workload("b", on=["near", "far"], cores=0.4, **SMALL)


def with_another(scene: Scene, name: str, *, cores: float, **fields: Any) -> Scene:
    """The scene with another small pod of that workload on `near`, in the place of its first."""
    scene.pods = [pod for pod in scene.pods if pod.name != f"{name}-0"]
    own = {"labels": {"app": name}, "owner": ("ReplicaSet", name), **SMALL, **fields}
    return scene.pod(f"{name}-0", "near", cores=cores, **own)


def tainted(body: builders.Body) -> None:
    """Keeps pods off the node that do not tolerate its taint."""
    body["spec"] = {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}


def bound_to_big(body: builders.Body) -> None:
    """Keeps the pod on nodes with the label."""
    body["spec"]["nodeSelector"] = {"big": "yes"}


def cordoned(body: builders.Body) -> None:
    """Closes the node."""
    body["spec"] = {"unschedulable": True}


def moves(plan: EvictionPlan) -> dict[str, tuple[str, str]]:
    """The evictions that make room: by pod the node that it leaves and where it is expected."""
    return {one.pod.name: (one.overload.node, one.destination) for one in plan.evictions if one.overload.room_for}


def detail(plan: EvictionPlan, pod: str = "big-0") -> str:
    """The words of a pod's verdict."""
    return scenes.judged(plan)[pod].verdict.detail


def test_without_the_key_the_pod_stays_and_nothing_else_moves() -> None:
    plan = crowded().plan(scenes.policy())
    assert plan.evictions == ()
    assert [node.node.name for node in plan.nodes] == ["hot"]
    assert detail(plan) == "no other node takes it: 3 over evictUntil with it"


def test_two_small_pods_leave_the_node_that_takes_the_large_one_without_them() -> None:
    plan = crowded().plan(policy())
    assert moves(plan) == {"b-0": ("near", "mid"), "a-0": ("near", "far")}
    assert scenes.causes(plan)["big-0"] == "no_destination"
    assert detail(plan).endswith("; default/b-0 and default/a-0 leave near for it")
    hot, near = plan.nodes
    assert (hot.node.name, hot.chosen, hot.makes_room) == ("hot", 0, False)
    assert (near.node.name, near.chosen, near.makes_room) == ("near", 2, True)
    (over,) = near.overloads
    assert (over.room_for, over.value_ratio, over.evict_above_ratio, over.evict_until_ratio) == (
        "default/big-0", 0.45, 0.8, 0.6,
    )  # fmt: skip
    assert near.projected == {"cpu_avg_5m": pytest.approx(0.3375)}
    first, second = plan.evictions
    ratios = [first.before_ratio, first.projected_ratio, second.before_ratio, second.projected_ratio]
    assert ratios == pytest.approx([0.45, 0.40, 0.40, 0.3375])
    assert first.destination_ratio == pytest.approx(0.55)
    assert second.destination_ratio == pytest.approx(0.5825)


def test_one_pod_leaves_where_one_is_enough_and_the_smallest_of_those() -> None:
    plan = crowded(near=0.395).plan(policy())
    assert moves(plan) == {"b-0": ("near", "mid")}
    assert scenes.causes(plan)["a-0"] == "not_needed"
    assert detail(plan, "a-0") == "room for default/big-0 is made without it"


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"annotations": {pod_annotations.PREFER_NO_EVICTION: ""}}, id="is to come last"),
        pytest.param({"mutate": lambda body: body["spec"].update(priority=5)}, id="has a higher priority"),
    ],
)
def test_the_second_smallest_leaves_where_the_smallest_comes_last_or_matters_more(fields: dict[str, Any]) -> None:
    scene = with_another(crowded(near=0.395), "b", cores=0.4, **fields)
    assert moves(scene.plan(policy())) == {"a-0": ("near", "mid")}


def test_a_node_that_is_full_by_requests_makes_room_for_them() -> None:
    scene = Scene().node("hot", cpu=0.9).node("full", cpu=0.1).node("spare", cpu=0.58).node("third", cpu=0.58)
    scene.workload("big", on=["hot", "spare"], cores=2.0, gib=1.0, cpu="3", memory="64Mi")
    scene.workload("idle", on=["full", "third"], cores=0.1, gib=0.1, cpu="4", memory="64Mi")
    scene.workload("lazy", on=["full", "third"], cores=0.09, gib=0.1, cpu="1500m", memory="64Mi")
    assert "1 requests" in detail(scene.plan(scenes.policy()))
    assert moves(scene.plan(policy())) == {"lazy-0": ("full", "spare")}


def test_pods_that_use_nothing_are_no_ways_to_make_room() -> None:
    scene = Scene().node("hot", cpu=0.9).node("full", cpu=0.1).node("spare", cpu=0.58).node("third", cpu=0.58)
    scene.workload("big", on=["hot", "spare"], cores=2.0, gib=1.0, cpu="3", memory="64Mi")
    for name, cores in (("a", 0.0), ("b", 0.0), ("c", 0.0), ("lazy", 0.0009)):
        scene.workload(name, on=["full", "third"], cores=cores, gib=0.1, cpu="1500m", memory="64Mi")
    assert moves(scene.plan(policy())) == {"lazy-0": ("full", "spare")}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"limits": {"perRun": 1}}, id="the cap of a run"),
        pytest.param({"limits": {"perNamespace": 1}}, id="the cap of a namespace"),
        pytest.param({"coolNodes": 4}, id="too few cool nodes"),
        pytest.param({"protect": {"minReplicas": 9}}, id="no pod may leave the hot node"),
    ],
)
def test_no_pod_leaves_where_not_all_may(change: dict[str, Any]) -> None:
    assert crowded().plan(policy(**change)).evictions == ()


@pytest.mark.parametrize(
    "protection",
    [
        pytest.param({"annotations": {"evenload.io/evictable": "false"}}, id="opted out"),
        pytest.param({"owner": None}, id="without a controller"),
    ],
)
def test_a_protected_small_pod_makes_no_room(protection: dict[str, Any]) -> None:
    plan = with_another(crowded(), "a", cores=0.5, **protection).plan(policy())
    assert plan.evictions == ()
    assert detail(plan).endswith("; makeRoom finds no small pods that may leave one of 3 nodes for it")


@pytest.mark.parametrize(
    ("limits", "history", "expected"),
    [
        pytest.param({}, History(), 2, id="nothing before"),
        pytest.param({"perRun": 1}, History(), 0, id="one a run is too few for two"),
        pytest.param({"perHour": 1}, History(), 0, id="one an hour, too"),
        pytest.param({}, History(rooms_in_last_hour=5, last_room_at_seconds=NOW - 3000), 0, id="one is left of six"),
        pytest.param({}, History(rooms_in_last_hour=4, last_room_at_seconds=NOW - 3000), 2, id="two are left of six"),
        pytest.param({}, History(last_by_node={"near": NOW - 100}), 0, id="the node rests"),
        pytest.param({}, History(last_by_workload={"uid-a": NOW - 100}), 0, id="the workload rests"),
    ],
)
def test_moves_that_make_room_have_caps_of_their_own(limits: dict[str, int], history: History, expected: int) -> None:
    plan = crowded().plan(policy(limits), history)
    assert len(plan.evictions) == expected
    assert expected or detail(plan).endswith("; makeRoom finds no small pods that may leave one of 3 nodes for it")


def test_the_cap_of_a_node_does_not_count_them() -> None:
    assert len(crowded().plan(policy(limits={"perNode": 1})).evictions) == 2


@pytest.mark.parametrize(
    ("ago_seconds", "words"),
    [
        pytest.param(200, "room was made, and is not made again for 400 s", id="a while ago"),
        pytest.param(599, "room was made, and is not made again for 1 s", id="a second is left"),
        pytest.param(600, "default/b-0 and default/a-0 leave near for it", id="the node shows it"),
    ],
)
def test_more_room_waits_until_a_node_shows_the_one_that_was_made(ago_seconds: float, words: str) -> None:
    history = History(rooms_in_last_hour=2, last_room_at_seconds=NOW - ago_seconds)
    assert detail(crowded().plan(policy(), history)) == f"no other node takes it: 3 over evictUntil with it; {words}"


@pytest.mark.parametrize(
    ("cooldown", "ago_seconds", "left"),
    [
        pytest.param({"workload": "1m", "node": "1m"}, 200, 400, id="two windows"),
        pytest.param({"workload": "20m", "node": "1m"}, 200, 1000, id="the cool-down of a workload"),
        pytest.param({"workload": "1m", "node": "15m"}, 200, 700, id="the cool-down of a node"),
        pytest.param({}, 600, 0, id="the end"),
        pytest.param({}, 700, 0, id="and after it"),
        pytest.param({}, None, 0, id="none was made"),
    ],
)
def test_room_is_not_made_again_for_the_longest_of_two_windows_and_the_cool_downs(
    cooldown: dict[str, str], ago_seconds: float | None, left: float
) -> None:
    history = History(last_room_at_seconds=None if ago_seconds is None else NOW - ago_seconds)
    assert room.left_seconds(history, policy(cooldown=cooldown), NOW) == left


def test_a_policy_without_thresholds_has_cool_downs_only() -> None:
    quiet = policy(thresholds={}, cooldown={"workload": "1m", "node": "5m"})
    assert room.left_seconds(History(last_room_at_seconds=NOW - 200), quiet, NOW) == 100


def test_pods_that_leave_must_use_less_than_the_one_that_comes() -> None:
    scene = Scene().node("hot", cpu=0.9, labels={"big": "yes"}).node("near", cpu=0.5, labels={"big": "yes"})
    scene.node("spare", cpu=0.1)  # not for the large pod
    scene.workload("big", on=["hot", "near"], cores=2.0, gib=1.0, mutate=bound_to_big, **REQUESTS)
    scene.workload("other", on=["near", "spare"], cores=1.9, gib=1.0, **REQUESTS)
    assert moves(scene.plan(policy())) == {"other-0": ("near", "spare")}
    scene.used["default/other-0"] = usage.PodUsage("default/other-0", 2000.0, 1.0, NOW - 10)
    assert scene.plan(policy()).evictions == ()


@pytest.mark.parametrize(("cores", "moved"), [(0.99, {"a-0", "b-0"}), (1.0, set())])
def test_both_of_a_pair_must_use_less_than_the_one_that_comes(cores: float, moved: set[str]) -> None:
    scene = Scene().node("hot", cpu=0.9).node("near", cpu=0.5).node("mid", cpu=0.4).node("far", cpu=0.4)
    scene.node("closed", mutate=cordoned).workload("big", on=["hot", "closed"], cores=2.0, gib=1.0, **REQUESTS)
    scene.workload("a", on=["near", "closed"], cores=1.0, **SMALL)
    scene.workload("b", on=["near", "closed"], cores=cores, **SMALL)
    assert set(moves(scene.plan(policy()))) == moved


@pytest.mark.parametrize(
    ("near", "tiny", "moved"),
    [
        pytest.param(0.45, 18, {"a-0", "b-0"}, id="a pair of the first twenty"),
        pytest.param(0.45, 19, set(), id="a pair of the first twenty-one"),
        pytest.param(0.395, 20, {"b-0"}, id="any pod alone"),
    ],
)
def test_pairs_are_of_the_twenty_pods_that_leave_best(near: float, tiny: int, moved: set[str]) -> None:
    scene = crowded(near=near)
    for number in range(tiny):
        scene.workload(f"tiny-{number}", on=["near", "mid"], cores=0.01, gib=0.5, memory="64Mi", cpu="5m")
    assert set(moves(scene.plan(policy()))) == moved


def test_no_three_pods_leave_for_one() -> None:
    scene = crowded(near=0.5).node("last", cpu=0.52).workload("c", on=["near", "mid"], cores=0.4, **SMALL)
    caps = {"perRun": 3, "perHour": 9}
    assert scene.plan(policy(caps, limits={"perNamespace": 9})).evictions == ()


def test_no_room_is_made_while_something_leaves_the_hot_node() -> None:
    scene = crowded(near=0.41).workload("free", on=["hot", "mid"], cores=0.3, **SMALL)
    plan = scene.plan(policy())
    assert scenes.evicted(plan) == ["free-0"]


def test_no_room_is_made_where_the_large_pod_may_not_stand() -> None:
    scene = crowded()
    scene.nodes["near"] = builders.node("near", mutate=tainted)
    assert scene.plan(policy()).evictions == ()


def test_room_is_made_in_the_pool_of_the_hot_node_only() -> None:
    section = {"thresholds": {"cpu_avg_5m": {"evictAbove": 0.75, "evictUntil": 0.6}}}
    pools = [{"name": "web", "nodeSelector": {"matchLabels": {"pool": "web"}}, "descheduler": section}]
    obeyed = LoadPolicy.of({"descheduler": {"makeRoom": {}}, "pools": pools})
    scene = crowded()
    scene.nodes["hot"] = builders.node("hot", labels={"pool": "web"})
    assert scene.plan(obeyed).evictions == ()
    scene.nodes["near"] = builders.node("near", labels={"pool": "web"})
    plan = scene.plan(obeyed)
    assert set(moves(plan)) == {"a-0", "b-0"}
    assert [node.pool for node in plan.nodes] == [one.pool for one in plan.evictions] == ["web", "web"]
    assert {one.overload.evict_above_ratio for one in plan.evictions} == {0.75}


def test_only_nodes_that_could_make_room_have_their_pods_read() -> None:
    scene = crowded().node("closed", cpu=0.1, mutate=cordoned).node("silent")
    del scene.readings["silent"]["cpu_avg_5m"]
    for number in range(12):
        scene.node(f"idle-{number:02}", cpu=0.2 + number / 100)

    def near(obeyed: LoadPolicy, *names: str) -> frozenset[str]:
        taken, policies = scene.snapshot(), NodePolicies(obeyed, scene.nodes.values())
        return room.nodes_to_read(taken.nodes, taken.node_usage, policies, frozenset(names), now_seconds=NOW)

    assert near(policy(), "hot") == {f"idle-{number:02}" for number in range(8)}
    assert near(policy()) == frozenset()
    assert near(scenes.policy(), "hot") == frozenset()


def test_nodes_are_ranked_by_the_lines_of_their_own_pool() -> None:
    web = {"nodeSelector": {"matchLabels": {"pool": "web"}}}
    lines = {"memory_avg_5m": {"evictAbove": 0.8, "evictUntil": 0.3}}
    pool = {"name": "web", **web, "descheduler": {"thresholds": lines}}
    obeyed = LoadPolicy.of({"descheduler": {"makeRoom": {}}, "pools": [pool]})
    scene = Scene()
    for number in range(room.NODES):
        scene.node(f"near-{number}", cpu=0.5, labels={"pool": "web"})
    scene.node("full", cpu=0.1, memory=0.25, labels={"pool": "web"}).node("hot", cpu=0.9, labels={"pool": "web"})
    policies, usages = NodePolicies(obeyed, scene.nodes.values()), scene.snapshot().node_usage
    names = room.nodes_to_read(scene.nodes.values(), usages, policies, frozenset({"hot"}), now_seconds=NOW)
    assert names == {f"near-{number}" for number in range(room.NODES)}


# a later run


def departed(*, age_seconds: float = 400, for_room: bool = True) -> tuple[EvictedPod, ...]:
    """The two small pods of `near`, gone for so long."""
    gone_at_seconds = NOW - age_seconds
    return (
        EvictedPod("near", "uid-gone-a", gone_at_seconds, 500.0, 0.0, made_room=for_room),
        EvictedPod("near", "uid-gone-b", gone_at_seconds, 400.0, 0.0, made_room=for_room),
    )


def after(peak: float = 0.45, average: float = 0.34) -> Scene:
    """The crowded cluster once the small pods have left `near`: its average shows it, the hour's maximum does not."""
    scene = Scene().node("hot", cpu=0.9).node("near", cpu=average).node("mid", cpu=0.55).node("far", cpu=0.58)
    scene.reading("near", cpu_max_1h=peak)
    return scene.workload("big", on=["hot", "mid"], cores=2.0, gib=1.0, memory="64Mi", cpu="100m")


def test_the_large_pod_leaves_once_the_average_of_its_node_shows_the_room() -> None:
    plan = after().plan(policy(), History(departed=departed()))
    (eviction,) = plan.evictions
    assert (eviction.pod.name, eviction.destination, eviction.overload.room_for) == ("big-0", "near", "")
    assert eviction.destination_ratio == pytest.approx(0.34 + 0.25)
    assert eviction.destination_left["cpu_max_1h"] == pytest.approx(0.1125)
    assert eviction.destination_left.get("cpu_avg_5m", 0.0) == 0.0


@pytest.mark.parametrize(
    ("scene", "history"),
    [
        pytest.param(after(average=0.40), History(departed=departed()), id="the average does not show it yet"),
        pytest.param(after(), History(departed=departed(for_room=False)), id="pods that left for other reasons count"),
        pytest.param(after(), History(), id="no pod made room there"),
        pytest.param(after(peak=0.5), History(departed=departed()), id="the hour had more than that"),
        pytest.param(after(), History(departed=departed(age_seconds=4200)), id="the maximum has forgotten them"),
    ],
)
def test_the_large_pod_stays_while_its_node_has_no_room(scene: Scene, history: History) -> None:
    assert scene.plan(scenes.policy(), history).evictions == ()


def test_a_pod_that_is_still_there_is_not_left_out() -> None:
    scene = after().pod("slow", "near", owner=None)
    still = EvictedPod("near", scene.pods[-1].uid, NOW - 400, 900.0, 0.0, made_room=True)
    assert made_room.left_ratios(scene.snapshot(), policy(), [still]) == {}
    gone = EvictedPod("nowhere", "uid-x", NOW - 400, 900.0, 0.0, made_room=True)
    assert made_room.left_ratios(scene.snapshot(), policy(), [gone]) == {}


# whole runs


def world(path: pathlib.Path, scene: Scene, **descheduler: Any) -> World:
    """A descheduler that makes room and confirms at once."""
    return World(scene, path, **{"makeRoom": {}, "overloadedFor": "0s", "mode": "Enforce", **descheduler})


def test_the_small_pods_leave_first_and_the_large_one_when_there_is_room(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, crowded())
    report = here.service.run()
    assert report is not None
    assert {name for name, _, _ in here.door.evictions} == {"default/a-0", "default/b-0"}
    assert here.metric("evenload_overloaded_nodes") == 1
    rows = here.ledger.rows(Query())
    assert {(row.node, row.metric, row.result, row.message) for row in rows} == {
        ("near", "cpu_avg_5m", "evicted", "room for default/big-0: cpu_avg_5m 0.45")
    }
    assert all(row.made_room and row.expected_5m_ratio is not None for row in rows)
    events = [body for body in here.door.created if body["reason"] == "NodeMakesRoom"]
    assert [body["regarding"]["kind"] for body in events] == 2 * ["Pod", "Node", "ReplicaSet"]
    assert all("room for default/big-0: cpu_avg_5m 0.45 on near, until 0.60" in body["note"] for body in events)
    hints: list[Any] = [body for name, body in here.door.patches if name == "near"]
    hint = relief_hint.decode(hints[-1]["metadata"]["annotations"][relief_hint.KEY])
    assert hint is not None
    assert set(hint.untils_seconds) == {"uid-a", "uid-b"}

    here.clock.advance(400)
    here.prometheus.age_seconds -= 400
    now = after()
    now.workload("a", on=["far", "mid"], cores=0.5, **SMALL).workload("b", on=["mid", "far"], cores=0.4, **SMALL)
    here.show(now)
    here.prometheus.show(now)
    here.service.run()
    assert here.door.evictions[-1][0] == "default/big-0"
    newest = here.ledger.rows(Query())[0]
    assert (newest.pod, newest.destination, newest.made_room) == ("big-0", "near", False)


def test_the_second_small_pod_stays_where_the_first_one_does(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, crowded())
    here.door.answers = [doors.BLOCKED]
    here.service.run()
    assert [name for name, _, _ in here.door.evictions] == ["default/b-0"]
    assert [row.result for row in here.ledger.rows(Query())] == ["refused"]


def test_history_tells_moves_that_made_room_from_relief(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, crowded())
    here.service.run()
    history = here.ledger.history("Enforce", now_seconds=NOW + 10, window_seconds=0)
    assert (history.rooms_in_last_hour, history.in_last_hour, history.last_room_at_seconds) == (2, 2, NOW)
    assert [one.made_room for one in history.departed] == [True, True]
    assert history.relieved == {}, "the load that comes instead says nothing about their going"
    later = here.ledger.history("Enforce", now_seconds=NOW + 3700, window_seconds=0)
    assert (later.rooms_in_last_hour, later.last_room_at_seconds) == (0, NOW)


def test_the_page_of_the_plan_names_the_pod_that_room_is_made_for(tmp_path: pathlib.Path) -> None:
    page = world(tmp_path, crowded(), mode="Observe").pages().test_client().get("/plan").get_json()
    hot, near = page["nodes"]
    assert [over["room_for"] for over in hot["overloads"]] == [None]
    assert [over["room_for"] for over in near["overloads"]] == ["default/big-0"]
    assert [one["room_for"] for one in page["evictions"]] == 2 * ["default/big-0"]


def test_in_observe_mode_no_pod_is_moved(tmp_path: pathlib.Path) -> None:
    here = world(tmp_path, crowded(), mode="Observe")
    here.service.run()
    assert here.door.evictions == []
    assert len(here.ledger.rows(Query())) == 2


many = hypothesis.settings(max_examples=80)


@many
@hypothesis.given(test_plan_invariants.clusters(), test_plan_invariants.CAPS, st.integers(1, 3))
def test_with_room_no_cap_is_exceeded_and_relief_is_as_without(scene: Scene, caps: dict[str, Any], most: int) -> None:
    before = scene.plan(scenes.policy(limits=caps))
    plan = scene.plan(policy({"perRun": most}, limits=caps))
    made = [one for one in plan.evictions if one.overload.room_for]
    assert [one for one in plan.evictions if not one.overload.room_for] == list(before.evictions)
    assert len(made) <= min(most, room.MOVES)
    assert len(plan.evictions) <= min(caps["perRun"], caps["perHour"])
    assert all(one.before_ratio <= one.overload.evict_until_ratio < 1 for one in made)
    assert all(one.destination_ratio <= 0.6 + usage.ROUNDING for one in made)
    assert all(one.destination != one.overload.node for one in made)
    overloaded = {one.overload.node for one in before.evictions}
    assert not overloaded & {one.destination for one in made}
    for node in plan.nodes:
        assert len({one.pod.uid for one in node.candidates}) == len(node.candidates)


@pytest.mark.parametrize("seed", range(12))
def test_no_pod_moves_in_circles(seed: int) -> None:
    """Nodes whose load is that of their pods, planned again and again: no pod comes back, and it comes to rest."""
    rng = random.Random(seed)
    large = {f"large-{at}": rng.uniform(0.2, 0.28) for at in range(4)}
    small = {f"small-{at}": rng.uniform(0.02, 0.07) for at in range(24)}
    placed = dict.fromkeys(large, "n0") | {name: f"n{1 + at % 5}" for at, name in enumerate(small)}
    base = {"n0": 0.0} | {f"n{number}": rng.uniform(0.2, 0.3) for number in range(1, 6)}
    visited, rooms = {pod: {node} for pod, node in placed.items()}, 0
    for _ in range(30):
        plan = of_pods(large | small, placed, base).plan(policy())
        for one in plan.evictions:
            assert one.destination not in visited[one.pod.name]
            visited[one.pod.name].add(one.destination)
            placed[one.pod.name] = one.destination
            rooms += bool(one.overload.room_for)
    assert of_pods(large | small, placed, base).plan(policy()).evictions == ()
    assert rooms <= 8


def of_pods(
    uses: collections.abc.Mapping[str, float],
    placed: collections.abc.Mapping[str, str],
    base: collections.abc.Mapping[str, float],
) -> Scene:
    """The cluster with these pods, each of a workload with another pod on a closed node."""
    scene = Scene().node("closed", mutate=cordoned)
    for node, ratio in base.items():
        scene.node(node, cpu=ratio + sum(uses[pod] for pod, at in placed.items() if at == node))
    for name, ratio in uses.items():
        scene.owners.append(builders.replica_set(name, replicas=2, ready=2, labels={"app": name}))
        for pod, node in ((name, placed[name]), (f"{name}-other", "closed")):
            more: dict[str, Any] = {"labels": {"app": name}, "owner": ("ReplicaSet", name), "cpu": "50m"}
            scene.pod(pod, node, gib=0.1, cores=8 * ratio, memory="64Mi", **more)
    return scene
