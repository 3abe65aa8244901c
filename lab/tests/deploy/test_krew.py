"""The plugin's archive is the same for the same tree, its manifest describes it, and its command says what it lacks."""

import hashlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import pip
import pytest
import yaml

from lab import krew

ROOT = pathlib.Path(__file__).parents[3]
COMMAND = ROOT / "deploy" / "krew" / krew.COMMAND


@pytest.fixture
def unpacked(tmp_path: pathlib.Path) -> pathlib.Path:
    """The command in a directory as krew unpacks it, with a wheel and requirements that cannot be installed."""
    directory = tmp_path / "store"
    directory.mkdir()
    shutil.copy(COMMAND, directory)
    (directory / "evenload-0.1.0-py3-none-any.whl").write_bytes(b"no wheel")
    (directory / "requirements.txt").write_text("there-is-no-such-thing==1 --hash=sha256:00\n", encoding="utf-8")
    return directory


def run(
    unpacked: pathlib.Path, *arguments: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Runs the command by a link, as krew does; what it left in the cache comes with the answer."""
    link, cache = unpacked.parent / krew.COMMAND, unpacked.parent / "cache"
    link.symlink_to(unpacked / krew.COMMAND)
    answer = subprocess.run(
        [str(link), *arguments],
        env={"PATH": os.environ["PATH"], "HOME": str(unpacked.parent), "XDG_CACHE_HOME": str(cache), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return answer, sorted(path.name for path in cache.glob("evenload/*"))


def test_the_same_files_give_the_same_archive_whatever_their_times(tmp_path: pathlib.Path) -> None:
    command = tmp_path / krew.COMMAND
    shutil.copy(COMMAND, command)
    first = krew.packed([command, ROOT / "LICENSE"])
    os.utime(command, (1, 1))
    assert krew.packed([ROOT / "LICENSE", command]) == first
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        found = {entry.name: (entry.mode, entry.uid) for entry in tar}
    assert found == {"LICENSE": (0o644, 0), krew.COMMAND: (0o755, 0)}


def test_the_manifest_names_archive_checksum_and_command() -> None:
    document = yaml.safe_load(krew.manifest("0.2.0", b"archive", "https://example.test/plugin.tar.gz"))
    (platform,) = document["spec"]["platforms"]
    assert document["spec"]["version"] == "v0.2.0"
    assert platform["sha256"] == hashlib.sha256(b"archive").hexdigest()
    assert (platform["bin"], platform["uri"]) == ("kubectl-evenload", "https://example.test/plugin.tar.gz")


def test_the_command_says_that_it_needs_a_newer_python(unpacked: pathlib.Path) -> None:
    old = unpacked.parent / "python3"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    answer, left = run(unpacked, "nodes", EVENLOAD_PYTHON=str(old))
    assert answer.returncode == 1
    assert answer.stderr == (
        "kubectl-evenload: no Python 3.11 or newer with venv was found; set EVENLOAD_PYTHON to one\n"
    )
    assert left == []


def test_a_completion_installs_nothing(unpacked: pathlib.Path) -> None:
    answer, left = run(unpacked, _EVENLOAD_COMPLETE="bash_complete")
    assert (answer.returncode, answer.stdout, answer.stderr, left) == (0, "", "", [])


# Installing a pip into an environment takes seconds; this links the one of these tests.
ENSUREPIP = f"""import pathlib, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "pip").symlink_to({str(pathlib.Path(pip.__file__).parent)!r})
"""


def python(unpacked: pathlib.Path, *, has_pip: bool, ensurepip: str = ENSUREPIP) -> dict[str, str]:
    """The environment that makes the command take this Python, with or without its pip and with another ensurepip."""
    path = unpacked.parent / "python3"
    path.write_text(
        f'#!/bin/sh\n[ {int(has_pip)} = 1 ] || [ "$2" != pip ] || exit 2\nexec {sys.executable} "$@"\n',
        encoding="utf-8",
    )
    path.chmod(0o755)
    (unpacked.parent / "ensurepip.py").write_text(ensurepip, encoding="utf-8")
    return {"EVENLOAD_PYTHON": str(path), "PYTHONPATH": str(unpacked.parent)}


def test_without_any_pip_it_says_what_to_set_and_leaves_nothing(unpacked: pathlib.Path) -> None:
    where = python(unpacked, has_pip=False, ensurepip="raise SystemExit(1)")
    answer, left = run(unpacked, "nodes", **where)
    assert (answer.returncode, answer.stdout, left) == (1, "", [])
    assert answer.stderr.endswith(
        f"{where['EVENLOAD_PYTHON']} has no pip of 22.3 or newer, nor ensurepip to install one; "
        "set EVENLOAD_PYTHON to one that has\n"
    )


@pytest.mark.parametrize("has_pip", [True, False], ids=["by its own pip", "by a pip of the environment"])
def test_a_failed_installation_is_reported_and_leaves_nothing(unpacked: pathlib.Path, has_pip: bool) -> None:
    where = python(unpacked, has_pip=has_pip)
    answer, left = run(unpacked, "nodes", PIP_NO_INDEX="1", **where)
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert "there-is-no-such-thing" in answer.stderr
    assert "the pinned packages could not be installed; pip says why above" in answer.stderr
    assert left == []
