"""Metrics of the extender: the one place where their names are spelt.

`app` and `service` count into a `Metrics` made for their registry, a scrape reads the values of GAUGES from `service`;
docs/reference/extender.md lists the names for operators.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import prometheus_client
from prometheus_client import core, registry

from policy.rules import scoring
from runtime.metric_families import MetricFamilies

VERBS: Final = ("filter", "prioritize", "preempt")
DROPPED: Final = ("connections", "bytes", "late")  # over a limit of connections or of memory; too slow
FORM, BODY, UNKNOWN_NODE, NODES_CHANGED, RELIEF_HINT, EXEMPT, NOMINATED, LATE, BUG = SLOW_PATH_REASONS = (
    "form",  # no POST of JSON with a length, or over the limit
    "body",  # not as kube-scheduler writes it with nodeCacheCapable, or a pod that cannot be read
    "unknown_node",
    "nodes_changed",  # while the request was read
    "relief_hint",
    "exempt",  # not judged by load: by the policy, or because it opted out
    "nominated",  # a hot nominated node, asked about alone
    "late",
    "bug",
)
# The node that kube-scheduler chose in shadow mode: one of the best scores; a lower one; one that would have been
# rejected; one that it did not ask about; one where load decided nothing, because no candidate had a usable reading.
BEST, LOWER, REJECTED, NOT_ASKED, UNJUDGED = SHADOW_VERDICTS = ("best", "lower", "rejected", "not_asked", "unjudged")
DURATION_BUCKETS_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5)


class Metrics:
    """The extender's counters and gauges in one registry."""

    def __init__(self, into: prometheus_client.CollectorRegistry) -> None:
        families = MetricFamilies(into)
        text = "Time to answer kube-scheduler; a rise slows down every pod's scheduling."
        self.duration_seconds = families.histogram(
            "evenload_extender_request_duration_seconds", text, buckets=DURATION_BUCKETS_SECONDS, verb=(), result=()
        )
        text = "Nodes rejected in filter answers by reason (in shadow mode: by decision); a rise means hot nodes."
        self.rejected = families.counter("evenload_extender_nodes_rejected", text, reason=())
        text = "Decisions made on less than whole data by cause; a rise means that load is being guessed."
        self.degraded = families.counter("evenload_extender_degraded", text, cause=())
        text = (
            "Nodes that the filter was asked about by verdict; where most are rejected, pods stay Pending. "
            "In shadow mode kube-scheduler gets all of them, and none stays Pending for it."
        )
        judged = families.counter("evenload_extender_filtered_nodes", text, verdict=("passed", "rejected"))
        self.nodes_passed, self.nodes_rejected = judged.labels("passed"), judged.labels("rejected")
        text = "Cycles of background work that failed; a rise is a bug or an unreadable file."
        self.loop_failures = families.counter("evenload_extender_loop_failures", text)
        text = "Requests answered the slow way because the fast path raised, by exception; any rise is a bug."
        self.fast_path_failures = families.counter("evenload_extender_fast_path_failures", text, exception=())
        text = "Filter and prioritize requests that the fast path left to the slower one, by reason."
        self.slow_path = families.counter("evenload_extender_slow_path", text, reason=SLOW_PATH_REASONS)
        text = (
            "Pods bound in shadow mode by the verdict on the node that kube-scheduler chose; "
            "the share of rejected and lower is what Evenload would change."
        )
        self.shadow_placements = families.counter("evenload_extender_shadow_placements", text, verdict=SHADOW_VERDICTS)
        text = "Points by which the node chosen in shadow mode scores below the best, for verdicts best and lower."
        self.shadow_missed_points = families.histogram(
            "evenload_extender_shadow_missed_points", text, buckets=range(scoring.MAX_SCORE)
        )
        text = "Connections ended before an answer by reason; a rise is a client that is slow, or means harm."
        self.dropped = families.counter("evenload_extender_connections_dropped", text, reason=DROPPED)
        for verb in VERBS:  # there from the start, at 0: a scheduler that never asks is told by it
            self.duration_seconds.labels(verb, "ok")


GAUGES: Final = {  # read when /metrics is scraped
    "assumed_placements": "Winners not yet confirmed by the Pod watch; a lasting rise means that the watch lags.",
    "awaited_pods": "Pods asked about in the last 5 s that the Pod watch has not brought, so that they are assumed "
    "nowhere; a lasting rise means that the watch lags or that questions are made up.",
    "nodes": "Nodes by the state of their reading; anything but usable is scored blindly.",
    "node_thresholds": "Nodes with filter thresholds of their own; ignored: an annotation that is not in force as it "
    "was written.",
    "owner_means": "Owners whose pods are estimated by what their replicas use; 0 means that all are estimated by "
    "request.",
    "heartbeat_matches": "1 while the view of the annotations is the annotator's; 0 for long means that readings only "
    "age.",
    "shadow_mode": "1 while the policy's extender.mode is Shadow: decisions are recorded, and no node is rejected or "
    "preferred.",
}


class ReplicaStateCollector(registry.Collector):
    """Gauges that are read when /metrics is scraped, not kept up to date at every change; `read` gives each of GAUGES a
    value, or one by state.
    """

    def __init__(self, read: Callable[[], Mapping[str, int | Mapping[str, int]]]) -> None:
        self._read = read

    def describe(self) -> Iterable[core.Metric]:
        """The families without samples, so that registering reads nothing."""
        return [core.GaugeMetricFamily(f"evenload_extender_{name}", text) for name, text in GAUGES.items()]

    def collect(self) -> Iterable[core.Metric]:
        """One reading of everything."""
        values = self._read()
        for name, family in zip(GAUGES, self.describe(), strict=True):
            value = values[name]
            if isinstance(value, Mapping):
                for state, number in value.items():
                    family.add_sample(family.name, {"state": state}, number)
            else:
                family.add_sample(family.name, {}, value)
            yield family
