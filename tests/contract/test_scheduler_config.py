"""The real kube-scheduler decodes what `evenload scheduler-config` writes, and ends before its first request."""

import collections.abc
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from lab.cluster import binaries
from runtime import certificates, clock
from tests import commands, kubeconfigs

pytestmark = pytest.mark.cluster
DEPLOY = pathlib.Path(__file__).parents[2] / "deploy"
POLICY = str(DEPLOY / "policies" / "default.yaml")
URL = "https://evenload-extender.evenload-system.svc:8900"


class Scheduler:
    """The real kube-scheduler, asked what it makes of a configuration."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._command = binaries.find_or_build()["kube-scheduler"]
        self._directory = directory
        (directory / "kubeconfig").write_text(kubeconfigs.text())

    def understood(self, configuration: dict[str, Any]) -> dict[str, Any]:
        """The configuration with all defaults; AssertionError with the scheduler's words when it is refused."""
        given, written = self._directory / "given.yaml", self._directory / "written.yaml"
        written.unlink(missing_ok=True)
        client = {"clientConnection": {"kubeconfig": str(self._directory / "kubeconfig")}}
        given.write_text(yaml.safe_dump(configuration | client))
        arguments = [f"--config={given}", f"--write-config-to={written}", "--secure-port=0"]
        ran = subprocess.run([self._command, *arguments], capture_output=True, text=True, timeout=150, check=False)
        assert written.exists(), ran.stderr
        answer: dict[str, Any] = yaml.safe_load(written.read_text())
        return answer


@pytest.fixture
def scheduler(tmp_path: pathlib.Path) -> Scheduler:
    """A scheduler that knows no cluster."""
    return Scheduler(tmp_path)


@pytest.fixture
def tls(tmp_path: pathlib.Path) -> dict[str, str]:
    """A CA and a client certificate in files, by option."""
    now_seconds = clock.WallClock().now()
    authority = certificates.Authority.create(now_seconds=now_seconds)
    client = authority.client("system:kube-scheduler", (), now_seconds=now_seconds)
    texts = {"ca-file": authority.pair.certificate, "cert-file": client.certificate, "key-file": client.key}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return {f"--{name}": str(tmp_path / name) for name in texts}


def written(url: str, options: collections.abc.Mapping[str, str] | None = None, *flags: str) -> dict[str, Any]:
    """What the command writes to stdout, decoded."""
    pairs = [word for option in (options or {}).items() for word in option]
    text = commands.output("scheduler-config", "--policy", POLICY, "--url", url, *pairs, *flags)
    answer: dict[str, Any] = yaml.safe_load(text)
    return answer


def test_the_scheduler_understands_the_plain_stanza_as_it_stands(scheduler: Scheduler) -> None:
    given = written("http://127.0.0.1:8900", {"--weight": "3", "--http-timeout": "300ms"})
    understood = scheduler.understood(given)
    assert understood["apiVersion"] == "kubescheduler.config.k8s.io/v1"
    assert understood["extenders"] == given["extenders"]


@pytest.mark.parametrize("name", ["extender-stanza.yaml", "kubeadm/kube-scheduler.yaml", "second/config.yaml"])
def test_the_scheduler_understands_the_files_that_we_ship(scheduler: Scheduler, name: str) -> None:
    given = yaml.safe_load((DEPLOY / "scheduler" / name).read_text(encoding="utf-8"))
    understood = scheduler.understood(given)
    assert understood["extenders"] == given["extenders"]


def test_the_scheduler_understands_mutual_tls(scheduler: Scheduler, tls: dict[str, str]) -> None:
    given = written(URL, {**tls, "--server-name": "evenload-extender"})
    assert scheduler.understood(given)["extenders"] == given["extenders"]
    assert given["extenders"][0]["tlsConfig"]["caFile"] == tls["--ca-file"]


def test_the_scheduler_takes_an_insecure_extender_where_we_are_told_to(scheduler: Scheduler) -> None:
    understood = scheduler.understood(written(URL, {}, "--insecure"))
    assert understood["extenders"][0]["tlsConfig"] == {"insecure": True}


@pytest.mark.parametrize(
    "spoil",
    [{"insecure": True}, {"certFile": "", "keyFile": ""} | {"caFile": "/nonexistent/ca.crt"}],
    ids=["a CA beside insecure", "a CA that is not there"],
)
def test_the_scheduler_refuses_to_start_with(
    spoil: dict[str, object], scheduler: Scheduler, tls: dict[str, str]
) -> None:
    given = written(URL, tls)
    given["extenders"][0]["tlsConfig"] |= spoil
    with pytest.raises(AssertionError, match="couldn't build extenders"):
        scheduler.understood(given)


def test_the_scheduler_itself_does_not_mind_https_without_a_ca(scheduler: Scheduler) -> None:
    """Why we refuse it: the scheduler says nothing and does not verify."""
    given = written(URL, {}, "--insecure")
    del given["extenders"][0]["tlsConfig"]
    assert scheduler.understood(given)["extenders"][0]["enableHTTPS"] is True
