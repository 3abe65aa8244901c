"""Load of nodes from metrics-server: one list of metrics.k8s.io in every sync, windows kept in memory.

For clusters without Prometheus (`--source metrics-server`). An item has the mean CPU of some 15 to 60 s and the memory
at their end, as the kubelet counts them for the whole node; `annotator.collect.node_windows` makes averages and maxima
of them, as ratios of the node's capacity. What cannot be trusted is refused for that node only, by reason:

    no_time, window, quantity   the item has no time, or a text that cannot be read
    stale, future               its time is over two minutes ago, or over a minute ahead: a late kubelet, another clock
    no_capacity                 the Node says nothing of its capacity
    double                      two items of one node
    zero, negative, over_range  a ratio that no running node can have; it costs that resource only

A list without one item that can be used counts as a failed query: not all kubelets fall silent at once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from annotator.collect import collector, node_windows
from annotator.collect.last_good_values import Floats, LastGoodValues, NodeSet
from annotator.collect.node_windows import NodeWindows
from kube import errors, kinds
from kube.door import KubeReader
from kube.objects import Node, NodeMetrics
from policy import metrics as load_metrics
from policy.contract import load_annotation
from policy.contract.load_annotation import Windows
from policy.metrics import Metric
from policy.rules import sample_windows
from policy.rules.sample_windows import Samples
from promql import readings
from promql.queries import identity
from runtime import clock as clocks

LONGEST_AVERAGE_SECONDS: Final = 3600.0
KNOWN_RATIO: Final = 0.5  # as `annotator.diagnostics.scrapes` has it: young nodes among others say nothing
API: Final = kinds.NODE_METRICS.api_version
NEXT_STEP: Final = "`kubectl get apiservice v1beta1.metrics.k8s.io` and metrics-server's log say more"


class _Sample(NamedTuple):
    at_seconds: float
    window_seconds: float
    cpu_ratio: float
    memory_ratio: float


class _Items(NamedTuple):
    """The samples of the nodes, why whole items are refused, and why single ratios are, by resource."""

    samples: Samples
    refused: Mapping[str, str]
    impossible: Mapping[str, Mapping[str, str]]


class MetricsServerSource:
    """A `collector.Source` through the Kubernetes door."""

    def __init__(self, kube: KubeReader, *, clock: clocks.Clock) -> None:
        self._kube = kube
        self._clock = clock
        self._windows = NodeWindows()
        self._listed: frozenset[str] = frozenset()

    def resume(
        self, fleet: NodeSet, metrics: Sequence[Metric], carried: Mapping[str, node_windows.ConfirmedReading]
    ) -> None:
        """See Source."""
        self._windows.follow(fleet, _available(metrics))
        self._windows.resume(carried, now_seconds=self._clock.now())

    def read(
        self, fleet: NodeSet, directory: identity.Directory, metrics: Sequence[Metric], held: LastGoodValues
    ) -> tuple[collector.MetricAnswer, ...]:
        """See Source. The kubelet's name of a node is the node's own, so the directory is not needed."""
        del directory, held
        try:
            items = self._kube.list(kinds.NODE_METRICS).items
            now_seconds = self._clock.now()
            taken = _taken(items, fleet, now_seconds)
        except errors.KubeError as error:
            failure = errors.MetricsServerError(f"metrics-server was not read: {error}; {NEXT_STEP}")
            return tuple(collector.MetricAnswer(metric, None, failure) for metric in metrics)
        self._listed = frozenset(item.name for item in items)
        self._windows.follow(fleet, _available(metrics))
        self._windows.add(taken.samples, now_seconds=now_seconds)
        return tuple(
            collector.MetricAnswer(metric, self._values(metric, fleet.names, taken, now_seconds)) for metric in metrics
        )

    def _values(self, metric: Metric, names: Sequence[str], taken: _Items, now_seconds: float) -> readings.NodeValues:
        """The values of a metric; none of nodes without a sample of the last two minutes."""
        if not is_available(metric):
            return readings.NodeValues({}, {})
        ratios, newest = self._windows.values(metric, now_seconds=now_seconds), self._windows.shortest.newest_seconds()
        current = np.where(newest >= now_seconds - sample_windows.STALE_SECONDS, ratios, np.nan).tolist()
        refused = {**taken.refused, **taken.impossible[metric.resource]}
        values = {
            name: ratio for name, ratio in zip(names, current, strict=True) if ratio == ratio and name not in refused
        }
        return readings.NodeValues(values, refused, at_seconds=dict(zip(names, newest.tolist(), strict=True)))

    def extent(self, node: str) -> Windows | None:
        """See Source."""
        return self._windows.extent(node)

    def absence(self, node: Node) -> str:
        """See Source."""
        if node.name not in self._listed:
            return f"is not in the list of {API}: metrics-server does not reach its kubelet"
        averages = [one for one in self._windows.metrics if one.statistic == load_metrics.AVERAGE]
        if not averages:
            return ""
        seconds = min(one.averaging_seconds for one in averages)  # asked of a node that has no value at all
        observed = self._windows.observed_seconds(node.name, seconds, now_seconds=self._clock.now())
        return f"was observed for {observed:.0f} s, expected {sample_windows.ENOUGH_RATIO * seconds:.0f} s"

    def shortage(self, metrics: Sequence[Metric]) -> str:
        """See Source."""
        absent = unavailable(metrics)
        since = self._windows.shortest.since_seconds()
        return "; ".join(filter(None, (absent, too_young(metrics, since, now_seconds=self._clock.now()))))


def is_available(metric: Metric) -> bool:
    """Whether the windows can be made from samples: averages of at most an hour, and maxima of those."""
    counted = metric.statistic in (load_metrics.AVERAGE, load_metrics.MAXIMUM)
    return counted and metric.query is None and metric.averaging_seconds <= LONGEST_AVERAGE_SECONDS


def _available(metrics: Sequence[Metric]) -> tuple[Metric, ...]:
    return tuple(metric for metric in metrics if is_available(metric))


def unavailable(metrics: Sequence[Metric]) -> str:
    """The sentence on metrics that only Prometheus has; "" for none."""
    names = [metric.name for metric in metrics if not is_available(metric)]
    if not names:
        return ""
    return (
        f"{', '.join(names)} cannot be had from metrics-server: it gives averages of at most an hour and maxima of "
        "these, no percentiles and no queries; take them out of the policy or use Prometheus"
    )


def too_young(metrics: Sequence[Metric], since_seconds: Floats, *, now_seconds: float) -> str:
    """The sentence on maxima that look back further than half of the nodes were observed; "" for none."""
    observed = now_seconds - since_seconds[np.isfinite(since_seconds)]
    if not observed.size:
        return ""
    young = [
        metric.name
        for metric in metrics
        if metric.statistic == load_metrics.MAXIMUM
        and np.count_nonzero(observed >= metric.window_seconds) < KNOWN_RATIO * observed.size
    ]
    if not young:
        return ""
    return (
        f"{', '.join(young)} of most nodes: the annotator has not observed them for so long yet; until it has, such "
        "metrics cover less and may be too low"
    )


def _taken(items: Sequence[NodeMetrics], fleet: NodeSet, now_seconds: float) -> _Items:
    """The samples of the fleet; MetricsServerError where no node has one."""
    rows = {name: row for row, name in enumerate(fleet.names)}
    columns = np.full((len(rows), len(_Sample._fields)), np.nan)
    refused: dict[str, str] = {}
    counted = Counter(item.name for item in items)
    for item in items:
        row = rows.get(item.name)
        if row is None:  # a node that has just come or gone
            continue
        try:
            if counted[item.name] > 1:
                raise sample_windows.Refusal("double")
            columns[row] = _sample(item, fleet.nodes[row], now_seconds)
        except sample_windows.Refusal as refusal:
            refused[item.name] = str(refusal)
    if rows and np.isnan(columns[:, 0]).all():
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(Counter(refused.values()).items()))
        raise errors.MetricsServerError(
            f"{API} lists {len(items)} nodes, of which none can be used ({reasons or 'none is of this cluster'}), "
            f"expected {len(rows)}"
        )
    impossible = {
        resource: _without_impossible(fleet.names, columns[:, column])
        for column, resource in enumerate(load_metrics.RESOURCES, 2)
    }
    return _Items(Samples(columns[:, 0], columns[:, 1], columns[:, 2:]), refused, impossible)


def _without_impossible(names: Sequence[str], ratios: Floats) -> dict[str, str]:
    """In place: no ratio that a node cannot have. Returns the reasons by node."""
    refused = {
        name: reason
        for name, ratio in zip(names, ratios.tolist(), strict=True)
        if ratio == ratio and (reason := _impossible(ratio)) is not None
    }
    ratios[(ratios <= 0) | (ratios > load_annotation.MAX_RATIO)] = np.nan
    return refused


def _impossible(ratio: float) -> str | None:
    """Returns why a running node cannot have this ratio; None where it can. Its kubelet alone uses some."""
    return "zero" if ratio == 0 else load_annotation.invalid_reason(ratio)


def refusal(item: NodeMetrics, node: Node, now_seconds: float) -> str | None:
    """Why an item is not used; None where it is."""
    try:
        sample = _sample(item, node, now_seconds)
    except sample_windows.Refusal as error:
        return str(error)
    reasons = (_impossible(ratio) for ratio in (sample.cpu_ratio, sample.memory_ratio))
    return next((reason for reason in reasons if reason is not None), None)


def _sample(item: NodeMetrics, node: Node, now_seconds: float) -> _Sample:
    """Returns an item as a sample of its node. Raises Refusal."""
    at_seconds, span_seconds = sample_windows.checked_seconds(item.at_seconds, item.window, now_seconds)
    try:
        cpu, memory, capacity = item.cpu_millicores, item.memory_bytes, node.capacity
    except ValueError as error:
        raise sample_windows.Refusal("quantity") from error
    if capacity.cpu_millicores <= 0 or capacity.memory_bytes <= 0:
        raise sample_windows.Refusal("no_capacity")
    return _Sample(at_seconds, span_seconds, cpu / capacity.cpu_millicores, memory / capacity.memory_bytes)
