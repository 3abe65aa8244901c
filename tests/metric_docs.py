"""Metric names as operators query them, on both sides: what /metrics exposes and what a page of docs/ names.

The services' unit tests compare the two, so that no metric is exported that nobody is told of, and none is promised
that is not there.
"""

import pathlib
import re

DOCS = pathlib.Path(__file__).parents[1] / "docs"
_TYPE = re.compile(r"^# TYPE (\S+) (\S+)$", re.MULTILINE)
_NAMED = re.compile(r"`(evenload_\w+)(?:\{[^`]*\})?[^`]*`")


def exposed(text: str) -> set[str]:
    """The names of /metrics, without the `_created` companions that the client library adds to counters."""
    return {name for name, _ in _TYPE.findall(text) if not name.endswith("_created")}


def named(page: str) -> set[str]:
    """Every metric that a page of docs/ has in backticks, without its labels."""
    return set(_NAMED.findall((DOCS / page).read_text(encoding="utf-8")))
