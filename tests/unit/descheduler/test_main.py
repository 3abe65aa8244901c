"""The command line: bad input ends with 2 and a sentence, doors out of reach with 3, never with a traceback."""

import pathlib
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner, Result

from descheduler import __main__ as command
from descheduler import wiring
from descheduler.ledger import ledger
from kube.cache import reflector
from tests import kubeconfigs

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


def invoke(tmp_path: pathlib.Path, policy: str, *more: str) -> Result:
    """`python -m descheduler --once` with that policy, an apiserver that is not there, and further arguments."""
    (tmp_path / "policy.yaml").write_text(HEAD + policy, encoding="utf-8")
    (tmp_path / "kubeconfig").write_text(kubeconfigs.text(), encoding="utf-8")
    arguments = ["--policy", str(tmp_path / "policy.yaml"), "--kubeconfig", str(tmp_path / "kubeconfig"), "--once"]
    arguments += ["--prometheus", "http://127.0.0.1:1", "--ledger", str(tmp_path / "ledger.sqlite"), *more]
    return CliRunner().invoke(command.main, arguments)


@pytest.mark.parametrize(
    ("policy", "more", "code", "words"),
    [
        pytest.param("descheduler: {mode: Obey}\n", [], 2, "descheduler.mode", id="a policy with a mistake"),
        pytest.param("", ["--kubeconfig", "/nowhere"], 2, "/nowhere", id="no kubeconfig"),
        pytest.param("", ["--prometheus", "ftp://x"], 2, "ftp", id="an address that is none"),
        pytest.param(
            "", ["--ledger", "/proc/nowhere/ledger"], 2, "ledger /proc/nowhere/ledger", id="no place for a ledger"
        ),
        pytest.param(
            "",
            ["--source", "metrics-server"],
            2,
            "one sample of 15 s is no window to plan by; run it without --once",
            id="one run over a source without windows",
        ),
        pytest.param("", [], 3, "127.0.0.1:1", id="no apiserver"),
    ],
)
def test_exit_codes(tmp_path: pathlib.Path, policy: str, more: list[str], code: int, words: str) -> None:
    result = invoke(tmp_path, policy, *more)
    assert result.exit_code == code, result.output
    assert words in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(("mode", "surges", "asks"), [("Observe", 0, False), ("DryRun", 1, True), ("Enforce", 0, True)])
def test_one_run_asks_for_the_lease_where_it_may_change_something(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, mode: str, surges: int, asks: bool
) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(ledger.Ledger, "surges", lambda *_: (None,) * surges)
    monkeypatch.setattr(wiring, "once", lambda _, election, **__: asked.append(election is not None))
    invoke(tmp_path, f"descheduler: {{mode: {mode}}}\n")
    assert asked == [asks]


def test_without_an_apiserver_it_says_which_address_and_what_to_look_at(tmp_path: pathlib.Path) -> None:
    invoke(tmp_path, "")  # writes the files
    files = [f"--{name}={tmp_path / file}" for name, file in (("policy", "policy.yaml"), ("kubeconfig", "kubeconfig"))]
    command = [sys.executable, "-m", "descheduler", "--once", *files, f"--ledger={tmp_path / 'ledger.sqlite'}"]
    ended = subprocess.run([*command, "--prometheus=http://127.0.0.1:1"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "")
    *logged, said = ended.stderr.splitlines()
    expected = ("file in force", "not listed in one piece")
    assert not [line for line in logged if not any(text in line for text in expected) or "{'" in line]
    assert said.startswith("error: GET http://127.0.0.1:1/api/v1/nodes: [Errno 111] Connection refused; ")
    assert said.endswith("is this the apiserver's address (--kubeconfig, --context), and does it run?")


def test_a_run_that_ends_early_waits_for_the_lists_that_it_began(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []

    def slowly(_: object) -> None:
        time.sleep(0.5)
        ended.append(True)

    monkeypatch.setattr(reflector.Reflector, "list_once", slowly)
    assert invoke(tmp_path, "descheduler: {mode: Obey}\n").exit_code == 2
    assert ended
