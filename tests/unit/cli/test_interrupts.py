"""Ctrl-C at any moment of any command ends it and all that it started: one line, 130; kill -9 without a line."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from runtime import interrupts
from tests.e2e import waiting

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[2]
ENDED = (interrupts.INTERRUPTED, interrupts.LINE)
MODULE = ("-m", "cli")
SMALL = ("--nodes", "2", "--days", "0.05", "--seeds", "2", "--workers", "2")
TUNE = (*MODULE, "tune", "--generated", "--trials", "2", *SMALL)
SIMULATE = (*MODULE, "simulate", *SMALL)


def run(
    words: tuple[str, ...], *, at: int = 0, counted_from: str = "", of: str = "command", number: str = "SIGINT"
) -> tuple[int, str]:
    """Exit code and stderr of a Python that gets a signal at a moment (0: never), once nothing holds its stderr."""
    moment = {"MOMENT_AT": str(at), "MOMENT_FROM": counted_from, "MOMENT_OF": of, "MOMENT_SIGNAL": number}
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT, env=os.environ | moment | {"PYTHONPATH": f"{HERE / 'moments'}:{ROOT}"}, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            _, said = process.communicate(timeout=2 * waiting.START_SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


@pytest.mark.parametrize(
    "words",
    [
        (*MODULE, "nodes", "--help"),
        ("-c", "import cli; cli.main()", "policy", "--help"),  # the console script
        ("-m", "annotator", "--help"),
        ("-m", "extender", "--help"),
        ("-m", "descheduler", "--help"),
    ],
    ids=" ".join,
)
def test_ctrl_c_while_a_command_starts(words: tuple[str, ...]) -> None:
    for at in (1, 200, 450, 700):
        assert run(words, at=at) == ENDED, at


@pytest.mark.parametrize("words", [SIMULATE, TUNE], ids=["simulate", "tune"])
def test_ctrl_c_while_workers_are_started_and_work(words: tuple[str, ...]) -> None:
    for at in (1, 2, 5):
        code, said = run(words, at=at, counted_from="subprocess.Popen")
        assert (code, f"{said.splitlines()[-1]}\n") == ENDED, at
        assert "Traceback" not in said


@pytest.mark.parametrize(
    ("number", "wanted"), [("SIGINT", ENDED), ("SIGKILL", (-signal.SIGKILL, ""))], ids=["SIGINT", "SIGKILL"]
)
def test_a_command_that_ends_while_workers_start_or_work_takes_them_along(number: str, wanted: tuple[int, str]) -> None:
    for at in (1, 30, 500, 1500):
        assert run(SIMULATE, at=at, of="worker", number=number) == wanted, at


DIRECTORY = """
import pathlib, sys
from runtime import interrupts
interrupts.exit_on_interrupt()
import os, signal
from simulator.world import world
with world.directory_of_a_run() as directory:
    directory.joinpath("ledger.db").touch()
    pathlib.Path(sys.argv[1]).write_text(str(directory))
    os.kill(os.getpid(), signal.SIGINT)
"""


def test_the_files_of_a_run_in_this_process_go_with_it(tmp_path: pathlib.Path) -> None:
    assert run(("-c", DIRECTORY, str(tmp_path / "name"))) == ENDED
    assert not pathlib.Path((tmp_path / "name").read_text(encoding="utf-8")).exists()


IGNORING = """import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)
from runtime import interrupts; interrupts.exit_on_interrupt(); signal.raise_signal(signal.SIGINT)"""
ANSWERED = """import atexit, signal, sys; atexit.register(signal.raise_signal, signal.SIGINT)
from runtime import interrupts; interrupts.exit_on_interrupt(); sys.exit(4)"""

WATCHING = """import signal; from runtime import interrupts; interrupts.exit_on_interrupt()
from cli import evictions; from cli.common import watching
"""
REPEATED = f"{WATCHING}watching.repeated(lambda: signal.raise_signal(signal.SIGINT), None, watch=True)"
FOLLOWED = f"{WATCHING}evictions.follow(lambda: signal.raise_signal(signal.SIGINT), None, None)"


@pytest.mark.parametrize(
    ("program", "code"),
    [(IGNORING, 0), (ANSWERED, 4), (REPEATED, interrupts.INTERRUPTED), (FOLLOWED, interrupts.INTERRUPTED)],
    ids=["started to ignore it", "after its answer", "a watch", "a watch of evictions"],
)
def test_a_command_ends_by_its_own_code_without_a_line(program: str, code: int) -> None:
    assert run(("-c", program)) == (code, "")
