"""The circuit breaker: when it opens, what a trial decides, how long the pauses are, and what it leaves alone."""

import random
import threading

import prometheus_client
import pytest

from promql import door, errors
from promql.http import circuit_breaker, client
from tests import clocks, fake_prometheus

DOWN = errors.Unreachable("Prometheus at http://p cannot be reached (refused)")
LONGEST_SECONDS = 8.0


class Bench:
    """A guarded door over a fake server that is up or down."""

    def __init__(self) -> None:
        self.clock = clocks.ManualClock()
        self.server = fake_prometheus.FakePrometheus()
        self.door = circuit_breaker.CircuitBreaker(
            self.server, clock=self.clock, rng=random.Random(7), longest_pause_seconds=lambda: LONGEST_SECONDS
        )

    def fails(self, error: errors.PromqlError = DOWN) -> None:
        self.server.fail("up", error)

    def answers(self) -> None:
        self.server.answer("up", {"a": 1.0})

    def ask(self, times: int = 1) -> list[type[Exception] | None]:
        """What each query came to: None or its error's class."""
        seen: list[type[Exception] | None] = []
        for _ in range(times):
            try:
                self.door.query("up")
                seen.append(None)
            except errors.PromqlError as error:
                seen.append(type(error))
        return seen

    def until_trial(self) -> float:
        """Seconds until the next query goes through; moves the clock there."""
        asked, waited = len(self.server.asked), 0.0
        while len(self.server.asked) == asked:
            self.ask()
            if len(self.server.asked) == asked:
                self.clock.advance(0.05)
                waited += 0.05
        return waited


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def broken(bench: Bench) -> Bench:
    """One whose server has just failed as often as opens the circuit."""
    bench.fails()
    bench.ask(3)
    return bench


def test_a_dead_server_is_asked_three_times_and_then_no_more(bench: Bench) -> None:
    bench.fails()
    assert bench.ask(20) == [errors.Unreachable] * 3 + [errors.Paused] * 17
    assert len(bench.server.asked) == 3
    assert bench.door.open
    assert "refused" in bench.door.line


def test_the_pause_names_the_failure_and_is_handled_like_no_answer(broken: Bench) -> None:
    with pytest.raises(errors.Unreachable, match="refused") as caught:
        broken.door.query("up")
    assert isinstance(caught.value, errors.Paused)
    assert caught.value.last is DOWN


def test_one_good_trial_closes_it(broken: Bench) -> None:
    broken.answers()
    broken.until_trial()
    assert not broken.door.open
    assert broken.ask(5) == [None] * 5
    assert broken.door.line == "closed"


def test_a_failed_trial_opens_it_again_after_one_query(broken: Bench) -> None:
    broken.until_trial()
    assert broken.ask(5) == [errors.Paused] * 5
    assert len(broken.server.asked) == 4


def test_pauses_grow_with_jitter_up_to_the_longest_and_begin_anew_after_a_success(broken: Bench) -> None:
    pauses = [broken.until_trial() for _ in range(8)]
    for waited, whole in zip(pauses, (1, 2, 4, 8, 8, 8, 8, 8), strict=True):
        assert whole / 2 <= waited <= whole + 0.1
    assert len({round(waited, 1) for waited in pauses[3:]}) > 1, "no jitter"
    broken.answers()
    broken.until_trial()
    broken.fails()
    broken.ask(3)
    assert broken.until_trial() <= 1.1


@pytest.mark.parametrize(
    "error",
    [errors.Unavailable("503"), errors.Garbage("<html>"), errors.Refused("401"), DOWN],
    ids=lambda error: type(error).__name__,
)
def test_every_failure_of_the_server_counts(bench: Bench, error: errors.PromqlError) -> None:
    bench.fails(error)
    bench.ask(3)
    assert bench.door.open


@pytest.mark.parametrize(
    "error",
    [errors.BadQuery("parse error"), errors.Partial("a store is down", answer=door.Answer(), reasons=("x",))],
    ids=lambda error: type(error).__name__,
)
def test_a_query_that_is_wrong_and_a_store_that_is_down_say_nothing_of_the_server(
    bench: Bench, error: errors.PromqlError
) -> None:
    bench.fails(error)
    assert bench.ask(9) == [type(error)] * 9
    assert not bench.door.open


def test_failures_with_answers_between_do_not_open_it(bench: Bench) -> None:
    for _ in range(5):
        bench.fails()
        bench.ask(2)
        bench.answers()
        bench.ask()
    assert not bench.door.open


def test_a_clock_set_back_or_ahead_changes_no_pause(broken: Bench) -> None:
    broken.clock.jump(1e6)
    assert broken.ask() == [errors.Paused]
    broken.clock.jump(-2e6)
    broken.answers()
    assert broken.until_trial() <= 1.1


def test_of_threads_that_come_with_the_trial_only_one_is_the_trial() -> None:
    """The others wait for its end and are told that the circuit is open again."""
    entered, release, seen = threading.Event(), threading.Event(), []

    class Slow(fake_prometheus.FakePrometheus):
        def query(self, expression: str, *, at_seconds: float | None = None) -> door.Answer:
            if len(self.asked) == 3:
                entered.set()
                release.wait(60)
            return super().query(expression, at_seconds=at_seconds)

    server, ticking = Slow(), clocks.ManualClock()
    server.fail("up", DOWN)
    guarded = circuit_breaker.CircuitBreaker(server, clock=ticking, rng=random.Random(7))

    def ask() -> None:
        try:
            guarded.query("up")
        except errors.PromqlError as error:
            seen.append(type(error))

    for _ in range(3):
        ask()
    ticking.advance(5)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    threads[0].start()
    assert entered.wait(60)
    for thread in threads[1:]:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(60)
    assert sorted(one.__name__ for one in seen[3:]) == ["Paused"] * 3 + ["Unreachable"]
    assert len(server.asked) == 4


def test_the_state_and_the_cost_are_exported(bench: Bench) -> None:
    registry, traffic = prometheus_client.CollectorRegistry(), client.Traffic()
    registry.register(circuit_breaker.DoorCollector(bench.door, traffic))
    traffic.count(queries=1, received_bytes=120)
    assert registry.get_sample_value("evenload_prometheus_circuit_open") == 0
    bench.fails()
    bench.ask(3)
    names = ("circuit_open", "queries_total", "received_bytes_total")
    assert [registry.get_sample_value(f"evenload_prometheus_{name}") for name in names] == [1, 1, 120]


def test_a_process_that_is_told_to_end_asks_nothing_more() -> None:
    server, stop = fake_prometheus.FakePrometheus(), threading.Event()
    guarded = circuit_breaker.CircuitBreaker(server, clock=clocks.ManualClock(), rng=random.Random(7), stop=stop)
    guarded.query("up")
    stop.set()
    for _ in range(circuit_breaker.FAILURES):
        with pytest.raises(errors.Stopping):
            guarded.query("up")
    assert server.asked == ["up"]
    assert not guarded.open, "it says nothing of the server"
