import pytest

from kube import objects
from simulator.scheduling import requeueing
from simulator.scheduling.queue import Queue
from tests import builders, clocks
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import bound, pending

FULL = frozenset({"NodeResourcesFit"})


class World:
    def __init__(self) -> None:
        self.clock = clocks.ManualClock()
        self.queue = Queue(self.clock)

    def push(self, name: str, priority: int = 0) -> objects.Pod:
        pod = pending(name, mutate=cases.spec(priority=priority))
        self.queue.push(pod)
        return pod

    def pop(self) -> str:
        pod = self.queue.pop()
        return pod.name if pod is not None else ""

    def fail(self, rejected_by: frozenset[str] = FULL) -> str:
        """Takes a pod and gives it back."""
        pod = self.queue.pop()
        if pod is not None:
            self.queue.failed(pod, rejected_by)
        return pod.name if pod is not None else ""


def test_the_most_important_go_first_then_those_who_wait_longest() -> None:
    world = World()
    for name, priority in (("first", 0), ("second", 0), ("vip", 9)):
        world.push(name, priority)
        world.clock.advance(1)
    assert [world.pop() for _ in range(4)] == ["vip", "first", "second", ""]


def test_a_pod_that_fits_nowhere_sleeps_until_something_happens_that_may_help() -> None:
    world = World()
    world.push("x")
    assert world.fail() == "x"
    assert (world.pop(), len(world.queue)) == ("", 1)
    node = builders.node()
    world.queue.changed(requeueing.of_node(node, builders.node(annotations={"load": "less"})))
    world.queue.changed(requeueing.of_pod(None, bound("other", "node-1")))
    assert world.pop() == ""
    world.queue.changed(requeueing.of_pod(bound("other", "node-1"), None))
    assert world.pop() == "x"


WAKES = {
    "NodeUnschedulable": builders.node(mutate=lambda body: body["spec"].update(unschedulable=True)),
    "TaintToleration": builders.node(mutate=cases.tainted("NoSchedule")),
    "NodeAffinity": builders.node(labels={"disk": "ssd"}),
    "NodeResourcesFit": builders.node(cpu="9"),
    "Extender": builders.node(annotations={"load": "less"}),
}


@pytest.mark.parametrize("plugin", WAKES)
def test_a_change_of_a_node_wakes_those_whom_it_may_help(plugin: str) -> None:
    for rejected_by in WAKES:
        world = World()
        world.push("x")
        world.fail(frozenset({rejected_by}))
        world.queue.changed(requeueing.of_node(builders.node(), WAKES[plugin]))
        both_of_taints = {"NodeUnschedulable", "TaintToleration"} >= {plugin, rejected_by}
        assert (world.pop() == "x") == (plugin == rejected_by or both_of_taints or rejected_by == "Extender")


def test_what_happens_while_a_pod_is_judged_is_not_slept_through() -> None:
    world = World()
    world.push("x")
    taken = world.queue.pop()
    assert taken is not None
    world.queue.changed(requeueing.of_pod(bound("victim", "node-1"), None))
    world.queue.failed(taken, FULL)
    assert world.pop() == "x"


@pytest.mark.parametrize(("attempts", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (9, 10)])
def test_backing_off_lasts_longer_with_every_attempt(attempts: int, seconds: int) -> None:
    world = World()
    world.push("tried", priority=5)
    for _ in range(attempts):
        assert world.fail(frozenset()) == "tried"
    world.clock.advance(seconds)
    world.push("early")
    assert world.pop() == "early"  # a back-off that ends in this very second is not over
    world.clock.advance(1)
    world.push("late")
    assert [world.pop() for _ in range(2)] == ["tried", "late"]


def test_where_nobody_else_is_ready_the_first_to_be_is_taken() -> None:
    world = World()
    for name in ("twice", "once"):
        world.push(name)
    assert [world.fail(frozenset()) for _ in range(2)] == ["twice", "once"]
    assert world.fail(frozenset()) == "twice"
    assert [world.pop() for _ in range(3)] == ["once", "twice", ""]


def test_nobody_sleeps_for_more_than_five_minutes() -> None:
    world = World()
    world.push("x")
    world.fail()
    world.clock.advance(300)
    world.queue.flush()
    assert world.pop() == ""
    world.clock.advance(1)
    world.queue.flush()
    assert world.pop() == "x"


def test_a_forgotten_pod_has_no_turn_and_a_namesake_has_its_own() -> None:
    world = World()
    pod = world.push("x")
    world.queue.forget(pod)
    assert world.pop() == ""
    world.queue.push(pod)
    namesake = pending("x", mutate=lambda body: body["metadata"].update(uid="other"))
    world.queue.push(namesake)
    assert world.queue.pop() is namesake
    assert world.pop() == ""


def test_a_newer_version_keeps_its_place() -> None:
    world = World()
    world.push("x")
    world.push("y")
    newer = pending("x", annotations={"seen": "yes"})
    world.queue.push(newer)
    assert world.queue.pop() is newer
    assert [world.pop() for _ in range(2)] == ["y", ""]
