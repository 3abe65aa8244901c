"""Small Go programs of this tree, each a module of its own, built once into the user cache.

The benches and the contract tests name a module's directory. The clients and the yardstick use the standard library
only, so a build needs no network; a module with a `tool` line and no Go of its own brings its modules from GOPROXY. The
cache directory's name follows from the sources. `binaries` builds the commands of the control plane.
"""

import pathlib
import re
import subprocess

from lab.cluster import cache, errors, golang

_TOOL = re.compile(r"^tool (\S+)$", re.MULTILINE)


def built(module: pathlib.Path) -> pathlib.Path:
    """The path of the program of a module's directory; BuildError with the compiler's words when it does not build."""
    sources = sorted([*module.glob("go.*"), *module.glob("*.go")])
    texts = [path.read_text(encoding="utf-8") for path in sources]
    home = cache.here() / "programs" / f"{module.name}-{cache.key(*texts, *golang.COMPILER_FLAGS)}"
    target = home / module.name
    with cache.locked(home):
        if not target.exists():
            _build(module, target)
    return target


def _build(module: pathlib.Path, target: pathlib.Path) -> None:
    go_mod = (module / "go.mod").read_text(encoding="utf-8")
    go, tool = golang.find(golang.needed_by(go_mod)), _TOOL.search(go_mod)
    unfinished = target.with_suffix(".unfinished")
    flags = [*golang.COMPILER_FLAGS, "-ldflags=-s -w"]
    command = [str(go), "build", "-C", str(module), *flags, "-o", str(unfinished), tool[1] if tool else "."]
    cache.say(f"{module.name}: building with {go}")
    answer = subprocess.run(command, capture_output=True, text=True, env=golang.environment(go), check=False)
    if answer.returncode:
        raise errors.BuildError(f"{module} did not build with {go}:\n{answer.stderr.strip()}")
    unfinished.rename(target)
