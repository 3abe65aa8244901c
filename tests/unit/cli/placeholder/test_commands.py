"""`placeholder size` and `status` where no apiserver answers, or the options say no number: codes and words."""

import pathlib

import click.testing
import pytest

import cli.__main__
from tests import kubeconfigs


@pytest.fixture
def nowhere(tmp_path: pathlib.Path) -> str:
    """A kubeconfig of a server that is not there."""
    path = tmp_path / "kubeconfig"
    path.write_text(kubeconfigs.text())
    return str(path)


def run(*arguments: str) -> click.testing.Result:
    """`evenload placeholder ...`."""
    return click.testing.CliRunner().invoke(cli.__main__.main, ["placeholder", *arguments])


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "-A"], ["size", "--deployment", "placeholder", "--replicas", "1"]],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_server_that_cannot_be_reached_is_code_3(command: list[str], nowhere: str) -> None:
    result = run(*command, "--kubeconfig", nowhere)
    assert (result.exit_code, result.stdout) == (3, "")
    assert "error: " in result.stderr


@pytest.mark.parametrize(
    "command", [["status"], ["size", "--deployment", "a", "--replicas", "1"]], ids=["status", "size"]
)
def test_a_context_that_the_kubeconfig_does_not_have_is_code_2(command: list[str], nowhere: str) -> None:
    result = run(*command, "--kubeconfig", nowhere, "--context", "other")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "other" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "the number is missing: give --replicas N"),
        (["--during", "20:00-07:00=2"], "the number is missing: give --replicas N"),
        (["--nodes-per-replica", "4"], "need --max-replicas N"),
        (["--replicas", "3", "--time-zone", "UTC"], "--time-zone UTC has no effect without a schedule"),
    ],
)
def test_a_size_that_is_not_said_for_every_moment_is_refused(options: list[str], message: str, nowhere: str) -> None:
    result = run("size", "--deployment", "placeholder", *options, "--kubeconfig", nowhere)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
