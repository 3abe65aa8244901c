"""`python -m lab.image`: build the image, describe it, and start each service once; `make -C lab image` runs it."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from typing import Final

import click
import yaml

from lab.cluster import ports
from lab.image import archive, container, engine, provenance
from runtime import version

ROOT: Final = pathlib.Path(__file__).parents[2]
SERVICES: Final = ("annotator", "extender", "descheduler")
START_SECONDS: Final = 60.0
UNREACHABLE: Final = "127.0.0.1:1"


@click.command()
@click.option("--pull", is_flag=True, help="Take the base that the Dockerfile names from its registry.")
@click.option(
    "--directory", default=ROOT / "dist", type=click.Path(file_okay=False, path_type=pathlib.Path), show_default="dist"
)
def main(pull: bool, directory: pathlib.Path) -> None:
    """Build the image into DIRECTORY, with its bill of materials and provenance, and print what it is."""
    if reason := engine.obstacle():
        click.echo(reason, err=True)
        sys.exit(1 if os.environ.get("CI") else 0)
    stem = f"evenload-{version.VERSION}"
    path = directory / f"{stem}.oci.tar"
    timestamp = build_time()
    started = time.monotonic()
    made = engine.Engine()
    made.build(ROOT, timestamp=timestamp, pull=pull)
    made.export(path)
    built_seconds = time.monotonic() - started
    image = archive.read(path)
    statement = provenance.statement(image, f"evenload:{version.VERSION}", ROOT, commit(), timestamp=timestamp)
    (directory / f"{stem}.provenance.json").write_text(json.dumps(statement, indent=1) + "\n", encoding="utf-8")
    bill = provenance.bill_of_materials(ROOT, archive.debian_packages(path))
    (directory / f"{stem}.cdx.json").write_text(json.dumps(bill, indent=1) + "\n", encoding="utf-8")
    click.echo(f"{path} {image.digest}\nbuilt in {built_seconds:.0f} s\n\n{contents(image)}")
    with tempfile.TemporaryDirectory() as place:
        click.echo(starts(image, path, pathlib.Path(place)))


def build_time() -> int:
    """SOURCE_DATE_EPOCH, else the time of the commit, else 0: seconds since 1970."""
    return int(os.environ.get("SOURCE_DATE_EPOCH") or _git("log", "-1", "--format=%ct") or 0)


def commit() -> str:
    """The commit of the tree; "" where there is no repository, or the tree has changes that are in no commit."""
    return "" if _git("status", "--porcelain") else _git("rev-parse", "HEAD")


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(("git", "-C", ROOT, *arguments), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def contents(image: archive.Image) -> str:
    """A table of sizes, and the counts that a reviewer asks for."""
    lines = [f"{size / 1e6:8.1f} MB  {name}" for name, size in image.parts() if size >= 500_000]
    files = [entry for entry in image.entries if entry.is_file]
    packages = sum("/var/lib/dpkg/status.d/" in entry.path for entry in files)
    libraries = sum(entry.path.endswith(".dist-info/METADATA") for entry in files)
    total = f"{image.unpacked_bytes / 1e6:8.1f} MB  in {len(files)} files; {image.size_bytes / 1e6:.1f} MB compressed"
    changing = sum(entry.changes_user for entry in files)
    return "\n".join(
        (*lines, total, f"{libraries} Python packages, parts of {packages} Debian packages, {changing} setuid files")
    )


def starts(image: archive.Image, path: pathlib.Path, place: pathlib.Path) -> str:
    """How long each service takes until /livez answers, with an apiserver and a Prometheus that do not."""
    root = place / "root"
    archive.unpack(path, root)
    files = {
        "/etc/evenload/policy.yaml": ROOT / "deploy" / "policies" / "default.yaml",
        "/etc/evenload/kubeconfig": place / "kubeconfig",
    }
    files["/etc/evenload/kubeconfig"].write_text(yaml.safe_dump(_kubeconfig()), encoding="utf-8")
    lines = [f"evenload --version in {_version_seconds(image, root, place):.2f} s"]
    for name in SERVICES:
        lines.append(f"{name} answers after {_start_seconds(image, root, place, name, files=files):.2f} s")
    return "\n".join(lines)


def _kubeconfig() -> dict[str, object]:
    named = {
        "clusters": ("cluster", {"server": f"http://{UNREACHABLE}"}),
        "users": ("user", {}),
        "contexts": ("context", {"cluster": "none", "user": "none"}),
    }
    lists = {key: [{"name": "none", kind: value}] for key, (kind, value) in named.items()}
    return {"apiVersion": "v1", "kind": "Config", "current-context": "none", **lists}


def _version_seconds(image: archive.Image, root: pathlib.Path, place: pathlib.Path) -> float:
    started = time.monotonic()
    with container.running(place, container.bundle(image, root, ["--version"], {})) as one:
        if one.wait(START_SECONDS):
            raise engine.EngineError(f"evenload --version failed in the image:\n{one.log()}")
    return time.monotonic() - started


def _start_seconds(
    image: archive.Image, root: pathlib.Path, place: pathlib.Path, name: str, *, files: dict[str, pathlib.Path]
) -> float:
    port = ports.Ports(random.SystemRandom()).of(name)
    arguments = [name, "--policy=/etc/evenload/policy.yaml", "--kubeconfig=/etc/evenload/kubeconfig"]
    arguments += [f"--listen=127.0.0.1:{port}"]
    arguments += [] if name == "extender" else [f"--prometheus=http://{UNREACHABLE}"]
    arguments += ["--ledger=/tmp/ledger.sqlite"] if name == "descheduler" else []
    started = time.monotonic()
    with container.running(place, container.bundle(image, root, arguments, files)) as one:
        while not _lives(port):
            if one.ended() or time.monotonic() - started > START_SECONDS:
                raise engine.EngineError(f"{name} does not answer in the image:\n{one.log()}")
            time.sleep(0.02)
        return time.monotonic() - started


def _lives(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=START_SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
