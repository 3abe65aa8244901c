"""The simulated Prometheus says of a past what the real one says of the same past."""

import collections.abc
import contextlib
import time

import pytest

from lab import cluster
from promql.http import client
from promql.queries import node_queries
from simulator.prometheus import SimulatedPrometheus
from tests import clocks
from tests.contract.simulator import same_life
from tests.e2e import waiting

pytestmark = pytest.mark.cluster
AGO_SECONDS = 3 * 3600.0  # what is back-filled must be older than what Prometheus holds in memory
# Subqueries look at multiples of their step (300 s at most), so the life lies among these alike on every run: where
# a birth falls between two scrapes and such a multiple, the first point of a percentile may differ by a thousandth.
ALIGNED_SECONDS, BETWEEN_SECONDS = 300.0, 143.4
TOLERANCE_RATIO = 0.001  # the exporter writes counters with three digits


@pytest.fixture(scope="module")
def past() -> collections.abc.Iterator[tuple[client.Client, float]]:
    """A Prometheus of its own with the past of `same_life` until an instant hours ago."""
    end_seconds = (time.time() - AGO_SECONDS) // ALIGNED_SECONDS * ALIGNED_SECONDS + BETWEEN_SECONDS
    with cluster.Cluster(kubernetes=False) as running:
        running.backfill(same_life.pages(end_seconds))
        started_seconds = time.time()
        with contextlib.closing(client.connect(running.prometheus_url, timeout_seconds=60.0)) as made:
            await_scrape_after(made, started_seconds)
            yield made, end_seconds


def await_scrape_after(prometheus: client.Client, at_seconds: float) -> None:
    """Until the process that runs now has scraped: it marks no series stale that only its predecessor saw."""

    def scraped() -> bool:
        return any(sample.value > at_seconds for sample in prometheus.query(node_queries.data_time("memory")).samples)

    waiting.until(scraped, f"a scrape after {at_seconds:.3f}")


@pytest.mark.parametrize("before_end_seconds", [0.0, 47.3, 1200.0, 20_000.0])
def test_the_simulated_prometheus_says_of_the_same_life_what_the_real_one_says(
    past: tuple[client.Client, float], before_end_seconds: float
) -> None:
    real, end_seconds = past
    simulated = SimulatedPrometheus(same_life.book(end_seconds), clocks.ManualClock(end_seconds))
    for expression in same_life.EXPRESSIONS:
        expected_text, due = (
            same_life.values(door.query(expression, at_seconds=end_seconds - before_end_seconds))
            for door in (simulated, real)
        )
        assert expected_text == pytest.approx(due, rel=TOLERANCE_RATIO, abs=TOLERANCE_RATIO), expression
        assert expected_text
