"""The simulated Prometheus under the suite that holds every door, on a virtual clock that waiting moves."""

import collections.abc

import pytest

from simulator import kernel
from simulator.prometheus import SimulatedPrometheus
from simulator.usage import node_usage
from tests import prometheus_suite
from tests.unit.simulator import books

MOST_LOOKS = 400


@pytest.fixture(params=[300.0, 5.0], ids=["5m, a scrape every 30 s", "5s, a scrape every second"])
def stage(request: pytest.FixtureRequest) -> prometheus_suite.Stage:
    """Two nodes with a pod each, which use something else in every step."""
    averaging_seconds: float = request.param
    every_seconds = averaging_seconds / (10 if averaging_seconds > 60 else 5)
    uses = [
        [(200.0 * (1 + (3 * step + pod) % 7), 1e9 * (1 + (step + pod) % 5)) for step in range(60)] for pod in (0, 1)
    ]
    made = books.of(uses)
    scraping = node_usage.Scraping(every_seconds, every_seconds / 2)
    book = books.book(made, {"web-0": 0, "web-1": 1}, scraping=scraping)
    virtual = kernel.Kernel(books.START_SECONDS)

    def wait(condition: prometheus_suite.Answered, what: str, describe: collections.abc.Callable[[], object]) -> None:
        for _ in range(MOST_LOOKS):
            if condition():
                return
            virtual.run(virtual.now_seconds + every_seconds)
        raise AssertionError(f"never {what}; last: {describe()}")

    door = SimulatedPrometheus(book, virtual.clock)
    return prometheus_suite.Stage(door, 2, averaging_seconds, wait)


class TestSimulated(prometheus_suite.Suite):
    """What every door must do."""
