"""The commands of the control plane: found on the machine when they are right, else built once into the user cache.

`control_plane` asks `find_or_build` for its own before it starts anything, `python -m lab.cluster build` does only
this. The three Go modules beside this file (tools/, prometheus/, victoriametrics/) name the commands and pin every
dependency. `compiling` builds what is missing of a module, `minors` the servers of another minor of Kubernetes.
"""

import collections.abc
import os
import pathlib
import re
import shutil
import subprocess
import types
import typing

from lab.cluster import cache, compiling, golang, minors

HERE = pathlib.Path(__file__).parent
KUBERNETES = "v1.36.3"
_VICTORIA_METRICS_STAMP = "github.com/VictoriaMetrics/VictoriaMetrics/lib/buildinfo.Version"
_PROMETHEUS_STAMP = "github.com/prometheus/common/version.Version"
_REAL_NODES = "real-nodes"
_VERSION = re.compile(r"(?<![\w.])v?(\d+)\.(\d+)\.(\d+)")


class Tool(typing.NamedTuple):
    """One command: the module directory and package it is built from, the oldest version taken from the machine, and
    the variables that the linker sets.
    """

    name: str
    module: str
    package: str
    oldest: tuple[int, int]
    stamps: collections.abc.Mapping[str, str] = types.MappingProxyType({})
    asks_version: tuple[str, ...] = ("--version",)


def _kubernetes(name: str) -> Tool:
    return Tool(name, "tools", minors.package(name), (1, 34), minors.stamps(KUBERNETES))


def _prometheus(name: str) -> Tool:
    package = f"github.com/prometheus/prometheus/cmd/{name}"
    return Tool(name, "prometheus", package, (3, 0), {_PROMETHEUS_STAMP: "3.15.0"})


# etcd 3.4 of older distributions makes watches misbehave, hence 3.5 at least.
TOOLS = (
    Tool(
        "node_exporter",
        "tools",
        "github.com/prometheus/node_exporter",
        (1, 5),
        {_PROMETHEUS_STAMP: "1.12.1"},
    ),
    Tool("etcd", "tools", "go.etcd.io/etcd/server/v3", (3, 5)),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl")._replace(asks_version=("version", "--client")),
    Tool("kwok", "tools", "sigs.k8s.io/kwok/cmd/kwok", (0, 7)),
    _prometheus("prometheus"),
    _prometheus("promtool"),
    Tool(
        "victoria-metrics",
        "victoriametrics",
        "github.com/VictoriaMetrics/VictoriaMetrics/app/victoria-metrics",
        (1, 93),
        {_VICTORIA_METRICS_STAMP: "victoria-metrics-v1.140.0"},
    ),
)
# Built by `make -C lab real-nodes` only.
REAL_NODES = tuple(_kubernetes(name)._replace(module=_REAL_NODES) for name in ("kubelet", "kube-proxy"))


def find_or_build(tools: collections.abc.Sequence[Tool] = TOOLS) -> dict[str, pathlib.Path]:
    """The path of every command by name; builds what neither the machine nor the cache has.

    Kubernetes' servers are of another minor where EVENLOAD_KUBERNETES names one (`minors`). Errors: BuildError with the
    end of the compiler's output and the next step.
    """
    paths = minors.find_or_build([tool.name for tool in tools])
    paths |= {tool.name: path for tool in tools if tool.name not in paths and (path := _on_machine(tool))}
    for module in dict.fromkeys(tool.module for tool in tools):
        wanted = [tool for tool in tools if tool.module == module and tool.name not in paths]
        if wanted:
            paths.update(_from_cache(module, wanted))
    return paths


def directory_of(module: str) -> pathlib.Path:
    """The cache directory of a module's commands; its name changes with go.mod, go.sum and the build flags."""
    sources = [(_source(module) / name).read_text(encoding="utf-8") for name in ("go.mod", "go.sum")]
    return cache.here() / "cluster" / f"{module}-{cache.key(*sources, *_flags(module))}"


def _source(module: str) -> pathlib.Path:
    """The directory of a module's go.mod."""
    return HERE.parent / "real_nodes" / "tools" if module == _REAL_NODES else HERE / module


def _flags(module: str) -> list[str]:
    """The build flags of a module."""
    stamps = {
        name: value for tool in (*TOOLS, *REAL_NODES) if tool.module == module for name, value in tool.stamps.items()
    }
    stamped = " ".join(f"-X {name}={value}" for name, value in stamps.items())
    flags = [*golang.COMPILER_FLAGS, f"-ldflags=-s -w {stamped}"]
    # without the cloud discoveries: half the size, static and file discovery remain
    return [*flags, "-tags=remove_all_sd"] if module == "prometheus" else flags


def parse_version(text: str) -> tuple[int, int] | None:
    """Major and minor of the first x.y.z in what a command says of its version; None when there is none."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def _on_machine(tool: Tool) -> pathlib.Path | None:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    places = ([assets] if assets else []) + [os.environ.get("PATH", "")]
    for place in places:
        if path := shutil.which(tool.name, path=place):
            if is_right(tool, pathlib.Path(path)):
                cache.say(f"{tool.name}: using {path}")
                return pathlib.Path(path)
            cache.say(f"{tool.name}: {path} is not used, {tool.oldest[0]}.{tool.oldest[1]} or newer is needed")
    return None


def is_right(tool: Tool, path: pathlib.Path) -> bool:
    """Whether a command found on the machine runs and says a version that will do."""
    try:
        answer = subprocess.run([path, *tool.asks_version], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    version = parse_version(answer.stdout + answer.stderr)
    return answer.returncode == 0 and version is not None and version >= tool.oldest


def _from_cache(module: str, wanted: collections.abc.Sequence[Tool]) -> dict[str, pathlib.Path]:
    home = directory_of(module)
    paths = {tool.name: home / "bin" / tool.name for tool in wanted}
    if all(path.exists() for path in paths.values()):
        return paths
    with cache.locked(home):
        missing = [tool for tool in wanted if not paths[tool.name].exists()]
        if missing:
            _build(module, missing, home)
    return paths


def _build(module: str, missing: collections.abc.Sequence[Tool], home: pathlib.Path) -> None:
    go = golang.find(golang.needed_by((_source(module) / "go.mod").read_text(encoding="utf-8")))
    packages = {tool.name: tool.package for tool in missing}
    compiling.build(go, _source(module), packages, home, flags=_flags(module), environment=golang.environment(go))
