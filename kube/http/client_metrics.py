"""Metrics of the door to the Kubernetes API: the same names in every service.

Each service registers one `DoorCollector` in its wiring; the values are read when scraped.
"""

from collections.abc import Iterator

from prometheus_client import core, registry

from kube.cache.watch_status import Watches
from kube.http.undecodable import UndecodableObjects


class DoorCollector(registry.Collector):
    """The objects that one door could not decode, and the contact of the watches on it."""

    def __init__(self, undecodable: UndecodableObjects, watches: Watches) -> None:
        self._undecodable = undecodable
        self._watches = watches

    def collect(self) -> Iterator[core.Metric]:
        """Objects that could not be decoded so far, those that cannot be now, and each watch's age and problem."""
        text = (
            "Objects that could not be decoded, each once; one is skipped alone, and a pod counts as far as it is read."
        )
        counted = core.CounterMetricFamily("evenload_kube_undecodable_objects", text, labels=["kind", "reason"])
        for (kind, reason), count in sorted(self._undecodable.counts().items()):
            counted.add_metric([kind, reason], count)
        yield counted
        text = "Objects that cannot be decoded now; of nodes: they are missing here and scored blindly."
        present = core.GaugeMetricFamily("evenload_kube_objects_undecodable", text, labels=["kind"])
        for kind, count in sorted(self._undecodable.present().items()):
            present.add_metric([kind], count)
        yield present
        text = "Seconds since a watch last brought anything; bookmarks come within 50, so that more is a lost watch."
        age = core.GaugeMetricFamily("evenload_kube_watch_age_seconds", text, labels=["watch"])
        text = "1 from a failure of a watch until it brings something again; why is in /readyz?verbose and the log."
        problem = core.GaugeMetricFamily("evenload_kube_watch_problem", text, labels=["watch"])
        for name, watch in self._watches.by_name.items():
            age.add_metric([name], watch.age_seconds())
            problem.add_metric([name], watch.problem is not None)
        yield age
        yield problem
