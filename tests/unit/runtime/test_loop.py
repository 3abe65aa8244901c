import functools
import os
import random
import signal
import threading
from collections.abc import Callable

import pytest

from runtime import health, loop
from tests import clocks


def ran(
    work: Callable[[], None], *, rounds: int, period: float = 10.0, failures: list[BaseException] | None = None
) -> list[float]:
    """Run a loop for some rounds; the pauses between them."""
    stop = threading.Event()
    clock = clocks.ManualClock(on_wait=lambda _seconds: stop.set() if len(clock.waits) == rounds else None)
    loop.Loop(
        "test",
        work,
        period_seconds=lambda: period,
        clock=clock,
        rng=random.Random(1),
        on_failure=None if failures is None else failures.append,
    ).run(stop)
    return clock.waits


def test_work_begins_at_once_and_repeats_every_period_give_or_take_a_tenth() -> None:
    calls: list[int] = []
    pauses = ran(lambda: calls.append(1), rounds=20)
    assert len(calls) == 20
    assert all(9.0 <= pause <= 11.0 for pause in pauses)
    assert len(set(pauses)) > 10


@pytest.mark.parametrize(("took_seconds", "pause_seconds"), [(0.0, 30.0), (12.0, 18.0), (25.0, 10.0), (99.0, 10.0)])
def test_a_period_counts_from_the_beginning_of_the_work_and_leaves_a_third_for_a_rest(
    took_seconds: float, pause_seconds: float
) -> None:
    stop = threading.Event()
    clock = clocks.ManualClock(on_wait=lambda _seconds: stop.set())
    work = functools.partial(clock.advance, took_seconds)
    loop.Loop("test", work, period_seconds=lambda: 30.0, clock=clock, rng=random.Random(1)).run(stop)
    assert clock.waits == [pytest.approx(pause_seconds, rel=loop.PERIOD_JITTER_RATIO)]


def test_failures_are_told_and_retried_ever_later_up_to_the_cap() -> None:
    failures: list[BaseException] = []

    def fail() -> None:
        raise RuntimeError("no answer")

    pauses = ran(fail, rounds=8, failures=failures)
    assert [str(failure) for failure in failures] == ["no answer"] * 8
    for number, pause in enumerate(pauses, start=1):
        ceiling = min(2.0**number, 30.0)
        assert ceiling / 2 <= pause <= ceiling


def test_one_good_cycle_ends_the_back_off() -> None:
    results = iter([ZeroDivisionError(), ZeroDivisionError(), None])

    def work() -> None:
        error = next(results)
        if error is not None:
            raise error

    assert 9.0 <= ran(work, rounds=3)[-1] <= 11.0


def test_a_stopped_loop_does_not_begin_another_cycle() -> None:
    stop, calls = threading.Event(), []

    def work() -> None:
        calls.append(1)
        stop.set()

    loop.Loop("test", work, period_seconds=lambda: 1, clock=clocks.ManualClock(), rng=random.Random(1)).run(stop)
    assert calls == [1]


@pytest.mark.parametrize("error", [None, RuntimeError("no")], ids=["after a good cycle", "after a failed one"])
def test_the_heart_beats_after_every_cycle(error: Exception | None) -> None:
    heartbeat, stop = health.Heartbeat(), threading.Event()
    clock = clocks.ManualClock()

    def work() -> None:
        clock.advance(7)
        stop.set()
        if error is not None:
            raise error

    loop.Loop("test", work, period_seconds=lambda: 1, clock=clock, rng=random.Random(1), heartbeat=heartbeat).run(stop)
    assert heartbeat.age_seconds(clock.monotonic()) == 0.0


def test_an_exit_is_not_caught() -> None:
    with pytest.raises(SystemExit):
        loop.attempt("test", lambda: (_ for _ in ()).throw(SystemExit(2)))


def test_an_attempt_says_whether_it_went_well() -> None:
    assert loop.attempt("test", lambda: None)
    assert not loop.attempt("test", lambda: [][0])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_sets_the_stop(number: signal.Signals) -> None:
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        stop = loop.stop_on_signals()
        assert not stop.is_set()
        os.kill(os.getpid(), number)
        assert stop.wait(60)
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def test_a_thread_gets_the_stop_and_a_name() -> None:
    stop, seen = threading.Event(), []
    loop.start_thread("reader", lambda given: seen.append((given, threading.current_thread().name)), stop).join(60)
    assert seen == [(stop, "reader")]


def test_a_thread_that_raises_is_begun_again_until_it_returns(caplog: pytest.LogCaptureFixture) -> None:
    turns: list[int] = []

    def run(_stop: threading.Event) -> None:
        turns.append(len(turns))
        if len(turns) == 1:
            raise OverflowError("timestamp too large")

    loop.start_thread("reader", run, threading.Event()).join(60)
    assert turns == [0, 1]
    assert "timestamp too large" in caplog.text


def test_a_thread_that_raises_after_the_stop_ends() -> None:
    stop = threading.Event()
    stop.set()
    thread = loop.start_thread("reader", lambda _stop: [][0], stop)
    thread.join(60)
    assert not thread.is_alive()
