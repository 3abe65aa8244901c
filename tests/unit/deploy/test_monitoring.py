"""Shipped rules, manifests, dashboard and pages name exported metrics, and agree with each other."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pytest
import yaml

from annotator import metrics as annotator_metrics
from annotator.diagnostics import standing
from deploy.monitoring import __main__ as writing
from descheduler import metrics as descheduler_metrics
from descheduler.eviction import api_results
from descheduler.ledger import rows
from descheduler.planning import verdicts
from extender import metrics as extender_metrics
from promql.queries import identity, node_queries
from promql.queries.node_queries import Window
from runtime import hosts
from tests import exported, metric_docs, promql_text
from tests.unit.deploy.manifests import BASE, COMPONENTS, DEPLOY, MTLS, SERVICES, Document, load, only

ROOT: Final = DEPLOY.parent
MONITORING: Final = DEPLOY / "monitoring"
RUNBOOKS, DOCS = ROOT / "docs" / "runbooks", ROOT / "docs"
# what Prometheus gives every series of a target that prometheus-operator found
TARGET: Final = frozenset({"job", "instance", "namespace", "pod", "service", "container", "endpoint"})
EXPORTER: Final = frozenset(identity.EXPORTER_LABELS)  # which a configuration may take over from pods
# not ours: Prometheus' own, node-exporter's, kube-scheduler's; with the labels that we ask by
FOREIGN: Final = {
    "ALERTS": {"alertname", "alertstate"},
    "node_cpu_seconds_total": {"cpu", "mode"},
    "node_memory_HugePages_Total": set[str](),
    "node_memory_Hugepagesize_bytes": set[str](),
    "node_memory_Hugetlb_bytes": set[str](),
    "node_memory_MemAvailable_bytes": set[str](),
    "node_memory_MemTotal_bytes": set[str](),
    "node_uname_info": {"nodename", "domainname", "machine", "release", "sysname", "version"},
    "scheduler_pending_pods": {"queue"},
}
# shown nowhere: about the process itself, the averages since its start, which queries take over spans instead, and what
# stands beside a gauge that an alert asks for
NOT_SHOWN: Final = {
    "evenload_build_info",
    "evenload_cpu_utilization_total_avg",
    "evenload_memory_utilization_total_avg",
    "evenload_effective_schedule_ratio",
    "evenload_schedule_not_looked_back_total",
    "evenload_kube_undecodable_objects_total",
    "evenload_kube_watch_problem",
}
VALUES: Final = {
    ("evenload_extender_request_duration_seconds", "verb"): set(extender_metrics.VERBS),
    ("evenload_extender_degraded", "cause"): {
        "unknown_node",
        "missing_reading",
        "stale_reading",
        "missing_metric",
        "all_rejected",
        "deadline",
        "stale_pod_watch",
        "stale_node_watch",
    },
    ("evenload_extender_nodes", "state"): {"usable", "stale", "future", "missing"},
    ("evenload_extender_filtered_nodes", "verdict"): {"passed", "rejected"},
    ("evenload_annotator_heartbeats", "result"): {"written", "failed"},
    ("evenload_annotator_node_patches", "result"): {"written", "gone", "failed", "skipped"},
    ("evenload_annotator_nodes", "state"): {"matched", "unmatched"},
    ("evenload_annotator_metric_nodes", "state"): set(annotator_metrics.STATES),
    ("evenload_annotator_placeholders", "state"): {"placed", "waiting"},
    ("evenload_annotator_placeholders", "preset"): {"order", "soak"},
    ("evenload_node_load_ratio", "metric"): {"$metric"},
    ("evenload_policy_threshold_ratio", "metric"): {"$metric"},
    ("evenload_policy_threshold_ratio", "line"): {standing.FILTER, standing.EVICT_ABOVE, standing.EVICT_UNTIL},
    ("evenload_descheduler_failures", "door"): set(descheduler_metrics.DOORS),
    ("evenload_eviction_candidates", "verdict"): {str(cause) for cause in verdicts.Cause},
    ("evenload_eviction_budget_remaining", "scope"): {"hour"},
    ("evenload_eviction_refusals", "refused_by"): set(api_results.REFUSERS),
    ("evenload_evictions", "result"): set(rows.RESULTS),
}


class Selector(NamedTuple):
    """One expression, where it stands, and the labels that its words show."""

    where: str
    expression: str
    shown: frozenset[str]


def groups() -> list[Document]:
    """The groups of the alerts."""
    (document,) = load(MONITORING / "evenload-alerts.yaml")
    found: list[Document] = document["groups"]
    return found


ALERTS: Final = {rule["alert"]: rule for group in groups() for rule in group["rules"]}
PAGE: Final = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
PANELS: Final = [panel for panel in PAGE["panels"] if panel["type"] != "row"]


def of_alerts() -> Iterator[Selector]:
    """Every alert's expression, with the labels in its texts."""
    for name, rule in ALERTS.items():
        texts = " ".join(rule["annotations"].values())
        yield Selector(name, rule["expr"], frozenset(re.findall(r"\$labels\.(\w+)", texts)))


def of_panels() -> Iterator[Selector]:
    """Every query of the dashboard, with the labels in its legend."""
    for panel in PANELS:
        for target in panel["targets"]:
            shown = frozenset(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            yield Selector(panel["title"], target["expr"], shown)


EVERY: Final = [*of_alerts(), *of_panels()]
SERIES: Final = exported.series()


def labels(series: str) -> set[str]:
    """The labels of a series, whoever exports it."""
    return set(SERIES.get(series, ())) or set(FOREIGN.get(series, ()))


def test_what_is_asked_is_exported_by_that_name_with_those_labels_and_values() -> None:
    assert len(EVERY) > len(PANELS) > 30
    for where, one in ((each.where, one) for each in EVERY for one in promql_text.names(each.expression).selectors):
        assert one.name in SERIES or one.name in FOREIGN, (where, one)
        for label, operator, value in one.matchers:
            assert label in labels(one.name), (where, one)
            known = VALUES.get((re.sub("_(total|count|bucket)$", "", one.name), label))
            if one.name in SERIES:
                assert known is not None, f"{where}: {one.name}{{{label}}}: say in VALUES what it can be"
                assert set(value.split("|")) <= known, (where, one)
            assert operator in ("=", "=~", "!="), (where, one)


def test_what_is_grouped_joined_and_shown_by_are_labels_that_are_there() -> None:
    panels = set(of_panels())
    for selector in EVERY:
        found = promql_text.names(selector.expression)
        there = TARGET | EXPORTER | found.strings | {label for one in found.selectors for label in labels(one.name)}
        assert found.grouped | found.joined <= there, selector.where
        grouped = selector in panels and "topk" not in selector.expression
        assert selector.shown <= (found.grouped if grouped else there), selector.where


def test_no_label_of_ours_is_one_that_a_target_has() -> None:
    clashing = {name: found & TARGET for name, found in SERIES.items() if found & TARGET}
    assert not clashing


def test_every_metric_is_shown_or_alerted_on() -> None:
    selector = {one.name for each in EVERY for one in promql_text.names(each.expression).selectors}
    families = [family for every in exported.services().values() for family in every]
    unseen = {family.page for family in families if not selector & family.series().keys()}
    assert unseen == NOT_SHOWN


@pytest.mark.parametrize("service", SERVICES)
def test_the_docs_name_every_metric_with_its_labels(service: str) -> None:
    assert metric_docs.named(f"{service}.md") == {one.page: one.labels for one in exported.services()[service]}


def test_no_page_names_a_metric_that_nobody_exports() -> None:
    known = set(SERIES) | {family.name for every in exported.services().values() for family in every}
    for page in DOCS.rglob("*.md"):
        assert metric_docs.mentioned(page) <= known, page


def test_the_hottest_nodes_are_those_of_the_annotators_own_queries() -> None:
    shown = {panel["title"]: panel["targets"][0] for panel in PANELS if panel["title"].startswith("Hottest")}
    own = {name: node_queries.expression(Window(name.lower(), "avg", 300.0, 300.0)) for name in ("CPU", "memory")}
    other = ", ".join([*sorted(identity.EXPORTER_LABELS), "domainname, machine, release, sysname, version"])
    named = f"ignoring (nodename) group_left (nodename) max without ({other}) (node_uname_info)"
    assert {title: (target["expr"], target["legendFormat"]) for title, target in shown.items()} == {
        f"Hottest nodes by {name}, mean of 5 minutes": (f"topk(10, {text}) * {named}", "{{nodename}}")
        for name, text in own.items()
    }


def test_generated_files_are_what_the_script_writes() -> None:
    for name, text in writing.texts().items():
        assert (MONITORING / name).read_text(encoding="utf-8") == text, f"{name}: run python -m deploy.monitoring"


def test_panels_have_ids_of_their_own_and_lie_beside_each_other() -> None:
    ids = [panel["id"] for panel in PAGE["panels"]]
    assert len(ids) == len(set(ids))
    cells: set[tuple[int, int]] = set()
    for panel in PAGE["panels"]:
        at = panel["gridPos"]
        taken = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= taken


def test_a_panel_says_what_to_read_from_it_and_asks_the_chosen_prometheus() -> None:
    for panel in PANELS:
        title, targets = panel["title"], panel["targets"]
        assert panel["description"], title
        assert len({target["refId"] for target in targets}) == len(targets) > 0, title
        sources = [panel["datasource"], *(target["datasource"] for target in targets)]
        assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources), title


def test_variables_of_the_dashboard_are_defined() -> None:
    defined = {one["name"] for one in PAGE["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(PAGE["panels"])))
    assert used == defined == {"datasource", "metric"}


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_what_and_where_to_read_on(name: str) -> None:
    rule = ALERTS[name]
    assert name.startswith("Evenload")
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{name}.md"
    assert len(rule["annotations"]["summary"]) <= 80


def test_every_alert_has_its_page_and_every_page_its_alert() -> None:
    assert {page.stem for page in RUNBOOKS.glob("*.md")} == set(ALERTS)
    assert len(ALERTS) == sum(len(group["rules"]) for group in groups())


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_has_its_five_parts_and_was_reproduced_by_a_test_that_exists_or_a_drill(name: str) -> None:
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert heads == ["What it means", "What users see", "Look", "Do", "Reproduced"]
    named = re.findall(r"`(tests/\S+\.py)::(\w+)`", text)
    assert named or "Drill, not part of the tests:" in text
    for path, test in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, f"{path}::{test}"


def test_every_alert_fires_and_does_not_in_the_tests_for_promtool() -> None:
    (document,) = load(MONITORING / "evenload-alerts.test.yaml")
    cases = [(group["name"], case) for group in document["tests"] for case in group["alert_rule_test"]]
    firing = {case["alertname"] for _, case in cases if case.get("exp_alerts")}
    assert firing == set(ALERTS)
    for name in ("all is well", "nothing is scraped"):
        assert {case["alertname"] for title, case in cases if title == name} == set(ALERTS)
    assert not [case for title, case in cases if title == "all is well" and case.get("exp_alerts")]
    stories = {title for title, case in cases if case.get("exp_alerts")} - {"nothing is scraped"}
    before = {case["alertname"] for title, case in cases if title in stories and not case.get("exp_alerts")}
    assert before == set(ALERTS)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_monitor_finds_the_port_that_serves_metrics(service: str) -> None:
    monitors = {one["metadata"]["name"]: one for one in load(MONITORING / "service-monitors.yaml")}
    assert set(monitors) == {f"evenload-{name}" for name in SERVICES}
    monitor = monitors[f"evenload-{service}"]
    objects = {one["kind"]: one for one in load(BASE / f"{service}.yaml")}
    own = {"app.kubernetes.io/name": "evenload", "app.kubernetes.io/component": service}  # the first is kustomize's
    assert monitor["spec"]["selector"]["matchLabels"] == own
    assert objects["Service"]["metadata"]["labels"].items() <= own.items()
    assert objects["Service"]["metadata"]["namespace"] == monitor["metadata"]["namespace"]
    (endpoint,) = monitor["spec"]["endpoints"]
    (container,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert endpoint["targetPort"] == container["ports"][0]["name"]
    assert endpoint["path"] in hosts.PLAIN_PATHS  # no client certificate is asked for it


def test_with_tls_prometheus_verifies_the_certificate_that_mtls_mounts() -> None:
    (component,) = load(COMPONENTS / "monitoring-mtls" / "kustomization.yaml")
    assert component["components"] == ["../monitoring"]
    (patch,) = component["patches"]
    ops = {op["path"]: op["value"] for op in yaml.safe_load(patch["patch"])}
    secret = ops["/spec/endpoints/0/tlsConfig"]["ca"]["secret"]
    assert (ops["/spec/endpoints/0/scheme"], secret["key"]) == ("https", "ca.crt")
    assert f"secretName: {secret['name']}" in MTLS.read_text(encoding="utf-8")
    service = only(BASE / "extender.yaml", "Service")["metadata"]
    assert ops["/spec/endpoints/0/tlsConfig"]["serverName"] == f"{service['name']}.{service['namespace']}.svc"
