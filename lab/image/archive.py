"""An OCI archive as `engine` writes it: its digest, its configuration, and the files of its layers.

`container` unpacks it, `__main__` and the tests read what is in it. Layers begin from scratch and remove nothing, so a
file of a later layer is added to those of the earlier ones.
"""

import collections
import io
import json
import pathlib
import re
import stat
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

_PYPROJECT: Final = tomllib.loads((pathlib.Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
OURS: Final = frozenset(_PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
_FIELD: Final = re.compile(r"^(Package|Version): (.*)$", re.MULTILINE)


class Entry(NamedTuple):
    """A file, directory or link of the image; `mode` with the bits of setuid and sticky, `path` absolute."""

    path: str
    mode: int
    user: int
    size_bytes: int
    is_file: bool

    @property
    def changes_user(self) -> bool:
        """Whether it has a setuid or setgid bit."""
        return self.is_file and bool(self.mode & (stat.S_ISUID | stat.S_ISGID))


class Image(NamedTuple):
    """An image; `digest` is its manifest's, `size_bytes` the size of its compressed layers."""

    digest: str
    config: Mapping[str, Any]
    labels: Mapping[str, str]
    architecture: str
    size_bytes: int
    entries: tuple[Entry, ...]

    @property
    def unpacked_bytes(self) -> int:
        """The sum of the sizes of all files."""
        return sum(entry.size_bytes for entry in self.entries)

    def parts(self) -> list[tuple[str, int]]:
        """Bytes of each part, the biggest first: a library, Evenload, Python, bytecode, the shared libraries."""
        sizes: collections.Counter[str] = collections.Counter()
        for entry in self.entries:
            sizes[part(entry.path)] += entry.size_bytes
        return [(name, size) for name, size in sizes.most_common() if size]


def read(path: pathlib.Path) -> Image:
    """The image in an archive."""
    with tarfile.open(path) as tar:
        digest = json.loads(_member(tar, "index.json"))["manifests"][0]["digest"]
        manifest = _manifest(tar)
        config = json.loads(_blob(tar, manifest["config"]["digest"]))
        entries = {entry.path: entry for layer in manifest["layers"] for entry in _entries(_blob(tar, layer["digest"]))}
    size_bytes = sum(layer["size"] for layer in manifest["layers"])
    inner = config["config"]
    return Image(digest, inner, inner.get("Labels", {}), config["architecture"], size_bytes, (*entries.values(),))


def unpack(path: pathlib.Path, directory: pathlib.Path) -> None:
    """Write the files of an archive's layers into a directory, with their owners and modes; only root can."""
    with tarfile.open(path) as tar:
        for layer in _manifest(tar)["layers"]:
            with tarfile.open(fileobj=io.BytesIO(_blob(tar, layer["digest"]))) as files:
                files.extraction_filter = _as_it_is  # an argument for it came with Python 3.11.4
                files.extractall(directory, numeric_owner=True)  # noqa: S202 - we built it


def _as_it_is(member: tarfile.TarInfo, _directory: str) -> tarfile.TarInfo:
    """A member with all its bits: the archive is our own."""
    return member


def debian_packages(path: pathlib.Path) -> list[tuple[str, str]]:
    """Name and version of the Debian packages that the image has files of, by the records that `root` copied."""
    packages = []
    with tarfile.open(path) as tar:
        for layer in _manifest(tar)["layers"]:
            with tarfile.open(fileobj=io.BytesIO(_blob(tar, layer["digest"]))) as files:
                for member in files:
                    if "/dpkg/status.d/" in member.name and member.isfile():
                        record = dict(_FIELD.findall(_member(files, member.name).decode()))
                        packages.append((record["Package"], record["Version"]))
    return sorted(packages)


def _entries(layer: bytes) -> Iterator[Entry]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        for member in files:
            path = "/" + member.name.removeprefix("./").rstrip("/")
            yield Entry(path, member.mode, member.uid, member.size if member.isfile() else 0, member.isfile())


def _manifest(tar: tarfile.TarFile) -> Any:
    return json.loads(_blob(tar, json.loads(_member(tar, "index.json"))["manifests"][0]["digest"]))


def _blob(tar: tarfile.TarFile, digest: str) -> bytes:
    return _member(tar, f"blobs/{digest.replace(':', '/')}")


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None, name
    return file.read()


def part(path: str) -> str:
    """The part of the image that a file belongs to."""
    if path.endswith(".pyc"):
        return "bytecode"
    _, inside, rest = path.partition("/site-packages/")
    if inside:
        top = rest.partition("/")[0]
        name = top.removesuffix(".py").partition(".")[0] if not top.endswith(".dist-info") else "metadata of packages"
        return "Evenload" if name in OURS else name
    if "/lib/python3" in path or "/bin/python3" in path:
        return "Python"
    return "shared libraries" if ".so" in path.rpartition("/")[2] else "other files"
