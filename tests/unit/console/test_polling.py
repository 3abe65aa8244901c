"""The poller: each topic as it is answered, what is silent named and its last figures left, replicas merged."""

import json
import random
import threading
from typing import Any

from console import board, polling
from console.sources import SourceError
from tests import clocks
from tests.unit.console import pages

NODES = {"at": "t", "policy": "p", "nodes": [{"name": "n1", "values": {"cpu_avg_5m": 0.5}}]}
PLAN = {"mode": "Observe", "evictions": [], "nodes": []}


def poller(**fields: Any) -> tuple[polling.Poller, board.Board, clocks.ManualClock]:
    """A poller over doors, whose tasks a test calls itself."""
    topics, clock = board.Board(), clocks.ManualClock()
    doors = pages.doors(now=clock.now, **fields)
    return polling.Poller(doors, topics, ticking=clock, rng=random.Random(1)), topics, clock


def run(poller_of_test: polling.Poller, name: str) -> None:
    """One turn of a task."""
    {task.name: task for task in poller_of_test.tasks()}[name].work()


def status(topics: board.Board, name: str) -> Any:
    """How the last question of a topic went."""
    newest = topics.newest("status")
    assert newest is not None
    return json.loads(newest)["topics"][name]


def test_an_answer_becomes_a_topic_and_names_who_gave_it() -> None:
    made, topics, clock = poller(extenders=lambda: (pages.Replica({"/nodes": NODES}),))
    run(made, "nodes")
    assert json.loads(topics.newest("nodes") or b"")["names"] == ["n1"]
    assert status(topics, "nodes") == {"at_seconds": clock.now(), "error": "", "by": ["evenload-extender-0"]}


def test_a_silent_service_leaves_its_last_figures_with_their_age() -> None:
    replica = pages.Replica({"/plan": PLAN})
    made, topics, clock = poller(deschedulers=lambda: (replica,))
    run(made, "plan")
    before = clock.now()
    replica.answers["/plan"] = SourceError("the descheduler gives no answer")
    clock.advance(60)
    run(made, "plan")
    assert json.loads(topics.newest("plan") or b"") == PLAN
    assert status(topics, "plan") == {
        "at_seconds": before, "error": "the descheduler gives no answer", "by": ["evenload-extender-0"],
    }  # fmt: skip


def test_another_replica_answers_for_one_that_does_not() -> None:
    silent, living = pages.Replica({}, name="a"), pages.Replica({"/plan": PLAN}, name="b")
    made, topics, _ = poller(deschedulers=lambda: (silent, living))
    run(made, "plan")
    assert status(topics, "plan")["by"] == ["b"]


def test_a_page_of_something_else_is_no_answer() -> None:
    made, topics, _ = poller(extenders=lambda: (pages.Replica({"/nodes": b"<html>"}),))
    run(made, "nodes")
    assert "cannot be read" in status(topics, "nodes")["error"]
    assert topics.newest("nodes") is None


def test_decisions_of_all_replicas_are_merged_newest_first() -> None:
    def decided(name: str, *times: float) -> pages.Replica:
        return pages.Replica(
            {"/decisions": {"decisions": [{"pod": name, "at_seconds": at} for at in times]}}, name=name
        )

    silent = pages.Replica({}, name="c")
    made, topics, _ = poller(extenders=lambda: (decided("a", 9.0, 1.0), decided("b", 5.0), silent))
    run(made, "decisions")
    found = json.loads(topics.newest("decisions") or b"")
    assert [(one["replica"], one["at_seconds"]) for one in found] == [("a", 9.0), ("b", 5.0), ("a", 1.0)]
    assert status(topics, "decisions")["by"] == ["a", "b"]


def test_that_no_replica_answers_is_the_last_ones_reason() -> None:
    made, topics, _ = poller(extenders=lambda: (pages.Replica({}, name="a"),))
    run(made, "decisions")
    assert status(topics, "decisions")["error"] == "/decisions is not answered"


def test_more_nodes_are_asked_for_less_often_than_the_extender_can_answer() -> None:
    rows = {"at": "t", "policy": "p", "nodes": [{"name": f"n{at}"} for at in range(5000)]}
    made, _, _ = poller(extenders=lambda: (pages.Replica({"/nodes": rows}),))
    task = next(task for task in made.tasks() if task.name == "nodes")
    assert task.period_seconds() == polling.NODES_SECONDS
    task.work()
    assert 5000 / task.period_seconds() < 400, "the extender's share for people"


def test_replicas_are_looked_for_again_after_a_while() -> None:
    found: list[pages.Replica] = [pages.Replica({"/plan": PLAN}, name="old")]
    made, topics, clock = poller(deschedulers=lambda: tuple(found))
    run(made, "plan")
    found[:] = [pages.Replica({"/plan": PLAN}, name="new")]
    clock.advance(polling.REPLICAS_SECONDS + 1)
    run(made, "plan")
    assert status(topics, "plan")["by"] == ["new"]


def test_pools_come_with_the_next_nodes() -> None:
    made, topics, _ = poller(extenders=lambda: (pages.Replica({"/nodes": NODES}),), pools=lambda: {"n1": "gpu"})
    run(made, "pools")
    run(made, "nodes")
    assert json.loads(topics.newest("nodes") or b"")["pools"] == ["gpu"]


def test_effectiveness_is_asked_for_only_where_it_can_be() -> None:
    made, _, _ = poller()
    assert "effectiveness" not in {task.name for task in made.tasks()}
    made, topics, _ = poller(effectiveness=lambda span_seconds: {"span": span_seconds})
    run(made, "effectiveness")
    assert json.loads(topics.newest("effectiveness") or b"") == {"span": 7 * 86400.0}


def test_a_topic_whose_thread_dies_is_asked_for_again() -> None:
    topics, clock, stop = board.Board(), clocks.BreakingClock(), threading.Event()
    made = polling.Poller(pages.doors(now=clock.now), topics, ticking=clock, rng=random.Random(1))
    made.start(stop)
    try:
        assert clock.threads_again(len(made.tasks())) == {task.name for task in made.tasks()}
    finally:
        stop.set()
