"""Metric names as operators query them, on both sides: what /metrics exposes and what a page of docs/ names."""

import pathlib
import re

from tests import exported

DOCS = pathlib.Path(__file__).parents[1] / "docs" / "reference"
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
_NAMED = re.compile(r"`(evenload_\w+)(?:\{([^`=]*)\})?`")
_MENTIONED = re.compile(r"\bevenload_\w*[a-z0-9]\b")

Names = dict[str, frozenset[str]]


def exposed(text: str, service: str) -> Names:
    """The names of /metrics with their labels, without the `_created` companions that the client library adds."""
    labels = {one.page: one.labels for one in exported.services()[service]}
    names = {name for name, _ in _TYPE.findall(text) if not name.endswith("_created")}
    return {name: labels.get(name, frozenset()) for name in names}


def named(page: str) -> Names:
    """Every metric that a page of docs/ has in backticks, with the labels in braces; the same wherever it is named."""
    found: Names = {}
    for name, labels in _NAMED.findall((DOCS / page).read_text(encoding="utf-8")):
        found[name] = found.get(name, frozenset()) | {label for label in labels.split(",") if label}
    return found


def mentioned(page: pathlib.Path) -> set[str]:
    """Every word of a page that looks like a metric of ours, in whatever it stands."""
    return set(_MENTIONED.findall(page.read_text(encoding="utf-8")))
