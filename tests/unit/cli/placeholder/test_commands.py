"""`placeholder size` and `status` over the wire: what is asked and sent, what is printed, codes and words."""

import functools
import json
from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from cli.placeholder import buffers
from policy.contract import load_annotation
from tests import builders, commands, kubeconfigs, scripted_http

EVENLOAD = "evenload-system"
PODS = f"/api/v1/namespaces/{EVENLOAD}/pods"
EVENTS = f"/apis/events.k8s.io/v1/namespaces/{EVENLOAD}/events"
TEMPLATES = f"/api/v1/namespaces/{EVENLOAD}/podtemplates"
BUFFERS = f"/apis/{buffers.API}/namespaces/{EVENLOAD}/capacitybuffers"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{EVENLOAD}/deployments/placeholder"
SCALE = f"{DEPLOYMENT}/scale"
RBAC = Path(__file__).parents[4] / "deploy" / "rbac" / "placeholder.yaml"
run = functools.partial(commands.run, "placeholder")


class Apiserver:
    """Lists what it was given by path, refuses what it was not, and takes every patch."""

    def __init__(self, directory: Path, lists: dict[str, list[Any]], *, template: builders.Body | None = None) -> None:
        self._directory = directory
        deployment = {"metadata": {"name": "placeholder"}, "spec": {"template": {"spec": template or {}}}}
        self._objects = {DEPLOYMENT: deployment, **lists}
        self.asked: list[scripted_http.Exchange] = []

    def run(self, *arguments: str, code: int | None = None) -> click.testing.Result:
        """`evenload placeholder ...`, asking it."""
        with scripted_http.serving(self._answer) as server:
            kubeconfig = scripted_http.kubeconfig(self._directory, server.url)
            return run(*arguments, "--kubeconfig", kubeconfig, code=code)

    def _answer(self, exchange: scripted_http.Exchange) -> None:
        self.asked.append(exchange)
        if exchange.method == "PATCH":
            exchange.answer({})
        elif exchange.path in self._objects:
            scripted_http.having(self._objects)(exchange)
        else:
            exchange.status(403, "Forbidden", "may not, said RBAC")


def held(name: str, node: str) -> Any:
    """A placeholder."""
    labels = {"evenload.io/placeholder": "true"}
    return builders.pod_body(name, namespace=EVENLOAD, node=node, labels=labels, owner=("ReplicaSet", "room"))


SIZE = ["size", "--deployment", "placeholder"]
OTHER = ["--context", "other"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param(["status"], 3, "error: ", id="no server for status"),
        pytest.param(["status", "-A"], 3, "error: ", id="no server for status -A"),
        pytest.param([*SIZE, "--replicas", "1"], 3, "error: ", id="no server for size"),
        pytest.param(["status", *OTHER], 2, "other", id="no such context for status"),
        pytest.param([*SIZE, "--replicas", "1", *OTHER], 2, "other", id="no such context for size"),
        pytest.param(SIZE, 2, "the number is missing: give --replicas N", id="no size"),
        pytest.param(["size", "--replicas", "1"], 2, "exactly one of --deployment NAME and", id="neither"),
        pytest.param([*SIZE, "--buffer", "b", "--replicas", "1"], 2, "exactly one of --deployment", id="both"),
        pytest.param(
            [*SIZE, "--during", "20:00-07:00=2"], 2, "the number is missing: give --replicas N", id="no size by day"
        ),
        pytest.param([*SIZE, "--nodes-per-replica", "4"], 2, "needs --max-replicas N", id="no end of a proportion"),
        pytest.param(
            [*SIZE, "--replicas", "3", "--time-zone", "UTC"],
            2,
            "--time-zone UTC has no effect without a schedule",
            id="a time zone without a schedule",
        ),
    ],
)
def test_it_refuses(words: list[str], code: int, message: str, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.write_text(kubeconfigs.text())
    commands.assert_refused(run(*words, "--kubeconfig", nowhere), code, message)


@pytest.mark.parametrize(("option", "path"), [("--deployment", SCALE), ("--buffer", f"{BUFFERS}/placeholder")])
def test_size_patches_the_number_and_asks_nothing(option: str, path: str, tmp_path: Path) -> None:
    apiserver = Apiserver(tmp_path, {})
    words = ("size", option, "placeholder", "--replicas", "10", "--during", "00:00-24:00=20%")
    result = apiserver.run(*words, code=0)
    assert result.stdout == f"{EVENLOAD}/placeholder: the number is 2 (00:00-24:00=20% UTC; 10 ordinarily)\n"
    (patch,) = apiserver.asked
    assert (patch.method, patch.path, patch.body) == ("PATCH", path, {"spec": {"replicas": 2}})
    assert "dryRun" not in patch.query
    assert "would be 2" in apiserver.run(*words, "--dry-run").stdout
    assert apiserver.asked[-1].query["dryRun"] == "All"


def test_size_in_proportion_counts_the_chosen_nodes_that_take_pods(tmp_path: Path) -> None:
    cordoned = builders.node_body("b", spec={"unschedulable": True})
    unready = builders.node_body("c", status={"conditions": []})
    nodes = [builders.node_body("a", cpu="7500m"), cordoned, unready]
    apiserver = Apiserver(tmp_path, {"/api/v1/nodes": nodes})
    options = ["--node-selector", "pool=a", "--cores-per-replica", "2", "--max-replicas", "9"]
    assert "the number is 4 (1 nodes, 7.5 cores)" in apiserver.run(*SIZE, *options).stdout
    assert apiserver.asked[1].query["labelSelector"] == "pool=a"


BY_USE = ["--use-per-replica", "cpu_avg_5m=60%", "--use-per-replica", "memory_avg_5m=60%", "--max-replicas", "9"]


def test_size_by_use_wants_as_many_nodes_as_the_use_of_all_fills(tmp_path: Path) -> None:
    text = load_annotation.text(0.0, {"cpu_avg_5m": 0.75, "memory_avg_5m": 0.1}, {})
    hot = [builders.node_body(name, annotations={load_annotation.KEY: text}) for name in ("a", "b", "c")]
    new = [builders.node_body("new"), builders.node_body("torn", annotations={load_annotation.KEY: text[1:]})]
    said = Apiserver(tmp_path, {"/api/v1/nodes": [*hot, *new]}).run(*SIZE, *BY_USE).stdout
    assert "the number is 4 (5 nodes, 40 cores, cpu_avg_5m 225%, memory_avg_5m 30%)" in said


def test_size_by_use_without_a_reading_leaves_the_number(tmp_path: Path) -> None:
    apiserver = Apiserver(tmp_path, {"/api/v1/nodes": [builders.node_body("new")]})
    commands.assert_refused(apiserver.run(*SIZE, *BY_USE), 2, "no node has a reading of cpu_avg_5m, memory_avg_5m")
    assert [one.method for one in apiserver.asked] == ["GET", "GET"]


AVOIDED = {"key": "old", "effect": "PreferNoSchedule"}
TAINTS = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
NODES = [
    builders.node_body("plain", cpu="4"),
    builders.node_body("tainted", cpu="4", spec={"taints": TAINTS}),
    builders.node_body("avoided", cpu="4", spec={"taints": [AVOIDED]}),
    builders.node_body("ssd", cpu="4", labels={"disk": "ssd"}),
]


@pytest.mark.parametrize(
    ("template", "number"),
    [
        ({}, 3),
        ({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}, 4),
        ({"nodeSelector": {"disk": "ssd"}}, 1),
        ({"affinity": builders.pinned("tainted")}, 0),
        ({"affinity": builders.pinned("tainted"), "tolerations": [{"operator": "Exists"}]}, 1),
    ],
    ids=["no toleration", "tolerated", "a node selector", "one node, which is tainted", "one node, tolerated"],
)
def test_size_counts_nodes_that_can_take_a_placeholder(template: builders.Body, number: int, tmp_path: Path) -> None:
    apiserver = Apiserver(tmp_path, {"/api/v1/nodes": NODES}, template=template)
    result = apiserver.run(*SIZE, "--nodes-per-replica", "1", "--max-replicas", "9")
    assert f"the number is {number} ({number} nodes, {4 * number} cores)" in result.stdout


def test_size_without_its_right_is_code_2(tmp_path: Path) -> None:
    apiserver = Apiserver(tmp_path, {})
    commands.assert_refused(apiserver.run(*SIZE, "--nodes-per-replica", "2", "--max-replicas", "9"), 2, "said RBAC")
    assert [one.method for one in apiserver.asked] == ["GET", "GET"]  # no number, no patch


def test_the_table_has_the_whole_and_every_node(tmp_path: Path) -> None:
    pods = [held("a", "node-2"), held("b", "node-1"), held("c", "node-1"), held("d", "")]
    apiserver = Apiserver(tmp_path, {PODS: pods, EVENTS: []})
    result = apiserver.run("status", code=1)
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["NODE", "HELD", "WAITING", "PREEMPTED/1H", "CPU", "MEMORY"],
        ["*", "3", "1", "0", "750m", "768Mi"],
        ["node-1", "2", "-", "0", "500m", "512Mi"],
        ["node-2", "1", "-", "0", "250m", "256Mi"],
    ]
    assert "1 wait, the longest for" in result.stderr
    assert apiserver.run("status", "--no-headers").stdout.startswith("*")


def test_wide_has_a_row_for_each_set_and_node(tmp_path: Path) -> None:
    result = Apiserver(tmp_path, {PODS: [held("a", "node-2")], EVENTS: []}).run("status", "-o", "wide", code=0)
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["evenload-system/room", "-", "-", "*", "1", "0", "0", "250m", "256Mi", "-"],
        ["evenload-system/room", "-", "-", "node-2", "1", "-", "0", "250m", "256Mi", "-"],
    ]


def test_without_the_right_to_read_events_the_rest_is_printed_and_it_is_code_4(tmp_path: Path) -> None:
    apiserver = Apiserver(tmp_path, {PODS: [held("a", "node-2")]})
    result = apiserver.run("status", "-o", "json", code=4)
    document = json.loads(result.stdout)
    assert (document["held"], document["preempted_last_hour"]) == (1, None)
    assert "not known: may not, said RBAC; deploy/rbac/placeholder.yaml" in result.stderr
    assert apiserver.run("status").stdout.splitlines()[1].split()[3] == "-"


def test_no_placeholders_are_a_finding_and_what_to_do_is_said(tmp_path: Path) -> None:
    everywhere = {path.replace(f"/namespaces/{EVENLOAD}", ""): list[Any]() for path in (PODS, EVENTS)}
    apiserver = Apiserver(tmp_path, {PODS: [], EVENTS: [], **everywhere})
    result = apiserver.run("status")
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"no placeholders as pods in {EVENLOAD} (-A looks everywhere); next: evenload placeholder" in result.stderr
    assert json.loads(apiserver.run("status", "-A", "-o", "json").stdout)["held"] == 0


def test_without_the_right_to_read_pods_it_is_refused(tmp_path: Path) -> None:
    commands.assert_refused(Apiserver(tmp_path, {}).run("status"), 2, "said RBAC")


def test_the_role_for_status_lists_what_status_lists_and_no_more(tmp_path: Path) -> None:
    listed = {path: list[Any]() for path in (PODS, EVENTS, TEMPLATES, BUFFERS)}
    apiserver = Apiserver(tmp_path, listed)
    for form in ("pods", "buffers"):
        apiserver.run("status", "--as", form, code=1)
    rules = yaml.safe_load(RBAC.read_text(encoding="utf-8"))["rules"]
    allowed = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    assert {(one.path, one.method) for one in apiserver.asked} == {(path, "GET") for path in listed}
    ours = {("", "pods"), ("", "podtemplates"), ("events.k8s.io", "events")}
    assert allowed == ours | {("autoscaling.x-k8s.io", "capacitybuffers")}
    assert {verb for rule in rules for verb in rule["verbs"]} == {"list"}
