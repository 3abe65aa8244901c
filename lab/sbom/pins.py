"""Which packages and modules are pinned, read from requirements*.txt (as uv writes them), go.mod and go.sum.

`document` makes components of them; tests/unit/deploy/test_supply_chain.py holds the files to what must be true.
"""

import collections.abc
import re
from typing import Final, NamedTuple

_PIN: Final = re.compile(r"([a-z0-9][a-z0-9-]*)(?:\[[a-z0-9,-]+\])?==([0-9][0-9a-z.+!-]*)(?: ; ([^\\]+?))?")
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_BLOCK: Final = r"^{} (?:\((.*?)^\)|([^(\n]+)$)"


class PinError(ValueError):
    """A line that pins nothing: it has no exact version, no hash, or comes from elsewhere than an index."""


class Package(NamedTuple):
    """A pinned distribution: sha256 of every file of it that may be installed, and who asked for it.

    `via` holds the names of packages, and `-r FILE` or `evenload (FILE)` where a file of ours names it. `marker` says
    on which platforms.
    """

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    via: tuple[str, ...]


class Module(NamedTuple):
    """A Go module as it is really taken, after replacements."""

    path: str
    version: str


class Sums(NamedTuple):
    """go.sum: the checksum of a module's files and of its go.mod, by module."""

    files: collections.abc.Mapping[Module, str]
    mods: collections.abc.Mapping[Module, str]


def packages(text: str) -> tuple[Package, ...]:
    """The pins of a requirements.txt; PinError names the first line that is none."""
    found: list[Package] = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip().removesuffix("\\").rstrip()
        if not stripped:
            continue
        if stripped.startswith("#"):
            if found:
                found[-1] = _asked_for(found[-1], stripped)
        elif line[0] != " ":
            found.append(_pin(stripped, number))
        else:
            found[-1] = _hashed(found, stripped, number)
    bare = [one.name for one in found if not one.hashes]
    if bare:
        raise PinError(f"without a hash: {', '.join(bare)}; run make lock")
    return tuple(found)


def _pin(text: str, number: int) -> Package:
    pin = _PIN.fullmatch(text)
    if pin is None:
        raise PinError(f"line {number}: {text!r} is no NAME==VERSION; run make lock")
    return Package(pin[1], pin[2], pin[3] or "", (), ())


def _hashed(entries: list[Package], text: str, number: int) -> Package:
    digest = _HASH.fullmatch(text)
    if digest is None or not entries:
        raise PinError(f"line {number}: {text!r} is no --hash=sha256:…; run make lock")
    return entries[-1]._replace(hashes=(*entries[-1].hashes, digest[1]))


def _asked_for(package: Package, comment: str) -> Package:
    name = comment.lstrip("# ").removeprefix("via").strip()
    return package._replace(via=(*package.via, name)) if name else package


def modules(go_mod: str) -> tuple[Module, ...]:
    """The modules that a go.mod requires, replacements applied, sorted."""
    replaced = {}
    for line in _lines(go_mod, "replace"):
        old, new = line.split("=>")
        replaced[old.split()[0]] = Module(*new.split())
    required = (Module(*line.split()) for line in _lines(go_mod, "require"))
    return tuple(sorted(replaced.get(one.path, one) for one in required))


def sums(go_sum: str) -> Sums:
    """The checksums of a go.sum."""
    made = Sums({}, {})
    files, mods = dict(made.files), dict(made.mods)
    for line in go_sum.splitlines():
        path, version, checksum = line.split()
        into = mods if version.endswith("/go.mod") else files
        into[Module(path, version.removesuffix("/go.mod"))] = checksum
    return Sums(files, mods)


def _lines(go_mod: str, word: str) -> collections.abc.Iterator[str]:
    """The lines of all blocks of a directive, and of those of one line, without comments."""
    for block, single in re.findall(_BLOCK.format(word), go_mod, re.DOTALL | re.MULTILINE):
        for line in (block or single).splitlines():
            bare = line.partition("//")[0].strip()
            if bare:
                yield bare
