"""Servers of another minor of Kubernetes: the module that builds them, and when they are used."""

import pathlib

import pytest

from lab.cluster import binaries, errors, minors
from lab.tests.cluster import test_binaries

PUBLISHED = """module k8s.io/kubernetes

go 1.22.0

require (
	go.etcd.io/etcd/client/v3 v3.5.10
	k8s.io/api v0.0.0
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/kube-scheduler => ./staging/src/k8s.io/kube-scheduler
)
"""
MODULE = """module evenload.io/cluster/kubernetes

go 1.22.0

require k8s.io/kubernetes v1.30.14

replace (
	k8s.io/api => k8s.io/api v0.30.14
	k8s.io/kube-scheduler => k8s.io/kube-scheduler v0.30.14
)
"""
GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.26.8; exit 0; }
[ "$1" = list ] && { echo "$0.published"; exit 0; }
echo "$@" >> "$0.calls"
while [ "$1" != -o ]; do shift; done
target="$2"; shift 2
for package; do
  name="${package%/v[0-9]}"
  echo built > "$target${name##*/}"
done
"""


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine whose Go knows one release, with an empty cache and 1.30 asked for."""
    go = test_binaries.command(tmp_path / "path" / "go", GO)
    go.with_name("go.published").write_text(PUBLISHED, encoding="utf-8")
    monkeypatch.setenv("PATH", str(go.parent))
    monkeypatch.setenv("EVENLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(minors.VARIABLE, "1.30")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def test_the_staging_modules_are_taken_in_their_published_versions() -> None:
    assert minors.go_mod("v1.30.14", PUBLISHED) == MODULE


def test_a_go_mod_without_staging_modules_is_refused() -> None:
    with pytest.raises(ValueError, match=r"v1\.30\.14 has no go directive or no staging modules"):
        minors.go_mod("v1.30.14", "module k8s.io/kubernetes\n")


def test_servers_of_the_minor_are_built_once_and_the_rest_is_as_pinned(machine: pathlib.Path) -> None:
    commands = binaries.find_or_build()
    assert set(commands) == {tool.name for tool in binaries.TOOLS}
    older = {name for name, path in commands.items() if "kubernetes-v1.30.14" in str(path)}
    assert older == set(minors.SERVERS)
    assert binaries.find_or_build() == commands
    calls = (machine / "path" / "go.calls").read_text(encoding="utf-8").splitlines()
    assert len(calls) == 1 + len({tool.module for tool in binaries.TOOLS})
    assert "gitVersion=v1.30.14" in calls[0]
    (module,) = (machine / "cache").rglob("kubernetes-v1.30.14/go.mod")
    assert module.read_text(encoding="utf-8") == MODULE


def test_a_server_of_the_minor_comes_before_one_of_the_machine(machine: pathlib.Path) -> None:
    test_binaries.says(machine / "path" / "kube-scheduler", "Kubernetes v1.36.3")
    assert "kubernetes-v1.30.14" in str(binaries.find_or_build()["kube-scheduler"])


def test_only_what_is_asked_for_is_built(machine: pathlib.Path) -> None:
    binaries.find_or_build([tool for tool in binaries.TOOLS if tool.name == "kube-scheduler"])
    (call,) = (machine / "path" / "go.calls").read_text(encoding="utf-8").splitlines()
    assert call.endswith("k8s.io/kubernetes/cmd/kube-scheduler")


def test_a_minor_that_is_not_listed_is_refused(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(minors.VARIABLE, "1.29")
    with pytest.raises(errors.BuildError, match=r"EVENLOAD_KUBERNETES=1\.29: one of 1\.30, .*1\.35 expected"):
        binaries.find_or_build()
