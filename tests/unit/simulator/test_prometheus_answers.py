"""What the simulated Prometheus says of known loads: of nodes and pods that come and go, gaps, and its own troubles.

That it says what a real one says is proved in tests/contract/simulator/test_prometheus_past.py.
"""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from promql import errors
from promql.queries import node_queries, pod_queries
from promql.queries.node_queries import Window
from simulator import scenario
from simulator.prometheus import SimulatedPrometheus
from simulator.usage import node_usage
from tests import clocks
from tests.unit.simulator import books
from tests.unit.simulator.books import after

WINDOWS = {
    f"{resource}_{name}": node_queries.expression(Window(resource, statistic, seconds, 300.0))
    for resource in ("cpu", "memory")
    for name, statistic, seconds in (("avg_5m", "avg", 300.0), ("max_1h", "max", 3600.0), ("p90_1h", "p90", 3600.0))
}
CORES, BYTES = pod_queries.cpu_cores(300.0), pod_queries.memory_bytes(300.0)
GAP = (math.nan, math.nan)
BUSY, QUIET = (800.0, 3.2e9), (80.0, 0.32e9)  # 10 % and 1 % of a node


class Watched:
    """A Prometheus over a book, and the clock of both."""

    def __init__(self, book: node_usage.UsageBook) -> None:
        self.book = book
        self.clock = clocks.ManualClock(book.now_seconds)
        self.door = SimulatedPrometheus(book, self.clock)

    def at(self, steps: float) -> "Watched":
        """When so many steps are over."""
        self.clock.jump(after(steps) - self.clock.now())
        return self

    def says(self, expression: str, at_seconds: float | None = None) -> dict[str, float]:
        """The values by node or pod."""
        samples = self.door.query(expression, at_seconds=at_seconds).samples
        return {one.labels.get("pod") or one.labels.get("instance", ""): one.value for one in samples}


def watched(played: scenario.Scenario, placed: Mapping[str, int]) -> Watched:
    """Pods run from the start: name -> replica."""
    return Watched(books.book(played, placed))


def test_an_average_follows_the_use_and_a_maximum_remembers_it() -> None:
    seen = watched(books.of([[QUIET] * 2 + [BUSY] * 2 + [QUIET] * 20]), {"a": 0})
    assert seen.at(4).says(WINDOWS["cpu_avg_5m"]) == pytest.approx({"node-0": 0.13, "node-1": 0.03})
    assert seen.at(8).says(WINDOWS["cpu_avg_5m"]) == pytest.approx({"node-0": 0.04, "node-1": 0.03})
    assert seen.says(WINDOWS["cpu_max_1h"]) == pytest.approx({"node-0": 0.13, "node-1": 0.03})
    assert seen.says(WINDOWS["memory_max_1h"]) == pytest.approx({"node-0": 0.15, "node-1": 0.05})
    assert seen.at(20).says(WINDOWS["memory_max_1h"]) == pytest.approx({"node-0": 0.06, "node-1": 0.05})


def test_a_node_that_left_is_missing_from_the_next_scrape_on_although_its_windows_are_full() -> None:
    machines = [books.machine(0), books.machine(1, leaves_seconds=after(6))]
    seen = watched(books.of([[BUSY] * 10], machines=machines), {"a": 0})
    assert seen.at(6).says(WINDOWS["cpu_max_1h"]).keys() == {"node-0", "node-1"}  # nobody has looked since
    seen.at(6.1)
    for text in (*WINDOWS.values(), node_queries.data_time("cpu")):
        assert seen.says(text).keys() == {"node-0"}
    assert seen.says(node_queries.known_share(1200.0)) == {"": 1.0}


def test_a_young_node_is_averaged_over_what_is_known_of_it() -> None:
    machines = [books.machine(0), books.machine(1, joins_seconds=after(4))]
    seen = watched(books.of([[BUSY] * 10] * 2, machines=machines), {"a": 0, "b": 1})
    seen.at(4.1)  # 30 s: one scrape makes no rate
    assert seen.says(WINDOWS["cpu_avg_5m"]).keys() == {"node-0"}
    assert seen.says(WINDOWS["memory_avg_5m"])["node-1"] == pytest.approx(0.15)
    seen.at(4.3)
    for name, value in (("cpu_avg_5m", 0.13), ("memory_max_1h", 0.15)):
        assert seen.says(WINDOWS[name]).get("node-1", value) == pytest.approx(value)
    assert seen.says(WINDOWS["cpu_avg_5m"])["node-1"] == pytest.approx(0.13)
    assert seen.says(node_queries.known_share(600.0)) == {"": 0.5}


def test_pods_use_their_share_of_a_node_that_is_full() -> None:
    seen = watched(books.of([[(12_000.0, 40e9)] * 4, [BUSY] * 4]), {"a": 0, "b": 1}).at(3)
    assert seen.says(CORES) == pytest.approx({"a": 8.0 * 0.97, "b": 0.8})
    assert seen.says(BYTES) == pytest.approx({"a": 32e9 * 0.93, "b": 3.2e9})


def test_an_ended_pod_leaves_at_once_but_its_rate_with_the_window() -> None:
    seen = watched(books.of([[BUSY] * 9] * 2), {"a": 0, "b": 1})
    seen.book.ended("default/a", after(4))
    seen.at(4.5)
    assert seen.says(BYTES).keys() == seen.says(pod_queries.data_time("cpu")).keys() == {"b"}
    assert 0 < seen.says(CORES)["a"] < 0.5 < seen.says(CORES)["b"]
    assert seen.at(5.1).says(CORES).keys() == {"b"}


def test_a_successor_goes_on_with_its_replicas_use_under_a_name_of_its_own() -> None:
    seen = watched(books.of([[BUSY] * 9]), {"a": 0})
    seen.book.ended("default/a", after(3.5))
    seen.book.placed("default/a-2", 0, "node-1", after(3.5))
    seen.at(6)
    assert seen.says(WINDOWS["cpu_avg_5m"]) == pytest.approx({"node-0": 0.03, "node-1": 0.13})
    assert seen.says(BYTES) == pytest.approx({"a-2": 3.2e9})


def test_a_pod_has_no_series_while_its_use_is_unknown_and_no_value_for_a_window_with_a_gap() -> None:
    seen = watched(books.of([[BUSY] * 3 + [GAP] + [BUSY] * 4, [BUSY] * 8]), {"a": 0, "b": 1})
    assert seen.at(3).says(CORES).keys() == {"a", "b"}
    for steps in (3.5, 4, 4.5):
        seen.at(steps)
        assert seen.says(CORES).keys() == seen.says(BYTES).keys() == {"b"}
    assert seen.says(pod_queries.data_time("memory")).keys() == {"a", "b"}
    assert seen.at(5.1).says(CORES).keys() == seen.says(BYTES).keys() == {"a", "b"}


def test_it_is_away_from_the_beginning_of_a_span_to_its_end() -> None:
    seen = watched(books.of([[BUSY] * 9]), {"a": 0})
    seen.door.away.append((after(2), after(3)))
    assert seen.at(1.99).says(CORES)
    with pytest.raises(errors.Unreachable, match="simulated Prometheus fails from"):
        seen.at(2).door.query(CORES)
    assert seen.at(3).says(CORES)


def test_what_is_older_than_what_is_kept_is_refused_and_never_taken_for_young() -> None:
    book = node_usage.UsageBook(books.of([[BUSY] * 40]), kept_seconds=1200.0)
    seen = Watched(book).at(40)
    with pytest.raises(errors.BadQuery, match="give the book a longer kept_seconds"):
        seen.says(WINDOWS["cpu_avg_5m"], at_seconds=after(4))


def test_the_future_is_the_last_scrape_until_prometheus_takes_it_for_lost() -> None:
    seen = watched(books.of([[BUSY] * 40]), {"a": 0}).at(4)
    ahead = after(4) + 240.0
    assert seen.says(node_queries.data_time("cpu"), at_seconds=ahead) == pytest.approx(
        {"node-0": after(4) - 15.0, "node-1": after(4) - 15.0}
    )
    assert seen.says(node_queries.data_time("cpu"), at_seconds=ahead + 60.0) == {}
    assert seen.says(BYTES, at_seconds=ahead + 60.0) == {}
    assert seen.at(20).says(WINDOWS["cpu_max_1h"])["node-0"] == pytest.approx(0.13)


uses = st.lists(
    st.tuples(st.integers(0, 9000).map(float), st.integers(0, 30).map(lambda n: n * 1e9)), min_size=20, max_size=20
)


@given(st.lists(uses, min_size=1, max_size=4), st.lists(st.floats(0.1, 20), min_size=1, max_size=8))
def test_who_asked_before_changes_no_answer(wishes: list[list[tuple[float, float]]], moments: list[float]) -> None:
    machines = [books.machine(0), books.machine(1, joins_seconds=after(3.3), leaves_seconds=after(17.7))]
    pods = {f"p{at}": at for at in range(len(wishes))}
    often, late = (watched(books.of(wishes, machines=machines), pods) for _ in range(2))
    texts = (*WINDOWS.values(), CORES, BYTES, node_queries.data_time("cpu"), node_queries.scrapes("cpu", 600.0))
    said = {}
    for moment in sorted(moments):
        often.at(moment)
        said[moment] = [often.says(text) for text in texts]
    late.at(20)
    for moment in moments:
        at_seconds = after(moment)
        assert [late.says(text, at_seconds=at_seconds) for text in texts] == [
            pytest.approx(one) for one in said[moment]
        ]
