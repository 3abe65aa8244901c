"""`python -m lab.krew DIRECTORY`: build the plugin's archive and manifest; `make -C lab krew` runs it."""

import pathlib
import subprocess
import sys
import tempfile
from typing import Final

import click

from lab.krew import archive
from runtime import version

ROOT: Final = pathlib.Path(__file__).parents[2]
HERE: Final = ROOT / "deploy" / "krew"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=pathlib.Path))
@click.option("--uri", default="", help="Where the archive will be fetched from; its file name where none is given.")
def main(directory: pathlib.Path, uri: str) -> None:
    """Write the archive and evenload.yaml into DIRECTORY; prints the command that installs them."""
    with tempfile.TemporaryDirectory() as scratch:
        wheel = built(pathlib.Path(scratch))
        packed = archive.packed([wheel, ROOT / "requirements.txt", ROOT / "LICENSE", HERE / archive.COMMAND])
    target = directory / f"{archive.COMMAND}-{version.VERSION}.tar.gz"
    directory.mkdir(parents=True, exist_ok=True)
    target.write_bytes(packed)
    described = directory / f"{archive.PLUGIN}.yaml"
    described.write_text(archive.manifest(version.VERSION, packed, uri or target.name), encoding="utf-8")
    click.echo(f"kubectl krew install --manifest={described} --archive={target}")


def built(directory: pathlib.Path) -> pathlib.Path:
    """Builds the wheel of this tree with the pinned build backend; ends the command where uv fails."""
    uv = pathlib.Path(sys.executable).with_name("uv")
    pins = ROOT / "requirements-build.txt"
    options = ["--wheel", "--require-hashes", "--build-constraints", str(pins), "--out-dir", str(directory)]
    command = [str(uv), "build", "--quiet", *options, str(ROOT)]
    if code := subprocess.run(command, check=False).returncode:
        raise SystemExit(code)
    (wheel,) = directory.glob("*.whl")
    return wheel


if __name__ == "__main__":
    main()
