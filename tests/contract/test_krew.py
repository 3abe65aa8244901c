"""The real krew installs the plugin from its archive, and the real kubectl runs it against a control plane."""

import os
import pathlib
import subprocess
import sys

import pytest

from lab.cluster import binaries, programs
from runtime import version
from tests import shared
from tests.contract import test_kustomize

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

ROOT = pathlib.Path(__file__).parents[2]
KREW = ROOT / "tests" / "contract" / "krew"


def run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a command; what it prints is text."""
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)


def done(command: list[str], environment: dict[str, str]) -> str:
    """Runs a command that must succeed; returns its stdout."""
    answer = run(command, environment)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def test_krew_installs_the_plugin_and_kubectl_runs_it(tmp_path: pathlib.Path) -> None:
    environment = {
        **os.environ,
        "KREW_ROOT": str(tmp_path / "krew"),
        "KREW_NO_UPGRADE_CHECK": "1",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "EVENLOAD_PYTHON": sys.executable,
    }
    done([sys.executable, "-m", "lab.krew", str(tmp_path)], environment)
    (archive,) = tmp_path.glob("*.tar.gz")
    kubectl = str(binaries.find_or_build()["kubectl"])
    files = [f"--manifest={tmp_path / 'evenload.yaml'}", f"--archive={archive}"]
    done([str(programs.built(KREW)), "install", *files], environment)
    running = shared.shared("kubectl", lambda: test_kustomize.plain_site(tmp_path / "kubectl")).cluster
    environment["KUBECONFIG"] = str(running.kubeconfig)
    environment["PATH"] = f"{tmp_path / 'krew' / 'bin'}:{environment['PATH']}"
    first = run([kubectl, "evenload", "nodes"], environment)
    assert "installing into" in first.stderr
    assert not list(tmp_path.glob("cache/evenload/plugin-*/bin/pip*")), "this Python's pip is new enough to install"
    again = run([kubectl, "evenload", "nodes"], environment)
    # Nothing of Evenload runs in this cluster: that is what the plugin finds out, from the kubeconfig alone.
    service = "evenload-system/evenload-extender"
    assert again.stderr.startswith(f"error: no pod behind Service {service} of {running.api_url}")
    assert (first.returncode, again.returncode) == (3, 3)
    assert done([kubectl, "evenload", "--version"], environment) == f"evenload, version {version.VERSION}\n"
