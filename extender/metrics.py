"""Metrics of the extender: the one place where their names are spelt.

`app` and `service` count into a `Metrics` made for their registry, a scrape reads a `ReplicaState` from `service`;
docs/reference/extender.md lists the names for operators.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

import prometheus_client
from prometheus_client import core, registry

VERBS: Final = ("filter", "prioritize", "preempt")
DROPPED: Final = ("connections", "bytes", "late")  # over a limit of connections or of memory; too slow
DURATION_BUCKETS_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)


class Metrics:
    """The extender's counters and gauges in one registry."""

    def __init__(self, into: prometheus_client.CollectorRegistry) -> None:
        self.duration_seconds = prometheus_client.Histogram(
            "evenload_extender_request_duration_seconds",
            "Time to answer kube-scheduler; a rise slows down every pod's scheduling.",
            ["verb", "result"],
            buckets=DURATION_BUCKETS_SECONDS,
            registry=into,
        )
        self.rejected = prometheus_client.Counter(
            "evenload_extender_nodes_rejected",
            "Nodes rejected in filter answers by reason; a rise means hot nodes.",
            ["reason"],
            registry=into,
        )
        self.degraded = prometheus_client.Counter(
            "evenload_extender_degraded",
            "Decisions made on less than whole data by cause; a rise means that load is being guessed.",
            ["cause"],
            registry=into,
        )
        judged = prometheus_client.Counter(
            "evenload_extender_filtered_nodes",
            "Nodes in filter answers by verdict; where most are rejected, pods stay Pending.",
            ["verdict"],
            registry=into,
        )
        self.nodes_passed, self.nodes_rejected = judged.labels("passed"), judged.labels("rejected")
        self.loop_failures = prometheus_client.Counter(
            "evenload_extender_loop_failures",
            "Cycles of background work that failed; a rise is a bug or an unreadable file.",
            registry=into,
        )
        self.fast_path_failures = prometheus_client.Counter(
            "evenload_extender_fast_path_failures",
            "Requests answered the slow way because the fast path raised, by exception; any rise is a bug.",
            ["exception"],
            registry=into,
        )
        self.dropped = prometheus_client.Counter(
            "evenload_extender_connections_dropped",
            "Connections ended before an answer by reason; a rise is a client that is slow, or means harm.",
            ["reason"],
            registry=into,
        )
        for reason in DROPPED:
            self.dropped.labels(reason)
        for verb in VERBS:  # there from the start, at 0: a scheduler that never asks is told by it
            self.duration_seconds.labels(verb, "ok")


class ReplicaState(NamedTuple):
    """State of the replica at the moment of a scrape."""

    assumed_placements: int
    awaited_pods: int
    nodes_by_state: dict[str, int]
    nodes_by_thresholds: dict[str, int]
    owners_estimated: int
    heartbeat_matches: bool


class ReplicaStateCollector(registry.Collector):
    """Gauges that are read when /metrics is scraped, not kept up to date at every change."""

    def __init__(self, read: Callable[[], ReplicaState]) -> None:
        self._read = read

    def describe(self) -> Iterable[core.Metric]:
        """The families without samples, so that registering reads nothing."""
        return [family() for family in (_assumed, _awaited, _nodes, _thresholds, _owners, _heartbeat)]

    def collect(self) -> Iterable[core.Metric]:
        """One reading of everything."""
        now = self._read()
        assumed, nodes, thresholds, heartbeat = _assumed(), _nodes(), _thresholds(), _heartbeat()
        owners, awaited = _owners(), _awaited()
        owners.add_metric([], now.owners_estimated)
        awaited.add_metric([], now.awaited_pods)
        assumed.add_metric([], now.assumed_placements)
        for state, count in now.nodes_by_state.items():
            nodes.add_metric([state], count)
        for state, count in now.nodes_by_thresholds.items():
            thresholds.add_metric([state], count)
        heartbeat.add_metric([], now.heartbeat_matches)
        return [assumed, awaited, nodes, thresholds, owners, heartbeat]


def _assumed() -> core.GaugeMetricFamily:
    text = "Winners not yet confirmed by the Pod watch; a lasting rise means that the watch lags."
    return core.GaugeMetricFamily("evenload_extender_assumed_placements", text, labels=[])


def _awaited() -> core.GaugeMetricFamily:
    text = (
        "Pods asked about in the last 5 s that the Pod watch has not brought, so that they are assumed nowhere; "
        "a lasting rise means that the watch lags or that questions are made up."
    )
    return core.GaugeMetricFamily("evenload_extender_awaited_pods", text, labels=[])


def _nodes() -> core.GaugeMetricFamily:
    text = "Nodes by the state of their reading; anything but usable is scored blindly."
    return core.GaugeMetricFamily("evenload_extender_nodes", text, labels=["state"])


def _thresholds() -> core.GaugeMetricFamily:
    text = "Nodes with filter thresholds of their own; ignored: an annotation that is not in force as it was written."
    return core.GaugeMetricFamily("evenload_extender_node_thresholds", text, labels=["state"])


def _owners() -> core.GaugeMetricFamily:
    text = "Owners whose pods are estimated by what their replicas use; 0 means that all are estimated by request."
    return core.GaugeMetricFamily("evenload_extender_owner_means", text, labels=[])


def _heartbeat() -> core.GaugeMetricFamily:
    text = "1 while the view of the annotations is the annotator's; 0 for long means that readings only age."
    return core.GaugeMetricFamily("evenload_extender_heartbeat_matches", text, labels=[])
