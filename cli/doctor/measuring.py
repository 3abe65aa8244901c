"""Measures Prometheus: where it is, each metric with its cost, its targets, its scrape interval, its clock.

`gathering` calls `measure`. The queries are the annotator's own (`promql.queries.node_queries`), asked once more with
statistics. Without an address Prometheus is looked for among the Services and asked through the apiserver, with the
caller's rights.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Final

from cli import prometheus_finding
from cli.doctor import findings
from cli.doctor.facts import ClockFacts, LoadFacts, Means, MetricFacts, Origin, PodSeries, Settings, Target
from cli.doctor.findings import Finding
from kube import errors as kube_errors
from kube.objects import Node
from policy.contract import load_annotation
from policy.metrics import Metric
from promql import errors, readings
from promql.http import client
from promql.queries import identity, node_queries, pod_queries
from runtime import clock as clocks

SAMPLED_SERIES: Final = 10
SCRAPES_SPAN_SECONDS: Final = 180.0  # three scrapes of the slowest interval that is right
SCRAPES_STEP_SECONDS: Final = 0.5
# Labels of containers, of the object behind a target, and of replicas: they differ within one cluster.
_WITHIN_A_CLUSTER: Final = (
    "container, endpoint, id, image, job, metrics_path, name, namespace, pod, service, "
    + ", ".join(identity.REPLICA_LABELS)
)
NOT_ASKED: Final = findings.ok("not asked")
_GIVE = (
    "give its address: --prometheus URL (docs/reference/promql.md has the options for tokens and certificates); "
    "without Prometheus, see docs/how-to/without-prometheus.md"
)


def measure(means: Means, settings: Settings, nodes: Sequence[Node]) -> LoadFacts:
    """Everything about Prometheus. Raises promql.errors.ConfigError for an address or file that cannot be used."""
    door = _connect(means)
    if isinstance(door, Finding):
        return blind(door)
    prometheus, origin = door
    try:
        clock = clock_of("Prometheus", means.clock, lambda: prometheus.query("vector(time())").samples[0].value)
    except errors.PromqlError as error:
        fix = "check --prometheus, its credentials and the network between" if means.prometheus else _GIVE
        unreachable = isinstance(error, errors.Unreachable)
        message = f"{error} ({origin})" if origin else str(error)
        return blind(Finding(findings.Verdict.FAIL, message, fix, unreachable))
    directory, labels = identity.follow(nodes), means.labels
    return LoadFacts(
        findings.ok(f"{prometheus.name} answers{f' ({origin})' if origin else ''}"),
        tuple(_metric(prometheus, one, labels, directory) for one in settings.policy.metrics_in_force),
        findings.attempt(lambda: _targets(prometheus, labels.node_label)),
        findings.attempt(lambda: _scrape_seconds(prometheus, labels)),
        findings.attempt(lambda: _origins(prometheus, labels)),
        findings.attempt(lambda: _pod_series(prometheus, labels)),
        clock,
        NOT_ASKED,
    )


def blind(finding: Finding) -> LoadFacts:
    """The measurements of a Prometheus that was not reached."""
    dark = findings.unknown("Prometheus was not reached")  # what to do about it is said once
    return LoadFacts(finding, dark, dark, dark, dark, dark, dark, NOT_ASKED)


def _connect(means: Means) -> tuple[client.Client, str] | Finding:
    """The door, and by which label it was found, "" for an address that was given."""
    if means.prometheus:
        return means.connection.connect(means.prometheus), ""
    try:
        finding = prometheus_finding.look_for(means.kube, means.connection)
    except kube_errors.KubeError as error:
        return findings.fail(f"no --prometheus was given, and its Service cannot be looked for: {error}", _GIVE)
    if finding is None:
        return findings.fail(
            f"no --prometheus was given, and no Service is labelled {prometheus_finding.LABELS}", _GIVE
        )
    door, selector = finding
    return door, f"found by label {selector}"


def clock_of(whose: str, ours: clocks.Clock, ask: Callable[[], float], step_seconds: float = 0.0) -> ClockFacts:
    """Another clock against ours: it is read in the middle of the time that asking takes, and stands for a step."""
    before_seconds = ours.now()
    theirs_seconds = ask() + step_seconds / 2
    took_seconds = ours.now() - before_seconds
    return ClockFacts(whose, theirs_seconds - before_seconds - took_seconds / 2, (step_seconds + took_seconds) / 2)


def _metric(
    door: client.Client, metric: Metric, labels: identity.SeriesLabels, directory: identity.Directory
) -> MetricFacts:
    label, selector = labels.node_label, labels.node_selector
    try:
        measured = door.measure(node_queries.of_metric(metric, selector=selector, node_label=label))
    except errors.PromqlError as error:
        return MetricFacts(metric, None, str(error), partial=isinstance(error, errors.Partial))
    values = readings.by_node(measured.answer, directory, label=label, judge=load_annotation.invalid_reason)
    empty = metric.query is None and not values.values
    known_ratio = _known_ratio(door, metric, selector) if empty else None
    return MetricFacts(metric, values, "", measured.seconds, measured.samples, known_ratio)


def _known_ratio(door: client.Client, metric: Metric, selector: str) -> float | None:
    """Of the nodes with series now, those that had some when the metric's window begins; None without an answer."""
    try:
        samples = door.query(node_queries.known_share(metric.window_seconds, selector=selector)).samples
    except errors.PromqlError:
        return None
    return samples[0].value if samples else 0.0


def _targets(door: client.Client, label: str) -> tuple[Target, ...]:
    """Every target by its label, of whatever job: also of machines that have no node series at all."""
    answer = door.query(f"max by ({label}, job) (up)")
    return tuple(
        Target(sample.labels.get(label, ""), sample.value > 0, sample.labels.get("job", ""))
        for sample in answer.samples
    )


def _origins(door: client.Client, labels: identity.SeriesLabels) -> tuple[Origin, ...]:
    """Where the series come from that nodes and pods are judged by; one answer has at most a few series a target."""
    origins = []
    for whose, option, series in (
        ("node-exporter", "--node-selector", f"node_memory_MemAvailable_bytes{{{labels.node_selector}}}"),
        ("cAdvisor", "--pod-selector", f"container_memory_working_set_bytes{{{labels.pod_selector}}}"),
    ):
        answer = door.query(f"count without ({_WITHIN_A_CLUSTER}) ({series})")
        origins.append(Origin(whose, option, tuple(sample.labels for sample in answer.samples)))
    return tuple(origins)


def _pod_series(door: client.Client, labels: identity.SeriesLabels) -> PodSeries:
    """Counts of pods; an aggregation of nothing has no series and is 0."""
    label, selector = labels.node_label, labels.pod_selector
    pods, dead = (
        sum(int(value) for value in door.query(text).values.tolist())
        for text in (pod_queries.measured_pods(selector=selector), pod_queries.dead_pods(selector=selector))
    )
    without = door.query(pod_queries.without_containers(label, selector=selector))
    return PodSeries(pods, dead, tuple(sorted(one.get(label, "") for one in without.labels)))


def _scrape_seconds(door: client.Client, labels: identity.SeriesLabels) -> tuple[float, ...]:
    """How far apart the scrapes of a few node series are, in seconds; empty when none was scraped twice.

    Read off the samples' own times, since a configuration says only what was meant.
    """
    label, series = labels.node_label, f"node_memory_MemAvailable_bytes{{{labels.node_selector}}}"
    texts = sorted({sample.labels.get(label, "") for sample in door.query(series).samples} - {""})
    chosen = texts[:: max(1, len(texts) // SAMPLED_SERIES)][:SAMPLED_SERIES]
    if not chosen:
        return ()
    escaped = "|".join(re.escape(text).replace("\\", "\\\\") for text in chosen)  # within a string of PromQL
    matcher = f'{label}=~"{escaped}"'
    end_seconds = door.query("vector(time())").samples[0].value
    answer = door.query_range(
        node_queries.data_time("memory", selector=",".join(filter(None, (labels.node_selector, matcher)))),
        start_seconds=end_seconds - SCRAPES_SPAN_SECONDS,
        end_seconds=end_seconds,
        step_seconds=SCRAPES_STEP_SECONDS,
    )
    times_seconds = (sorted({value for _, value in one.points}) for one in answer.series)
    return tuple(later - earlier for one in times_seconds for earlier, later in itertools.pairwise(one))
