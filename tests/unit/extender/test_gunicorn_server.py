"""gunicorn's settings: those that kept connections and a single view depend on, and the entry point's refusals."""

import pathlib
import socket
import subprocess

import pytest
from click.testing import CliRunner
from gunicorn import config

from extender import __main__ as entry
from extender.http import gunicorn_server, gunicorn_worker
from tests import kubeconfigs, starting

KUBE_SCHEDULER_IDLE_SECONDS = 90
KUBECONFIG = kubeconfigs.text()
POLICY = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


def test_the_scheduler_is_the_one_that_closes_idle_connections() -> None:
    assert int(str(gunicorn_server.settings(":8900")["keepalive"])) > KUBE_SCHEDULER_IDLE_SECONDS


def test_there_is_one_worker_with_threads_and_nothing_restarts_it() -> None:
    chosen = gunicorn_server.settings(":8900")
    assert (chosen["worker_class"], chosen["workers"], chosen["threads"]) == (gunicorn_worker.Worker, 1, 8)
    assert (chosen["max_requests"], chosen["graceful_timeout"], chosen["timeout"]) == (0, 10, 30)
    assert chosen["control_socket_disable"] is True
    assert chosen["accesslog"] is None


def test_gunicorn_accepts_every_setting() -> None:
    accepted = config.Config()
    for name, value in gunicorn_server.settings("127.0.0.1:8900").items():
        accepted.set(name, value)
    assert accepted.address == [("127.0.0.1", 8900)]


@pytest.mark.parametrize(
    ("listen", "bind"),
    [
        (":8900", "[::]:8900" if socket.has_dualstack_ipv6() else "0.0.0.0:8900"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("[::1]:8900", "[::1]:8900"),
        ("localhost", "localhost:8900"),
    ],
)
def test_the_address_is_read_as_in_every_service(listen: str, bind: str) -> None:
    assert gunicorn_server.settings(listen)["bind"] == bind


def run(tmp_path: pathlib.Path, policy: str, kubeconfig: str, *more: str) -> subprocess.CompletedProcess[str]:
    """`python -m extender` with these files."""
    (tmp_path / "policy.yaml").write_text(policy, encoding="utf-8")
    (tmp_path / "config").write_text(kubeconfig, encoding="utf-8")
    files = ("--policy", str(tmp_path / "policy.yaml"), "--kubeconfig", str(tmp_path / "config"))
    return starting.run(starting.Command("extender", (*files, "--listen", "127.0.0.1:0", *more)))


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (("--tls-cert", "FILE"), "--tls-cert and --tls-key need each other"),
        (("--tls-cert", "FILE", "--tls-key", "FILE"), "policy.yaml: expected a PEM certificate"),
        (("--tls-cert", "FILE", "--tls-key", "/nowhere"), "/nowhere"),
    ],
    ids=[
        "a certificate without a key",
        "files that are no certificate",
        "a file that is not there",
    ],
)
def test_tls_options_that_cannot_protect_are_refused(tmp_path: pathlib.Path, more: tuple[str, ...], word: str) -> None:
    ended = run(tmp_path, POLICY, KUBECONFIG, *(str(tmp_path / "policy.yaml") if x == "FILE" else x for x in more))
    assert ended.returncode == 2, ended.stderr
    assert word in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("text", "word"),
    [("250", "not a Go duration"), ("0s", "more than 0s"), ("6s", "at most 5s"), ("soon", "not a Go duration")],
)
def test_a_deadline_that_is_none_is_refused(text: str, word: str) -> None:
    ended = CliRunner().invoke(entry.main, ["--policy", __file__, "--deadline", text])
    assert ended.exit_code == 2
    assert word in ended.output


@pytest.mark.parametrize(
    ("policy", "kubeconfig", "more", "code", "word"),
    [
        (POLICY + "sync: {period: 30}\n", KUBECONFIG, (), 2, "policy.yaml:3:"),
        (POLICY, "{", (), 2, "config"),
        (POLICY, KUBECONFIG, ("--once",), 3, "127.0.0.1:1"),
    ],
    ids=["a mistake in the policy", "a kubeconfig that is none", "nobody answers"],
)
def test_what_cannot_work_ends_with_a_message_and_its_code(
    tmp_path: pathlib.Path, policy: str, kubeconfig: str, more: tuple[str, ...], code: int, word: str
) -> None:
    ended = run(tmp_path, policy, kubeconfig, *more)
    assert ended.returncode == code, ended.stderr
    assert word in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "gunicorn" not in ended.stderr
