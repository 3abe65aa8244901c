"""Makes the metrics of a service in its registry: counters, gauges and histograms of one or more labels, or of none.

The `metrics` module of each service names them here. What counts failures has a sample of every known label value from
the start, at 0: a rule sees the first failure only as a step up from it.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class MetricFamilies:
    """The families of one registry; each label is given with the values that it has from the start, () for none."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, /, **labels: Iterable[str]) -> Counter:
        """A counter."""
        counter = Counter(name, text, tuple(labels), registry=self._registry)
        _begin(counter, labels)
        return counter

    def gauge(self, name: str, text: str, /, *labels: str) -> Gauge:
        """A gauge, without a sample until it is set."""
        return Gauge(name, text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, /, *, buckets: Sequence[float], **labels: Iterable[str]) -> Histogram:
        """A histogram with these upper bounds."""
        histogram = Histogram(name, text, tuple(labels), registry=self._registry, buckets=buckets)
        _begin(histogram, labels)
        return histogram


def _begin(family: Counter | Histogram, labels: Mapping[str, Iterable[str]]) -> None:
    for values in itertools.product(*labels.values()) if labels else ():
        family.labels(*values)
