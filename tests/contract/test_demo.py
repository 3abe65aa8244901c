"""`make run` in small on the real control plane: both phases, the table as JSON, nothing left, and Ctrl-C cleans up."""

import collections.abc
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[2]
SMALL = ["--nodes", "3", "--span", "8", "--settle", "6", "-o", "json"]
_NEVER = threading.Event()


@contextlib.contextmanager
def demo(tmp_path: pathlib.Path, *arguments: str) -> collections.abc.Iterator[subprocess.Popen[str]]:
    """The demo as a process of its own, with a temporary folder of its own; it ends with the body, whatever happens."""
    command = [sys.executable, "-m", "cluster.demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()  # one that has ended notices nothing


def left_running(tmp_path: pathlib.Path) -> list[str]:
    """Command lines of living processes that speak of the temporary folder."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in words:
            found.append(words)
    return found


def test_a_small_run_ends_with_the_figures_of_both_phases_and_leaves_nothing(tmp_path: pathlib.Path) -> None:
    with demo(tmp_path, *SMALL) as process:
        out, progress = process.communicate(timeout=800)
    assert process.returncode == 0, progress
    found = json.loads(out)
    assert found["settings"]["seed"] == 1
    for phase in ("plain", "evenload"):
        value = {key: row[phase] for key, row in found["figures"].items()}
        assert value["pdb_violations"] == 0
        assert value["pods_bound"] >= found["settings"]["pods"] * 0.9
        assert 0 < value["total_schedule_count"] <= value["pods_bound"]
        assert 0 < value["cpu_mean_ratio"] < 1
        assert value["cpu_mean_ratio"] <= value["cpu_p99_ratio"] <= 1
    assert found["figures"]["evictions"]["plain"] == 0
    assert "plain: starting" in progress
    assert "evenload: starting" in progress
    assert left_running(tmp_path) == []


def test_ctrl_c_ends_everything_that_was_started(tmp_path: pathlib.Path) -> None:
    with demo(tmp_path, *SMALL) as process:
        limit = time.monotonic() + 300
        while not any("annotator" in words for words in left_running(tmp_path)):
            assert process.poll() is None, f"the demo ended before the annotator was there: {process.communicate()}"
            assert time.monotonic() < limit, "no annotator within five minutes"
            _NEVER.wait(0.2)
        process.send_signal(signal.SIGINT)
        _, progress = process.communicate(timeout=400)
    assert process.returncode == 130, progress
    assert "everything that was started has been stopped" in progress
    assert left_running(tmp_path) == []


def test_a_policy_with_mistakes_is_refused_before_anything_starts(tmp_path: pathlib.Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("kind: LoadPolicy\nsync: {perod: 1s}\n", encoding="utf-8")
    with demo(tmp_path, "--policy", str(policy)) as process:
        out, complaint = process.communicate(timeout=240)
    assert process.returncode == 2, complaint
    assert out == ""
    assert f"{policy}:2:" in complaint
    assert "Traceback" not in complaint


def test_a_kept_cluster_is_sound_and_its_services_are_found_by_kubeconfig(tmp_path: pathlib.Path) -> None:
    with demo(tmp_path, *SMALL, "--keep") as process:
        _, progress = process.communicate(timeout=800)
        (directory,) = (line.split()[-1] for line in progress.splitlines() if line.startswith("End it with:"))
        try:
            assert process.returncode == 0, progress
            environment = {**os.environ, "KUBECONFIG": f"{directory}/kubeconfig"}
            asked = [line.split()[1:] for line in progress.splitlines() if "bin/evenload " in line and "$(" not in line]
            answers = {
                words[0]: subprocess.run(
                    [sys.executable, "-m", "cli", *words],
                    cwd=ROOT,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=300,
                )
                for words in asked
            }
            assert set(answers) == {"doctor", "nodes", "plan", "evictions", "breaker", "effectiveness"}
            failed = {name: one.stdout + one.stderr for name, one in answers.items() if one.returncode}
            assert not failed, failed
        finally:
            down = [sys.executable, "-m", "cluster", "down", "--directory", directory]
            subprocess.run(down, cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert left_running(tmp_path) == []
