"""Whether the policy's windows hold enough scrapes to mean anything, looked at now and then.

`annotator.cycle` asks after a sync that was answered; the sentence stands in the log and in /readyz?verbose. A window
over fewer than four scrapes says little, and one failed scrape would leave its rate empty: with a scrape every 60 s, no
averaging window under 4m. One query, for all nodes, every ten minutes: the median, so that young nodes say nothing.
"""

import math
from typing import Final

from policy.metrics import Metric
from policy.schema import LoadPolicy
from promql import errors, node_queries
from promql.door import PrometheusDoor

EVERY_SECONDS: Final = 600.0
ENOUGH: Final = 4


class Scrapes:
    """What was found last. Used by one thread; `sentence` may be read by others."""

    def __init__(self, prometheus: PrometheusDoor, *, selector: str) -> None:
        self._prometheus = prometheus
        self._selector = selector
        self._asked_seconds = -math.inf
        self._asked_of: Metric | None = None
        self.sentence = ""  # "" while nothing is wrong, or nothing is known

    def look(self, policy: LoadPolicy, *, now_seconds: float) -> str:
        """The sentence, asked anew when it is old or of another window; no answer leaves it as it is."""
        shortest = _shortest(policy)
        if shortest is None:
            self.sentence = ""
            return self.sentence
        if shortest == self._asked_of and now_seconds - self._asked_seconds < EVERY_SECONDS:
            return self.sentence
        self._asked_seconds, self._asked_of = now_seconds, shortest
        try:
            answer = self._prometheus.query(
                node_queries.scrapes(shortest.resource, shortest.averaging_seconds, selector=self._selector)
            )
        except errors.PromqlError:
            return self.sentence
        counts = [sample.value for sample in answer.samples if not math.isnan(sample.value)]
        self.sentence = _judged(shortest, counts[0]) if counts else ""
        return self.sentence


def _shortest(policy: LoadPolicy) -> Metric | None:
    """The built-in metric with the shortest averaging window; what an operator's own query averages is not known."""
    built = [metric for metric in policy.metrics_in_force if metric.query is None]
    return min(built, key=lambda metric: metric.averaging_seconds, default=None)


def _judged(metric: Metric, count: float) -> str:
    if count >= ENOUGH:
        return ""
    return (
        f"{metric.name} averages over {metric.averaging_seconds:g} s, in which a node is scraped only {count:g} times, "
        f"expected at least {ENOUGH}: scrape node-exporter more often or give the metric a longer window"
    )
