"""The descheduler's eyes in a simulation: told what nodes show and pods use, where in life Prometheus is asked.

`services` gives a `Reader` to the descheduler unless a run goes through all doors. What it is told are the numbers of
which `simulator.prometheus` makes its answers, without a sample and its labels around each; where one of them is none
that a run would believe, or somebody's name has two, Prometheus is asked after all, and judged as ever.
tests/unit/simulator/test_handing.py holds whole runs either way to the same outcome.
"""

import functools
from collections.abc import Collection, Iterable, Sequence

from descheduler.snapshot import cluster_reader, pod_list, usage
from descheduler.snapshot.usage import NodeUsage, PodUsage, Resource
from kube.door import ScalesDoor
from kube.objects import Node
from policy.contract import load_annotation
from policy.metrics import Metric
from policy.schema.load_policy import LoadPolicy
from promql import readings
from promql.door import PrometheusDoor
from promql.queries import identity
from runtime.clock import Clock
from simulator.prometheus import expressions
from simulator.prometheus.door import SimulatedPrometheus
from simulator.prometheus.pod_amounts import Amounts

_window = functools.cache(expressions.window)


class Reader(cluster_reader.Reader):
    """A descheduler's reader over a simulated Prometheus; `asked` is the same, behind what services have before it."""

    def __init__(self, kube: ScalesDoor, door: PrometheusDoor, prometheus: SimulatedPrometheus, clock: Clock) -> None:
        super().__init__(kube, door, identity.SeriesLabels(), listing=pod_list.Late)
        self._told, self._clock = prometheus, clock

    def node_usage(
        self, nodes: Iterable[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> dict[str, NodeUsage]:
        """See `reading.Reader`."""
        moment = self._clock.now() if at_seconds is None else at_seconds
        ratios = {metric.name: self._ratios(metric, moment) for metric in usage.metrics_read(policy, nodes)}
        good = {name: known for name, known in ratios.items() if known is not None}
        if len(good) < len(ratios):
            return super().node_usage(nodes, policy, at_seconds=at_seconds)
        scraped_seconds = self._told.node_seconds(moment)
        names = [node.name for node in nodes if node.name in scraped_seconds]
        return usage.of_nodes(good, {name: scraped_seconds[name] for name in names})

    def _ratios(self, metric: Metric, moment: float) -> dict[str, float] | None:
        """By node; None for what is to be asked."""
        window = _window(metric)
        if window is None:
            return None
        told = self._told.node_ratios(window, moment)
        values, refused = readings.judged(tuple(told), tuple(told.values()), load_annotation.invalid_reason)
        return None if refused else values

    def pod_usage(self, policy: LoadPolicy) -> cluster_reader.Used:
        """See `reading.Reader`."""
        windows, now_seconds = cluster_reader.pod_windows(policy), self._clock.now()
        asked: list[expressions.PodMean | expressions.PodTime]
        asked = [expressions.PodMean(resource, windows[resource]) for resource in Resource]
        asked += [expressions.PodTime(resource) for resource in Resource]
        told = [self._told.pod_amounts(question, now_seconds) for question in asked]
        good = [amounts for amounts in told if amounts is not None and _is_good(amounts)]
        return functools.partial(_used, good) if len(good) == len(told) else super().pod_usage(policy)


def _is_good(amounts: Amounts) -> bool:
    known = amounts.known
    return not len(known) or all(
        cluster_reader.invalid_amount(float(one)) is None for one in (known.min(), known.max())
    )


def _used(entries: Sequence[Amounts], keys: Collection[str]) -> dict[str, PodUsage]:
    names = tuple(keys)
    columns = (zip(names, amounts.of(names).tolist(), strict=True) for amounts in entries)
    return cluster_reader.Figures(*({key: value for key, value in each if value == value} for each in columns)).of(
        names
    )
