"""`evenload simulate` and `evenload demo` on clusters so small that a run takes a second."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys

import click
import click.testing
import pytest

from cli import demo, simulate
from tests.e2e import waiting
from tests.unit.simulator import outcomes

SMALL = ("--nodes", "5", "--days", "0.15")


def run(command: click.Command, *arguments: str) -> click.testing.Result:
    """A command in this process."""
    result = click.testing.CliRunner().invoke(command, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_plain_and_each_policy_run_on_each_seed_and_again_to_the_same_figures(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "tried.yaml"
    policy.write_text(outcomes.POLICY_TEXT, encoding="utf-8")
    asked = (*SMALL, "--policy", str(policy), "--seed", "3", "--workers", "1", "-o", "json")
    first = run(simulate.main, *asked)
    assert first.exit_code == 0, first.stderr
    found = json.loads(first.stdout)
    assert [variant["name"] for variant in found["variants"]] == ["plain", "tried"]
    assert found["seeds"] == [3]
    assert found["settings"]["days"] == pytest.approx(0.15, abs=0.01)
    bound = found["figures"]["pods_bound"]["variants"]
    assert min(bound["plain"]["median"], bound["tried"]["median"]) >= 0.9 * found["settings"]["pods"]
    assert "tried, seed 3: done (2 of 2)" in first.stderr
    again = run(simulate.main, *asked[:-3], "2", "-o", "json")  # in other processes, to the last digit
    assert json.loads(again.stdout) == found


def test_the_demo_prints_the_table_writes_the_report_and_says_what_is_next(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "demo.html"
    result = run(demo.main, "--nodes", "5", "--hours", "3", "--html", str(report))
    assert result.exit_code == 0, result.stderr
    assert "3 hours of 5 nodes" in result.stdout
    assert "effective_schedule_ratio" in result.stdout
    assert f"report: {report}" in result.stderr
    assert "next: evenload simulate --help" in result.stderr
    text = report.read_text(encoding="utf-8")
    assert "Decisions, as the extender explained them" in text
    assert "No decision was recorded." not in text


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(one) for one in (task / "children").read_text(encoding="utf-8").split()]
    return [one for one in found if not ended(one)]


def ended(pid: int) -> bool:
    """Whether a process is gone, or waits for whoever is to collect it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


# What a script starts in the background ignores SIGINT, and so does all that it starts: CI may run so.
HEARING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("cli", run_name="__main__")
"""


@pytest.mark.parametrize("words", [("simulate",), ("tune", "--generated")], ids=" ".join)
def test_ctrl_c_ends_every_process_and_prints_no_traceback(words: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", HEARING, *words, "--nodes", "40", "--days", "60", "--workers", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            waiting.eventually(
                lambda: len(children(process.pid)) >= 3, waiting.START_SECONDS, "two workers and multiprocessing's own"
            )
            started = children(process.pid)
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group
            out, said = process.communicate(timeout=240)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out, said) == (130, "", "ended; nothing that was started is left\n")
    waiting.eventually(lambda: all(map(ended, started)), waiting.LIMIT_SECONDS, "the end of all of them")
