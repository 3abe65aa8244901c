"""The Go programs of the benches, built once into the user cache.

`reference/` is the yardstick extender, `client/` asks as kube-scheduler does; both use the standard library only, so a
build needs no network. `peer/` is a module with one `tool` line and no Go of its own: kubernetes-sigs descheduler,
whose modules come from GOPROXY at the first build. The cache directory's name follows from the sources.
"""

import pathlib
import re
import subprocess

from cluster import cache, errors, golang

HERE = pathlib.Path(__file__).parent
_TOOL = re.compile(r"^tool (\S+)$", re.MULTILINE)


def built(name: str) -> pathlib.Path:
    """The path of a program by its directory's name; BuildError with the compiler's words when it does not build."""
    module = HERE / name
    sources = sorted([*module.glob("go.*"), *module.glob("*.go")])
    texts = [path.read_text(encoding="utf-8") for path in sources]
    home = cache.here() / "bench" / f"{name}-{cache.key(*texts)}"
    target = home / name
    with cache.locked(home):
        if not target.exists():
            _build(module, target)
    return target


def _build(module: pathlib.Path, target: pathlib.Path) -> None:
    said = (module / "go.mod").read_text(encoding="utf-8")
    go, tool = golang.find(golang.needed_by(said)), _TOOL.search(said)
    unfinished = target.with_suffix(".unfinished")
    flags = ["-trimpath", "-ldflags", "-s -w"] if tool else ["-trimpath"]
    command = [str(go), "build", "-C", str(module), *flags, "-o", str(unfinished), tool[1] if tool else "."]
    cache.say(f"{module.name}: building with {go}")
    answer = subprocess.run(command, capture_output=True, text=True, env=golang.environment(go), check=False)
    if answer.returncode:
        raise errors.BuildError(f"bench/{module.name} did not build with {go}:\n{answer.stderr.strip()}")
    unfinished.rename(target)
