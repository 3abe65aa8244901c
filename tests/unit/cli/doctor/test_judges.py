"""Every judge: healthy facts give ok, and each broken fact gives its verdict, what was seen and the fix."""

import functools
import pathlib
import types
from typing import Any, NamedTuple

import pytest
import yaml

from cli.doctor import command, facts, findings, gathering, metrics_server, rights, services
from kube import access, objects
from policy import metrics
from policy.contract import load_annotation
from tests import builders
from tests.unit.cli.doctor import worlds
from tests.unit.console import pages

NOW = worlds.NOW_SECONDS
DARK = findings.unknown("the reason", "the way out")
DAY = metrics.BUILT_IN[2]
RECORDED = metrics.Metric("cpu_max_1d", "cpu", "max", 86400.0, 300.0, "evenload:cpu_max_1d")
ONE_NODE = {"node-1": 0.4}
CLAIMED = [{"type": "InternalIP", "address": f"10.0.0.{number}"} for number in (2, 1)]
NOTHING: dict[str, float] = {}
SPOT = {
    "name": "spot",
    "nodeSelector": {"matchLabels": {"lifecycle": "spot"}},
    "filter": {"thresholds": {"cpu_avg_5m": 0.9}},
}


TIGHT = {
    "name": "tight",
    "nodeSelector": {"matchLabels": {"pool": "tight"}},
    "descheduler": {"thresholds": {"memory_avg_5m": {"evictAbove": 0.95, "evictUntil": 0.6}}},
}


EVICTIONS = pathlib.Path(__file__).parents[4] / "deploy" / "guard" / "evictions.yaml"
SHIPPED = next(yaml.safe_load_all(EVICTIONS.read_text(encoding="utf-8")))
GUARD_VARIABLES = {one["name"]: one["expression"] for one in SHIPPED["spec"]["variables"]}
PAYMENTS = '["kube-system", "payments", request.userInfo.username.split(":")[2]]'


def judged(check: str, **changes: Any) -> findings.Finding:
    """One check's finding on healthy facts with some replaced."""
    return command.CHECKS[check](worlds.well(**changes))


@pytest.mark.parametrize("check", command.CHECKS)
def test_healthy_facts_are_well(check: str) -> None:
    finding = judged(check)
    assert (finding.verdict, finding.fix) == (findings.Verdict.OK, "")
    assert finding.observation


def small(name: str, allocatable: str, *, pool: str = "") -> objects.Node:
    """A node of 32 GiB of which pods may use less."""
    amounts = {"cpu": "8", "memory": allocatable, "pods": "110"}
    return builders.node(name, labels={"pool": pool}, status={"allocatable": amounts})


def target(label: str, *, up: bool = True, job: str = "node-exporter") -> facts.Target:
    return facts.Target(label, up, job)


def classes(policy: str) -> tuple[objects.PriorityClass, ...]:
    body = {"metadata": {"name": "evenload-placeholder"}, "value": -5, "preemptionPolicy": policy}
    return (builders.decoded(body, objects.PriorityClass),)


def budget(**fields: Any) -> tuple[objects.DisruptionBudget, ...]:
    return (builders.budget(allowed=0, **fields),)


class Case(NamedTuple):
    """What a check must say of facts with some replaced."""

    verdict: str
    words: tuple[str, ...]
    changes: dict[str, Any]


def case(verdict: str, *words: str, **changes: Any) -> Case:
    return Case(verdict, words, changes)


def checked(name: str) -> str:
    """The check that a case is of, with which its name begins."""
    return name.partition(": ")[0]


passes, warns, fails, leaves_open = (functools.partial(case, verdict) for verdict in ("ok", "warn", "fail", "unknown"))
BROKEN = {
    "your rights: a right of one's own is missing": warns(
        "you may not get pods/proxy in ns",
        "kubectl apply -f deploy/rbac/doctor.yaml",
        "clusterrolebinding evenload-doctor-$USER --clusterrole=evenload-doctor --user=YOU",
        "kubectl -n evenload-system create rolebinding evenload-doctor-$USER --role=evenload-doctor --user=YOU",
        own_rights={access.Access("get", "pods/proxy", "", "ns"): False},
    ),
    "guard: a policy of the guard that is not there": warns(
        "evenload-guard-nodes is missing: only RBAC limits changes of nodes",
        "apply -k deploy/guard",
        guard=facts.GuardFacts({"evenload-guard-nodes": "is missing"}, ()),
    ),
    "guard: a guard that honours annotations where the policy does not": warns(
        "the policy lets no annotation keep pods in batch, the guard refuses their evictions",
        "optOutIgnored",
        settings=worlds.settings(descheduler={"protect": {"optOut": {"exceptNamespaces": ["batch"]}}}),
    ),
    "guard: a guard that honours annotations that the policy never does": warns(
        "the policy lets no annotation keep pods anywhere",
        settings=worlds.settings(descheduler={"protect": {"optOut": {"enabled": False}}}),
    ),
    "guard: a guard that lets an account do what it must not": fails(
        "a dry run of an eviction of a/b by evenload-descheduler was not refused",
        "were they renamed?",
        guard=facts.GuardFacts({}, (facts.Trial("an eviction of a/b by evenload-descheduler", False),)),
    ),
    "guard: a guard with limits that the policy does not have": warns(
        "stricter than the policy: minPodAge 300 s, protect.minPodAge 60 s, priorityAtLeast 1000000000, ",
        "protect.priorityAtLeast 2000000000, protectedNamespaces has payments, protect.namespaces has not; such",
        "make protect of the policy as strict",
        settings=worlds.settings(descheduler={"protect": {"minPodAge": "1m", "priorityAtLeast": 2000000000}}),
        guard=facts.GuardFacts({}, (), variables=GUARD_VARIABLES | {"protectedNamespaces": PAYMENTS}),
    ),
    "metrics-server: an annotator that may not list metrics-server": fails(
        "evenload-annotator may not list nodes.metrics.k8s.io",
        "components/metrics-server",
        metrics_server=facts.MetricsServerFacts(
            (worlds.item("node-1"),), ("the ServiceAccount evenload-annotator may not list nodes.metrics.k8s.io",)
        ),
    ),
    "metrics-server: a descheduler that may neither list pods nor read the heartbeat": fails(
        (
            "the ServiceAccount evenload-descheduler may not list pods.metrics.k8s.io, the ServiceAccount "
            "evenload-descheduler may not get configmaps/beat in ours"
        ),
        "components/metrics-server",
        metrics_server=facts.MetricsServerFacts(
            (worlds.item("node-1"),),
            (
                "the ServiceAccount evenload-descheduler may not list pods.metrics.k8s.io",
                "the ServiceAccount evenload-descheduler may not get configmaps/beat in ours",
            ),
        ),
    ),
    "metrics-server: a metrics-server that lists nothing": fails(
        "metrics.k8s.io/v1beta1 lists no node",
        "kubectl get apiservice v1beta1.metrics.k8s.io",
        metrics_server=facts.MetricsServerFacts(()),
    ),
    "metrics-server: a metrics-server that asks kubelets seldom": warns(
        "lists 1 nodes, 10 s old, each over 90 s: load may change unseen",
        "--metric-resolution to 60s",
        metrics_server=facts.MetricsServerFacts((worlds.item("node-1", window="1m30s"),)),
    ),
    "metrics: a metric that metrics-server does not have": fails(
        "cpu_p95 cannot be had from metrics-server",
        "or use Prometheus",
        settings=worlds.settings(
            source="metrics-server",
            metrics=[{"name": "cpu_p95", "resource": "cpu", "statistic": "p95", "window": "1h"}],
        ),
    ),
    "nodes matched: nodes that metrics-server does not list, or not in time": fails(
        "0 of 2 nodes matched (by name); node-1 is refused (stale), node-2 is not listed",
        "port 10250",
        settings=worlds.settings(source="metrics-server"),
        metrics_server=facts.MetricsServerFacts((worlds.item("node-1", age_seconds=200.0),)),
    ),
    "windows: an annotator that has not observed any node yet": leaves_open(
        "no node has windows yet", "2m30s", nodes=(builders.node("node-1"),)
    ),
    "metrics: a metric without any value": fails(
        "cpu_avg_5m (built-in query) has no value",
        "scrape node-exporter (node_cpu_seconds_total, idle and user, by CPU)",
        metrics=worlds.every_metric(values=NOTHING),
    ),
    "metrics: a Prometheus younger than a window": warns(
        "cpu_max_1d looks back over 86400 s, but Prometheus knew only 0% of the nodes so long ago",
        "the window fills by itself",
        metrics=(worlds.metric(), worlds.metric(DAY, values=NOTHING, known_ratio=0.0)),
    ),
    "metrics: a window without values that Prometheus reaches back over": fails(
        "cpu_max_1d (built-in query) has no value",
        "scrape node-exporter",
        metrics=(worlds.metric(), worlds.metric(DAY, values=NOTHING, known_ratio=1.0)),
    ),
    "metrics: a young Prometheus that scrapes no node-exporter": fails(
        "has no value", "scrape node-exporter", metrics=worlds.every_metric(values=NOTHING, known_ratio=0.0)
    ),
    "metrics: a recording rule without series": fails(
        "recording rule evenload:cpu_max_1d",
        "load deploy/monitoring/evenload-rules.yaml",
        metrics=(worlds.metric(RECORDED, values=NOTHING),),
    ),
    "metrics: a query that Prometheus refuses": fails(
        "answered 400: parse error",
        "check the query of cpu_max_1d",
        metrics=(facts.MetricFacts(RECORDED, None, "answered 400: parse error"),),
    ),
    "metrics: values that are all refused": fails(
        "no usable value: 2 double",
        "--node-selector",
        metrics=(worlds.metric(values=NOTHING, refused=dict.fromkeys(worlds.NAMES, "double")),),
    ),
    "metrics: an answer that may not be whole": fails(
        "store 3 is down",
        "look at the stores",
        metrics=(facts.MetricFacts(RECORDED, None, "only a part: store 3 is down", partial=True),),
    ),
    "query cost: a slow query": warns(
        "cpu_avg_5m takes 3.2 s", "recording rules", metrics=(worlds.metric(seconds=3.2),)
    ),
    "query cost: a query that reads too much": warns(
        "reads 7,000,000 samples", "policy init --recording-rules", metrics=(worlds.metric(samples=7_000_000),)
    ),
    "query cost: queries that take a large part of the period": warns(
        "6 queries, 9.00 s", "recording rules", metrics=worlds.every_metric(seconds=1.5, samples=200_000)
    ),
    "query cost: slow queries of a Prometheus that does not count samples": warns(
        "6 queries, 9.00 s, every", "recording rules", metrics=worlds.every_metric(seconds=1.5, samples=None)
    ),
    "nodes matched: a node without a target": fails(
        "1 of 2 nodes matched",
        "node-2 has no series: no target with instance 10.0.0.2",
        "--node-label",
        metrics=worlds.every_metric(values=ONE_NODE),
        targets=(target("10.0.0.1:9100"),),
    ),
    "nodes matched: a node whose target is down": fails(
        "target 10.0.0.2:9100 is down",
        "look at node-exporter on node-2",
        metrics=worlds.every_metric(values=ONE_NODE),
        targets=(target("10.0.0.2:9100", up=False),),
    ),
    "nodes matched: a node whose exporter lacks a collector": fails(
        "node-2 has no cpu_max_1d although its target 10.0.0.2:9100 is up",
        "collectors",
        metrics=(worlds.metric(), worlds.metric(RECORDED, values=ONE_NODE)),
    ),
    "nodes matched: a node that two jobs claim": fails(
        "node-2 is claimed by two series (a, b)",
        "--node-selector",
        metrics=worlds.every_metric(values=ONE_NODE, refused={"node-2": "double"}),
        targets=(target("10.0.0.2:9100", job="a"), target("10.0.0.2:9100", job="b")),
    ),
    "nodes matched: a node that claims another's address": warns(
        "2 of 2 nodes matched",
        "node-2 claims 10.0.0.1, which stays with node-1",
        "look at that node",
        nodes=(worlds.NODES[0], builders.node("node-2", status={"addresses": CLAIMED})),
    ),
    "nodes matched: a node whose values are refused": fails(
        "node-2 has unusable values (nan)",
        "docs/reference/promql.md",
        metrics=worlds.every_metric(values=ONE_NODE, refused={"node-2": "nan"}),
    ),
    "nodes matched: a node without load under onMissing: reject": fails(
        "no new pods go there (filter.onMissing: reject)",
        metrics=worlds.every_metric(values=ONE_NODE),
        settings=worlds.settings(filter={"onMissing": "reject"}),
    ),
    "scrape interval: a window too short for the scrapes": fails(
        "every 90 s",
        "holds 3.3 scrapes",
        "scrape_interval of node-exporter's job to 75s or less",
        scrape_seconds=(90.0, 90.0),
    ),
    "scrape interval: scrapes further apart than a minute": warns(
        "every 70 s", "to 60s or less", scrape_seconds=(70.0,)
    ),
    "one cluster: pods of two clusters by a label": fails(
        "cluster is 'a', 'b'; 1 of its targets are on no node",
        "10.9.0.1:10250",
        "--pod-selector 'cluster=\"a\"'",
        origins=(
            facts.Origin(
                "cAdvisor",
                "--pod-selector",
                ({"instance": "10.0.0.1:10250", "cluster": "a"}, {"instance": "10.9.0.1:10250", "cluster": "b"}),
            ),
        ),
    ),
    "one cluster: pods of two clusters without a label": fails(
        "1 of its targets are on no node of this cluster (elsewhere)",
        "--pod-selector 'LABEL=\"VALUE\"'",
        origins=(facts.Origin("cAdvisor", "--pod-selector", ({"instance": "node-1"}, {"instance": "elsewhere"})),),
    ),
    "one cluster: nodes of two clusters": fails(
        "k8s_cluster is 'a', 'b'",
        "--node-selector 'LABEL=\"VALUE\"'",
        origins=(
            facts.Origin(
                "node-exporter",
                "--node-selector",
                ({"instance": "node-1", "k8s_cluster": "a"}, {"instance": "node-2", "k8s_cluster": "b"}),
            ),
        ),
    ),
    "scrape interval: series that were scraped once": leaves_open("scraped twice", scrape_seconds=()),
    "clocks: a Prometheus that runs ahead": warns(
        "Prometheus is 30.0 s ahead of the apiserver",
        "run NTP or chrony where Prometheus runs",
        prometheus_clock=facts.ClockFacts("Prometheus", 30.3),
    ),
    "clocks: a machine that runs far behind": fails(
        "this machine is 90.0 s behind",
        "run NTP",
        apiserver_clock=facts.ClockFacts("the apiserver", 90.0),
        prometheus_clock=facts.ClockFacts("Prometheus", 90.0),
    ),
    "clocks: an annotator from the future": fails(
        "the annotator is 70.0 s ahead", "refused", heartbeat=worlds.beat(age_seconds=-70)
    ),
    "clocks: a node that runs ahead": warns(
        "clock skew node-2 41 s ahead", "chrony on node-2", node_leases={"node-1": 3.0, "node-2": -41.0}
    ),
    "clocks: a Ready node with an old Lease": warns(
        "node-2 is Ready, but its Lease is 90 s old", "kubelet", node_leases={"node-1": 3.0, "node-2": 90.0}
    ),
    "clocks: many nodes that run ahead": warns(
        "9 nodes: ", "and 6 more", "on every node", node_leases={f"node-{number}": -41.0 for number in range(9)}
    ),
    "service rights: a service without one of its rights": fails(
        "evenload-annotator may not patch nodes",
        "kubectl apply -f deploy/rbac/annotator.yaml",
        account_rights=worlds.rights(annotator=False, extender=True),
    ),
    "service rights: a descheduler that surges without the component": fails(
        "descheduler.surge is enabled, and the ServiceAccount evenload-descheduler may not patch deployments/scale",
        "components/surge",
        account_rights=worlds.rights(descheduler=True)
        | {rights.SURGES: {access.Access("patch", "deployments/scale", "apps"): False}},
    ),
    "guard: a descheduler that surges without the component": warns(
        "descheduler.surge is enabled, and the guard refuses every change of a scale",
        "components/surge",
        settings=worlds.settings(descheduler={"surge": {"enabled": True}}),
        guard=facts.GuardFacts({}, (), variables=GUARD_VARIABLES | {"surge": "false"}),
    ),
    "service rights: no ServiceAccount at all": fails(
        "no ServiceAccount of Evenload", "-n", account_rights={"annotator": {access.Access("list", "nodes"): False}}
    ),
    "annotator: a late heartbeat": warns(
        "120 s ago",
        "annotator-0:8901 leads",
        "logs deployment/evenload-annotator",
        heartbeat=worlds.beat(age_seconds=120),
    ),
    "annotator: a heartbeat that is too old": fails(
        "older than staleAfter (300 s)", "logs deployment/evenload-annotator", heartbeat=worlds.beat(age_seconds=300)
    ),
    "annotator: annotations that somebody else wrote": warns(
        "does not confirm what node-2 carries", "second annotator", differing=("node-2",)
    ),
    "policy in force: a service with another policy": fails(
        "annotator obeys ffffffffffff; policy.yaml is 0123456789ab",
        "kubectl -n evenload-system create configmap evenload-policy",
        heartbeat=worlds.beat(policy="ffffffffffff"),
    ),
    "policy in force: services that disagree and no policy at hand": fails(
        "different policies",
        "one ConfigMap",
        heartbeat=worlds.beat(policy="ffffffffffff"),
        settings=worlds.settings(policy_hash=None),
    ),
    "pod series: a runtime that cAdvisor does not know": fails(
        "of 10.0.0.1:10250, 10.0.0.2:10250 have pods and no label `container`",
        "scrape the kubelets' /metrics/resource",
        pod_series=facts.PodSeries(0, without_containers=("10.0.0.1:10250", "10.0.0.2:10250")),
    ),
    "pod series: containers that are not scraped": warns(
        "no container has container_memory_working_set_bytes", "compare --pod-selector", pod_series=facts.PodSeries(0)
    ),
    "pod series: containers that have ended and count": warns(
        "2 of 12 pods have containers that have ended",
        "track_timestamps_staleness: true",
        "honor_timestamps: false",
        pod_series=facts.PodSeries(12, dead=2),
    ),
    "extender views: a replica that gives no answer": fails(
        "b gives no answer",
        "is b running",
        replicas=(worlds.replica("a"), findings.fail("b gives no answer: refused", "is b running")),
    ),
    "extender views: a replica that differs": fails(
        "replicas see different data: a bbbbbbbb, b dddddddd",
        "delete pod",
        replicas=(worlds.replica("a"), worlds.replica("b", view_digest="sha256:" + "d" * 64)),
    ),
    "extender views: a replica that does not believe the heartbeat": warns(
        "a: the view does not match", ".heartbeat.differing", replicas=(worlds.replica("a", heartbeat_matches=False),)
    ),
    "extender views: a replica whose watch brings nothing": fails(
        "a: watches that bring nothing (pods 91 s)",
        "EvenloadWatchLost",
        replicas=(worlds.replica("a", watch_ages={"nodes": 12.0, "pods": 91.0}),),
    ),
    "objects: a node that cannot be decoded": warns(
        "Node node-1 (time): no service sees",
        "EvenloadObjectsUndecodable",
        undecodable="1 cannot be decoded: Node node-1 (time)",
    ),
    "extender asked: pods bound long after the last question": fails(
        "a pod was bound at", "last asked at", "evenload scheduler-config", pods=(worlds.scheduled_pod(NOW - 10),)
    ),
    "extender asked: pods bound and nothing asked ever": fails(
        "it was never asked",
        "evenload scheduler-config",
        replicas=(worlds.replica("a", requests=0.0, last_decision_seconds=None),),
        pods=(worlds.scheduled_pod(NOW - 10),),
    ),
    "extender asked: pods bound and nothing asked for an hour": fails(
        "it was not asked for an hour",
        replicas=(worlds.replica("a", last_decision_seconds=None),),
        pods=(worlds.scheduled_pod(NOW - 10),),
    ),
    "extender asked: nothing asked and nothing to ask": leaves_open(
        "has not been asked yet",
        "30 s after its start, no pod was bound",
        "create a pod",
        replicas=(worlds.replica("a", requests=0.0, last_decision_seconds=None),),
        pods=(worlds.scheduled_pod(NOW - 880),),
    ),
    "extender asked: no replica to say whether it was asked": leaves_open(
        "no extender was reached", replicas=(findings.fail("a gives no answer", "x"),)
    ),
    "relief: a node whose load does not fall": warns(
        "node-1: 3 evictions should …",
        "kubectl debug node/node-1",
        relief=("d", worlds.relief_plan("load_not_falling", "3 evictions should …")),
    ),
    "relief: evicted pods that are not replaced": warns(
        "nothing leaves node-1: 5 evictions wait …",
        "EvenloadEvictionsUnreplaced.md",
        relief=("d", worlds.relief_plan("unreplaced", "5 evictions wait …")),
    ),
    "policy rules: a filter line over the eviction line": warns(
        "cpu_avg_5m: nodes take pods up to 0.9 and are relieved from 0.8",
        "filter.thresholds.cpu_avg_5m lower",
        settings=worlds.settings(filter={"thresholds": {"cpu_avg_5m": 0.9, "memory_avg_5m": 0.65}}),
    ),
    "policy rules: a filter line under the relief line": warns(
        "relief stops at 0.6", "evictUntil to 0.5", settings=worlds.settings(filter={"thresholds": {"cpu_avg_5m": 0.5}})
    ),
    "policy rules: evictions without a filter rule": warns(
        "no filter rule keeps their replacements off",
        "give filter.thresholds.memory_avg_5m",
        settings=worlds.settings(filter={"thresholds": {}}, descheduler={"mode": "Enforce"}),
    ),
    "policy rules: a filter line of a pool over its eviction line": warns(
        "pool spot: cpu_avg_5m: nodes take pods up to 0.9 and are relieved from 0.8",
        "descheduler.thresholds.cpu_avg_5m.evictAbove, in pool spot",
        settings=worlds.settings(pools=[SPOT]),
    ),
    "policy rules: nothing against herding": warns(
        "herds onto one node",
        "recentPods: {enabled: true}",
        settings=worlds.settings(recentPods={"enabled": False}, hotSpots=[]),
    ),
    "policy rules: one reading that evicts": warns(
        "one reading evicts",
        "overloadedFor to at least 60s",
        settings=worlds.settings(descheduler={"mode": "Enforce", "overloadedFor": "30s"}),
    ),
    "policy rules: more cool nodes wanted than there are nodes": warns(
        "it never acts", "coolNodes to 1 or less", settings=worlds.settings(descheduler={"coolNodes": 4})
    ),
    "policy rules: a line above what pods may use": warns(
        "memory_avg_5m.evictAbove is 0.8, and the memory that pods may use is 0.50 of node-2, 0.72 of node-1:",
        "set descheduler.thresholds.memory_avg_5m.evictAbove lower than 0.50",
        "memory_avg_5m is 0.65, and the memory that pods may use is 0.50 of node-2: kubelet evicts",
        "memory_max_1h is 0.75, and the memory that pods may use is 0.50 of node-2, 0.72 of node-1:",
        nodes=(small("node-1", "23Gi"), small("node-2", "16Gi")),
    ),
    "policy rules: a line of a pool above what its pods may use": warns(
        "memory_avg_5m.evictAbove is 0.95, and the memory that pods may use is 0.91 of node-1: kubelet",
        "set descheduler.thresholds.memory_avg_5m.evictAbove of pool tight lower than 0.91",
        settings=worlds.settings(pools=[TIGHT]),
        nodes=(small("node-1", "29Gi", pool="tight"), small("node-2", "29Gi")),
    ),
    "disruption budgets: a budget that wants as many pods as there are": warns(
        "default/web (minAvailable 3 over 3 pods)", "kubectl -n default patch pdb web", budgets=budget(min_available=3)
    ),
    "disruption budgets: a budget that wants all in percent": warns(
        "minAvailable 100%", budgets=budget(min_available="100%", status={"desiredHealthy": 3})
    ),
    "disruption budgets: a budget that lets none be away": warns(
        "maxUnavailable 0 over 3 pods", budgets=budget(min_available=None, spec={"maxUnavailable": 0})
    ),
    "placeholders: placeholders that the autoscaler ignores": fails(
        "priority -1000", "give evenload-placeholder a value from -10 to -1", pods=(worlds.placeholder(-1000),)
    ),
    "placeholders: placeholders that nobody preempts": fails(
        "ordinary pods (0) do not preempt them", "give evenload-placeholder a value", pods=(worlds.placeholder(0),)
    ),
    "placeholders: placeholders that preempt": warns(
        "lets placeholders preempt others",
        "preemptionPolicy: Never",
        pods=(worlds.placeholder(-5),),
        priority_classes=classes("PreemptLowerPriority"),
    ),
}


SOUND = {
    "policy rules: a line at what pods may use, and a node without sizes": passes(
        nodes=(small("node-1", "26Gi"), small("node-2", "lots"))
    ),
    "guard: the shipped one beside the default policy": passes(
        "a pod that the apiserver's cache has not yet passes them, and stays by protect.minPodAge alone (300 s)",
        guard=facts.GuardFacts({}, (), variables=GUARD_VARIABLES),
    ),
    "nodes matched: series of no node": passes(
        "series of no node: 10.9.9.9:9100", metrics=worlds.every_metric(unmatched=("10.9.9.9:9100",))
    ),
    "disruption budgets: none just now, while a pod is away": passes(
        "default/web allow none just now", budgets=budget(min_available=2)
    ),
    "service rights: none of a service, which is taken as not installed": passes(
        "descheduler: no rights at all, taken as not installed",
        account_rights=worlds.rights(annotator=True) | {"descheduler": {access.Access("list", "nodes"): False}},
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_has_nothing_to_put_right(name: str) -> None:
    verdict, words, changes = SOUND[name]
    finding = judged(checked(name), **changes)
    assert (finding.verdict, finding.fix) == (verdict, "")
    assert [word for word in words if word not in finding.observation] == []


def test_placeholders_that_soak_up_free_room_may_be_under_the_cutoff() -> None:
    soaking = worlds.placeholder(-100, preset="soak")
    finding = judged("placeholders", pods=(soaking, worlds.placeholder(-5)))
    assert finding.verdict == "ok"
    assert "2 of 2 placeholders hold room" in finding.observation
    assert "1 of them soak up free room" in finding.observation
    assert judged("placeholders", pods=(soaking,)).verdict == "ok"
    assert judged("placeholders", pods=(soaking, worlds.placeholder(-11))).verdict == "fail"


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_fact_is_named_with_its_fix(name: str) -> None:
    (verdict, words, changes), check = BROKEN[name], checked(name)
    finding = judged(check, **changes)
    assert finding.verdict == verdict
    for word in words:
        assert word in f"{finding.observation} -> {finding.fix}"
    assert finding.fix or verdict == "unknown" or check == "nodes matched"


def test_the_docs_name_every_check() -> None:
    page = (pathlib.Path(__file__).parents[4] / "docs" / "how-to" / "diagnose.md").read_text(encoding="utf-8")
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `")] == list(command.CHECKS)


def test_every_check_is_broken_by_some_case() -> None:
    assert set(map(checked, BROKEN)) | {"prometheus"} == set(command.CHECKS)


MISSING = {
    "your rights": "own_rights",
    "prometheus": "prometheus",
    "metrics": "metrics",
    "metrics-server": "metrics_server",
    "windows": "nodes",
    "query cost": "metrics",
    "nodes matched": "metrics",
    "scrape interval": "scrape_seconds",
    "one cluster": "origins",
    "pod series": "pod_series",
    "clocks": "apiserver_clock",
    "service rights": "account_rights",
    "annotator": "heartbeat",
    "extender views": "replicas",
    "disruption budgets": "budgets",
    "placeholders": "pods",
    "extender asked": "pods",
    "relief": "relief",
}


@pytest.mark.parametrize("check", MISSING)
def test_a_fact_that_could_not_be_gathered_is_said_instead_of_guessed(check: str) -> None:
    assert judged(check, **{MISSING[check]: DARK}) == DARK


def test_without_prometheus_other_checks_are_made_and_say_what_is_not_to_be_had() -> None:
    without = worlds.settings(source="metrics-server")
    names = list(command.judge(worlds.well(settings=without, metrics=DARK, prometheus=DARK)))
    assert names[2:6] == ["metrics-server", "metrics", "nodes matched", "windows"]
    assert names == command.names("metrics-server")
    assert "not to be had: owners' usage" in judged("metrics", settings=without, metrics=DARK).observation
    assert judged("nodes matched", settings=without, metrics_server=DARK) == DARK
    assert judged("nodes matched", settings=without, nodes=DARK).verdict == "unknown"
    young = worlds.nodes(load_annotation.Windows(NOW - 1800, {}))
    assert judged("windows", nodes=young).observation == (
        "2 of 2 nodes observed, the last one since 2026-11-21T03:30:00Z: until they are full, cpu_max_1h, cpu_max_1d, "
        "memory_max_1h and 1 more cover less and may be too low"
    )


def test_the_newest_annotation_says_where_load_comes_from() -> None:
    assert metrics_server.source(worlds.NODES) == "metrics-server"
    text = load_annotation.encode(load_annotation.Reading(NOW, {"cpu_avg_5m": 0.4}))
    newer = builders.node("node-3", annotations={load_annotation.KEY: text})
    broken = builders.node("node-4", annotations={load_annotation.KEY: "{"})
    assert metrics_server.source([*worlds.NODES, newer, broken]) == "prometheus"
    assert metrics_server.source([builders.node("node-1"), broken]) == "prometheus"


UNREAD: dict[str, tuple[str, dict[str, Any]]] = {
    "policy of the annotator": ("policy in force", {"heartbeat": DARK}),
    "policy of all extenders": ("policy in force", {"replicas": DARK}),
    "policy of a replica": ("policy in force", {"replicas": (worlds.replica("a"), DARK)}),
    "policy of every service": ("policy in force", {"heartbeat": DARK, "replicas": DARK}),
    "nodes of the metrics": ("nodes matched", {"nodes": DARK}),
    "nodes of the heartbeat": ("annotator", {"differing": DARK}),
    "nodes of the policy": ("policy rules", {"nodes": DARK}),
    "nodes with clocks": ("clocks", {"node_leases": DARK}),
    "the annotator's clock": ("clocks", {"heartbeat": DARK}),
    "the clock of Prometheus": ("clocks", {"prometheus_clock": DARK}),
    "replicas that may be asked": ("extender asked", {"replicas": DARK}),
    "objects": ("objects", {"pods": DARK}),
    "PriorityClasses": ("placeholders", {"pods": (worlds.placeholder(-5),), "priority_classes": DARK}),
    "series of several clusters": (
        "one cluster", {"origins": (facts.Origin("node-exporter", "--node-selector", ()),)}
    ),
    "rights without Prometheus": (
        "metrics-server", {"metrics_server": facts.MetricsServerFacts((worlds.item("n"),), DARK)}
    ),
    "a node without windows": ("windows", {"nodes": (*worlds.NODES, builders.node("node-3"))}),
}  # fmt: skip


@pytest.mark.parametrize("unread", UNREAD)
def test_no_check_is_ok_while_something_of_it_was_not_read(unread: str) -> None:
    check, changes = UNREAD[unread]
    assert judged(check, **changes).verdict == "unknown"


def test_a_plan_of_half_the_data_says_nothing_about_relief() -> None:
    answer = {"mode": "Enforce", "policy": "p", "at": "", "summary": "no data", "headroom": {"run": 1, "hour": 1}}
    means: Any = types.SimpleNamespace(deschedulers=[pages.Replica({"/plan": answer | {"partial": True}}, "d-0")])
    assert judged("relief", relief=gathering.relief(means, "n")) == findings.unknown(
        "d-0: no data", "evenload plan says more"
    )


def test_queries_that_all_failed_are_named_once() -> None:
    failed = tuple(facts.MetricFacts(one, None, "boom") for one in metrics.BUILT_IN)
    assert judged("metrics", metrics=failed).verdict == "fail"
    assert [judged(check, metrics=failed).verdict for check in ("query cost", "nodes matched")] == ["unknown"] * 2


def test_metrics_say_where_each_comes_from() -> None:
    own = metrics.Metric("gpu", "cpu", "avg", 300.0, 300.0, "avg by (instance) (gpu_busy)")
    seen = judged("metrics", metrics=(worlds.metric(), worlds.metric(RECORDED), worlds.metric(own))).observation
    assert "by built-in queries: cpu_avg_5m" in seen
    assert "by recording rules: cpu_max_1d" in seen
    assert "by queries of the policy: gpu" in seen


def test_where_the_second_scheduler_runs_its_pods_say_whether_the_extender_is_asked() -> None:
    second = worlds.scheduled_pod(NOW - 3600, labels=services.SECOND_SCHEDULER_LABELS)
    assert judged("extender asked", pods=(second, worlds.scheduled_pod(NOW - 10))).verdict == "ok"
    unasked = worlds.scheduled_pod(NOW - 10, scheduler=services.SECOND_SCHEDULER)
    assert judged("extender asked", pods=(second, unasked)).verdict == "fail"


def test_a_static_pod_of_a_restarted_kubelet_does_not_say_that_a_scheduler_bound_it() -> None:
    """A kubelet that restarts gives its static pods another PodScheduled time (every node of a control plane)."""
    static = worlds.scheduled_pod(NOW - 10, owner=("Node", "node-1"), annotations={"kubernetes.io/config.mirror": "x"})
    assert judged("extender asked", pods=(static, worlds.scheduled_pod(NOW - 300))).verdict == "ok"
    pretended = worlds.scheduled_pod(NOW - 10, annotations={"kubernetes.io/config.mirror": "x"})
    assert judged("extender asked", pods=(pretended,)).verdict == "fail"


def extender_pods(*names: str, **fields: Any) -> tuple[objects.Pod, ...]:
    """Ready replicas of the Deployment."""
    labels = dict(services.EXTENDER_LABELS)
    return tuple(
        builders.pod(name, namespace="evenload-system", node="node-1", labels=labels, **fields) for name in names
    )


def test_while_replicas_are_not_read_doctor_does_not_know_whether_another_is_asked() -> None:
    unasked = worlds.replica("a", requests=0.0, last_decision_seconds=None)
    bound = worlds.scheduled_pod(NOW - 10)
    few = judged("extender asked", replicas=(unasked,), pods=(*extender_pods("x", "y"), bound))
    assert (few.verdict, few.fix) == ("unknown", services.EACH_REPLICA)
    assert "it was never asked: but 1 more replicas were not read" in few.observation
    all_read = judged("extender asked", replicas=(unasked,) * 2, pods=(*extender_pods("x", "y"), bound))
    assert all_read.verdict == "fail"
    assert judged("extender asked", replicas=(unasked, DARK), pods=(bound,)).verdict == "unknown"
    waiting = extender_pods("y", status={"conditions": []})
    alone = judged("extender asked", replicas=(unasked,), pods=(*extender_pods("x"), *waiting, bound))
    assert alone.verdict == "fail"  # a replica that is not Ready is not behind the Service
    assert judged("extender asked", replicas=(worlds.replica("a"),), pods=extender_pods("x", "y")).verdict == "ok"


def test_while_replicas_are_not_read_doctor_does_not_know_whether_they_are_alike() -> None:
    finding = judged("extender views", replicas=(worlds.replica("a"),), pods=extender_pods("x", "y", "z"))
    assert (finding.verdict, finding.fix) == ("unknown", services.EACH_REPLICA)
    assert finding.observation == "2 of 3 replicas were not read, and may see other data"


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ('duration("5m1s")', "warn"),
        (' duration("0.1h") ', "warn"),
        ('duration("300s")', "ok"),
        ('duration("299999ms")', "ok"),
        ('params.metadata.namespace == "batch" ? duration("1h") : duration("5m")', "ok"),  # not compared
        ('duration("")', "ok"),
    ],
)
def test_the_least_age_of_the_guard_is_compared_with_that_of_the_policy(expression: str, verdict: str) -> None:
    variables = {"minPodAge": expression, "priorityAtLeast": "request.namespace == 'a' ? 1 : 2"}
    assert judged("guard", guard=facts.GuardFacts({}, (), variables=variables)).verdict == verdict


def test_queries_that_read_little_and_wait_on_a_busy_machine_are_no_finding() -> None:
    finding = judged("query cost", metrics=worlds.every_metric(seconds=1.5, samples=1_000))
    assert (finding.verdict, finding.observation) == ("ok", "6 queries, 9.00 s, 6,000 samples read, every 30 s")


def test_budgets_of_protected_namespaces_and_of_no_pods_are_nobodys_business() -> None:
    protected = budget(min_available=3, namespace="kube-system")
    empty = budget(min_available=3, status={"expectedPods": 0})
    assert judged("disruption budgets", budgets=protected + empty).observation.startswith("0 budgets")


def test_placeholders_that_hold_room_are_counted() -> None:
    held = (worlds.placeholder(-5), worlds.placeholder(-5, node=""))
    finding = judged("placeholders", pods=held, priority_classes=classes("Never"))
    assert (finding.verdict, finding.observation) == ("ok", "1 of 2 placeholders hold room, priority -5 (cutoff -10)")


def test_an_extender_that_is_too_old_for_digests_is_judged_by_its_heartbeat() -> None:
    finding = judged("extender views", replicas=(worlds.replica("a", view_digest=None),))
    assert (finding.verdict, finding.observation) == ("ok", "1 replica answers")
