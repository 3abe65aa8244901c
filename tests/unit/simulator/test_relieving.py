"""What the descheduler is told of nodes and pods: what it would read from the answers, or they are asked for."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from descheduler.snapshot import cluster_reader
from descheduler.snapshot.usage import NodeUsage, PodUsage
from policy.schema import load_policy
from promql import door, errors
from promql.queries import identity
from simulator.prometheus import SimulatedPrometheus, expressions
from simulator.world import relieving
from tests import builders, clocks
from tests.unit.descheduler import doors
from tests.unit.simulator import books

POLICY = load_policy.defaults()
OWN = load_policy.LoadPolicy.of(
    {
        "metrics": [{"name": "own", "resource": "cpu", "window": "5m", "query": "author:knows", "statistic": "other"}],
        "descheduler": {"thresholds": {"own": {"evictAbove": 0.6, "evictUntil": 0.4}}},
    }
)
GAP = (math.nan, math.nan)
NAMES = [f"default/{name}" for name in ("a", "b", "c", "never")]
WISHES = st.lists(st.sampled_from([(800.0, 3.2e9), (9000.0, 40e9), (0.0, 0.0), GAP]), min_size=4, max_size=4)
STEPS = st.floats(0, 4)


class Listening(SimulatedPrometheus):
    """One that notes what it is asked."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.asked: list[str] = []

    def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
        self.asked.append(expression)
        return super().query(expression, at_seconds=at_seconds)


def readers(
    wishes: list[list[tuple[float, float]]], at: float, *, leaves: float = 9.0, policy: load_policy.LoadPolicy = POLICY
) -> tuple[relieving.Reader, cluster_reader.Reader, Listening]:
    """One that is told and one that asks, so many steps after the start; node-1 leaves at its time."""
    machines = (books.machine(0), books.machine(1, leaves_seconds=books.after(leaves)), books.machine(2))
    made = books.book(books.of(wishes, machines=machines), {"a": 0, "b": 1, "c": 2})
    clock = clocks.ManualClock(books.after(at))
    prometheus = Listening(made, clock, own=expressions.own(policy))
    kube = doors.FakeDoor()
    told = relieving.Reader(kube, prometheus, prometheus, clock)
    return told, cluster_reader.Reader(kube, prometheus, identity.SeriesLabels()), prometheus


def used(reader: cluster_reader.Reader, policy: load_policy.LoadPolicy = POLICY) -> dict[str, PodUsage]:
    """What pods use, also of one that nobody knows."""
    return reader.pod_usage(policy)(NAMES)


def relief_of(
    reader: cluster_reader.Reader, *, ago_seconds: float | None, policy: load_policy.LoadPolicy = POLICY
) -> list[NodeUsage]:
    """What nodes show, of those that the apiserver lists: there are others in Prometheus for a while."""
    nodes = [builders.node(f"node-{number}") for number in (0, 1, 3)]
    at_seconds = None if ago_seconds is None else books.after(2) - ago_seconds
    return sorted(reader.node_usage(nodes, policy, at_seconds=at_seconds).values())


@given(wishes=st.lists(WISHES, min_size=3, max_size=3), at=STEPS)
def test_pods_use_what_the_answers_say(wishes: list[list[tuple[float, float]]], at: float) -> None:
    told, asking, prometheus = readers(wishes, at)
    found = used(told)
    assert not prometheus.asked
    assert found == used(asking)


@given(leaves=STEPS, at=STEPS, ago_seconds=st.one_of(st.none(), st.sampled_from([0.0, 300.0, 4000.0])))
def test_nodes_show_what_the_answers_say(leaves: float, at: float, ago_seconds: float | None) -> None:
    told, asking, prometheus = readers([[(800.0, 3.2e9)] * 4] * 3, at, leaves=leaves)
    found = relief_of(told, ago_seconds=ago_seconds)
    assert not prometheus.asked
    assert found == relief_of(asking, ago_seconds=ago_seconds)


def test_it_asks_for_what_only_its_author_can_compute() -> None:
    told, asking, prometheus = readers([[(800.0, 3.2e9)] * 4] * 3, 2.0, policy=OWN)
    with pytest.raises(errors.BadQuery, match="author:knows"):
        relief_of(asking, ago_seconds=None, policy=OWN)
    with pytest.raises(errors.BadQuery, match="author:knows"):
        relief_of(told, ago_seconds=None, policy=OWN)
    assert prometheus.asked == ["author:knows"] * 2


def test_it_asks_where_a_window_shows_two_pods_of_one_name() -> None:
    told, asking, prometheus = readers([[(800.0, 3.2e9)] * 4] * 3, 2.0)
    book, now_seconds = prometheus._book, books.after(2.0)
    assert sorted(used(told)) == NAMES[:3]
    book.ended(NAMES[0], now_seconds)
    book.placed(NAMES[0], 0, "node-1", now_seconds)
    told._clock.advance(100.0)  # type: ignore[attr-defined] # the tests' clock
    assert used(told) == used(asking)
    assert len(prometheus.asked) == 8, "four questions of each"
