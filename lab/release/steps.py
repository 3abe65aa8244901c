"""The steps of a release: each runs one command or packs one file, and names the files that it must leave in dist/.

`__main__` runs them in order. A step whose command fails, or that leaves a file out, ends the release; checksums are
last, so a directory without SHA256SUMS is no release.
"""

import gzip
import hashlib
import io
import os
import pathlib
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from lab.cluster import programs
from lab.release import changelog

SUMS: Final = "SHA256SUMS"
_BIN: Final = pathlib.Path(sys.executable).parent
_FILE: Final = 0o644


class StepError(Exception):
    """A step that failed; the message names the command and its result."""


class Build(NamedTuple):
    """A release being made: its tree, directory of files, version, commit's time (Unix seconds) and chart registry."""

    root: pathlib.Path
    dist: pathlib.Path
    version: str
    commit_seconds: int
    registry: str | None = None


class Step(NamedTuple):
    """A step by its name, with what it does and the files that it leaves (VERSION stands for the number)."""

    name: str
    task: str
    files: tuple[str, ...]
    run: Callable[[Build], None]

    def made_files(self, version: str) -> list[str]:
        """The names of its files for a version."""
        return [name.replace("VERSION", version) for name in self.files]


def perform(step: Step, build: Build) -> None:
    """Runs a step; StepError if it fails or one of its files is not there afterwards."""
    step.run(build)
    missing = [name for name in step.made_files(build.version) if not (build.dist / name).is_file()]
    if missing:
        raise StepError(f"it ended without an error and left no {', '.join(missing)} in {build.dist}")


def package_of_chart(chart: pathlib.Path, at_seconds: int) -> bytes:
    """A chart as `helm package` packs it: one folder of the chart's name, every file of one time."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(path for path in chart.rglob("*") if path.is_file()):
            content = path.read_bytes()
            entry = tarfile.TarInfo((chart.name / path.relative_to(chart)).as_posix())
            entry.size, entry.mode, entry.mtime = len(content), _FILE, at_seconds
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(raw.getvalue(), mtime=0)


def checksums(files: Iterable[pathlib.Path]) -> str:
    """The lines of SHA256SUMS, sorted by name, as `sha256sum --check` reads them."""
    by_name = sorted(files, key=lambda path: path.name)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in by_name)


def run(build: Build, *command: str | pathlib.Path) -> None:
    """Runs a command in the tree with the commit's time, as CI does: what is missing is an error."""
    words = [str(word) for word in command]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(build.commit_seconds), "CI": "1", "TZ": "UTC"}
    try:
        code = subprocess.run(words, cwd=build.root, env=environment, check=False).returncode
    except FileNotFoundError as error:
        raise StepError(f"`{words[0]}` is not installed; `make venv` brings what the steps need") from error
    if code:
        raise StepError(f"`{' '.join(words)}` ended with exit code {code}; its output is above")


def _tests(build: Build) -> None:
    run(build, "make", "test")


def _wheel(build: Build) -> None:
    pins = ("--require-hashes", "--build-constraints", build.root / "requirements-build.txt")
    run(build, _BIN / "uv", "build", "--quiet", "--wheel", *pins, "--out-dir", build.dist, build.root)


def _image(build: Build) -> None:
    run(build, sys.executable, "-m", "lab.image", "--directory", build.dist)


def _chart(build: Build) -> None:
    chart = build.root / "deploy" / "helm" / "evenload"
    if not (chart / "Chart.yaml").is_file():
        raise StepError(f"{chart} holds no chart")
    package = build.dist / f"evenload-{build.version}.tgz"
    package.write_bytes(package_of_chart(chart, build.commit_seconds))
    os.utime(package, (build.commit_seconds, build.commit_seconds))  # the time in the manifest that Helm pushes
    if build.registry:
        plain = ("--plain-http",) if build.registry.startswith("oci://localhost:") else ()
        helm = programs.built(build.root / "tests" / "contract" / "helm")
        run(build, helm, "push", package, build.registry, *plain)


def _krew(build: Build) -> None:
    run(build, sys.executable, "-m", "lab.krew", build.dist)


def _notes(build: Build) -> None:
    text = (build.root / "CHANGELOG.md").read_text(encoding="utf-8")
    notes = changelog.notes(text, build.version)
    (build.dist / f"evenload-{build.version}.notes.md").write_text(notes, encoding="utf-8")


def _sums(build: Build) -> None:
    files = [path for path in build.dist.iterdir() if path.is_file() and path.name not in (SUMS, ".gitignore")]
    (build.dist / SUMS).write_text(checksums(files), encoding="utf-8")


STEPS: Final = (
    Step("tests", "make test: every suite", (), _tests),
    Step("wheel", "the Python package", ("evenload-VERSION-py3-none-any.whl",), _wheel),
    Step(
        "image",
        "python -m lab.image: the image, its bill of materials and provenance",
        ("evenload-VERSION.oci.tar", "evenload-VERSION.cdx.json", "evenload-VERSION.provenance.json"),
        _image,
    ),
    Step(
        "chart",
        "the Helm chart's package, pushed as an OCI artifact with --registry",
        ("evenload-VERSION.tgz",),
        _chart,
    ),
    Step(
        "krew",
        "python -m lab.krew: the plugin `kubectl evenload`",
        ("kubectl-evenload-VERSION.tar.gz", "evenload.yaml"),
        _krew,
    ),
    Step("notes", "the version's section of CHANGELOG.md", ("evenload-VERSION.notes.md",), _notes),
    Step("sums", "checksums of all files", (SUMS,), _sums),
)
