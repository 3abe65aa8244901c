"""Small Go programs of this tree, each a module of its own, built once into the user cache.

The benches and the contract tests name a module's directory. The clients and the yardstick use the standard library
only, so a build needs no network; a module with a `tool` line and no Go of its own brings its modules from GOPROXY. The
cache directory's name follows from the sources. `binaries` builds the commands of the control plane.
"""

import pathlib
import re
import shutil
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from lab.cluster import cache, errors, golang

_TOOL = re.compile(r"^tool (\S+)$", re.MULTILINE)


class Edit(NamedTuple):
    """Words that a build has in place of others in a Go module's file; the module itself stays as it is."""

    module: str
    file: str
    before: str
    after: str


def built(module: pathlib.Path, edits: Sequence[Edit] = ()) -> pathlib.Path:
    """The path of the program of a module's directory; BuildError with the compiler's words when it does not build, or
    where a file lacks the words that an edit replaces.
    """
    sources = sorted([*module.glob("go.*"), *module.glob("*.go")])
    texts = [path.read_text(encoding="utf-8") for path in sources]
    home = cache.here() / "programs" / f"{module.name}-{cache.key(*texts, *golang.COMPILER_FLAGS, *map(str, edits))}"
    target = home / module.name
    with cache.locked(home):
        if not target.exists():
            _build(module, target, edits)
    return target


def _build(module: pathlib.Path, target: pathlib.Path, edits: Sequence[Edit]) -> None:
    go_mod = (module / "go.mod").read_text(encoding="utf-8")
    go, tool = golang.find(golang.needed_by(go_mod)), _TOOL.search(go_mod)
    unfinished = target.with_suffix(".unfinished")
    flags = [*golang.COMPILER_FLAGS, "-ldflags=-s -w"]
    if edits:
        flags.append(f"-modfile={_edited(go, module, target.parent, edits)}")
    command = [str(go), "build", "-C", str(module), *flags, "-o", str(unfinished), tool[1] if tool else "."]
    cache.say(f"{module.name}: building with {go}")
    answer = subprocess.run(command, capture_output=True, text=True, env=golang.environment(go), check=False)
    if answer.returncode:
        raise errors.BuildError(f"{module} did not build with {go}:\n{answer.stderr.strip()}")
    unfinished.rename(target)


def _edited(go: pathlib.Path, module: pathlib.Path, home: pathlib.Path, edits: Sequence[Edit]) -> pathlib.Path:
    """Copies the modules into `home`, edits them there, and writes the go.mod by which a build has them."""
    for path in module.glob("go.*"):
        shutil.copy(path, home)
    environment = golang.environment(go)
    for name in {edit.module for edit in edits}:
        command = [str(go), "list", "-C", str(module), "-m", "-f", "{{.Dir}}", name]
        source = subprocess.check_output(command, text=True, env=environment).strip()
        shutil.copytree(source, home / name, copy_function=shutil.copyfile, dirs_exist_ok=True)
        command = [str(go), "mod", "edit", f"-replace={name}={home / name}", str(home / "go.mod")]
        subprocess.check_call(command, env=environment)
    for edit in edits:
        path = home / edit.module / edit.file
        text = path.read_text(encoding="utf-8")
        if edit.before not in text:
            raise errors.BuildError(f"no {edit.before!r} in {edit.file} of {edit.module}")
        path.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
    return home / "go.mod"
