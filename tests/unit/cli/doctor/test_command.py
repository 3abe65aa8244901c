"""`evenload doctor` from the kubeconfig to the exit code, over a scripted apiserver with everything behind it."""

import json
import pathlib
from typing import Any

import click.testing
import pytest

from cli.doctor import command
from policy.contract import load_annotation
from runtime import clock
from tests import builders, commands, scripted_http
from tests.unit.cli.doctor import clusters

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


class Cluster(clusters.Cluster):
    """A cluster of which doctor is asked."""

    def __init__(self, directory: pathlib.Path) -> None:
        super().__init__()
        self._directory = directory

    def run(self, *words: str, code: int | None = None) -> click.testing.Result:
        """`evenload doctor ...` on it."""
        with clusters.serving(self._directory, self) as kubeconfig:
            return commands.run("doctor", "--kubeconfig", kubeconfig, *words, code=code)

    def findings(self, *words: str) -> dict[str, dict[str, Any]]:
        """The checks by name, from -o json."""
        return {one["check"]: one for one in json.loads(self.run(*words, "-o", "json").stdout)["checks"]}


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> Cluster:
    return Cluster(tmp_path)


def test_prometheus_and_extenders_are_found_and_asked_through_the_apiserver(cluster: Cluster) -> None:
    result = cluster.run("-o", "json")
    message = {one["check"]: one for one in json.loads(result.stdout)["checks"]}
    assert list(message) == command.names("prometheus")
    assert "http://prometheus.monitoring.svc:9090 answers (found by label" in message["prometheus"]["seen"]
    assert message["query cost"]["seen"] == "6 queries, 1.50 s, 6,000 samples read, every 30 s"
    assert message["nodes matched"]["seen"].startswith("2 of 2 nodes matched")
    assert message["scrape interval"]["seen"].startswith("node series are scraped every 15 s")
    assert message["extender views"]["seen"] == "2 replicas answer, all with the same view (aaaaaaaa)"
    assert message["extender asked"]["seen"].startswith("kube-scheduler asks: 24 requests, last at")
    assert message["clocks"]["verdict"] == "ok"
    assert result.exit_code == 4, "no policy to compare with is all that is unknown"
    assert [name for name, one in message.items() if one["verdict"] != "ok"] == ["policy in force"]
    assert result.stderr.endswith("20 checks: 19 ok, 1 unknown\n")


def test_without_prometheus_metrics_server_is_asked_instead(cluster: Cluster) -> None:
    cluster.lists["/api/v1/services"] = []
    path = "/apis/metrics.k8s.io/v1beta1/nodes"
    cluster.lists[path] = [builders.node_metrics_body(name, clock.WallClock().now()) for name in clusters.NAMES]
    message = cluster.findings("--source", "metrics-server")
    assert message["metrics-server"]["seen"].startswith("metrics.k8s.io/v1beta1 lists 2 nodes, ")
    assert message["nodes matched"]["seen"] == "2 of 2 nodes matched (by name)"
    assert [name for name, one in message.items() if one["verdict"] != "ok"] == ["windows", "policy in force"]
    cluster.forbidden.add(path)
    message = cluster.findings("--source", "metrics-server")
    assert message["metrics-server"]["verdict"] == "unknown"
    assert "bind yourself the ClusterRole view" in message["metrics-server"]["fix"]
    fixes = {name: one["fix"] for name, one in cluster.findings().items()}
    assert fixes["prometheus"].endswith("without Prometheus, see docs/how-to/without-prometheus.md")
    assert (fixes["metrics"], [*fixes.values()].count(fixes["prometheus"])) == (None, 1)


@pytest.mark.parametrize(
    ("pods", "which"), [({"extender-0", "extender-1"}, "the extender is"), ({"extender-1"}, "1 of 2 replicas are")]
)
def test_shadow_mode_is_said_and_no_finding(cluster: Cluster, pods: set[str], which: str) -> None:
    cluster.shadow = pods
    asked = cluster.findings()["extender asked"]
    assert asked["seen"].endswith(f"; {which} in shadow mode: every node passes and scores the same")
    assert asked["verdict"] == "ok"


def test_the_policy_of_the_deployed_config_map_is_judged_by(cluster: Cluster) -> None:
    path = f"{clusters.PREFIX}/evenload-system/configmaps/evenload-policy"
    cluster.single[path] = {"data": {"policy.yaml": HEAD + "descheduler: {coolNodes: 7}\n"}}
    message = cluster.findings()
    assert "descheduler.coolNodes is 7" in message["policy rules"]["seen"]
    assert "ConfigMap evenload-system/evenload-policy is " in message["policy in force"]["seen"]


def test_without_a_deployed_policy_the_one_that_an_extender_obeys_is_judged_by(cluster: Cluster) -> None:
    cluster.obeyed = {"descheduler": {"coolNodes": 7}}
    result = cluster.run("-o", "json")
    message = {one["check"]: one for one in json.loads(result.stdout)["checks"]}
    assert "descheduler.coolNodes is 7" in message["policy rules"]["seen"]
    assert message["policy in force"]["verdict"] == "unknown"
    assert message["policy in force"]["seen"].endswith("; whether it is the one you deployed is not known")
    assert message["policy in force"]["fix"].endswith("--policy FILE")
    assert "cannot be read (404): judging by policy 0123456789ab, which extender-0 obeys\n" in result.stderr
    cluster.obeyed = {"sections of another version": {}}
    cluster.single[f"{clusters.PREFIX}/evenload-system/configmaps/evenload-policy"] = {"data": {}}
    assert "has no policy.yaml: judging by the defaults" in cluster.run().stderr
    assert cluster.findings()["policy rules"]["seen"].startswith("the defaults: 4 filter rules")


def test_a_deployed_policy_that_is_invalid_is_bad_input(cluster: Cluster) -> None:
    path = f"{clusters.PREFIX}/evenload-system/configmaps/evenload-policy"
    cluster.single[path] = {"data": {"policy.yaml": HEAD + "sync: {period: 30}\n"}}
    commands.assert_refused(cluster.run(), 2, "evenload-policy:3:16: sync.period")


@pytest.mark.parametrize("width", [60, 78, 80, 120])
def test_the_table_wraps_and_carries_no_colour_into_a_pipe(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """Readline exports COLUMNS, so the workers of pytest-xdist have 80 where one process has none."""
    monkeypatch.setenv("COLUMNS", str(width))
    del cluster.values["10.0.0.2:9100"]
    result = cluster.run(code=1)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["CHECK", "SEEN"]
    assert any(line.startswith("fail") and "nodes matched" in line for line in lines)
    assert "fix: let Prometheus scrape node-exporter on node-2 (10.0.0.2), or say" in " ".join(result.stdout.split())
    assert "\x1b" not in result.stdout
    assert max(map(len, lines)) <= width
    assert "CHECK" not in cluster.run("--no-headers").stdout


def test_the_guard_is_tried_by_dry_runs_as_the_accounts_that_it_holds(cluster: Cluster) -> None:
    cluster.lists["/api/v1/pods"] = [builders.pod_body("descheduler-0", namespace="evenload-system")]
    message = cluster.findings()["guard"]
    account = "system:serviceaccount:evenload-system:evenload-{}".format
    assert cluster.impersonated == [account("descheduler"), account("annotator"), account("descheduler")]
    assert message["verdict"] == "ok"
    assert (
        "refused in a dry run: an eviction of evenload-system/descheduler-0 by evenload-descheduler" in message["seen"]
    )
    cluster.guard_holds = False
    message = cluster.findings()["guard"]
    assert message["verdict"] == "fail"
    assert "was not refused: the guard does not hold this account" in message["seen"]


def test_views_that_differ_for_a_moment_are_asked_again(cluster: Cluster) -> None:
    cluster.views["extender-1"] = ["sha256:bbbbbbbbbb", "sha256:aaaaaaaaaa"]
    assert cluster.findings()["extender views"]["verdict"] == "ok"


def test_an_annotation_that_the_heartbeat_does_not_vouch_for_names_its_node(cluster: Cluster) -> None:
    text = load_annotation.encode(load_annotation.Reading(cluster.since_seconds, {"cpu_avg_5m": 0.9}))
    cluster.lists["/api/v1/nodes"][1]["metadata"]["annotations"][load_annotation.KEY] = text
    message = cluster.findings()["annotator"]
    assert message["verdict"] == "warn"
    assert "does not confirm what node-2 carries" in message["seen"]


def test_a_missing_heartbeat_is_a_failure_of_the_annotator(cluster: Cluster) -> None:
    del cluster.single[f"{clusters.PREFIX}/evenload-system/configmaps/evenload-heartbeat"]
    message = cluster.findings()["annotator"]
    assert message["verdict"] == "fail"
    assert "no annotator ever finished a sync here" in message["seen"]


def test_what_may_not_be_read_is_unknown_and_leads_to_the_rights(cluster: Cluster) -> None:
    cluster.forbidden = {"/apis/policy/v1/poddisruptionbudgets", f"{clusters.PROMETHEUS}/query"}
    cluster.allowed = False
    message = cluster.findings()
    assert message["disruption budgets"]["verdict"] == "unknown"
    assert "you may not GET" in message["disruption budgets"]["seen"]
    assert message["prometheus"]["verdict"] == "fail"
    assert "403" in message["prometheus"]["seen"]
    assert message["metrics"]["seen"] == "Prometheus was not reached"
    assert message["your rights"]["verdict"] == "warn"
    assert message["service rights"]["verdict"] == "fail"


def test_no_extender_anywhere_is_said(cluster: Cluster) -> None:
    cluster.lists["/apis/discovery.k8s.io/v1/namespaces/evenload-system/endpointslices"] = []
    message = cluster.findings()
    assert "none behind Service evenload-system/evenload-extender" in message["extender views"]["seen"]
    assert message["extender asked"]["verdict"] == "unknown"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"\xff", b"[" * 5000])
def test_another_server_at_an_extenders_url_is_named(cluster: Cluster, body: bytes) -> None:
    with scripted_http.serving(lambda exchange: exchange.answer(body)) as other:
        one = cluster.findings("--extender", other.url)["extender views"]
    assert one["verdict"] == "fail"
    assert one["seen"].startswith(f"{other.url} answers, but not as an extender of this version: ")


def test_a_watch_age_without_its_label_costs_no_answer(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "EXPOSITION", f"{clusters.EXPOSITION}evenload_kube_watch_age_seconds 3\n")
    assert cluster.findings()["extender views"]["verdict"] == "ok"


def test_an_unreachable_apiserver_is_code_3_and_prints_no_data(cluster: Cluster, tmp_path: pathlib.Path) -> None:
    with clusters.serving(tmp_path, cluster) as kubeconfig:
        pass
    commands.assert_refused(commands.run("doctor", "--kubeconfig", kubeconfig), 3, "error: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--extender", "here"], "not a base URL", id="an extender without a scheme"),
        pytest.param(["--prometheus", "here"], "is not usable", id="a Prometheus without a scheme"),
        pytest.param(["--prometheus-token-file", "/none"], "cannot be read", id="a token file that is not there"),
    ],
)
def test_an_option_that_cannot_be_used_is_bad_input(cluster: Cluster, words: list[str], message: str) -> None:
    commands.assert_refused(cluster.run(*words), 2, message)
