"""A component's handle: waits until ready, moves to another port when its own is taken, shows the log when it fails."""

import collections.abc
import contextlib
import pathlib
import random
import signal
import socket
import sys

import pytest

from lab.cluster import errors, ports, processes

# It keeps what it accepted: the side that closes first would hold the port in TIME_WAIT.
SERVER = """
import socket, sys
kept = []
with socket.socket() as server:
    server.bind(("127.0.0.1", int(sys.argv[1])))
    server.listen()
    while True:
        kept.append(server.accept())
"""


def connects(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def chosen() -> ports.Ports:
    return ports.Ports(random.SystemRandom())


@contextlib.contextmanager
def handled(
    component: processes.Component, directory: pathlib.Path, chosen: ports.Ports
) -> collections.abc.Iterator[processes.Process]:
    process = processes.Process(component, directory / "logs" / "it.log", chosen, lambda: None)
    try:
        yield process
    finally:
        process.kill()


def server(chosen: ports.Ports) -> processes.Component:
    return processes.Component(
        "server",
        lambda: [sys.executable, "-c", SERVER, str(chosen.of("server"))],
        lambda: connects(chosen.of("server")),
        ("server",),
    )


ENVIRONMENT = "import os, time; print('GOGC', os.environ['GOGC'], flush=True); time.sleep(600)"


@pytest.mark.parametrize(("exported", "effective"), [(None, "400"), ("50", "50")])
def test_go_collects_garbage_less_often_unless_the_user_says_how_often(
    exported: str | None, effective: str, tmp_path: pathlib.Path, chosen: ports.Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if exported:
        monkeypatch.setenv("GOGC", exported)
    log = tmp_path / "logs" / "it.log"
    component = processes.Component(
        "printer", lambda: [sys.executable, "-c", ENVIRONMENT], lambda: log.read_text(encoding="utf-8").endswith("\n")
    )
    with handled(component, tmp_path, chosen) as process:
        process.start()
    assert log.read_text(encoding="utf-8") == f"GOGC {effective}\n"


@pytest.mark.parametrize(("exported", "effective"), [(None, "800"), ("50", "50")])
def test_one_start_may_have_another_environment_but_for_what_the_user_says(
    exported: str | None, effective: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if exported:
        monkeypatch.setenv("GOGC", exported)
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", "import os; print(os.environ['GOGC'])"]
        assert processes.popen(command, log, GOGC="800").wait(60) == 0
    assert (tmp_path / "log").read_text(encoding="utf-8") == f"{effective}\n"


def test_it_starts_stops_and_starts_again_on_the_same_port(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    with handled(server(chosen), tmp_path, chosen) as process:
        process.start()
        first, port = process.pid, chosen.of("server")
        process.start()
        assert process.pid == first
        assert process.stop() == -signal.SIGTERM
        assert not process.running
        process.start()
        assert process.pid != first
        assert chosen.of("server") == port


def test_a_paused_process_runs_and_can_be_stopped(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    with handled(server(chosen), tmp_path, chosen) as process:
        process.start()
        process.pause()
        assert process.running
        assert process.stop(timeout_seconds=120) == -signal.SIGTERM, "it acts on it once it goes on"


def test_a_port_taken_meanwhile_is_given_up_for_another(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", chosen.of("server")))
        taken = chosen.of("server")
        with handled(server(chosen), tmp_path, chosen) as process:
            process.start()
            assert chosen.of("server") != taken


def test_a_restarted_component_keeps_the_port_the_others_know(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    with handled(server(chosen), tmp_path, chosen) as process, socket.socket() as thief:
        process.start()
        port = chosen.of("server")
        process.kill()
        thief.bind(("127.0.0.1", port))
        with pytest.raises(errors.ComponentError, match="Address already in use"):
            process.start()
        assert chosen.of("server") == port


def test_a_component_that_dies_shows_its_last_words(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    dying = processes.Component("dying", lambda: [sys.executable, "-c", "exit('no licence')"], lambda: False)
    with (
        handled(dying, tmp_path, chosen) as process,
        pytest.raises(
            errors.ComponentError, match=r"dying ended with exit code 1(?s:.)*no licence(?s:.)*make cluster-down"
        ),
    ):
        process.start()


def test_a_component_that_never_answers_is_named_with_the_limit(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    mute = processes.Component("mute", lambda: [sys.executable, "-c", "import signal; signal.pause()"], lambda: False)
    with handled(mute, tmp_path, chosen) as process:
        process.spawn()
        with pytest.raises(errors.ComponentError, match="mute was not ready after 0 s"):
            process.wait_ready(timeout_seconds=0)


def test_a_component_that_is_ready_without_its_watches_is_refused(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    script = "import time; print('watcher: too many open files', flush=True); time.sleep(600)"
    log = tmp_path / "logs" / "it.log"
    blind = processes.Component(
        "blind", lambda: [sys.executable, "-c", script], lambda: "watcher" in log.read_text(encoding="utf-8")
    )
    with (
        handled(blind, tmp_path, chosen) as process,
        pytest.raises(errors.ComponentError, match=r"blind has too many open files; end other clusters"),
    ):
        process.start()


def test_a_missing_command_says_how_to_get_it(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    missing = processes.Component("missing", lambda: [tmp_path / "nowhere"], lambda: False)  # type: ignore[list-item]
    with (
        handled(missing, tmp_path, chosen) as process,
        pytest.raises(errors.ComponentError, match=r"missing cannot be run(?s:.)*python -m lab.cluster build"),
    ):
        process.start()


def test_a_process_that_was_never_started_has_no_pid(tmp_path: pathlib.Path, chosen: ports.Ports) -> None:
    with (
        handled(server(chosen), tmp_path, chosen) as process,
        pytest.raises(errors.ComponentError, match="server was not started"),
    ):
        process.pid  # noqa: B018 - reading it is the test
