"""Usage of nodes and pods from Prometheus: a few queries, however many nodes there are.

`wiring` makes the one `snapshot.usage.UsageSource` of the process. A query that fails or is answered in part fails the
run: half of a node's series make it look idle.
"""

import collections.abc
import functools
import sys
from typing import Final

from descheduler.snapshot import usage
from descheduler.snapshot.usage import NodeUsage, PodUsage
from kube.api import identifiers
from kube.objects import Node, Pod
from policy import metrics
from policy.contract import load_annotation, owner_usage
from policy.schema.load_policy import LoadPolicy
from promql import readings
from promql.door import QueryDoor
from promql.queries import identity, node_queries, pod_queries

Values = collections.abc.Mapping[str, float]  # by node
# Names in one query, which has them up to four times; VictoriaMetrics takes 16 KiB of text unless set otherwise.
MOST_NAMES_CHARACTERS: Final = 3500
FEW_RATIO: Final = 0.25  # of all pods: of more than that, all are asked for


class PrometheusUsage(usage.UsageSource):
    """The door, and how series name nodes."""

    windows_end_at_readings = False

    def __init__(self, prometheus: QueryDoor, labels: identity.SeriesLabels) -> None:
        self._prometheus = prometheus
        self._labels = labels
        self._directory: identity.Directory | None = None  # of the nodes asked about last; any thread may replace it

    def node_usage(
        self, nodes: collections.abc.Iterable[Node], policy: LoadPolicy, *, at_seconds: float | None = None
    ) -> dict[str, NodeUsage]:
        """Every node's windows, now or as they were at `at_seconds`: six to eight queries, however many nodes there
        are. Raises PromqlError.
        """
        directory = self._directory = identity.follow(nodes, self._directory)
        wanted = usage.metrics_read(policy, nodes)
        selector, label = self._labels.node_selector, self._labels.node_label

        def by_node(text: str, judge: readings.Judge, of_replicas: readings.Merger = readings.largest) -> Values:
            answer = self._prometheus.query(text, at_seconds=at_seconds)
            return readings.by_node(answer, directory, label=label, judge=judge, of_replicas=of_replicas).values

        ratios = {}
        for metric in wanted:
            text = node_queries.of_metric(metric, selector=selector, node_label=label)
            ratios[metric.name] = by_node(text, load_annotation.invalid_reason)
        scraped = {metric.resource for metric in wanted}.intersection(metrics.RESOURCES) or metrics.RESOURCES
        texts = (node_queries.data_time(one, selector=selector, node_label=label) for one in sorted(scraped))
        times = (by_node(text, invalid_amount, readings.oldest) for text in texts)
        return usage.of_nodes(ratios, functools.reduce(_older, times))

    def pod_usage(
        self, policy: LoadPolicy, pods: collections.abc.Collection[Pod], *, of_all: int
    ) -> dict[str, PodUsage]:
        """Of these pods, out of so many: cores and bytes over the longest averaging window of each resource, and the
        older of the times of both; a pod that lacks a figure is absent. Raises PromqlError.

        Few pods are asked for by name: the series of all pods of a large cluster take Prometheus seconds to evaluate.
        """
        keys, usages = {pod.key for pod in pods}, dict[str, PodUsage]()
        for selector in self._selectors(pods, of_all):
            usages |= self._usages(policy, selector, keys)
        return usages

    def absence(self, pod: Pod) -> str:
        """See UsageSource."""
        del pod
        return "Prometheus has no window of it"

    def _selectors(self, pods: collections.abc.Collection[Pod], of_all: int) -> collections.abc.Iterator[str]:
        """The selectors whose series are those of the pods, with others at times; none for no pods."""
        own = self._labels.pod_selector
        if len(pods) > FEW_RATIO * of_all:
            yield own
            return
        for names in _batches(sorted({pod.name for pod in pods if identifiers.is_name(pod.name)})):
            yield ",".join(filter(None, (own, pod_queries.naming(names))))

    def _usages(self, policy: LoadPolicy, selector: str, keys: collections.abc.Set[str]) -> dict[str, PodUsage]:
        """The usage of those of the pods that have all figures, as old as the older of the data. A pod whose share of a
        resource of the policy's own is no ratio, or has two values, has none.
        """
        windows = usage.pod_windows(policy)
        texts = (
            pod_queries.cpu_cores(windows[metrics.CPU], selector=selector),
            pod_queries.memory_bytes(windows[metrics.MEMORY], selector=selector),
            pod_queries.data_time("cpu", selector=selector),
            pod_queries.data_time("memory", selector=selector),
        )
        cores, sizes_bytes, cpu_at_seconds, memory_at_seconds = (
            readings.by_pod(self._prometheus.query(text), judge=invalid_amount)[0] for text in texts
        )
        judge = load_annotation.invalid_reason
        answers = {
            resource: readings.by_pod(self._prometheus.query(text), judge=judge)
            for resource, text in metrics.pod_queries(policy.metrics_in_force).items()
            if resource in windows
        }
        known = keys & cores.keys() & sizes_bytes.keys() & cpu_at_seconds.keys() & memory_at_seconds.keys()
        return {
            key: PodUsage(
                key,
                cores[key] * 1000.0,
                sizes_bytes[key],
                min(cpu_at_seconds[key], memory_at_seconds[key]),
                {resource: values[key] for resource, (values, _) in answers.items() if key in values},
            )
            for key in known.difference(*(wrong for _, wrong in answers.values()))
        }


def _older(times: Values, other: Values) -> Values:
    """The earlier of both times where both are known; written out, since it is asked of every node in every run."""
    return {node: at if at < other[node] else other[node] for node, at in times.items() if node in other}


def _batches(names: collections.abc.Iterable[str]) -> collections.abc.Iterator[list[str]]:
    """The names in groups that fit into a query each."""
    batch, characters = list[str](), 0
    for name in names:
        characters += len(name) + 1
        if batch and characters > MOST_NAMES_CHARACTERS:
            yield batch
            batch, characters = [], len(name) + 1
        batch.append(name)
    if batch:
        yield batch


def invalid_amount(value: float) -> str | None:
    """Why a number of cores, bytes or seconds is none, None where it is one."""
    return owner_usage.invalid_reason(value, sys.float_info.max)
