"""The places in which the tree states Evenload's version: in manifests, images of examples, the chart, pages.

runtime/version.py has the number; a place is known by the words before it. `write` sets all of them, a test compares
them with runtime/version.py and finds numbers that stand in no known place.
"""

import os
import pathlib
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

# The folders and files that users get; CHANGELOG.md, decisions and results keep the numbers of their time.
SHIPPED: Final = (
    *("runtime/version.py", "Dockerfile", "docker-compose.yml", "README.md", "deploy"),
    *("docs/how-to", "docs/reference", "docs/runbooks", "docs/start", "docs/why"),
)
NUMBER: Final = re.compile(r"\d+\.\d+\.\d+")
HISTORY: Final = ("docs/reference/compatibility.md",)  # tells versions apart
_BEFORE: Final = (
    r'^VERSION = "',
    r"\bevenload:",  # an image
    r"\bnewTag: ",
    r"\bapp\.kubernetes\.io/version: ",
    r'\borg\.opencontainers\.image\.version="',
    r"\?ref=v",  # a remote base of Kustomize
    r"\b(?:targetRevision: |ref: \{tag: )",  # of the chart, in Argo CD and Flux
    r"^(?:v|appV)ersion: ",  # of the chart
)
_PLACE: Final = re.compile(rf"((?:{'|'.join(_BEFORE)}))({NUMBER.pattern})(?![\w.])", re.MULTILINE)


class Place(NamedTuple):
    """A stated version, and where."""

    path: str
    line: int
    number: str


def stated(root: pathlib.Path) -> Iterator[Place]:
    """Every place of a tree."""
    for path in _files(root):
        for line, text in enumerate(_lines(path), 1):
            for match in _PLACE.finditer(text):
                yield Place(path.relative_to(root).as_posix(), line, match[2])


def unknown(root: pathlib.Path, number: str) -> Iterator[Place]:
    """The lines of a tree in which a number stands outside of all places."""
    bare = re.compile(rf"(?<![\w.])v?{re.escape(number)}(?![\w.])")
    for path in _files(root):
        for line, text in enumerate(_lines(path), 1):
            if bare.search(_PLACE.sub("", text)):
                yield Place(path.relative_to(root).as_posix(), line, number)


def write(root: pathlib.Path, number: str) -> list[str]:
    """Sets every place of a tree to a number; returns the files that changed."""
    changed = []
    for path in _files(root):
        text = path.read_text(encoding="utf-8")
        after = _PLACE.sub(lambda match: match[1] + number, text)
        if after != text:
            path.write_text(after, encoding="utf-8")
            changed.append(path.relative_to(root).as_posix())
    return changed


def _lines(path: pathlib.Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _files(root: pathlib.Path) -> Iterator[pathlib.Path]:
    """The text files."""
    past = [root / name for name in HISTORY]
    for name in SHIPPED:
        start = root / name
        if start.is_file():
            yield start
        for directory, folders, names in os.walk(start):
            folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
            for path in (pathlib.Path(directory, name) for name in sorted(names)):
                if path not in past:
                    yield path
