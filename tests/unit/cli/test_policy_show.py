"""`evenload policy show`: a policy in sentences, as a whole and as it is on one node."""

import contextlib
import pathlib
from collections.abc import Iterator

import pytest
import yaml

from policy.loading import loader
from tests import builders, scripted_http
from tests.unit.cli import extenders

POLICY = """apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
pools:
- name: spot
  nodeSelector: {matchLabels: {lifecycle: spot}}
  filter: {thresholds: {cpu_avg_5m: 0.85, cpu_max_1h: 0}}
  descheduler: {mode: Enforce, limits: {perRun: 2}}
"""
CPU = "  - a node is skipped for new pods while its 5-minute CPU average is over "
MEMORY = "  - a node is skipped for new pods while its 5-minute memory average is over "


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    """A policy with a pool."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return str(path)


@contextlib.contextmanager
def cluster(directory: pathlib.Path) -> Iterator[str]:
    """The kubeconfig of an apiserver with one spot node, which has a threshold of its own."""
    own = {"evenload.io/thresholds": '{"memory_avg_5m": "80%", "disk": 0.5}'}

    def answer(exchange: scripted_http.Exchange) -> None:
        if exchange.path == "/api/v1/nodes/spot-1":
            exchange.answer(builders.node_body("spot-1", labels={"lifecycle": "spot"}, annotations=own))
        else:
            exchange.status(404, "NotFound", 'nodes "spot-2" not found')

    with scripted_http.serving(answer) as server:
        yield str(scripted_http.kubeconfig(directory, server.url))


def test_as_a_whole_it_says_what_differs_in_the_pools(file: str) -> None:
    lines = extenders.run("policy", "show", file).stdout.splitlines()
    assert f"{CPU}65 %" in lines
    assert "pools:" in lines
    assert "  - pool spot: no node is skipped for its 1-hour CPU maximum" in lines


def test_with_labels_it_is_as_on_a_node_that_has_them_and_no_cluster_is_asked(file: str) -> None:
    lines = extenders.run("policy", "show", file, "--labels", "lifecycle=spot,example.com/zone=").stdout.splitlines()
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
    lines = extenders.run("policy", "show", file, "--labels", labels).stdout.splitlines()
    assert lines[1] == "  - a node with these labels belongs to no pool: it has the policy's own values"
    assert f"{CPU}65 %" in lines


def test_with_a_node_labels_and_annotation_are_those_that_it_has_in_the_cluster(
    file: str, tmp_path: pathlib.Path
) -> None:
    with cluster(tmp_path) as kubeconfig:
        result = extenders.run("policy", "show", file, "--node", "spot-1", "--kubeconfig", kubeconfig)
    lines = result.stdout.splitlines()
    assert lines[1:5] == [
        "  - node spot-1 belongs to pool spot, the first that matches it (lifecycle=spot)",
        "  - at most 2 pods from all nodes of the pool in one run",
        "  - its annotation evenload.io/thresholds decides by memory_avg_5m",
        "  - of its annotation evenload.io/thresholds is not in force: disk: no metric of this name to filter by",
    ]
    assert {f"{CPU}85 %", f"{MEMORY}80 %"} <= set(lines)


def test_as_yaml_it_is_the_whole_policy_of_that_node(file: str, tmp_path: pathlib.Path) -> None:
    with cluster(tmp_path) as kubeconfig:
        result = extenders.run("policy", "show", file, "--node", "spot-1", "--kubeconfig", kubeconfig, "-o", "yaml")
    shown = loader.load(result.stdout, "shown")
    assert shown.filter.thresholds == {
        "cpu_avg_5m": 0.85,
        "cpu_max_1h": 0.0,
        "memory_avg_5m": 0.8,
        "memory_max_1h": 0.75,
    }
    assert shown.pools == ()
    whole = loader.load(extenders.run("policy", "show", file, "-o", "yaml").stdout, "whole")
    assert whole == loader.load(POLICY, "policy")
    assert yaml.safe_load(result.stdout)["pools"] == []


def test_a_node_that_the_cluster_does_not_have_ends_the_command(file: str, tmp_path: pathlib.Path) -> None:
    with cluster(tmp_path) as kubeconfig:
        result = extenders.run("policy", "show", file, "--node", "spot-2", "--kubeconfig", kubeconfig)
    assert result.exit_code != 0
    assert result.stdout == ""
    assert "spot-2" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--labels", "lifecycle"], "--labels lifecycle: 'lifecycle' is no label; expected such as pool=spot,zone=a"),
        (["--labels", "=spot"], "'=spot' is no label"),
        (["--labels", "a=1,a=2"], "--labels a=1,a=2: a is given twice: a node has one value of each label"),
        (["--labels", "a=1", "--node", "n"], "--node and --labels exclude each other"),
    ],
)
def test_options_that_name_no_node_are_bad_input(file: str, options: list[str], message: str) -> None:
    result = extenders.run("policy", "show", file, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
