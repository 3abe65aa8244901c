"""Shells complete commands, options and names of the cluster, by the scripts that `evenload completion` writes."""

import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest
from click import shell_completion

import cli.__main__
from cli import completion
from kube import config, errors
from tests import commands

ROOT = pathlib.Path(__file__).parents[3]


class Kube:
    """A cluster with some nodes, and pods in each namespace."""

    def list(self, kind: Any, *, namespace: str = "") -> Any:
        """Returns the nodes, or the pods of a namespace."""
        names = ["node-10", "node-2", "other"] if not namespace else [f"{namespace}-1", f"{namespace}-2"]
        return types.SimpleNamespace(items=[types.SimpleNamespace(name=name) for name in names])


def offered(*words: str) -> list[str]:
    """The words that a shell offers for the last one."""
    found = shell_completion.ShellComplete(cli.__main__.main, {}, "evenload", completion.VARIABLE)
    return [one.value for one in found.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str | None]]:
    """The kubeconfigs and contexts that were asked."""
    found: list[tuple[str | None, str | None]] = []

    def connect(kubeconfig: str | None, context: str | None) -> Kube:
        found.append((kubeconfig, context))
        return Kube()

    monkeypatch.setattr(config, "connect", connect)
    return found


def test_commands_options_and_verdicts_are_completed() -> None:
    assert offered("ev") == ["evictions"]
    assert "--sort-by" in offered("nodes", "--so")
    assert "no_destination" in offered("plan", "--verdict", "no_d")


def test_nodes_are_completed_in_the_order_of_their_numbers(clusters: list[object]) -> None:
    assert offered("plan", "--node", "node-") == ["node-2", "node-10"]


def test_pods_are_those_of_the_namespace_and_the_cluster_named_before(clusters: list[object]) -> None:
    assert offered("explain", "pod", "-n", "shop", "--context", "blue", "sh") == ["shop-1", "shop-2"]
    assert clusters == [(None, "blue")]


def test_without_a_cluster_nothing_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise errors.ConfigError("no cluster to talk to")

    monkeypatch.setattr(config, "connect", connect)
    assert offered("plan", "--node", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_asks_this_command(shell: str) -> None:
    result = commands.run("completion", shell, code=0)
    assert completion.VARIABLE in result.stdout
    assert "evenload" in result.stdout


def test_kubectl_gets_the_words_and_that_no_files_are_meant(tmp_path: pathlib.Path) -> None:
    program, script = tmp_path / "kubectl-evenload", tmp_path / "kubectl_complete-evenload"
    program.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT)!r})\nimport cli\ncli.main()\n")
    script.write_text(commands.run("completion", "kubectl").stdout)
    for path in (program, script):
        path.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    answer = subprocess.run([script, "brea"], capture_output=True, text=True, env=environment, check=True)
    assert answer.stdout.splitlines() == ["breaker", ":4"]
    deeper = subprocess.run([script, "breaker", ""], capture_output=True, text=True, env=environment, check=True)
    assert deeper.stdout.splitlines() == ["list", "reset", ":4"]
