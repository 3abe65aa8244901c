"""Judges of where the numbers come from: Prometheus itself, each metric, its cost, the nodes matched, the scrapes.

`command` lists them; the facts are `measuring`'s. Limits that are judged by stand at the top, each with its reason.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from annotator.diagnostics import matching
from annotator.diagnostics import scrapes as windows
from cli.doctor import findings, metrics_server
from cli.doctor.facts import Facts, MetricFacts, Origin, Target
from cli.doctor.findings import Finding
from kube.objects import Node
from policy.metrics import Metric
from promql.queries import identity, pod_queries
from runtime import options

SLOW_QUERY_SECONDS: Final = 2.0  # the services give up at 10 s, and Prometheus has its own rules to evaluate
SHARE_OF_PERIOD: Final = 0.2  # all queries together, of sync.period
FEW_SAMPLES: Final = 100_000  # all queries together: read in hundredths of a second, unless the machine is busy
MANY_SAMPLES: Final = 5_000_000  # one query; Prometheus' own --query.max-samples refuses at 50 million
LONGEST_SCRAPE_SECONDS: Final = 60.0
SCRAPES_PER_WINDOW: Final = 4  # a rate over fewer says little, and one failed scrape would leave it empty
RECORDED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*:[a-zA-Z0-9_:]+")
_TRUE_ADDRESSES = (
    "look at that node: what its kubelet writes into status.addresses, and who may be the kubelet there; if its "
    "machine is gone: kubectl delete node NAME"
)
_LOAD_RULES = "load deploy/monitoring/evenload-rules.yaml into Prometheus"
_USE_RULES = (
    "let recording rules compute the windows: load deploy/monitoring/evenload-rules.yaml into Prometheus and put the "
    "`metrics` of `evenload policy init --recording-rules` into the policy"
)


def metrics(facts: Facts) -> Iterator[Finding]:
    """Every metric of the policy has values, and from which kind of query."""
    if facts.settings.source == options.METRICS_SERVER:
        yield metrics_server.metrics(facts)
        return
    every = findings.known(facts.load.metrics)
    present = [one for one in every if one.values is not None and one.values.values]
    resources = {one.metric.resource for one in present}
    yield from (_absent(one, scraped=one.metric.resource in resources) for one in every if one not in present)
    yield findings.ok(f"{len(present)} of {len(every)} metrics have values; {_sources(every)}")


def cost(facts: Facts) -> Finding:
    """Returns Prometheus' cost of one sync."""
    answered = [one for one in findings.known(facts.load.metrics) if one.seconds is not None]
    if not answered:
        return findings.unknown("no query was answered", "see the metrics above")
    spent_seconds = sum(one.seconds or 0.0 for one in answered)
    counted = [one.samples for one in answered if one.samples is not None]
    read = f", {sum(counted):,} samples read" if counted else ""
    period_seconds = facts.settings.policy.sync.period_seconds
    total = f"{len(answered)} queries, {spent_seconds:.2f} s{read}, every {period_seconds:g} s"
    slow = [one for one in answered if (one.seconds or 0.0) > SLOW_QUERY_SECONDS]
    large = [one for one in answered if (one.samples or 0) > MANY_SAMPLES and one not in slow]
    if slow or large:
        dear = ", ".join(f"{one.metric.name} takes {one.seconds:.1f} s" for one in slow)
        wide = ", ".join(f"{one.metric.name} reads {one.samples:,} samples" for one in large)
        return findings.warn(f"{'; '.join(filter(None, (dear, wide)))} ({total})", _USE_RULES)
    reads_little = bool(counted) and sum(counted) <= FEW_SAMPLES
    if spent_seconds > SHARE_OF_PERIOD * period_seconds and not reads_little:
        return findings.warn(f"{total}: Prometheus spends a large part of its time on the annotator", _USE_RULES)
    return findings.ok(total)


def nodes_matched(facts: Facts) -> Finding:
    """Every node has a value of every metric."""
    if facts.settings.source == options.METRICS_SERVER:
        return metrics_server.nodes_matched(facts)
    every, nodes = findings.known(facts.load.metrics), findings.known(facts.nodes)
    answered = [one for one in every if one.values is not None]
    if not answered:
        return findings.unknown("no query was answered", "see the metrics above")
    lacking = _lacking(nodes, answered)
    total = len(nodes)
    counted = f"{total - len(lacking)} of {total} nodes matched (by {facts.settings.node_label})"
    strangers = sorted({label for one in answered if one.values is not None for label in one.values.unmatched})
    beside = f"; series of no node: {findings.few(strangers)}" if strangers else ""
    claims = matching.claims(identity.follow(nodes))
    if not lacking and claims:
        return findings.warn(f"{counted}; {claims}{beside}", _TRUE_ADDRESSES)
    if not lacking:
        return findings.ok(counted + beside)
    targets = () if isinstance(facts.load.targets, Finding) else facts.load.targets
    reasons = [_why(node, lacking[node.name], targets) for node in nodes if node.name in lacking]
    rejects = facts.settings.policy.filter.on_missing == "reject"
    consequence = "no new pods go there (filter.onMissing: reject)" if rejects else "judged without load"
    claimed = f"; {claims}" if claims else ""
    text = f"{counted}; {findings.few([one.observation for one in reasons])}: {consequence}{claimed}{beside}"
    return findings.fail(text, findings.few(dict.fromkeys(one.fix for one in reasons), 2))


def one_cluster(facts: Facts) -> Iterator[Finding]:
    """The series that nodes and pods are judged by are of this cluster alone."""
    origins = findings.known(facts.load.origins)
    directory = identity.follow(findings.known(facts.nodes))
    for origin in origins:
        yield from () if origin.labels else (findings.unknown(f"{origin.whose} has no series to tell by"),)
        yield from _several_clusters(origin, directory, facts.settings.node_label)
    yield findings.ok("no label tells several clusters apart")


def _several_clusters(origin: Origin, directory: identity.Directory, label: str) -> Iterator[Finding]:
    """Several clusters' series, by a label named after clusters, or, of pods, by kubelets on no node of this one;
    other machines than nodes may well run node-exporter.
    """
    own, others = list[Mapping[str, str]](), list[Mapping[str, str]]()
    for labels in origin.labels:
        (own if directory.resolve(labels.get(label, "")) is not None else others).append(labels)
    names = sorted({name for labels in origin.labels for name in labels if "cluster" in name.lower()})
    values = {name: sorted({labels.get(name, "") for labels in origin.labels}) for name in names}
    texts = [
        f"{name} is {findings.few([repr(text) for text in values[name]])}" for name in names if len(values[name]) > 1
    ]
    strangers = sorted({labels.get(label, "") for labels in others}) if own and "cAdvisor" in origin.whose else []
    if strangers:
        texts.append(f"{len(strangers)} of its targets are on no node of this cluster ({findings.few(strangers)})")
    if not texts:
        return
    own_values = {name: {labels.get(name, "") for labels in own} for name in names}
    ours = [(name, next(iter(own_labels))) for name, own_labels in own_values.items() if len(own_labels) == 1]
    matcher = next((f'{name}="{text}"' for name, text in ours if text and len(values[name]) > 1), 'LABEL="VALUE"')
    yield findings.fail(
        f"{origin.whose}'s series come from several clusters: {'; '.join(texts)}; nodes or pods of one name or address "
        "are taken for each other",
        f"select this cluster's for annotator, descheduler and doctor: {origin.option} '{matcher}'",
    )


def scrapes(facts: Facts) -> Finding:
    """Scrapes come often enough for the shortest window."""
    scrape_seconds = findings.known(facts.load.scrape_seconds)
    if not scrape_seconds:
        return findings.unknown("no node series was scraped twice in the last minutes", "see the nodes above")
    interval_seconds = statistics.median(scrape_seconds)
    shortest = min(facts.settings.policy.metrics_in_force, key=lambda metric: metric.averaging_seconds)
    held = shortest.averaging_seconds / interval_seconds
    every = f"node series are scraped every {interval_seconds:.3g} s"
    if held < SCRAPES_PER_WINDOW:
        wanted_seconds = shortest.averaging_seconds / SCRAPES_PER_WINDOW
        return findings.fail(
            f"{every}: the window of {shortest.name} ({shortest.averaging_seconds:g} s) holds {held:.1f} scrapes, "
            f"{SCRAPES_PER_WINDOW} are needed",
            f"set scrape_interval of node-exporter's job to {wanted_seconds:g}s or less, or lengthen the window in "
            "`metrics` of the policy",
        )
    if interval_seconds > LONGEST_SCRAPE_SECONDS:
        return findings.warn(
            f"{every}, and load may change unseen for as long",
            f"set scrape_interval of node-exporter's job to {LONGEST_SCRAPE_SECONDS:g}s or less (30s is usual)",
        )
    return findings.ok(f"{every}; the shortest window holds {held:.0f}")


def pod_series(facts: Facts) -> Iterator[Finding]:
    """Prometheus has the containers of pods, and those that live only."""
    series = findings.known(facts.load.pod_series)
    if series.without_containers:
        yield findings.fail(
            f"cAdvisor's series of {findings.few(series.without_containers)} have pods and no label `container`: what "
            "pods use there is not known, so none is evicted and no owner's mean has them",
            "cAdvisor does not know the runtime or its socket (cri-dockerd): let Prometheus scrape the kubelets' "
            "/metrics/resource too; docs/reference/promql.md",
        )
    elif not series.pods:
        yield findings.warn(
            "no container has container_memory_working_set_bytes: no owner's usage is known and nothing is evicted",
            "let Prometheus scrape the kubelets' /metrics/cadvisor or /metrics/resource; compare --pod-selector",
        )
    if series.dead:
        yield findings.warn(
            f"{series.dead} of {series.pods} pods have containers that have ended and still count in Prometheus: their "
            f"last sample is over {pod_queries.DEAD_SECONDS:g} s older than the newest of its target; Evenload leaves "
            "them out, queries of your own do not",
            "set track_timestamps_staleness: true (Prometheus 2.48), or honor_timestamps: false, in the job that "
            "scrapes cAdvisor (trackTimestampsStaleness, honorTimestamps of a ServiceMonitor)",
        )
    yield findings.ok(f"{series.pods} pods have series of their containers, of living ones")


def source(metric: Metric) -> str:
    """Where a metric comes from: built-in, the recording rule by name, or a query of the operator's own."""
    if metric.query is None:
        return "built-in query"
    return f"recording rule {metric.query}" if RECORDED.fullmatch(metric.query) else "query of the policy"


def _sources(facts: Iterable[MetricFacts]) -> str:
    by_source: dict[str, list[str]] = {}
    for one in facts:
        by_source.setdefault(source(one.metric).split(" ")[0], []).append(one.metric.name)
    words = {"built-in": "built-in queries", "recording": "recording rules", "query": "queries of the policy"}
    return "; ".join(f"by {words[kind]}: {', '.join(names)}" for kind, names in by_source.items())


def _absent(facts: MetricFacts, *, scraped: bool) -> Finding:
    """Why a metric has no value of any node; `scraped`: another one of its resource has."""
    name, resource = facts.metric.name, facts.metric.resource
    if facts.partial:
        return findings.fail(
            f"{name}: {facts.error}",
            "look at the stores behind Prometheus (vmstorage, store gateways, remote read); until they answer, nodes "
            "keep their last values and lose them before staleAfter, and nothing is evicted",
        )
    if facts.error:
        return findings.fail(f"{name} ({source(facts.metric)}): {facts.error}", f"check the query of {name}")
    if facts.values is not None and facts.values.refused:
        reasons = ", ".join(f"{count} {reason}" for reason, count in facts.values.refused_by_reason.items())
        return findings.fail(
            f"{name} ({source(facts.metric)}) has no usable value: {reasons}",
            "if double: name one job with --node-selector 'job=\"node-exporter\"'; "
            "else see docs/reference/promql.md, refusals",
        )
    if facts.metric.query is not None:
        fix = f"{_LOAD_RULES}, or take the query of {name} out of the policy: the built-in one needs no rules"
        return findings.fail(f"{name} ({source(facts.metric)}) has no value of any node", fix)
    if scraped and facts.known_ratio is not None and (young := windows.too_young(facts.metric, facts.known_ratio)):
        return findings.warn(young, "wait: the window fills by itself, unless Prometheus starts empty again")
    series = "node_cpu_seconds_total, idle and user, by CPU" if resource == "cpu" else "node_memory_MemAvailable_bytes"
    fix = f"let Prometheus scrape node-exporter ({series}) on every node; compare --node-label and --node-selector"
    return findings.fail(f"{name} (built-in query) has no value of any node", fix)


def _lacking(nodes: Iterable[Node], answered: Iterable[MetricFacts]) -> dict[str, list[MetricFacts]]:
    """The nodes without a value of some metric that others have, and which those are."""
    alive = [one for one in answered if one.values is not None and one.values.values]
    lacking = {
        node.name: [one for one in alive if one.values is not None and node.name not in one.values.values]
        for node in nodes
    }
    return {name: missing for name, missing in lacking.items() if missing or not alive}


def _why(node: Node, missing: list[MetricFacts], targets: Iterable[Target]) -> Finding:
    """Why a node has no value: refused ones, a target that is down, or none at all."""
    reasons = {one.values.refused[node.name] for one in missing if one.values and node.name in one.values.refused}
    directory = identity.follow([node])
    mine = [target for target in targets if directory.resolve(target.label) is not None]
    if "double" in reasons:
        jobs = findings.few(dict.fromkeys(target.job for target in mine if target.job)) or "its targets"
        return findings.fail(
            f"{node.name} is claimed by two series ({jobs})",
            "name the job that counts: --node-selector 'job=\"node-exporter\"' for doctor and annotator",
        )
    if reasons:
        return findings.fail(
            f"{node.name} has unusable values ({', '.join(sorted(reasons))})", "docs/reference/promql.md"
        )
    down = [target for target in mine if not target.up]
    if down and len(down) == len(mine):
        labels = findings.few(target.label for target in down)
        return findings.fail(
            f"{node.name} has no series: target {labels} is down",
            f"look at node-exporter on {node.name} and at Prometheus' /targets for its last error",
        )
    if mine:
        names = findings.few(one.metric.name for one in missing)
        return findings.fail(
            f"{node.name} has no {names} although its target {mine[0].label} is up",
            f"let node-exporter on {node.name} run with its cpu and meminfo collectors",
        )
    by_type = {one.type: one.address for one in reversed(node.addresses)}
    address = by_type.get("InternalIP") or next(iter(by_type.values()), node.name)
    return findings.fail(
        f"{node.name} has no series: no target with instance {address}",
        f"let Prometheus scrape node-exporter on {node.name} ({address}), or say with --node-label which label holds "
        "the node's name or address",
    )
