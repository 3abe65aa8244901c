"""Columns of a table in a terminal's width: names are shortened in the middle, sentences are wrapped.

`output.table` gives it plain texts. Figures are never cut: where all that can give way is at its
narrowest, the line is longer than the terminal.
"""

import collections.abc
import textwrap
from typing import Final

GAP: Final = "   "  # kubectl's
NARROW_GAP: Final = "  "
SHORTEST: Final = 10  # of a name
NARROWEST: Final = 22  # of a wrapped column
ELLIPSIS: Final = "…"
POD_SUFFIX: Final = 6  # a dash and five letters

Texts = collections.abc.Sequence[str]  # of a cell, under each other
Lines = collections.abc.Sequence[collections.abc.Sequence[Texts]]


def shortened(name: str, width: int) -> str:
    """The beginning of a name that is longer than this, and the end, which tells pods of one workload apart: the hash
    of a ReplicaSet between the two goes before the name does.
    """
    if len(name) <= width:
        return name
    tail = min((width - 1) // 2, POD_SUFFIX)
    return f"{name[: width - 1 - tail]}{ELLIPSIS}{name[len(name) - tail :]}"


def fitted(
    lines: Lines, names: collections.abc.Collection[int], wrapped: collections.abc.Collection[int], room: int | None
) -> tuple[str, list[list[list[str]]]]:
    """The gap between columns and the cells of each line; `names` are the columns that may
    be shortened, `wrapped` those that may have several lines, `room` the terminal's width (None: all that it takes).
    """
    widths = [max(len(text) for cell in column for text in cell) for column in zip(*lines, strict=True)]
    if room is None or _total(widths, GAP) <= room:
        return GAP, [[list(cell) for cell in line] for line in lines]
    least = [
        min(width, SHORTEST) if at in names else min(width, NARROWEST) if at in wrapped else width
        for at, width in enumerate(widths)
    ]
    while (excess := _total(widths, NARROW_GAP) - room) > 0:
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__, default=None)
        if widest is None:
            break
        widths[widest] -= min(excess, max(1, widths[widest] - max(least[widest], _next(widths, least, widest))))
    return NARROW_GAP, [[_cell(cell, widths[at], at in names) for at, cell in enumerate(line)] for line in lines]


def _total(widths: collections.abc.Sequence[int], gap: str) -> int:
    return sum(widths) + len(gap) * (len(widths) - 1)


def _next(widths: list[int], least: list[int], widest: int) -> int:
    """The width of the next widest column that can still give way."""
    return max((width for at, width in enumerate(widths) if at != widest and width > least[at]), default=0)


def _cell(texts: Texts, width: int, is_name: bool) -> list[str]:
    if is_name:
        return [shortened(text, width) for text in texts]
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return [line for text in texts for line in wrap.wrap(text) or [""]]
