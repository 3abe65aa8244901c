"""The plugin `kubectl evenload` for krew: `python -m lab.krew DIRECTORY` writes its archive and its manifest.

The archive holds the wheel of this tree, the pinned requirements, the licence, and `kubectl-evenload`, which makes a
virtual environment at the first call. Equal files give equal bytes.
"""

import gzip
import hashlib
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from typing import Final

import click

from runtime import version

ROOT: Final = pathlib.Path(__file__).parents[1]
HERE: Final = ROOT / "deploy" / "krew"
COMMAND: Final = "kubectl-evenload"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=pathlib.Path))
@click.option("--uri", default="", help="Where the archive will be fetched from; its file name where none is given.")
def main(directory: pathlib.Path, uri: str) -> None:
    """Write the archive and evenload.yaml into DIRECTORY; prints the command that installs them."""
    with tempfile.TemporaryDirectory() as scratch:
        archive = packed([wheel(pathlib.Path(scratch)), ROOT / "requirements.txt", ROOT / "LICENSE", HERE / COMMAND])
    target, described = directory / f"{COMMAND}-{version.VERSION}.tar.gz", directory / "evenload.yaml"
    directory.mkdir(parents=True, exist_ok=True)
    target.write_bytes(archive)
    described.write_text(manifest(version.VERSION, archive, uri or target.name), encoding="utf-8")
    click.echo(f"kubectl krew install --manifest={described} --archive={target}")


def wheel(directory: pathlib.Path) -> pathlib.Path:
    """Builds the wheel of this tree with the pinned build backend; ends the command where uv fails."""
    uv = str(pathlib.Path(sys.executable).with_name("uv"))
    pins = ("--require-hashes", "--build-constraints", str(ROOT / "requirements-build.txt"))
    command = (uv, "build", "--quiet", "--wheel", *pins, "--out-dir", str(directory), str(ROOT))
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(code)
    (path,) = directory.glob("*.whl")
    return path


def packed(files: Iterable[pathlib.Path]) -> bytes:
    """Returns a gzipped tar of these files without their directories: the same bytes for the same files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(files, key=lambda each: each.name):
            entry = tarfile.TarInfo(path.name)  # owner 0, time 0
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.name == COMMAND else 0o644
            tar.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(raw.getvalue(), mtime=0)


def manifest(number: str, archive: bytes, address: str) -> str:
    """Returns the manifest as YAML; `address` is where krew is to fetch the archive from."""
    text = (HERE / "evenload.yaml").read_text(encoding="utf-8")
    values = {"vVERSION": f"v{number}", "ADDRESS": address, "SHA256": hashlib.sha256(archive).hexdigest()}
    for name, value in values.items():
        text = text.replace(f": {name}\n", f": {value}\n")
    return text


if __name__ == "__main__":
    main()
