"""Which command is used, what a build makes, and what a failed one says. A script plays Go's part."""

import pathlib
import re

import pytest

from lab.cluster import binaries, cache, errors

GO = """#!/bin/sh
[ "$1" = env ] && { echo go1.26.8; exit 0; }
echo "$@" >> "$0.calls"
while [ "$1" != -o ]; do shift; done
target="$2"; shift 2
for package; do
  case "$package" in *%s) echo 'x.go:1:1: undefined: y' >&2; exit 1;; esac
  name="${package%%/v[0-9]}"
  echo built > "$target${name##*/}"
done
"""


def command(path: pathlib.Path, text: str) -> pathlib.Path:
    """An executable file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def says(path: pathlib.Path, text: str, code: int = 0) -> pathlib.Path:
    """A command that prints its version."""
    return command(path, f"#!/bin/sh\necho '{text}'\nexit {code}\n")


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A machine whose PATH holds only our Go, with an empty cache."""
    command(tmp_path / "path" / "go", GO % "no-such-package")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("EVENLOAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def calls(machine: pathlib.Path) -> list[str]:
    """The last parts of the packages that each call of our Go was to build."""
    lines = (machine / "path" / "go.calls").read_text(encoding="utf-8").splitlines()
    return [" ".join(part.rsplit("/", 1)[-1] for part in line.split("/ ", 1)[1].split()) for line in lines]


def test_what_is_missing_is_built_once_into_the_cache(machine: pathlib.Path) -> None:
    found = binaries.find_or_build()
    assert set(found) == {tool.name for tool in binaries.TOOLS}
    assert all(path.is_relative_to(machine / "cache") and path.exists() for path in found.values())
    assert binaries.find_or_build() == found
    assert calls(machine) == [
        "node_exporter v3 kube-apiserver kube-controller-manager kube-scheduler kubectl kwok",
        "prometheus promtool",
        "victoria-metrics",
    ]


def test_an_interrupted_build_goes_on_with_the_command_that_is_missing(machine: pathlib.Path) -> None:
    found = binaries.find_or_build()
    found["kwok"].unlink()
    binaries.find_or_build()
    assert calls(machine)[3:] == ["kwok"]


def test_a_failed_build_shows_the_compilers_words_and_the_next_step(machine: pathlib.Path) -> None:
    command(machine / "path" / "go", GO % "cmd/kwok")
    with pytest.raises(
        errors.BuildError, match=r"kwok did not build(?s:.)*undefined: y(?s:.)*goes on where it stopped"
    ):
        binaries.find_or_build()
    assert not list((machine / "cache").rglob("unfinished*"))


def test_a_fitting_command_of_the_machine_is_used_and_said(
    machine: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    etcd = says(machine / "path" / "etcd", "etcd Version: 3.5.9")
    assert binaries.find_or_build()["etcd"] == etcd
    assert f"etcd: using {etcd}" in capsys.readouterr().err


def test_the_assets_directory_comes_before_the_path(machine: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(machine / "path" / "etcd", "etcd Version: 3.6.1")
    asset = says(machine / "assets" / "etcd", "etcd Version: 3.6.2")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    assert binaries.find_or_build()["etcd"] == asset


@pytest.mark.parametrize(
    ("name", "text", "code", "right"),
    [
        pytest.param("etcd", "etcd Version: 3.4.30", 0, False, id="etcd 3.4 makes watches misbehave"),
        pytest.param("etcd", "etcd Version: 3.6.8", 0, True, id="etcd 3.6 is right"),
        pytest.param("kube-apiserver", "Kubernetes v1.33.9", 0, False, id="an apiserver of 1.33 is too old"),
        pytest.param("kube-apiserver", "Kubernetes v1.36.3", 0, True, id="an apiserver of 1.36 is right"),
        pytest.param("kube-scheduler", "Kubernetes v0.0.0-master", 0, False, id="an unstamped build is not trusted"),
        pytest.param("kubectl", "Client Version: v1.36.3\nKustomize Version: v5.8.1", 0, True, id="a kubectl is right"),
        pytest.param("prometheus", "prometheus, version 2.55.1 (branch: HEAD)", 0, False, id="prometheus 2 is too old"),
        pytest.param("node_exporter", "node_exporter, version 1.12.1", 0, True, id="a node_exporter is right"),
        pytest.param("victoria-metrics", "victoria-metrics-20260410-tags-v1.140.0-0-g33d5", 0, True, id="one of today"),
        pytest.param("kwok", "kwok version v0.8.0 go1.26.8", 1, False, id="a command that fails is not right"),
        pytest.param("kwok", "no number at all", 0, False, id="a command without a version is not right"),
    ],
)
def test_a_command_is_right_when_its_version_will_do(
    tmp_path: pathlib.Path, name: str, text: str, code: int, right: bool
) -> None:
    tool = next(tool for tool in binaries.TOOLS if tool.name == name)
    assert binaries.is_right(tool, says(tmp_path / name, text, code)) is right


def test_the_caches_name_follows_the_sums_of_the_modules() -> None:
    assert binaries.directory_of("tools") != binaries.directory_of("prometheus")
    assert binaries.directory_of("tools").is_relative_to(cache.here())


def test_every_tool_line_of_the_modules_is_built_and_nothing_else() -> None:
    for module in ("tools", "prometheus", "victoriametrics"):
        text = (binaries.HERE / module / "go.mod").read_text(encoding="utf-8")
        block = re.findall(r"^(?:tool |\t)([\w./-]+)$", text, re.MULTILINE)
        assert sorted(tool.package for tool in binaries.TOOLS if tool.module == module) == sorted(block)
