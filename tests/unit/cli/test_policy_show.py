"""`evenload policy show`: a policy in sentences, as a whole and as it is on one node."""

from pathlib import Path

import click.testing
import pytest
import yaml

from policy.loading import loader
from tests import builders, commands, scripted_http

POLICY = """apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
pools:
- name: spot
  nodeSelector: {matchLabels: {lifecycle: spot}}
  filter: {thresholds: {cpu_avg_5m: 0.85, cpu_max_1h: 0}}
  descheduler: {mode: Enforce, limits: {perRun: 2}}
podClasses:
- name: production
  match: {priority: {min: 9000}, namespaces: ["shop*"]}
  filter: {thresholds: {cpu_avg_5m: 0.95, memory_avg_5m: 0.9}}
"""
CPU = "  - a node is skipped for new pods while its 5-minute CPU average is over "
MEMORY = "  - a node is skipped for new pods while its 5-minute memory average is over "


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A policy with a pool and a class of pods."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


def show(file: str, directory: Path, *words: str) -> click.testing.Result:
    """`evenload policy show`, where an apiserver has a spot node with a threshold of its own, and two pods."""
    own = {"evenload.io/thresholds": '{"memory_avg_5m": "80%", "disk": 0.5}'}
    priority = {"priority": 9500, "priorityClassName": "high"}
    objects = {
        "/api/v1/nodes/spot-1": builders.node_body("spot-1", labels={"lifecycle": "spot"}, annotations=own),
        "/api/v1/namespaces/shop/pods/web-1": builders.pod_body("web-1", namespace="shop", spec=priority),
        "/api/v1/namespaces/jobs/pods/night-1": builders.pod_body("night-1", namespace="jobs"),
    }
    with scripted_http.serving(scripted_http.having(objects)) as server:
        kubeconfig = scripted_http.kubeconfig(directory, server.url)
        return commands.run("policy", "show", file, *words, "--kubeconfig", kubeconfig)


def test_as_a_whole_it_says_what_differs_in_the_pools(file: str) -> None:
    lines = commands.run("policy", "show", file).stdout.splitlines()
    assert f"{CPU}65 %" in lines
    assert "pools:" in lines
    assert "  - pool spot: no node is skipped for its 1-hour CPU maximum" in lines


def test_with_labels_it_is_as_on_a_node_that_has_them_and_no_cluster_is_asked(file: str) -> None:
    lines = commands.run("policy", "show", file, "--labels", "lifecycle=spot,example.com/zone=").stdout.splitlines()
    assert lines[:3] == [
        "node:",
        "  - a node with these labels belongs to pool spot, the first that matches it (lifecycle=spot)",
        "  - at most 2 pods from all nodes of the pool in one run",
    ]
    assert "  - it enforces: every 2 minutes it plans and evicts" in lines
    assert f"{CPU}85 %" in lines
    assert f"{CPU}65 %" not in lines
    assert "pools:" not in lines
    assert not any("1-hour CPU maximum is over" in line for line in lines)


@pytest.mark.parametrize("labels", ["", "lifecycle=on-demand"])
def test_a_node_without_a_pool_has_the_policys_own_values(file: str, labels: str) -> None:
    lines = commands.run("policy", "show", file, "--labels", labels).stdout.splitlines()
    assert lines[1] == "  - a node with these labels belongs to no pool: it has the policy's own values"
    assert f"{CPU}65 %" in lines


def test_with_a_node_labels_and_annotation_are_those_that_it_has_in_the_cluster(file: str, tmp_path: Path) -> None:
    lines = show(file, tmp_path, "--node", "spot-1").stdout.splitlines()
    assert lines[1:5] == [
        "  - node spot-1 belongs to pool spot, the first that matches it (lifecycle=spot)",
        "  - at most 2 pods from all nodes of the pool in one run",
        "  - its annotation evenload.io/thresholds decides by memory_avg_5m",
        "  - of its annotation evenload.io/thresholds is not in force: disk: no metric of this name",
    ]
    assert {f"{CPU}85 %", f"{MEMORY}80 %"} <= set(lines)


def test_as_yaml_it_is_the_whole_policy_of_that_node(file: str, tmp_path: Path) -> None:
    result = show(file, tmp_path, "--node", "spot-1", "-o", "yaml")
    shown = loader.load(result.stdout, "shown")
    assert shown.filter.thresholds == {
        "cpu_avg_5m": 0.85,
        "cpu_max_1h": 0.0,
        "memory_avg_5m": 0.8,
        "memory_max_1h": 0.75,
    }
    assert shown.pools == ()
    (production,) = shown.pod_classes
    assert production.filter.thresholds == {"cpu_avg_5m": 0.95}, "the annotation has memory_avg_5m, and comes first"
    whole = loader.load(commands.run("policy", "show", file, "-o", "yaml").stdout, "whole")
    assert whole == loader.load(POLICY, "policy")
    assert yaml.safe_load(result.stdout)["pools"] == []


@pytest.mark.parametrize(
    ("pod", "words", "limit"),
    [
        (
            "shop/web-1",
            "(priority 9500, PriorityClass high) is of class production, the first that matches it (the pods of "
            "priority 9000 or more in shop*)",
            "95 %",
        ),
        ("jobs/night-1", "(priority 0, PriorityClass none) is of no class: it has the policy's own values", "65 %"),
    ],
)
def test_with_a_pod_it_is_as_for_the_class_that_the_pod_has_in_the_cluster(
    file: str, tmp_path: Path, pod: str, words: str, limit: str
) -> None:
    lines = show(file, tmp_path, "--pod", pod).stdout.splitlines()
    assert lines[:2] == ["pod:", f"  - pod {pod} {words}"]
    assert f"{CPU}{limit}" in lines
    assert "pools:" in lines
    assert "podClasses:" not in lines


def test_with_a_pod_and_a_node_the_nearest_value_is_shown(file: str, tmp_path: Path) -> None:
    lines = show(file, tmp_path, "--pod", "shop/web-1", "--node", "spot-1").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")][:3] == ["pod:", "node:", "sync:"]
    assert {f"{CPU}95 %", f"{MEMORY}80 %"} <= set(lines), "the class before the pool, the annotation before the class"
    assert not any("1-hour CPU maximum is over" in line for line in lines), "the pool has it off"
    labelled = commands.run("policy", "show", file, "--class", "production", "--labels", "lifecycle=spot").stdout
    assert {f"{CPU}95 %", f"{MEMORY}90 %"} <= set(labelled.splitlines())


@pytest.mark.parametrize(("option", "name"), [("--pod", "shop/gone"), ("--node", "spot-2")])
def test_what_the_cluster_does_not_have_ends_the_command(file: str, tmp_path: Path, option: str, name: str) -> None:
    commands.assert_refused(show(file, tmp_path, option, name), 3, "not found", name.rpartition("/")[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "lifecycle"], "--labels lifecycle: 'lifecycle' is no label; expected such as pool=spot,zone=a"),
        (["--labels", "=spot"], "'=spot' is no label"),
        (["--labels", "a=1,a=2"], "--labels a=1,a=2: a is given twice: a node has one value of each label"),
        (["--labels", "a=1", "--node", "n"], "--node and --labels exclude each other"),
        (["--pod", "a/b", "--class", "c"], "--pod and --class exclude each other"),
        (["--pod", "web-1"], "--pod web-1: expected the namespace and the name of a pod, such as shop/web-7"),
        (["--pod", "shop/web/1"], "--pod shop/web/1: expected the namespace and the name of a pod"),
        (["--class", "prod"], "--class prod: the policy has no such class; expected one of podClasses: production"),
    ],
)
def test_options_that_name_no_node_and_no_pod_are_bad_input(file: str, options: list[str], message: str) -> None:
    commands.assert_refused(commands.run("policy", "show", file, *options), 2, message)
