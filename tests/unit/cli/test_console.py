"""`evenload console`: the playground's judgement of a policy, options that are refused, no simulator."""

import pathlib
from typing import Any

import click.testing
import pytest

from cli.common import http_client
from cli.console import command, live
from policy.schema import load_policy
from promql.http import options
from tests import kubeconfigs

DOCUMENT = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
IN_FORCE = load_policy.defaults().as_file()


def test_problems_of_a_policy_have_their_places() -> None:
    found: Any = live.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 65}}\n", IN_FORCE)
    (problem,) = found["problems"]
    assert (problem["line"], problem["path"]) == (4, "filter.thresholds.cpu_avg_5m")
    assert found["differences"] == []


def test_a_sound_policy_says_what_differs_from_the_one_in_force() -> None:
    found = live.check(f"{DOCUMENT}filter:\n  thresholds: {{cpu_avg_5m: 0.5}}\n", IN_FORCE)
    assert found["problems"] == []
    assert "filter.thresholds.cpu_avg_5m: 0.65 -> 0.5" in found["differences"]  # type: ignore[operator]
    assert live.check(DOCUMENT, IN_FORCE)["differences"] == []
    assert live.check(DOCUMENT, {})["differences"] == []


def test_the_page_is_titled_by_context_and_cluster(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "config"
    file.write_text(kubeconfigs.text())
    urls: dict[str, Any] = {"extender": "http://127.0.0.1:1", "descheduler": None, "prometheus": "http://127.0.0.1:1"}
    doors = command.real(
        **urls, connection=options.Connection(), selector="", pool_label="", history=None, kubeconfig=str(file),
        context=None,
    )  # fmt: skip
    assert doors.title == "main http://127.0.0.1:1"


@pytest.mark.parametrize(("token", "message"), [("", "is empty"), ("short", "expected 16 or more")])
def test_a_token_that_anybody_could_guess_is_refused(tmp_path: pathlib.Path, token: str, message: str) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    arguments = ["--demo", "--token-file", str(file), "--demo-nodes", "2", "--demo-hours", "0"]
    result = click.testing.CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.parametrize(
    ("host", "local"), [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.0.0.1", False), ("", False)]
)
def test_it_is_known_when_only_this_machine_is_listened_to(host: str, local: bool) -> None:
    assert http_client.is_loopback(host) is local
