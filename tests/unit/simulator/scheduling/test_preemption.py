from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube import objects
from simulator.scheduling.scheduler import Placement
from tests import builders
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import bound, pending
from tests.unit.simulator.scheduling.test_scheduler import Likes


def node(name: str) -> objects.Node:
    return builders.node(name, cpu="4")


def low(name: str, on: str, *, cpu: str = "2", priority: int = 0, started: str = "", **labels: str) -> objects.Pod:
    def write(body: builders.Body) -> None:
        body["spec"]["priority"] = priority
        if started:
            body["status"]["startTime"] = f"2026-11-21T{started}:00Z"

    return bound(name, on, cpu=cpu, labels=labels or {"app": name}, mutate=write)


def high(cpu: str = "2", *, priority: int = 100, **spec: object) -> objects.Pod:
    return pending("high", cpu=cpu, labels={"app": "high"}, mutate=cases.spec(priority=priority, **spec))


def preempted(
    pods: Sequence[objects.Pod],
    pod: objects.Pod,
    *,
    budgets: Sequence[objects.DisruptionBudget] = (),
    extenders: Sequence[Likes] = (),
) -> Placement:
    nodes = sorted({one.node_name for one in pods})
    made = cases.scheduler([node(name) for name in nodes], pods, extenders)
    for budget in budgets:
        made.budget_changed(None, budget)
    return made.schedule(pod)


def victims(placed: Placement) -> list[str]:
    return [one.name for one in placed.victims]


def test_the_least_important_pods_that_make_room_are_named() -> None:
    pods = [low("old", "a", priority=5), low("new", "a", priority=1, cpu="1"), low("tiny", "a", cpu="1")]
    placed = preempted(pods, high("2"))
    assert (placed.node, placed.nominated, victims(placed)) == ("", "a", ["new", "tiny"])


def test_of_equal_priority_the_pod_that_started_first_stays() -> None:
    placed = preempted([low("later", "a", started="09:30"), low("first", "a", started="09:00")], high())
    assert victims(placed) == ["later"]


def test_nobody_leaves_for_a_pod_that_is_no_more_important_or_never_preempts() -> None:
    pods = [low("x", "a", cpu="4", priority=100)]
    assert preempted(pods, high()).nominated == ""
    assert preempted([low("x", "a", cpu="4")], high(preemptionPolicy="Never")).nominated is None


def test_nobody_leaves_where_that_does_not_help() -> None:
    assert not preempted([low("x", "a")], high("5")).victims
    far = cases.near("nobody")
    placed = preempted(
        [low("x", "a", cpu="4")], pending("high", mutate=lambda body: [far(body), body["spec"].update(priority=9)])
    )
    assert not placed.victims


BETTER = {
    "no budget is violated": (
        [low("x", "a", cpu="4", app="web"), low("y", "b", cpu="4", priority=7)],
        [builders.budget(allowed=0)],
    ),
    "the first victim matters less": ([low("x", "a", cpu="4", priority=8), low("y", "b", cpu="4", priority=7)], []),
    "the victims matter less together": (
        [
            *(low("x", "a", cpu="2", priority=8), low("w", "a", cpu="2", priority=7)),
            *(low("y", "b", cpu="2", priority=8), low("z", "b", cpu="2", priority=6)),
        ],
        [],
    ),
    "there are fewer victims": ([low("x", "a"), low("w", "a"), low("y", "b", cpu="4")], []),
    "the first victim started later": (
        [low("x", "a", cpu="4", started="09:00"), low("y", "b", cpu="4", started="09:30")],
        [],
    ),
}


@pytest.mark.parametrize(("pods", "budgets"), BETTER.values(), ids=BETTER)
def test_a_node_is_better_if(pods: list[objects.Pod], budgets: list[objects.DisruptionBudget]) -> None:
    assert preempted(pods, high("4"), budgets=budgets).nominated == "b"


def test_pods_whose_budget_would_be_violated_are_spared_first() -> None:
    pods = [low("guarded", "a", app="web"), low("other", "a", priority=50)]
    assert victims(preempted(pods, high())) == ["guarded"]
    assert victims(preempted(pods, high(), budgets=[builders.budget(allowed=0)])) == ["other"]
    assert victims(preempted(pods, high(), budgets=[builders.budget(allowed=1)])) == ["guarded"]


def test_a_budget_that_selects_everybody_guards_nobody_from_preemption() -> None:
    everybody = builders.budget(allowed=0, mutate=lambda body: body["spec"].update(selector={}))
    assert victims(preempted([low("x", "a"), low("y", "a", priority=9)], high(), budgets=[everybody])) == ["x"]


def test_extenders_may_keep_a_node_off_the_list() -> None:
    pods = [low("x", "a", cpu="4"), low("y", "b", cpu="4", priority=9)]
    hot = Likes(refused="a")
    assert preempted(pods, high(), extenders=[hot]).nominated == "b"
    assert hot.calls == [("preempt", ("a", "b"))]
    assert preempted(pods[:1], high(), extenders=[Likes(refused="a")]).nominated is None


@pytest.mark.parametrize("final", [True, False])
def test_no_victim_cools_a_node_that_an_extender_refuses(final: bool) -> None:
    placed = preempted([low("x", "a")], high("1"), extenders=[Likes(refused="a", final=final)])
    assert (placed.victims, placed.nominated) == ((), "")


def test_room_that_is_being_made_is_not_given_to_the_less_important() -> None:
    made = cases.scheduler([node("a")], [low("x", "a", cpu="4")])
    assert made.schedule(high("3")).nominated == "a"
    made.pod_changed(low("x", "a", cpu="4"), None)
    assert made.schedule(pending("small", cpu="2")).reasons == {"Insufficient cpu": 1}
    assert made.schedule(pending("small", cpu="1")).node == "a"


def test_the_more_important_takes_the_room_and_the_former_nominee_looks_again() -> None:
    made = cases.scheduler([node("a")], [low("x", "a", cpu="4")])
    made.schedule(high("3", priority=50))
    placed = made.schedule(pending("higher", cpu="4", mutate=cases.spec(priority=200)))
    assert (placed.nominated, [one.name for one in placed.unnominated]) == ("a", ["high"])


def test_while_victims_are_leaving_no_others_are_made() -> None:
    def leaving(body: builders.Body) -> None:
        body["metadata"]["deletionTimestamp"] = builders.CREATED

    waits = pending("high", cpu="4", mutate=lambda body: body["spec"].update(priority=9))
    nominated = builders.decoded(
        builders.pod_body(
            "high",
            cpu="4",
            owner=None,
            mutate=lambda body: [body["spec"].update(priority=9), body["status"].update(nominatedNodeName="a")],
        ),
        objects.Pod,
    )
    pods = [bound("x", "a", cpu="4", mutate=leaving), low("y", "b", cpu="4")]
    assert preempted(pods, waits).nominated in ("a", "b")
    assert preempted(pods, nominated).nominated is None


SIZES = st.lists(st.tuples(st.sampled_from(["1", "2", "500m"]), st.integers(0, 3)), min_size=1, max_size=6)


@given(SIZES, st.sampled_from(["1", "2", "4"]))
def test_numbers_and_the_state_itself_come_to_the_same_victims(sizes: list[tuple[str, int]], cpu: str) -> None:
    """A rule about others that nobody meets makes the slow way decide what the fast way decides without it."""
    pods = [low(f"p{number}", "a", cpu=size, priority=priority) for number, (size, priority) in enumerate(sizes)]

    def ruled(body: builders.Body) -> None:
        cases.near("nobody", anti=True)(body)
        body["spec"]["priority"] = 100

    plain = preempted(pods, high(cpu))
    careful = preempted(pods, pending("high", cpu=cpu, labels={"app": "high"}, mutate=ruled))
    assert (plain.node, victims(plain)) == (careful.node, victims(careful))
