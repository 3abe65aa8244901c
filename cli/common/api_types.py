"""Answers of the extender in words: the columns that `cli.nodes` and `cli.explain` print of `extender.verbs.documents`.

Unknown keys of an answer are left aside, so that a newer extender can be read, and those of an older one are missing.
"""

import collections.abc
import re
from typing import Final

import msgspec

from extender.verbs import documents

MISSING: Final = "-"
SHOWN: Final = 3
_MEBIBYTE: Final = 2**20
_NUMBERS: Final = re.compile(r"(\d+)", re.ASCII)
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


class Decisions(msgspec.Struct, frozen=True):
    """GET /decisions."""

    decisions: list[documents.PastDecision]


def natural(name: str) -> list[str | int]:
    """A sort key of names by the numbers in them: node-2 comes before node-10."""
    return [int(part) if at % 2 else part for at, part in enumerate(_NUMBERS.split(name))]


def few(names: collections.abc.Iterable[str], count: int = SHOWN) -> str:
    """The first few of many, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - count} more" if len(every) > count else ""
    return ", ".join(every[:count]) + more


def percent(ratio: float | None) -> str:
    """A ratio as whole percent, "-" for none."""
    return MISSING if ratio is None else f"{100 * ratio:.0f}%"


def mebibytes(size_bytes: float | None) -> str:
    """Memory as whole mebibytes, "-" for none."""
    return MISSING if size_bytes is None else f"{size_bytes / _MEBIBYTE:.0f}Mi"


def age(seconds: float | None) -> str:
    """An age in the largest unit that fits, as kubectl's: 22s, 5m, 3h; "-" for none, "-3s" for one in the future."""
    if seconds is None:
        return MISSING
    whole, sign = round(abs(seconds)), "-" if seconds <= -1 else ""
    size, unit = next((size_unit for size_unit in _UNITS if whole >= 2 * size_unit[0]), _UNITS[-1])
    return f"{sign}{whole // size}{unit}"


def base(node: documents.NodeRow) -> str:
    """The node's own base and, where the other nodes change it, an arrow to the base that counts: by the stretch, the
    median for a node without a reading, or a cap for one that lacks a weighted metric and would otherwise be better
    than every node that lacks none.
    """
    by_others = " (median)" if node.median_base else " (capped)" if node.capped_base else ""
    own, counted = points(node.own_base), points(node.base)
    changed = None not in (node.own_base, node.base) and own != counted
    return f"{own}->{counted}{by_others}" if changed else f"{counted}{by_others}"


def points(value: float | None) -> str:
    """Points on the scale of 0 to 10, "-" for none."""
    return MISSING if value is None else f"{value:.2f}"
