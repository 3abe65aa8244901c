"""Events happen in order of time, and at one time in the order in which they were put there."""

import functools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import kernel


@given(st.lists(st.integers(0, 5)))
def test_events_happen_in_order_of_time_and_then_of_insertion(times: list[int]) -> None:
    simulated, seen = kernel.Kernel(100.0), []
    for number, seconds in enumerate(times):
        simulated.after(seconds, lambda number=number, at=100.0 + seconds: seen.append((at, number)))  # type: ignore[misc]
    simulated.run(200.0)
    assert seen == sorted(seen)
    assert len(seen) == len(times)


def test_at_one_time_the_lower_rank_comes_first_whenever_it_was_put_there() -> None:
    simulated, seen = kernel.Kernel(0.0), []
    simulated.at(10.0, lambda: seen.append("arrives"))
    simulated.every(5.0, lambda: seen.append("step"), first_seconds=5.0, rank=-1)
    simulated.run(10.0)
    assert seen == ["step", "step", "arrives"]


def test_the_clock_stands_at_the_event_and_at_the_end_where_it_was_told() -> None:
    simulated, seen = kernel.Kernel(0.0), []
    simulated.every(10.0, lambda: seen.append(simulated.now_seconds), first_seconds=5.0)
    simulated.run(30.0)
    assert seen == [5.0, 15.0, 25.0]
    assert simulated.clock.monotonic() == simulated.now_seconds == 30.0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(-1, 1))))
def test_what_is_planned_and_what_comes_up_meanwhile_take_turns(events: list[tuple[int, int, int]]) -> None:
    simulated, seen = kernel.Kernel(0.0), []

    def note(rank: int) -> None:
        seen.append((simulated.now_seconds, rank))

    def begin(later_seconds: int, rank: int) -> None:
        note(0)
        simulated.after(1.0 + later_seconds, functools.partial(note, rank), rank=rank)

    for at_seconds, later_seconds, rank in events:
        simulated.at(at_seconds, functools.partial(begin, later_seconds, rank))
    for until_seconds in (3.0, 20.0):  # what is left over from a run is planned for the next one
        simulated.run(until_seconds)
    assert seen == sorted(seen)
    assert len(seen) == 2 * len(events)


def test_what_happens_may_put_more_on_the_heap_for_the_same_moment() -> None:
    simulated, seen = kernel.Kernel(0.0), []
    simulated.after(1.0, lambda: simulated.after(0.0, lambda: seen.append("then")))
    simulated.run(1.0)
    assert seen == ["then"]


@pytest.mark.parametrize("at_seconds", [9.0, float("nan")])
def test_the_past_is_refused(at_seconds: float) -> None:
    with pytest.raises(ValueError, match=r"expected now \(10\.0\) or later"):
        kernel.Kernel(10.0).at(at_seconds, lambda: None)


def test_waiting_takes_no_time_and_says_whether_to_stop() -> None:
    stop, clock = threading.Event(), kernel.Kernel(0.0).clock
    assert not clock.wait(stop, 60.0)
    stop.set()
    assert clock.wait(stop, 60.0)
