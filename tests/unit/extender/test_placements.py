"""Placements: what counts, how it decays, what is assumed, and that the prepared lines say what the formula says."""

import random
from typing import Any

import numpy as np
import pytest

from extender.state import node_cache
from extender.state.placements import ASSUMED_SECONDS, PlacementTable
from kube import objects
from policy import metrics
from policy.contract import owner_usage
from policy.rules import expected_load, hotspots
from runtime import clock
from tests import builders
from tests.unit.extender import worlds

NOW = worlds.NOW
INDEX = {"a": 1, "b": 2}
ALL = np.arange(3)
CPU_5M, MEMORY_5M = 0, 3


def loads(index: dict[str, int], rows: int = 3) -> node_cache.NodeLoads:
    """So many rows of nodes of which nothing is known."""
    names = {row: name for name, row in index.items()}
    by_row = tuple(names.get(row, "") for row in range(rows))
    return node_cache.NodeLoads(by_row, index, np.zeros((rows, 6)), np.zeros(rows), np.zeros((rows, 2)), {})


LOADS = loads(INDEX)


@pytest.fixture
def placed() -> PlacementTable:
    return PlacementTable(worlds.policy(), NOW)


def counts(placed: PlacementTable, node: str, now: float, besides: str = "") -> list[int]:
    found: list[int] = placed.crowding(LOADS, ALL, now, besides=besides).counts[INDEX[node]].tolist()
    return found


def amount(placed: PlacementTable, node: str, now: float, column: int, besides: str = "") -> float:
    return float(placed.crowding(LOADS, ALL, now, besides=besides).amounts[INDEX[node], column])


def see(placed: PlacementTable, pod: objects.Pod, now: float = NOW) -> objects.Pod:
    placed.pod_changed(None, pod, now)
    return pod


def state(
    phase: str = "Pending", reason: str = "ContainerCreating", started_at: float | None = None
) -> builders.Mutator:
    """The only container of a pod waits for a reason, or runs since a moment."""
    since = None if started_at is None else {"startedAt": clock.to_rfc3339(started_at)}
    one = {"restartCount": 0, "state": {"running": since} if since else {"waiting": {"reason": reason}}}
    return lambda body: body["status"].update(phase=phase, containerStatuses=[one])


@pytest.mark.parametrize("late_seconds", [30, 600, 1500])
def test_a_pods_load_decays_from_its_start(placed: PlacementTable, late_seconds: int) -> None:
    began = NOW + late_seconds
    waits = see(placed, worlds.bound("p", "a", cpu="1", mutate=state()))
    runs = worlds.bound("p", "a", cpu="1", mutate=state("Running", started_at=began))
    placed.pod_changed(waits, runs, began + 1)
    assert amount(placed, "a", began + 150, CPU_5M) == pytest.approx(350)
    assert amount(placed, "a", began + 300, CPU_5M) == 0
    assert worlds.bindings(placed, max(NOW + 1800, began + 300)) == ()


@pytest.mark.parametrize(("bound_at", "started_at", "age"), [(0, 3600, 150), (0, -3600, 150), (3600, -150, 0)])
def test_a_time_by_a_wrong_clock_is_left_out(placed: PlacementTable, bound_at: int, started_at: int, age: int) -> None:
    runs = state("Running", started_at=NOW + started_at)
    see(placed, worlds.bound("p", "a", NOW + bound_at, cpu="1", mutate=runs))
    assert amount(placed, "a", NOW + age, CPU_5M) == pytest.approx(350)


def test_a_pod_that_waits_by_a_failure_counts_again_once_it_runs(placed: PlacementTable) -> None:
    fails = worlds.bound("p", "a", cpu="1", mutate=state(reason="CrashLoopBackOff"))
    placed.pod_changed(see(placed, worlds.bound("p", "a", cpu="1", mutate=state())), fails, NOW + 20)
    assert counts(placed, "a", NOW + 20) == [0, 0, 0]
    runs = worlds.bound("p", "a", cpu="1", mutate=state("Running", started_at=NOW + 60))
    placed.pod_changed(fails, runs, NOW + 61)
    assert amount(placed, "a", NOW + 210, CPU_5M) == pytest.approx(350)


def test_an_assumption_that_is_confirmed_while_its_image_is_pulled_goes_on_in_full(placed: PlacementTable) -> None:
    placed.assume(builders.pod("p", cpu="1"), "a", NOW, per_allocatable=worlds.ROOM)
    assert amount(placed, "a", NOW + 600, CPU_5M) == pytest.approx(700), "while its binding waits"
    see(placed, worlds.bound("p", "a", NOW + 600, cpu="1", mutate=state()), NOW + 600)
    assert amount(placed, "a", NOW + 1400, CPU_5M) == pytest.approx(700)


def test_what_is_assumed_is_withdrawn_and_what_the_watch_knows_is_not(placed: PlacementTable) -> None:
    pod, bound = builders.pod("p"), see(placed, worlds.bound("q", "b"))
    placed.assume(pod, "a", NOW, per_allocatable=worlds.ROOM)
    for one in (pod, bound):
        placed.withdraw(one.uid, NOW)
    assert (counts(placed, "a", NOW), counts(placed, "b", NOW)) == ([0, 0, 0], [1, 1, 1])


@pytest.mark.parametrize(
    "pod",
    [
        worlds.bound("p", "a", owner=("DaemonSet", "agent")),
        worlds.bound("p", "a", mutate=builders.placeholder),
        worlds.bound("p", "a", phase="Succeeded"),
        worlds.bound("p", "a", phase="Failed"),
        builders.pod(
            "p", node="a", mutate=lambda body: body["metadata"].update(deletionTimestamp="2026-11-21T04:00:00Z")
        ),
        builders.pod("p"),
    ],
    ids=["of a DaemonSet", "a placeholder", "succeeded", "failed", "being deleted", "not bound"],
)
def test_pods_that_bring_no_load_do_not_count(pod: objects.Pod, placed: PlacementTable) -> None:
    see(placed, pod)
    assert counts(placed, "a", NOW) == [0, 0, 0]


@pytest.mark.parametrize("ended", [None, worlds.bound("p", "a", phase="Succeeded")], ids=["deleted", "finished"])
def test_a_pod_that_ends_stops_counting(ended: objects.Pod | None, placed: PlacementTable) -> None:
    alive = see(placed, worlds.bound("p", "a"))
    see(placed, worlds.bound("q", "a"))
    placed.pod_changed(alive, ended, NOW + 1)
    assert counts(placed, "a", NOW + 1) == [1, 1, 1]


def test_a_pod_recreated_under_its_name_counts_where_it_is_now(placed: PlacementTable) -> None:
    old = see(placed, worlds.bound("p", "a"))
    placed.pod_changed(old, worlds.bound("p", "b", uid="another"), NOW)
    assert counts(placed, "a", NOW) == [0, 0, 0]
    assert counts(placed, "b", NOW) == [1, 1, 1]


def test_an_assumed_placement_counts_for_others_but_not_for_the_pod_itself(placed: PlacementTable) -> None:
    pod = builders.pod("p")
    placed.assume(pod, "a", NOW, per_allocatable=worlds.ROOM)
    assert counts(placed, "a", NOW) == [1, 1, 1]
    assert counts(placed, "a", NOW, besides=pod.uid) == [0, 0, 0]
    assert amount(placed, "a", NOW, CPU_5M, besides=pod.uid) == 0
    with pytest.raises(IndexError):  # the row is written again without the pod, and put back all the same
        placed.crowding(LOADS, np.array([99]), NOW, besides=pod.uid)
    assert counts(placed, "a", NOW) == [1, 1, 1]
    assert counts(placed, "a", NOW) == [1, 1, 1], "hiding a pod from one request leaves no trace"


def test_an_assumption_expires_by_itself(placed: PlacementTable) -> None:
    placed.assume(builders.pod("p"), "a", NOW, per_allocatable=worlds.ROOM)
    assert placed.assumed(NOW + ASSUMED_SECONDS - 0.1) == 1
    assert placed.assumed(NOW + ASSUMED_SECONDS) == 0
    assert counts(placed, "a", NOW + ASSUMED_SECONDS) == [0, 0, 0]


@pytest.mark.parametrize("node", INDEX)
def test_the_watch_confirms_an_assumption_or_moves_one_that_was_wrong(placed: PlacementTable, node: str) -> None:
    placed.assume(builders.pod("p"), "a", NOW, per_allocatable=worlds.ROOM)
    see(placed, worlds.bound("p", node), NOW + 1)
    assert placed.assumed(NOW + 1) == 0
    for one in INDEX:
        expected = [int(one == node)] * 3
        assert counts(placed, one, NOW + 1) == counts(placed, one, NOW + 10) == expected


@pytest.mark.parametrize("news", [None, builders.pod("p", labels={"seen": "yes"})], ids=["deleted", "labelled"])
def test_only_the_deletion_of_a_pending_pod_denies_its_assumption(
    placed: PlacementTable, news: objects.Pod | None
) -> None:
    pod = see(placed, builders.pod("p"))
    placed.assume(pod, "a", NOW, per_allocatable=worlds.ROOM)
    placed.pod_changed(pod, news, NOW + 1)
    assert counts(placed, "a", NOW + 1) == ([1, 1, 1] if news else [0, 0, 0])


def test_a_second_question_about_a_pod_moves_its_assumption(placed: PlacementTable) -> None:
    pod = builders.pod("p")
    placed.assume(pod, "a", NOW, per_allocatable=worlds.ROOM)
    placed.assume(pod, "b", NOW + 1, per_allocatable=worlds.ROOM)
    assert counts(placed, "a", NOW + 1) == [0, 0, 0]
    assert counts(placed, "b", NOW + 1) == [1, 1, 1]


def test_what_the_watch_knows_is_not_assumed_away(placed: PlacementTable) -> None:
    pod = see(placed, worlds.bound("p", "a"))
    placed.assume(pod, "b", NOW + 1, per_allocatable=worlds.ROOM)
    assert counts(placed, "a", NOW + 1) == [1, 1, 1]
    assert placed.assumed(NOW + 1) == 0


def test_a_pod_without_a_binding_time_ages_from_when_it_was_first_seen(placed: PlacementTable) -> None:
    pod = builders.pod("p", node="a", mutate=lambda body: body["status"].update(conditions=[]))
    see(placed, pod)
    placed.pod_changed(pod, pod, NOW + 50)
    assert counts(placed, "a", NOW + 60) == [0, 1, 1]


def test_a_binding_from_a_clock_that_is_wrong_ages_from_when_it_was_first_seen(placed: PlacementTable) -> None:
    pod = see(placed, worlds.bound("p", "a", NOW + 3600, cpu="1"))
    placed.pod_changed(pod, worlds.bound("p", "a", NOW + 3600, cpu="1", labels={"seen": "yes"}), NOW + 100)
    assert amount(placed, "a", NOW + 150, CPU_5M) == pytest.approx(350)
    assert counts(placed, "a", NOW + 1800) == [0, 0, 0]


def test_a_clock_set_back_a_little_leaves_bindings_where_they_were(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "a", NOW + 20, cpu="1"), NOW + 20)
    assert amount(placed, "a", NOW, CPU_5M) == pytest.approx(700)
    assert amount(placed, "a", NOW + 20, CPU_5M) == pytest.approx(700)
    assert amount(placed, "a", NOW + 170, CPU_5M) == pytest.approx(350)
    assert worlds.bindings(placed, NOW + 170)[0].at_seconds == NOW + 20


def test_a_clock_set_back_brings_back_windows_and_their_ends(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "a"))
    assert counts(placed, "a", NOW + 70) == [0, 1, 1]
    assert counts(placed, "a", NOW + 50) == [1, 1, 1]
    assert counts(placed, "a", NOW + 60) == [0, 1, 1]


def test_new_means_write_only_rows_on_which_a_load_is_still_expected(placed: PlacementTable) -> None:
    for node, at_seconds in (("a", NOW - 299), ("b", NOW - 300)):
        see(placed, worlds.bound(f"on-{node}", node, at_seconds))
    placed.touched(LOADS, NOW, aging=False)
    mean = owner_usage.Mean(2000.0, None, 7)
    placed.use_published(owner_usage.PublishedUsage(NOW, {"default/ReplicaSet/web": mean}), NOW)
    assert {one.load.cpu_millicores for one in placed.current(NOW)} == {2000.0}, "replicas compare what was estimated"
    assert placed.touched(LOADS, NOW, aging=False).tolist() == [1]
    assert amount(placed, "a", NOW, CPU_5M) == pytest.approx(2000 / 300)


def test_another_policy_counts_the_watched_pods_anew(placed: PlacementTable) -> None:
    pod = see(placed, worlds.bound("p", "a", cpu="1"))
    placed.assume(builders.pod("q", cpu="1"), "a", NOW, per_allocatable=worlds.ROOM)
    doubled = worlds.policy(
        recentPods={"usagePerRequest": {"cpu": 1.4}}, hotSpots=[{"window": "10s", "pods": 1, "penalty": 1}]
    )
    coming = PlacementTable(doubled, NOW, aside=True)
    coming.count_anew([pod], NOW)
    coming.succeed(placed, NOW)
    assert counts(coming, "a", NOW) == [2]
    assert amount(coming, "a", NOW, CPU_5M) == pytest.approx(1400 + 700), "an assumption keeps its estimate to its end"
    assert counts(coming, "a", NOW + 10) == [0]


def test_a_table_made_aside_believes_the_watch_over_what_is_counted_later(placed: PlacementTable) -> None:
    gone, moved, quiet = (worlds.bound(name, "a") for name in ("gone", "moved", "quiet"))
    coming = PlacementTable(worlds.policy(), NOW, aside=True)
    coming.pod_changed(gone, None, NOW)
    coming.pod_changed(moved, worlds.bound("moved", "b"), NOW)
    coming.count_anew([gone, moved, quiet], NOW)
    coming.succeed(placed, NOW)
    assert counts(coming, "a", NOW) == [1, 1, 1]
    assert counts(coming, "b", NOW) == [1, 1, 1]
    see(coming, gone)
    assert counts(coming, "a", NOW) == [2, 2, 2], "afterwards it hears like any other"


def test_a_table_takes_over_what_is_assumed_and_not_what_the_watch_confirmed(placed: PlacementTable) -> None:
    coming = PlacementTable(worlds.policy(), NOW, aside=True)
    see(placed, worlds.bound("gone", "a"))
    placed.assume(worlds.bound("elsewhere", "b"), "a", NOW, per_allocatable=worlds.ROOM)
    see(coming, worlds.bound("elsewhere", "b"))
    coming.succeed(placed, NOW)
    assert (counts(coming, "a", NOW), counts(coming, "b", NOW)) == ([0, 0, 0], [1, 1, 1])


def test_the_rows_written_are_told_once(placed: PlacementTable) -> None:
    placed.touched(LOADS, NOW, aging=False)
    see(placed, worlds.bound("p", "b"))
    assert placed.touched(LOADS, NOW, aging=False).tolist() == [2]
    assert placed.touched(LOADS, NOW, aging=False).tolist() == []
    see(placed, worlds.bound("q", "b"))
    assert placed.touched(LOADS, NOW, aging=False, rows=np.array([1])).tolist() == [], "nobody asks for it"
    assert placed.touched(LOADS, NOW, aging=False, rows=np.array([1, 2])).tolist() == [2]
    assert placed.touched(LOADS, NOW, aging=True).tolist() == [2], "what it is expected to use grows less"
    assert placed.touched(LOADS, NOW + 60, aging=False).tolist() == [2], "it left a window"


def test_assumptions_that_end_in_one_second_leave_what_is_confirmed(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "b"))
    for name, node in {"q": "a", "r": "b", "s": "nowhere"}.items():
        placed.assume(builders.pod(name), node, NOW, per_allocatable=worlds.ROOM)
    assert placed.touched(LOADS, NOW, aging=True).tolist() == [1, 2]
    end_seconds = NOW + ASSUMED_SECONDS
    placed.touched(LOADS, end_seconds - 2, aging=False)
    assert placed.touched(LOADS, end_seconds - 1, aging=False).tolist() == []
    assert placed.touched(LOADS, end_seconds, aging=False).tolist() == [1, 2]
    assert counts(placed, "a", end_seconds) == [0, 0, 0]
    assert counts(placed, "b", end_seconds) == [0, 0, 1]
    assert amount(placed, "a", end_seconds, CPU_5M) == 0
    assert [binding.uid for binding in worlds.bindings(placed, end_seconds)] == [worlds.bound("p", "b").uid]


def test_a_node_that_leaves_takes_its_counts_along_and_others_keep_theirs(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "a"))
    see(placed, worlds.bound("q", "b"))
    assert counts(placed, "b", NOW) == [1, 1, 1]
    found = placed.crowding(loads({"b": 2, "c": 1}), ALL, NOW, besides="")
    assert found.counts[:, 0].tolist() == [0, 0, 1]
    grown = placed.crowding(loads({"b": 2, "a": 70}, 80), np.arange(80), NOW, besides="")
    assert (grown.counts[70, 0], grown.counts[2, 0], grown.counts.sum()) == (1, 1, 6)


def test_recent_pods_switched_off_leave_the_counts() -> None:
    placed = PlacementTable(worlds.policy(recentPods={"enabled": False}), NOW)
    see(placed, worlds.bound("p", "a"))
    assert amount(placed, "a", NOW, CPU_5M) == 0
    assert counts(placed, "a", NOW) == [1, 1, 1]


def test_without_hot_spots_and_recent_pods_nothing_is_kept() -> None:
    placed = PlacementTable(worlds.policy(recentPods={"enabled": False}, hotSpots=[]), NOW)
    see(placed, worlds.bound("p", "a"))
    placed.assume(builders.pod("q"), "a", NOW, per_allocatable=worlds.ROOM)
    assert worlds.bindings(placed, NOW) == ()
    assert counts(placed, "a", NOW) == []


def test_nodes_that_come_later_find_their_placements(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "late"))
    assert counts(placed, "a", NOW) == [0, 0, 0]
    found = placed.crowding(loads({"a": 1, "late": 2}), ALL, NOW, besides="")
    assert found.counts[2].tolist() == [1, 1, 1]
    assert found.amounts[2, CPU_5M] > 0


def test_a_requirement_that_cannot_be_read_counts_as_none() -> None:
    pod = builders.pod("p", cpu="a lot")
    assert worlds.estimate(pod) == expected_load.Load(250.0, 200 * 2**20)


@pytest.mark.parametrize("seed", range(5))
def test_the_prepared_lines_are_the_formula(placed: PlacementTable, seed: int) -> None:
    rng = random.Random(seed)
    alive: dict[str, objects.Pod] = {}
    heard: dict[str, float] = {}
    now = NOW
    for step in range(300):
        now += rng.expovariate(0.2)
        if alive and rng.random() < 0.3:
            gone = alive.pop(rng.choice(sorted(alive)))
            placed.pod_changed(gone, None, now)
        else:
            name = f"p{step}"
            bound_at = now - rng.choice([0, 3, 400, -2, -40])
            mutate = rng.choice([None, state(), state("Running", started_at=bound_at + rng.choice([-5, 1, 350, 900]))])
            pod = worlds.bound(name, rng.choice(["a", "b"]), bound_at, cpu=f"{rng.randint(1, 4000)}m", mutate=mutate)
            alive[name], heard[pod.uid] = pod, now
            placed.pod_changed(None, pod, now)
    now += rng.uniform(0, 200)
    crowding = placed.crowding(LOADS, ALL, now, besides="")
    for node, row in INDEX.items():
        here = [pod for pod in alive.values() if pod.node_name == node]
        began = [expected_load.began_at_seconds(pod, at(pod), heard[pod.uid]) for pod in here]
        loads = np.array([worlds.estimate(pod) for pod in here]).reshape(len(here), 2)
        rows, ages, whole = np.zeros(len(here), np.intp), now - np.array(began), np.ones((1, 2))
        expected = expected_load.expected(rows, ages, loads, whole, in_force=metrics.BUILT_IN)
        np.testing.assert_allclose(crowding.amounts[row], expected[0], rtol=1e-9, atol=1e-6)
        moments = sorted(at(pod) for pod in here)
        assert tuple(crowding.counts[row]) == hotspots.counts(moments, now, (60, 300, 1800))


def at(pod: objects.Pod) -> float:
    """When the pod was bound, by its own condition."""
    assert pod.scheduled_at_seconds is not None
    return pod.scheduled_at_seconds


@pytest.mark.parametrize(
    ("huge", "least"),
    [("9e200", 1e18), ("1e999", 1.0), ("9e307", 1.0), ("9" * 400, 1.0)],
    ids=["readable: capped", "beyond a float: as no request", "beyond in millicores", "four hundred digits"],
)
def test_a_request_no_machine_can_hold_leaves_numbers_numbers(huge: str, least: float, placed: PlacementTable) -> None:
    for name in ("p", "q", "r"):
        see(placed, worlds.bound(name, "a", cpu=huge, memory=huge))
    crowding = placed.crowding(LOADS, ALL, NOW + 1, besides="")
    assert np.isfinite(crowding.amounts).all()
    assert crowding.amounts[1, [CPU_5M, MEMORY_5M]].min() > least


def test_a_number_of_pods_out_of_all_range_counts_as_no_requirement() -> None:
    def ask_for_pods(body: dict[str, Any]) -> None:
        body["spec"]["containers"][0]["resources"]["requests"]["pods"] = "1e999"

    pod = builders.pod("p", mutate=ask_for_pods)
    assert worlds.estimate(pod) == expected_load.Load(250.0, 200 * 2**20)


def test_a_clock_set_back_does_not_multiply_expected_load_nor_prolong_assumptions(placed: PlacementTable) -> None:
    see(placed, worlds.bound("p", "a", NOW + 3600), NOW + 3600)
    placed.assume(builders.pod("assumed"), "b", NOW + 3600, per_allocatable=worlds.ROOM)
    at_once = amount(placed, "a", NOW + 3600, CPU_5M)
    assert amount(placed, "a", NOW, CPU_5M) == pytest.approx(at_once)
    assert amount(placed, "a", NOW + 150, CPU_5M) == pytest.approx(at_once / 2)
    assert placed.assumed(NOW + ASSUMED_SECONDS) == 0


def test_a_clock_set_back_leaves_an_assumption_its_seconds(placed: PlacementTable) -> None:
    placed.assume(builders.pod("assumed"), "b", NOW + 3600, per_allocatable=worlds.ROOM)
    assert placed.assumed(NOW + 3600) == 1
    assert placed.assumed(NOW) == 1
    assert placed.assumed(NOW + ASSUMED_SECONDS - 1) == 1
    assert placed.assumed(NOW + ASSUMED_SECONDS) == 0


@pytest.mark.parametrize(
    "owner", [("ReplicaSet", "x" * 10_000), ("x" * 10_000, "web"), ("ReplicaSet", "web 1m 1Mi 9\n"), ("../v1", "web")]
)
def test_a_placement_holds_no_owner_kubernetes_could_not_have(owner: tuple[str, str], placed: PlacementTable) -> None:
    placed.assume(builders.pod("p", owner=owner), "a", NOW, per_allocatable=worlds.ROOM)
    (assumed,) = placed.assumptions(NOW)
    assert assumed.key.owner == "", "as a pod without an owner, which is estimated by its request"


def test_what_nobody_asks_about_is_forgotten_all_the_same(placed: PlacementTable) -> None:
    held = []
    for hour in range(50):
        pod = worlds.bound(f"p{hour}", f"node-{hour}", NOW + hour * 3600)
        placed.pod_changed(None, pod, NOW + hour * 3600)
        held.append(len(repr(vars(placed))))
    assert held[-1] <= held[10]


MIRROR = {"kubernetes.io/config.mirror": "x", "kubernetes.io/config.source": "file"}


def test_static_pods_do_not_count_as_no_scheduler_placed_them() -> None:
    world = worlds.view_of({"a": worlds.IDLE})
    worlds.bind(world, "a", "static", owner=("Node", "a"), annotations=MIRROR)
    assert worlds.bindings(world.placements, NOW) == ()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"annotations": MIRROR}, id="annotations of a static pod"),
        pytest.param({"labels": {"evenload.io/placeholder": "true"}}, id="the label of a placeholder"),
        pytest.param(
            {"mutate": lambda body: body["metadata"]["ownerReferences"][0].update(kind="DaemonSet")},
            id="an owner that is called a DaemonSet",
        ),
        pytest.param(
            {
                "owner": ("DaemonSet", "agent"),
                "mutate": lambda body: body["metadata"]["ownerReferences"][0].update(apiVersion="x.example/v1"),
            },
            id="one of another group",
        ),
    ],
)
def test_what_anyone_may_write_hides_no_pod_from_the_count(fields: dict[str, Any]) -> None:
    world = worlds.view_of({"a": worlds.IDLE})
    worlds.bind(world, "a", "web", **fields)
    assert len(worlds.bindings(world.placements, NOW)) == 1
