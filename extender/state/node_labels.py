"""The names of all nodes as requests and replies have them: columns by row that depend on nothing else.

`state.score_cache` makes them when nodes come or go and gives them to its tables; `http.fast_path` finds the rows of
the names in a request by them.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from extender import protocol
from extender.state import name_table
from extender.state.candidates import Mask

Bytes = npt.NDArray[np.object_]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeLabels:
    """By row the name as JSON and the opening of its part of a prioritize reply, and the row of a name as its bytes
    stand in JSON; `named` marks the rows that are a node's, `names` are those of `node_cache.NodeLoads`.

    Names with characters that JSON may write in several ways, which no node of a cluster has, are in neither.
    `longest_bytes` is the length of the list of all of them, which no list of known names, each once, can exceed.
    """

    names: tuple[str, ...]
    quoted: Bytes
    openings: Bytes
    directory: name_table.NameTable
    rows: dict[bytes, int]
    longest_bytes: int
    named: Mask


def of(names: tuple[str, ...], before: NodeLabels | None) -> NodeLabels:
    """Returns the labels of these names: those of `before` if they are of the same tuple."""
    if before is not None and before.names is names:
        return before
    quoted = [protocol.encode(name) for name in names]
    inside = [name[1:-1] if name.isascii() and b"\\" not in name else b"" for name in quoted]
    rows = {text: row for row, text in enumerate(inside) if text}
    openings = list(map(protocol.score_opening, quoted))
    longest_bytes = 2 + sum(len(text) + 3 for text in rows)
    named = np.array(list(map(bool, names)), dtype=np.bool_)
    return NodeLabels(names, _column(quoted), _column(openings), name_table.of(inside), rows, longest_bytes, named)


def _column(texts: list[bytes]) -> Bytes:
    column = np.empty(len(texts), dtype=np.object_)
    column[:] = texts
    return column
