"""Facts of a cluster in which all is well, for tests to break one at a time."""

import dataclasses
from typing import Any

from cli import plan
from cli.doctor import facts, findings
from kube import access, objects
from policy import metrics
from policy.contract import heartbeat, load_annotation
from policy.schema import load_policy
from promql import readings
from runtime import clock, options
from tests import builders, clocks

NOW_SECONDS = clocks.START_SECONDS
HASH = "0123456789ab"
NAMES = ("node-1", "node-2")
DIGEST = heartbeat.Digest("sha256:" + "a" * 64, ("0" * 8,) * 256)
DAYS = 86400.0


def nodes(windows: load_annotation.Windows | None = None) -> tuple[objects.Node, ...]:
    """Both nodes, observed for two days unless `windows` says otherwise."""
    extent = windows or load_annotation.Windows(NOW_SECONDS - 2 * DAYS, {})
    text = load_annotation.encode(load_annotation.Reading(NOW_SECONDS - 10, {"cpu_avg_5m": 0.4}, windows=extent))
    annotations = {load_annotation.KEY: text}
    return tuple(
        builders.node(name, address=f"10.0.0.{number}", annotations=annotations) for number, name in enumerate(NAMES, 1)
    )


NODES = nodes()


def item(name: str, *, age_seconds: float = 10.0, window: str = "15s") -> objects.NodeMetrics:
    """An item of metrics.k8s.io."""
    return builders.decoded(
        builders.node_metrics_body(name, NOW_SECONDS - age_seconds, window=window), objects.NodeMetrics
    )


def well(**changes: Any) -> facts.Facts:
    """The healthy facts with some replaced."""
    load = facts.LoadFacts(
        prometheus=findings.ok("Prometheus at http://prometheus:9090 answers (found by label x=y)"),
        metrics=tuple(metric(one) for one in metrics.BUILT_IN),
        targets=tuple(facts.Target(f"10.0.0.{number}:9100", True, "node-exporter") for number in (1, 2)),
        scrape_seconds=(15.0, 15.0, 15.1),
        origins=(
            facts.Origin("node-exporter", "--node-selector", ({"instance": "10.0.0.1:9100"},)),
            facts.Origin("cAdvisor", "--pod-selector", ({"instance": "10.0.0.2:10250"},)),
        ),
        pod_series=facts.PodSeries(12),
        prometheus_clock=facts.ClockFacts("Prometheus", 0.1, 0.1),
        metrics_server=facts.MetricsServerFacts(tuple(map(item, NAMES))),
    )
    of_load = {name: changes.pop(name) for name in load._fields if name in changes}
    healthy = facts.Facts(
        settings=settings(),
        now_seconds=NOW_SECONDS,
        nodes=NODES,
        pods=(scheduled_pod(NOW_SECONDS - 300),),
        budgets=(builders.budget(),),
        priority_classes=(),
        heartbeat=beat(),
        differing=(),
        annotator_lease=builders.decoded({"spec": {"holderIdentity": "annotator-0:8901"}}, objects.Lease),
        own_rights={access.Access("list", "nodes"): True},
        account_rights=rights(annotator=True, extender=True, descheduler=True),
        guard=facts.GuardFacts({}, (facts.Trial("an eviction by evenload-descheduler", True),)),
        apiserver_clock=facts.ClockFacts("the apiserver", 0.3, 0.5),
        node_leases=dict.fromkeys(NAMES, 4.0),
        load=load._replace(**of_load),
        replicas=(replica("extender-a"), replica("extender-b")),
        relief=("descheduler-0", relief_plan()),
    )
    return dataclasses.replace(healthy, **changes)


def relief_plan(verdict: str = "budget", detail: str = "") -> plan.Plan:
    """A plan that evicts nothing of one overloaded node."""
    node = plan.Node("node-1", (), (plan.Candidate("shop", "web-1", "Deployment/web", verdict, detail),))
    return plan.Plan("", "Enforce", HASH, "0 to evict", plan.Headroom(1, 1), nodes=(node,))


def settings(*, policy_hash: str | None = HASH, source: str = options.PROMETHEUS, **sections: Any) -> facts.Settings:
    """The default policy with sections replaced, from policy.yaml."""
    return facts.Settings(load_policy.LoadPolicy.of(sections), "policy.yaml", policy_hash, source=source)


def beat(*, age_seconds: float = 10.0, policy: str = HASH) -> heartbeat.Heartbeat:
    """A heartbeat over both nodes."""
    return heartbeat.Heartbeat(NOW_SECONDS - age_seconds, policy, len(NAMES), DIGEST)


def metric(
    definition: metrics.Metric = metrics.BUILT_IN[0],
    *,
    values: dict[str, float] | None = None,
    refused: dict[str, str] | None = None,
    unmatched: tuple[str, ...] = (),
    seconds: float = 0.05,
    samples: int | None = 10_000,
    known_ratio: float | None = None,
) -> facts.MetricFacts:
    """A metric with a value for both nodes."""
    found = dict.fromkeys(NAMES, 0.4) if values is None else values
    answer = readings.NodeValues(found, refused or {}, unmatched)
    return facts.MetricFacts(definition, answer, "", seconds, samples, known_ratio)


def every_metric(**fields: Any) -> tuple[facts.MetricFacts, ...]:
    """All six with the same fields."""
    return tuple(metric(one, **fields) for one in metrics.BUILT_IN)


def replica(name: str, **fields: Any) -> facts.Replica:
    """An extender that was asked ten minutes after its start."""
    since, last = NOW_SECONDS - 900, NOW_SECONDS - 300
    return facts.Replica(name, HASH, True, "sha256:" + "b" * 64, 12.0, since, last)._replace(**fields)


def rights(**allowed: bool) -> dict[str, dict[access.Access, bool]]:
    """Two rights per service, all allowed or only the first."""
    first, second = access.Access("list", "nodes"), access.Access("patch", "nodes")
    return {name: {first: True, second: whole} for name, whole in allowed.items()}


def scheduled_pod(at_seconds: float, scheduler: str = "default-scheduler", **fields: Any) -> objects.Pod:
    """A pod that a scheduler bound at that time."""
    at = clock.to_rfc3339(at_seconds)
    return builders.pod("web-1", node="node-1", scheduled_at=at, spec={"schedulerName": scheduler}, **fields)


def placeholder(priority: int, *, node: str = "node-1", preset: str = "order") -> objects.Pod:
    """A placeholder pod."""
    labels, annotations = {"evenload.io/placeholder": "true"}, {"evenload.io/placeholder-preset": preset}
    spec = {"priority": priority, "priorityClassName": "evenload-placeholder"}
    return builders.pod("placeholder-1", node=node, labels=labels, annotations=annotations, spec=spec)
