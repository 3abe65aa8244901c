"""Whether the policy's windows hold what their names say, looked at now and then.

`annotator.node_sync` asks after an answered sync that asked nothing about owners; the sentence stands in the log and in
/readyz?verbose. A window over fewer than four scrapes says little, and one failed scrape would leave its rate empty:
with a scrape every 60 s, no averaging window under 4m. And a maximum over a day is one over less where Prometheus did
not know the nodes a day ago: it is young, or was restarted empty. Two queries, for all nodes, every ten minutes; the
median and half of the nodes decide, so that young nodes say nothing.
"""

import contextlib
import math
from collections.abc import Sequence
from typing import Final

from policy.metrics import Metric
from policy.schema.load_policy import LoadPolicy
from promql import errors
from promql.door import QueryDoor
from promql.queries import node_queries

EVERY_SECONDS: Final = 600.0
ENOUGH: Final = 4
KNOWN_RATIO: Final = 0.5


class Scrapes:
    """The last check of scrape intervals. Used by one thread; `sentence` may be read by others."""

    def __init__(self, prometheus: QueryDoor, *, selector: str) -> None:
        self._prometheus = prometheus
        self._selector = selector
        self._asked_seconds = -math.inf
        self._asked_of: tuple[Metric, ...] = ()
        self.sentence = ""  # "" while nothing is wrong, or nothing is known

    def look(self, policy: LoadPolicy, *, now_seconds: float) -> None:
        """Finds the sentence again when it is old or of other windows; no answer leaves it as it is."""
        built = tuple(one for one in policy.metrics_in_force if one.query is None)
        if not built:  # what an operator's own query looks at is not known
            self.sentence = ""
            return
        if built == self._asked_of and 0 <= now_seconds - self._asked_seconds < EVERY_SECONDS:
            return
        self._asked_seconds, self._asked_of = now_seconds, built
        with contextlib.suppress(errors.PromqlError):
            self.sentence = "; ".join(filter(None, self._problems(built)))

    def _problems(self, metrics: Sequence[Metric]) -> tuple[str, ...]:
        shortest = min(metrics, key=lambda metric: metric.averaging_seconds)
        longest = max(metrics, key=lambda metric: metric.window_seconds)
        scrapes = self._number(
            node_queries.scrapes(shortest.resource, shortest.averaging_seconds, selector=self._selector)
        )
        if scrapes is None:
            return ()
        known = self._number(node_queries.known_share(longest.window_seconds, selector=self._selector))
        return _too_few(shortest, scrapes), too_young(longest, known or 0.0)

    def _number(self, expression: str) -> float | None:
        values = self._prometheus.query(expression).values.tolist()
        return next((value for value in values if not math.isnan(value)), None)


def _too_few(metric: Metric, count: float) -> str:
    if count >= ENOUGH:
        return ""
    return (
        f"{metric.name} averages over {metric.averaging_seconds:g} s, in which a node is scraped only {count:g} times, "
        f"expected at least {ENOUGH}: scrape node-exporter more often or give the metric a longer window"
    )


def too_young(metric: Metric, known_ratio: float) -> str:
    """The sentence on a window that reaches back behind what Prometheus knows; "" where half of the nodes are known."""
    if known_ratio >= KNOWN_RATIO:
        return ""
    return (
        f"{metric.name} looks back over {metric.window_seconds:g} s, but Prometheus knew only {known_ratio:.0%} of the "
        "nodes so long ago: until it did, such metrics cover less and may be too low"
    )
