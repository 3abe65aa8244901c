"""Kubernetes' servers of an older minor, where EVENLOAD_KUBERNETES names one: `make -C lab compat MINOR=1.30`.

`binaries` asks for them first. kube-apiserver, kube-controller-manager and kube-scheduler are built once into the user
cache from a module that is made of the release's own go.mod: the staging modules, which that one takes from its tree,
are taken in their published versions. Their sums are checked against Go's checksum database only, as no go.sum of them
is kept here; everything else of a cluster (etcd, kubectl, kwok, Prometheus) stays as pinned.
"""

import collections.abc
import os
import pathlib
import re
import subprocess
import types
import typing

from lab.cluster import cache, compiling, errors, golang

VARIABLE: typing.Final = "EVENLOAD_KUBERNETES"
RELEASES: typing.Final = types.MappingProxyType(
    {
        "1.30": "v1.30.14",
        "1.31": "v1.31.14",
        "1.32": "v1.32.13",
        "1.33": "v1.33.13",
        "1.34": "v1.34.4",
        "1.35": "v1.35.4",
    }
)
SERVERS: typing.Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
_STAMP: typing.Final = "k8s.io/component-base/version"
_GO: typing.Final = (1, 26, 0)  # as lab/cluster/tools needs: a newer Go compiles older sources
_STAGING: typing.Final = re.compile(r"^\s(k8s\.io/[\w-]+) => \./staging/", re.MULTILINE)
_DIRECTIVE: typing.Final = re.compile(r"^go [\d.]+$", re.MULTILINE)


def package(command: str) -> str:
    """The Go package of a command of Kubernetes."""
    return f"k8s.io/kubernetes/cmd/{command}"


def stamps(release: str) -> dict[str, str]:
    """The variables by which a command knows its release (v1.36.3)."""
    major, minor, _ = release.removeprefix("v").split(".")
    return {f"{_STAMP}.gitVersion": release, f"{_STAMP}.gitMajor": major, f"{_STAMP}.gitMinor": minor}


def chosen() -> str:
    """The minor that the variable names, such as 1.30; "" where it is the pinned one."""
    return os.environ.get(VARIABLE, "")


def find_or_build(names: collections.abc.Iterable[str]) -> dict[str, pathlib.Path]:
    """The paths of those of the commands that are servers, by name; none where the variable is not set.

    Errors: BuildError, also for a minor that is not listed.
    """
    minor = chosen()
    if not minor:
        return {}
    if minor not in RELEASES:
        raise errors.BuildError(
            f"{VARIABLE}={minor}: one of {', '.join(RELEASES)} expected; unset it for the pinned one"
        )
    release, wanted = RELEASES[minor], [name for name in names if name in SERVERS]
    home = cache.here() / "cluster" / f"kubernetes-{release}-{cache.key(*_flags(release))}"
    paths = {name: home / "bin" / name for name in wanted}
    with cache.locked(home):
        if missing := [name for name in wanted if not paths[name].exists()]:
            _build(release, missing, home)
    return paths


def go_mod(release: str, published: str) -> str:
    """The module that builds a release's commands, from the go.mod that the release was published with."""
    staging = release.replace("v1.", "v0.", 1)
    directive = _DIRECTIVE.search(published)
    replaced = "".join(f"\t{name} => {name} {staging}\n" for name in _STAGING.findall(published))
    if directive is None or not replaced:
        raise ValueError(f"the go.mod of k8s.io/kubernetes {release} has no go directive or no staging modules")
    head = f"module evenload.io/cluster/kubernetes\n\n{directive[0]}\n\nrequire k8s.io/kubernetes {release}\n\n"
    return f"{head}replace (\n{replaced})\n"


def _build(release: str, missing: collections.abc.Sequence[str], home: pathlib.Path) -> None:
    go = golang.find(_GO)
    environment = {**golang.environment(go), "GOFLAGS": "-buildvcs=false -mod=mod"}  # go.sum is written by the build
    module = home / f"kubernetes-{release}"
    module.mkdir(exist_ok=True)
    (module / "go.mod").write_text(go_mod(release, _published(go, release, environment)), encoding="utf-8")
    packages = {name: package(name) for name in missing}
    compiling.build(go, module, packages, home, flags=_flags(release), environment=environment)


def _published(go: pathlib.Path, release: str, environment: dict[str, str]) -> str:
    command = [str(go), "list", "-m", "-f", "{{.GoMod}}", f"k8s.io/kubernetes@{release}"]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
    if answer.returncode:
        raise errors.BuildError(f"k8s.io/kubernetes {release} was not found:\n{answer.stderr.strip()}")
    return pathlib.Path(answer.stdout.strip()).read_text(encoding="utf-8")


def _flags(release: str) -> list[str]:
    stamped = " ".join(f"-X {name}={value}" for name, value in stamps(release).items())
    return [*golang.COMPILER_FLAGS, f"-ldflags=-s -w {stamped}"]
