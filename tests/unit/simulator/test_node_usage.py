"""The book's integrals are those of the use itself, however pods come and go, and what is unknown stays so."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import contention, scenario
from simulator.usage import node_usage
from tests.unit.simulator import books
from tests.unit.simulator.books import after

STEPS = 4
NODES = 2


class Stay(NamedTuple):
    """A pod's life: node, from when to when (in steps), and its wish in each step."""

    node: int
    begins: float
    lasts: float
    wishes: tuple[tuple[float, float], ...]

    @property
    def ends(self) -> float:
        return min(self.begins + self.lasts, STEPS)


wishes = st.tuples(st.integers(0, 6000).map(float), st.integers(0, 24).map(lambda gigas: gigas * 1e9))
stays = st.builds(
    Stay,
    st.integers(0, NODES - 1),
    st.integers(0, 10 * STEPS - 1).map(lambda tenths: tenths / 10),
    st.integers(1, 10 * STEPS).map(lambda tenths: tenths / 10),
    st.tuples(*[wishes] * STEPS),
)


def played(lives: list[Stay]) -> node_usage.UsageBook:
    """The book after these lives, every pod told of in order of time."""
    book = node_usage.UsageBook(books.of([life.wishes for life in lives], steps=STEPS))
    events = [(after(life.begins), 1, at) for at, life in enumerate(lives)]
    events += [(after(life.ends), 0, at) for at, life in enumerate(lives)]
    for at_seconds, begins, at in sorted(events):
        if begins:
            book.placed(f"default/pod-{at}", at, f"node-{lives[at].node}", at_seconds)
        else:
            book.ended(f"default/pod-{at}", at_seconds)
    book.advance(after(STEPS))
    return book


def used_at(lives: list[Stay], node: int, at_steps: float) -> npt.NDArray[np.float64]:
    """The shares of CPU and memory that a node shows at a time, straight from the formula."""
    step = math.floor(at_steps)
    there = [life.wishes[step] for life in lives if life.node == node and life.begins <= at_steps < life.ends]
    wanted = np.array([sum(cpu for cpu, _ in there), sum(memory for _, memory in there)])
    capacity = np.array([books.NODE.cpu_millicores, books.NODE.memory_bytes])
    own = capacity * [books.SYSTEM.cpu_ratio, books.SYSTEM.memory_ratio]
    used, _ = contention.shares(capacity * [1.0, contention.MEMORY_CEILING_RATIO], own, wanted)
    ratios: npt.NDArray[np.float64] = used / capacity
    return ratios


@given(st.lists(stays, max_size=8))
def test_a_steps_mean_is_the_mean_of_what_the_formula_says_in_each_part_of_it(lives: list[Stay]) -> None:
    book = played(lives)
    for node in range(NODES):
        for step in range(STEPS):
            parts = [used_at(lives, node, step + (tenth + 0.5) / 10) for tenth in range(10)]
            cpu, memory = np.mean(parts, axis=0)
            assert book.node_ratio("cpu")[step, node] == pytest.approx(cpu, abs=1e-6)
            assert book.node_ratio("memory")[step, node] == pytest.approx(memory, abs=1e-6)


@given(st.lists(stays, max_size=8), st.lists(st.integers(0, 3000), max_size=10))
def test_who_looks_when_changes_nothing(lives: list[Stay], looks: list[int]) -> None:
    quiet, watched = played(lives), node_usage.UsageBook(books.of([life.wishes for life in lives], steps=STEPS))
    moments = sorted({after(number / 750) for number in looks if number < 750 * STEPS})
    events = sorted(
        [(after(life.begins), 1, at) for at, life in enumerate(lives)]
        + [(after(life.ends), 0, at) for at, life in enumerate(lives)]
        + [(moment, -1, 0) for moment in moments]
    )
    for at_seconds, kind, at in events:
        if kind == 1:
            watched.placed(f"default/pod-{at}", at, f"node-{lives[at].node}", at_seconds)
        elif kind == 0:
            watched.ended(f"default/pod-{at}", at_seconds)
        else:
            watched.advance(at_seconds)
    watched.advance(after(STEPS))
    for resource in ("cpu", "memory"):
        np.testing.assert_allclose(watched.node_ratio(resource), quiet.node_ratio(resource), atol=1e-6)


def test_a_pod_whose_use_is_unknown_is_left_out_and_counted() -> None:
    gap = (math.nan, math.nan)
    book = books.book(books.of([[(800.0, 3.2e9)] * 3, [(800.0, 3.2e9), gap, (800.0, 3.2e9)]]), {"a": 0, "b": 1})
    book.advance(after(3))
    np.testing.assert_allclose(book.node_ratio("cpu")[:, 1], [0.13, 0.03, 0.13], atol=1e-6)
    np.testing.assert_allclose(book.node_ratio("memory")[:, 1], [0.15, 0.05, 0.15], atol=1e-6)
    assert book.unknown == (1, 1)


def test_one_resource_may_be_unknown_alone() -> None:
    book = books.book(books.of([[(math.nan, 3.2e9)]]), {"a": 0})
    book.advance(after(1))
    assert book.node_ratio("memory")[0, 0] == pytest.approx(0.15)
    assert book.node_ratio("cpu")[0, 0] == pytest.approx(0.03)
    assert book.unknown[0] == 1


def test_a_node_has_a_load_only_while_it_is_there() -> None:
    machines = [books.machine(0), books.machine(1, joins_seconds=after(0.5), leaves_seconds=after(2))]
    book = books.book(books.of([[(800.0, 3.2e9)] * 3] * 2, machines=machines), {"a": 0, "b": 1})
    book.advance(after(3))
    np.testing.assert_allclose(book.node_ratio("cpu")[:, 1], [0.13, 0.13, np.nan], atol=1e-6)
    np.testing.assert_allclose(book.node_ratio("cpu")[:, 0], [0.13] * 3, atol=1e-6)


def test_steps_that_are_not_over_have_no_mean() -> None:
    book = books.book(books.of([[(800.0, 3.2e9)] * 3]), {"a": 0})
    book.advance(after(1.9))
    assert np.isnan(book.node_ratio("cpu")[1:]).all()
    assert not np.isnan(book.node_ratio("cpu")[0]).any()


def test_who_outlives_its_replica_goes_on_with_its_last_use_and_not_with_a_neighbours() -> None:
    made = books.leaving(books.of([[(800.0, 0.0)] * 3, [(4000.0, 0.0)] * 3]), 0, after(1))
    book = books.book(made, {"a": 0})
    book.advance(after(3))
    np.testing.assert_allclose(book.node_ratio("cpu")[:, 0], [0.13] * 3, atol=1e-6)


def test_what_cannot_be_is_refused_by_name() -> None:
    book = books.book(books.of([[(800.0, 3.2e9)]]), {"a": 0})
    with pytest.raises(ValueError, match=r"pod default/a is placed .* runs already"):
        book.placed("default/a", 0, "node-0", after(0))
    with pytest.raises(ValueError, match=r"pod default/z ends .* does not run"):
        book.ended("default/z", after(0))
    with pytest.raises(ValueError, match="node 'node-7' is none of the scenario's 2 machines"):
        book.placed("default/b", 0, "node-7", after(0))
    with pytest.raises(ValueError, match="was asked to go to"):
        book.advance(after(-1))


def test_a_replica_whose_use_lies_outside_the_values_is_refused() -> None:
    made = books.of([[(800.0, 3.2e9)] * 3])
    short = scenario.Usage(made.usage.cpu_millicores[:2], made.usage.memory_bytes[:2])
    with pytest.raises(ValueError, match=r"replica 0 of scenario small has its use at 0\.\.2, but there are 2 values"):
        node_usage.UsageBook(dataclasses.replace(made, usage=short))
