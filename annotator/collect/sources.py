"""Where the load of nodes comes from: a `Source`, which `annotator.node_sync` asks for all metrics in every sync.

`PrometheusSource` asks Prometheus for each window; `annotator.collect.metrics_server` keeps the windows itself.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from annotator.collect import collector
from annotator.collect.last_good_values import LastGoodValues, NodeSet
from annotator.collect.node_windows import ConfirmedReading
from kube.objects import Node
from policy.contract.load_annotation import Windows
from policy.metrics import Metric
from promql.door import Answer
from promql.queries import identity


class Source(Protocol):
    """A source of load, by itself one whose windows are in another process. Used by one thread."""

    def resume(self, fleet: NodeSet, metrics: Sequence[Metric], carried: Mapping[str, ConfirmedReading]) -> None:
        """Begins again, from what stands on the nodes."""
        return

    def read(
        self, fleet: NodeSet, directory: identity.Directory, metrics: Sequence[Metric], held: LastGoodValues
    ) -> tuple[collector.MetricAnswer, ...]:
        """Returns every metric in the order given, each with its values by node or the error why there are none;
        `held` are the last good values.
        """
        ...

    def extent(self, node: str) -> Windows | None:
        """Since when the node is observed, where windows are kept in this process."""
        return None

    def absence(self, node: Node) -> str:
        """Why a node without refused values has none; "" where only the answers say it."""
        return ""

    def shortage(self, metrics: Sequence[Metric]) -> str:
        """Returns the sentence on metrics that are absent or young here; "" for none, or where it is not known."""
        return ""


class PrometheusSource(Source):
    """Windows by one query each. `query` takes a metric's name and its expression, and raises PromqlError."""

    def __init__(self, query: Callable[[str, str], Answer], labels: identity.SeriesLabels) -> None:
        self._query = query
        self._labels = labels
        self._failed: Collection[str] = ()  # the metrics whose queries failed in the last sync

    def read(
        self, fleet: NodeSet, directory: identity.Directory, metrics: Sequence[Metric], held: LastGoodValues
    ) -> tuple[collector.MetricAnswer, ...]:
        """See Source."""
        del fleet
        answers = collector.ask(self._query, metrics, directory, self._labels, failed_before=self._failed)
        answers = collector.doubted(answers, held)
        self._failed = {one.metric.name for one in answers if one.error is not None}
        return answers
