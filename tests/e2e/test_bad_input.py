"""What each service says and how it exits when its surroundings are wrong: a clear message, the right code."""

import subprocess
from pathlib import Path

import pytest

from lab import cluster
from tests import kubeconfigs, scripted_http, starting
from tests.e2e import policies

SERVICES = ("annotator", "extender", "descheduler")
ASKS_PROMETHEUS = ("annotator", "descheduler")
FIVE_MISTAKES = """\
apiVersion: evenload.io/v1alpha1
kind: LoadPolicy
sync: {period: 30}
filter:
  thresholds: {cpu_avg_5m: 65, cpu_avg_6m: 0.5}
  onMising: pass
descheduler:
  thresholds: {memory_avg_5m: {evictAbove: 0.5, evictUntil: 0.6}}
"""
BAD_INPUT, UNREACHABLE = 2, 3


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy without a mistake."""
    return policies.write(tmp_path / "policy.yaml")


def kubeconfig(path: Path, server: str) -> Path:
    """A kubeconfig for that server, with a token that must not be seen again."""
    path.write_text(kubeconfigs.text(server), encoding="utf-8")
    return path


def once(service: str, directory: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """`python -m SERVICE --once …`, a ledger of its own in `directory`, ended after a while at the latest."""
    words = ["--once", *map(str, arguments)]
    if service in ASKS_PROMETHEUS and "--prometheus" not in words:
        words += ["--prometheus", "http://127.0.0.1:1"]
    if service == "descheduler":
        words += ["--ledger", str(directory / "ledger.sqlite")]
    return starting.run(starting.Command(service, tuple(words)))


def assert_clear(run: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """The exit code, every word of the message, no traceback, no secret."""
    assert run.returncode == code, run.stderr
    assert "Traceback" not in run.stderr
    assert kubeconfigs.TOKEN not in run.stderr + run.stdout
    for word in words:
        assert word in run.stderr, run.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_five_mistakes_in_a_policy_are_all_named_at_once(service: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(FIVE_MISTAKES, encoding="utf-8")
    run = once(
        service, tmp_path, "--policy", broken, "--kubeconfig", kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    )
    assert_clear(run, BAD_INPUT, f"{broken}:3:", f"{broken}:5:", f"{broken}:6:", f"{broken}:8:", "onMissing", '"65%"')
    assert run.stderr.count(f"{broken}:") >= 5


@pytest.mark.parametrize("service", SERVICES)
def test_a_policy_that_is_not_there_is_bad_input(service: str, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert_clear(
        once(service, tmp_path, "--policy", tmp_path / "none.yaml", "--kubeconfig", config), BAD_INPUT, "none.yaml"
    )


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    "text", ["", "{not yaml", "apiVersion: v1\nkind: Config\n"], ids=["empty", "garbage", "no cluster"]
)
def test_an_unreadable_kubeconfig_is_bad_input(service: str, text: str, policy: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text(text, encoding="utf-8")
    assert_clear(once(service, tmp_path, "--policy", policy, "--kubeconfig", config), BAD_INPUT, str(config))


@pytest.mark.parametrize("service", SERVICES)
def test_an_apiserver_that_is_not_there_is_unreachable(service: str, policy: Path, tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config", "http://127.0.0.1:1")
    assert_clear(once(service, tmp_path, "--policy", policy, "--kubeconfig", config), UNREACHABLE, "127.0.0.1:1")


@pytest.mark.parametrize("service", SERVICES)
def test_an_apiserver_that_answers_html_is_named_as_such(service: str, policy: Path, tmp_path: Path) -> None:
    page, headers = "<html><body>502 Bad Gateway</body></html>", {"Content-Type": "text/html"}
    with scripted_http.serving(lambda exchange: exchange.answer(page, headers=headers)) as server:  # a broken proxy
        config = kubeconfig(tmp_path / "config", server.url)
        run = once(service, tmp_path, "--policy", policy, "--kubeconfig", config)
    assert_clear(run, UNREACHABLE, str(server.server_port))


@pytest.mark.cluster
@pytest.mark.parametrize("service", ASKS_PROMETHEUS)
def test_a_prometheus_that_is_not_there_is_unreachable_and_changes_nothing(
    service: str, policy: Path, tmp_path: Path, control_plane: cluster.Cluster
) -> None:
    config, gone = control_plane.kubeconfig, "http://127.0.0.1:1"
    run = once(service, tmp_path, "--policy", policy, "--kubeconfig", config, "--prometheus", gone)
    assert_clear(run, UNREACHABLE, "127.0.0.1:1")
