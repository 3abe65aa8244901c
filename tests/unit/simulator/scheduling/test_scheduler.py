import collections
from collections.abc import Mapping, Sequence

import numpy as np

from kube import objects
from kube_scheduler.arrays import Ints
from simulator.scheduling import extenders
from simulator.scheduling.scheduler import Scheduler
from tests import builders
from tests.unit.simulator.scheduling import cases
from tests.unit.simulator.scheduling.cases import bound, pending

NODES = [builders.node(name) for name in ("a", "b", "c")]


class Likes:
    """An extender that gives one node ten, refuses another, and writes down what it is asked."""

    def __init__(self, liked: str = "", refused: str = "", *, weight: int = 1, final: bool = True) -> None:
        self.weight = weight
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self._liked, self._refused, self._final = liked, refused, final

    def filter(self, _pod: objects.Pod, names: Sequence[str]) -> extenders.FilterResult:
        self.calls.append(("filter", tuple(names)))
        refused = {name: "hot" for name in names if name == self._refused}
        passed = [name for name in names if name not in refused]
        return extenders.FilterResult(passed, {} if self._final else refused, refused if self._final else {})

    def prioritize(self, _pod: objects.Pod, names: Sequence[str]) -> Ints:
        self.calls.append(("prioritize", tuple(names)))
        return np.array([10 * (name == self._liked) for name in names], np.int64)

    def preempt(self, _pod: objects.Pod, victims: Mapping[str, extenders.Victims]) -> Mapping[str, extenders.Victims]:
        self.calls.append(("preempt", tuple(sorted(victims))))
        return {name: found for name, found in victims.items() if name != self._refused}


def test_equal_nodes_are_drawn_by_the_generator_and_the_same_seed_draws_the_same() -> None:
    drawn = [cases.scheduler(NODES).schedule(pending()).node for _ in range(2)]
    assert drawn[0] == drawn[1]
    made = cases.scheduler(NODES)
    placed = [made.schedule(pending()) for _ in range(300)]
    assert {one.ties for one in placed} == {("a", "b", "c")}
    assert set(collections.Counter(one.node for one in placed)) == {"a", "b", "c"}


def test_the_emptier_node_wins() -> None:
    made = cases.scheduler(NODES, [bound("1", "a", cpu="1"), bound("2", "b", cpu="2")])
    placed = made.schedule(pending())
    assert (placed.node, placed.ties) == ("c", ("c",))
    assert placed.totals[2] > placed.totals[0] > placed.totals[1]  # of a, b and c


def test_an_extenders_score_counts_ten_times_its_weight() -> None:
    plain = cases.scheduler(NODES).schedule(pending()).totals
    asked = cases.scheduler(NODES, extenders=[Likes("b", weight=2), Likes("b", weight=3)]).schedule(pending())
    assert asked.node == "b"
    assert (asked.totals - plain).tolist() == [0, 500, 0]


def test_each_extender_is_asked_about_what_the_one_before_it_left() -> None:
    first, second = Likes(refused="a"), Likes(refused="b")
    placed = cases.scheduler(NODES, extenders=[first, second]).schedule(pending())
    assert placed.node == "c"
    assert first.calls == [("filter", ("a", "b", "c"))]  # of a single node nobody is asked how good it is
    assert second.calls == [("filter", ("b", "c"))]


def test_where_extenders_leave_nothing_their_reasons_are_given() -> None:
    placed = cases.scheduler(NODES[:1], extenders=[Likes(refused="a")]).schedule(pending(cpu="1"))
    assert (placed.node, placed.reasons, sorted(placed.rejected_by)) == ("", {"hot": 1}, ["Extender"])


def test_extenders_are_not_asked_where_no_node_fits() -> None:
    asked = Likes()
    cases.scheduler(NODES, extenders=[asked]).schedule(pending(cpu="100"))
    assert asked.calls == []


def test_no_nodes_are_a_reason() -> None:
    assert cases.scheduler([]).schedule(pending()).reasons == {"no nodes available to schedule pods": 1}


def test_a_nominated_node_is_taken_while_it_fits() -> None:
    pod = pending(mutate=lambda body: body["status"].update(nominatedNodeName="a"))
    crowded = [bound("1", "a", cpu="4")]
    assert cases.scheduler(NODES, crowded).schedule(pod).node == "a"
    assert cases.scheduler(NODES, [bound("1", "a", cpu="8")]).schedule(pod).node in ("b", "c")
    assert cases.scheduler(NODES, crowded, [Likes(refused="a")]).schedule(pod).node in ("b", "c")


def test_large_clusters_are_sampled_in_turn() -> None:
    made = cases.scheduler([builders.node(f"n{number:03}") for number in range(250)])
    first, second = (tuple(made.schedule(pending()).scored) for _ in range(2))
    assert (len(first), len(second)) == (120, 120)
    assert (first[0], second[0]) == ("n000", "n120")


def test_what_makes_pods_says_who_is_spread_by_default() -> None:
    made = Scheduler((), np.random.default_rng(1))
    for node in NODES:
        made.node_changed(None, node)
    for number in range(2):
        made.pod_changed(None, bound(f"web-{number}", "a", cpu="0", memory="0"))
    pod, owner = pending(owner=("ReplicaSet", "web")), builders.replica_set()
    assert made.schedule(pod).ties == ("a", "b", "c")
    made.workload_changed(None, owner)
    assert made.schedule(pod).ties == ("b", "c")
    made.workload_changed(owner, None)
    assert made.schedule(pod).ties == ("a", "b", "c")
