"""A process is its pid and its start: a reused pid is another process and is never signalled."""

import collections.abc
import os
import signal
import subprocess
import sys

import pytest

from lab.cluster import identity


@pytest.fixture
def sleeper() -> collections.abc.Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its input to end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def known(process: subprocess.Popen[bytes]) -> identity.Identity:
    found = identity.of(process.pid)
    assert found is not None
    return found


def test_the_start_is_read_past_a_command_with_parentheses() -> None:
    stat = "42 (odd) name (x) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 2 3"
    assert identity.parse_stat(stat) == ("S", 987654)


def test_a_living_process_has_an_identity_that_stays() -> None:
    assert identity.of(os.getpid()) == identity.of(os.getpid())
    found = identity.of(os.getpid())
    assert found is not None
    assert identity.is_alive(found)


def test_a_signal_reaches_the_very_process(sleeper: subprocess.Popen[bytes]) -> None:
    assert identity.send(known(sleeper), signal.SIGTERM)
    assert sleeper.wait(60) == -signal.SIGTERM


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"started_ticks": 1}, id="another start"),
        pytest.param({"boot_id": "an earlier boot"}, id="another boot"),
    ],
)
def test_a_reused_pid_is_left_alone(sleeper: subprocess.Popen[bytes], change: dict[str, object]) -> None:
    other = known(sleeper)._replace(**change)  # type: ignore[arg-type]
    assert not identity.is_alive(other)
    assert not identity.send(other, signal.SIGKILL)
    assert sleeper.poll() is None


def test_an_ended_process_has_no_identity(sleeper: subprocess.Popen[bytes]) -> None:
    before = known(sleeper)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)  # a zombie still holds the pid
    assert identity.of(sleeper.pid) is None
    sleeper.wait(60)
    assert not identity.send(before, signal.SIGTERM)
