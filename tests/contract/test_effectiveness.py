"""`evenload effectiveness` over a real Prometheus that scrapes a real annotator: the span holds what it counted, twice.

The annotator is killed and started anew in between, so that its counters begin at 0 again.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from kube import kinds
from lab import cluster
from promql.http import client
from runtime import clock
from tests import commands
from tests.e2e import policies, stack, waiting
from tests.e2e.lent import lent

pytestmark = pytest.mark.cluster
PATIENCE_SECONDS = 180
ANSWER_SECONDS = 60.0  # of a Prometheus that is busy with something else
TOTAL = "evenload_total_schedule_count"
COUNTED = 6


@pytest.fixture(scope="module")
def running(fleet: cluster.Cluster) -> Iterator[stack.Stack]:
    """Three nodes of different load, and the annotator among Prometheus' targets."""
    with lent(fleet), stack.started_on(fleet, policies.write) as scored_stack:
        scored_stack.cluster.scrape([scored_stack.annotator.url.removeprefix("http://")])
        scored_stack.start(scored_stack.annotator)
        for number, node in enumerate(sorted(scored_stack.nodes())):
            scored_stack.set_load(node, cpu_ratio=0.2 + 0.2 * number, memory_ratio=0.3)
        scored_stack.await_reading("node-2", "cpu_avg_5m", 0.5, 0.7, timeout_seconds=PATIENCE_SECONDS)
        yield scored_stack
        scored_stack.cluster.scrape(())


def answered_json(item: stack.Stack, span: str = "10m") -> dict[str, Any]:
    """The document of a span."""
    words = ("effectiveness", "--since", span, "--prometheus", item.cluster.prometheus_url)
    return commands.document(*words, "--prometheus-timeout", str(ANSWER_SECONDS))


def schedule(item: stack.Stack, prefix: str) -> None:
    """Places pods and waits until Prometheus has seen the annotator count them all."""
    waiting.eventually(lambda: _scraped(item) == 0, PATIENCE_SECONDS, "the first scrape of this annotator")
    item.create_pods(prefix, COUNTED)
    item.placed(prefix, COUNTED, timeout_seconds=PATIENCE_SECONDS)
    waiting.eventually(
        lambda: _scraped(item) == COUNTED, PATIENCE_SECONDS, "the count to be scraped", lambda: _scraped(item)
    )


def _scraped(item: stack.Stack) -> float | None:
    with contextlib.closing(client.connect(item.cluster.prometheus_url, timeout_seconds=ANSWER_SECONDS)) as door:
        samples = door.query(f"{TOTAL} + evenload_schedule_results_left_out").samples
    return samples[0].value if samples else None


def test_a_span_holds_what_two_lives_of_an_annotator_counted(running: stack.Stack) -> None:
    schedule(running, "first-")
    waiting.eventually(  # a span is looked at in two hundred steps: less than one of them covers nothing
        lambda: 0 < answered_json(running)["coveredSeconds"] < 600, PATIENCE_SECONDS, "a step of the span to be covered"
    )
    await_count(running, COUNTED)
    once = answered_json(running)
    own = running.annotator.metric("evenload_cpu_utilization_total_avg")
    assert once["figures"]["cpu_utilization_total_avg"] == pytest.approx(own, abs=0.01)
    ratio = running.annotator.metric("evenload_effective_schedule_ratio")
    assert once["figures"]["effective_schedule_ratio"] == pytest.approx(ratio, abs=0.01)
    at_seconds = clock.WallClock().now() + 1

    def renewed() -> bool:
        lease = running.door.get(kinds.LEASES, "evenload-annotator", namespace=stack.SYSTEM_NAMESPACE)
        return lease.spec.renew_time is not None and lease.spec.renew_time.timestamp() >= at_seconds

    # What was placed before the renewal is not counted by the next process again.
    waiting.eventually(renewed, PATIENCE_SECONDS, "a renewal of the annotator's Lease")
    running.annotator.kill()
    running.annotator.start()
    schedule(running, "second-")
    await_count(running, 2 * COUNTED)


def await_count(item: stack.Stack, count: int) -> None:
    """Waits until the span holds so many results: Prometheus extrapolates a rise by up to a scrape at its end."""

    def counted_placements() -> int:
        document = answered_json(item)
        return int(document["figures"]["total_schedule_count"] + document["leftOut"])

    waiting.eventually(
        lambda: abs(counted_placements() - count) <= count / COUNTED,
        PATIENCE_SECONDS,
        f"about {count} results within the span",
        counted_placements,
    )
