"""The state file survives its writer, and `stop` ends what it records and nothing else."""

import collections.abc
import pathlib
import subprocess
import sys

import pytest

from lab.cluster import errors, identity, state

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); input()"


@pytest.fixture
def start() -> collections.abc.Iterator[collections.abc.Callable[[str], subprocess.Popen[bytes]]]:
    """Starts Python programs and ends them after the test."""
    running: list[subprocess.Popen[bytes]] = []

    def begin(program: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        running.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def record(name: str, process: subprocess.Popen[bytes]) -> state.Record:
    found = identity.of(process.pid)
    assert found is not None
    return state.Record(name, found, f"/logs/{name}.log")


def test_the_state_is_read_as_it_was_written(tmp_path: pathlib.Path) -> None:
    one = state.Record("etcd", identity.Identity(1, 2, "boot"), "/logs/etcd.log")
    written = state.State((one,), {"etcd": "http://127.0.0.1:1"}, nodes=3, temporary=True)
    state.write(tmp_path, written)
    assert state.read(tmp_path) == written
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


def test_a_directory_without_state_has_none(tmp_path: pathlib.Path) -> None:
    assert state.read(tmp_path) is None


def test_a_foreign_state_file_is_refused_with_its_name(tmp_path: pathlib.Path) -> None:
    (tmp_path / "state.json").write_text('{"records": 7}', encoding="utf-8")
    with pytest.raises(errors.ClusterError, match=r"state\.json is not a cluster's state .*nothing was stopped"):
        state.read(tmp_path)


def test_stop_ends_what_is_recorded_even_if_it_ignores_sigterm(
    start: collections.abc.Callable[[str], subprocess.Popen[bytes]],
) -> None:
    polite, stubborn, stranger = (
        start("print(flush=True); input()"),
        start(STUBBORN),
        start("print(flush=True); input()"),
    )
    reused = state.Record("gone", record("gone", stranger).process._replace(started_ticks=1), "")
    recorded = state.State((record("etcd", polite), record("kwok", stubborn), reused))
    assert state.stop(recorded, grace_seconds=3) == ("etcd", "kwok")
    assert (polite.wait(60), stubborn.wait(60)) == (-15, -9)
    assert stranger.poll() is None


def test_cleaning_leaves_the_logs_and_what_is_not_ours(tmp_path: pathlib.Path) -> None:
    for name in ("etcd", "prometheus", "pki", "logs", "mine"):
        (tmp_path / name).mkdir()
    (tmp_path / "kubeconfig").touch()
    state.write(tmp_path, state.State())
    state.clean(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "mine"]
