"""Metrics of Prometheus queries and of their circuit breaker: the same names in every service.

annotator and descheduler register one `DoorCollector` in their wiring; the values are read when scraped.
"""

import collections.abc

from prometheus_client import core, registry

from promql.http.circuit_breaker import CircuitBreaker
from promql.http.client import Traffic


class DoorCollector(registry.Collector):
    """The state of one guarded door and the traffic of the client behind it."""

    def __init__(self, guarded: CircuitBreaker, traffic: Traffic) -> None:
        self._guarded = guarded
        self._traffic = traffic

    def collect(self) -> collections.abc.Iterator[core.Metric]:
        """Circuit open or not, queries sent, answers that were partial, bytes received."""
        text = "1 while Prometheus failed several times in a row and only trial queries are sent."
        yield core.GaugeMetricFamily("evenload_prometheus_circuit_open", text, value=float(self._guarded.open))
        text = "Queries sent to Prometheus; does not depend on the number of nodes."
        yield core.CounterMetricFamily("evenload_prometheus_queries", text, value=self._traffic.queries)
        text = "Answers that Prometheus itself calls partial: not used; a rise means stores behind it do not answer."
        yield core.CounterMetricFamily("evenload_prometheus_partial_answers", text, value=self._traffic.partial_answers)
        text = "Bytes of answers from Prometheus, decompressed; grows with nodes and metrics."
        yield core.CounterMetricFamily("evenload_prometheus_received_bytes", text, value=self._traffic.received_bytes)
