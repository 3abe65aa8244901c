"""Metrics of the annotator: every name once, with help text that says what a rise means.

Made by the wiring with the registry that /metrics serves; `annotator.node_sync` and the wiring feed it. The five
effectiveness names are fixed by docs/contract.md, effectiveness.
"""

import functools
import itertools
import platform
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, core, registry

from annotator.diagnostics.standing import Ratios, Spread, Unusable
from annotator.placements import hot_counts
from annotator.placements.effectiveness import LookbackTally, Tally
from runtime import version
from runtime.metric_families import MetricFamilies

STATES: Final = ("fresh", "stale", "missing")
FIGURES: Final = {  # of `Tally`
    "cpu_utilization_total_avg": "Mean 5m CPU ratio of chosen nodes at scheduling; "
    "a rise means pods land on busier nodes.",
    "memory_utilization_total_avg": "Mean 5m memory ratio of chosen nodes at scheduling; "
    "a rise means pods land on fuller nodes.",
    "effective_dynamic_schedule_count": "0.5 for each resource in which the chosen node was under the median of all "
    "nodes.",
    "total_schedule_count": "Scheduling results judged since this replica started.",
    "effective_schedule_ratio": "Effective over total; a rise means placements go where load is low.",
    "schedule_results_left_out": "Scheduling results on nodes without fresh data, not judged; a rise means data is "
    "missing.",
}


class Telemetry:
    """The annotator's metrics on one registry; ages are computed when scraped, so that a stuck loop shows."""

    def __init__(self, registry: CollectorRegistry, now: Callable[[], float]) -> None:
        self._now = now
        self._oldest: dict[str, float] = {}
        self.last_sync = LastSync()
        families = MetricFamilies(registry)
        build = families.gauge("evenload_build_info", "Always 1.", "version", "python")
        build.labels(version.VERSION, platform.python_version()).set(1)
        self._reading(families)
        self._writing(families)
        registry.register(self.last_sync)

    def _reading(self, families: MetricFamilies) -> None:
        text = "One query for all nodes; a rise means Prometheus is loaded or the window reads too much."
        self.query_seconds = families.histogram(
            "evenload_prometheus_query_duration_seconds",
            text,
            buckets=(0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            metric=(),
        )
        text = "Queries without a usable answer; the last good values are kept until nearly stale, then dropped."
        self.query_failures = families.counter("evenload_prometheus_query_failures", text, metric=())
        text = "Values refused and not written; double means two series claim one node (see --node-selector)."
        self.invalid_samples = families.counter("evenload_annotator_invalid_samples", text, reason=())
        text = "Nodes with (matched) and without (unmatched) any value; unmatched nodes are judged by onMissing."
        self.nodes = families.gauge("evenload_annotator_nodes", text, "state")
        text = (
            "Series whose label is not a node's name or address; a rise means other machines or a wrong --node-label."
        )
        self.unmatched_series = families.gauge("evenload_annotator_unmatched_series", text)
        text = (
            "Addresses that several nodes claim; each stays with the node that had it. A rise: a kubelet may be lying."
        )
        self.contested_addresses = families.gauge("evenload_annotator_contested_addresses", text)
        text = "Age of the least recently confirmed value of any node; a rise means its query fails."
        self.age_seconds = families.gauge("evenload_node_metric_age_seconds", text, "metric")

    def _writing(self, families: MetricFamilies) -> None:
        self.leader = families.gauge("evenload_annotator_leader", "1 while this replica publishes.")
        text = "One sync, queries to heartbeat; a rise means a slow Prometheus or apiserver, see the parts."
        self.sync_seconds = families.histogram(
            "evenload_annotator_sync_duration_seconds", text, buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
        )
        text = "Syncs by result; partial: some query, answer or patch failed; failed: nothing could be read."
        self.syncs = families.counter("evenload_annotator_syncs", text, result=("whole", "partial", "failed"))
        text = (
            "Node patches by result; written rises with load changes (aim: under 0.2 per node and minute), "
            "failed and skipped mean nodes keep old values that soon turn stale."
        )
        results = ("written", "failed", "skipped")
        self.patches = families.counter("evenload_annotator_node_patches", text, result=results)
        text = "Bytes of request bodies sent to the apiserver by kind; a rise means more or larger writes."
        self.sent_bytes = families.counter("evenload_annotator_sent_bytes", text, kind=())
        text = "Pods without a node at syncs that patched nodes: scheduling attempts that its writes may cause."
        self.wakeups = families.counter("evenload_annotator_wakeups", text)
        text = "Heartbeats by result; without written ones quiet nodes turn stale."
        self.heartbeats = families.counter("evenload_annotator_heartbeats", text, result=("written", "failed"))
        text = (
            "Placeholders that hold room (placed) or wait for it (waiting); many of order for long: no node is added."
        )
        self.placeholders = families.gauge("evenload_annotator_placeholders", text, "preset", "state")
        text = "Owners whose replicas' mean use is published, or left out for lack of room."
        self.owners = families.gauge("evenload_annotator_owners", text, "state")
        text = "Writes of the ConfigMap evenload-usage by result; failed: pods are soon estimated by request again."
        self.usage_writes = families.counter("evenload_annotator_usage_writes", text, result=())

    def oldest(self, confirmed_seconds: Mapping[str, float]) -> None:
        """Set which confirmation (Unix seconds, by metric name) is the oldest held of each metric."""
        for gone in self._oldest.keys() - confirmed_seconds.keys():
            self.age_seconds.remove(gone)
        for name in confirmed_seconds.keys() - self._oldest.keys():
            self.age_seconds.labels(name).set_function(functools.partial(self._age, name))
        self._oldest = dict(confirmed_seconds)

    def placeholders_are(self, counted: Mapping[tuple[str, str], int]) -> None:
        """Set how many placeholders hold room and how many wait for it, by (preset, state)."""
        for preset, state in itertools.product(hot_counts.PRESETS, hot_counts.STATES):
            self.placeholders.labels(preset, state).set(counted.get((preset, state), 0))

    def _age(self, name: str) -> float:
        return max(0.0, self._now() - self._oldest.get(name, self._now()))


class Figures(registry.Collector):
    """The figures of docs/contract.md, effectiveness, as they are when scraped, and the sums behind averages and shares
    as counters, so that PromQL can take them over any span.
    """

    def __init__(self, tally: Callable[[], Tally], stayed: Callable[[], LookbackTally]) -> None:
        self._tally = tally
        self._stayed = stayed

    def collect(self) -> Iterable[core.Metric]:
        """All of one moment."""
        now, over = self._tally(), self._stayed()
        for name, text in FIGURES.items():
            yield core.GaugeMetricFamily(f"evenload_{name}", text, value=float(getattr(now, name)))
        for resource, total in (("cpu", now.cpu_ratio_sum), ("memory", now.memory_ratio_sum)):
            text = f"Sum of the 5m {resource} ratios of chosen nodes; its rate over that of the count is their mean."
            yield core.CounterMetricFamily(f"evenload_schedule_{resource}_ratio_sum", text, value=total)
        for name, text, value in (
            ("looked_back", "Placements whose node was followed for the hour after.", over.looked_back),
            (
                "stayed_under_median",
                "0.5 for each resource in which that node, without the pod, stayed under the median on average.",
                over.stayed,
            ),
            ("not_looked_back", "Placements whose hour was not seen well enough.", over.left_out),
        ):
            yield core.CounterMetricFamily(f"evenload_schedule_{name}", text, value=value)


class LastSync(registry.Collector):
    """How the nodes stood at the last sync, and the lines of its policy: a metric that left the policy is not told. Of
    `nodes` nodes `unusable` says by metric how many have it stale or not at all; both functions are asked when scraped.
    """

    def __init__(self) -> None:
        self.nodes = 0
        self.unusable: Callable[[], Mapping[str, Unusable]] = dict
        self.spread: Callable[[], Spread] = lambda: Spread({}, {})

    def collect(self) -> Iterable[core.Metric]:
        """All three families."""
        text = "Nodes by how they stand in a metric: fresh, stale (too old to be used) or missing."
        yield _family("evenload_annotator_metric_nodes", text, "state", self._metric_nodes())
        now = self.spread()
        text = "Load of the nodes by quantile; 1 is the hottest node, a rise of 0.5 means that all are busier."
        yield _family("evenload_node_load_ratio", text, "quantile", now.loads)
        text = "The policy's lines: filter, evict_above and evict_until of each metric that has them."
        yield _family("evenload_policy_threshold_ratio", text, "line", now.lines)

    def _metric_nodes(self) -> Ratios:
        counts: dict[tuple[str, str], float] = {}
        for metric, (missing, stale) in self.unusable().items():
            fresh = self.nodes - missing - stale
            counts |= {(metric, state): count for state, count in zip(STATES, (fresh, stale, missing), strict=True)}
        return counts


def _family(name: str, text: str, label: str, values: Ratios) -> core.Metric:
    family = core.GaugeMetricFamily(name, text, labels=["metric", label])
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
