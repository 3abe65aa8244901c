"""Names to rows, thousands at once: where the nodes of a JSON list of names stand, without a Python object per name.

`state.score_cache` makes `NodeLabels` when nodes come or go and gives them to its tables; `http.fast_path` finds the
rows of the names in a request by them. A dictionary takes about 0.2 microseconds a name, most of it waiting for memory:
that alone would be the time a Go extender needs for everything. Here eight letters of every name are read as one
number, where in a name the numbers of all nodes differ, and looked up in a table. numpy calls are few, because in a
process that was just woken each one costs more than its work.

That only guesses. What proves the guess is that the names of the rows found, written down again, are the text that was
asked about, byte for byte; any other text gets None, among them every list with a name that is not known.
"""

import collections.abc
import dataclasses
import functools
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from extender import protocol
from extender.state.candidates import Mask

Rows = npt.NDArray[np.intp]
Keys = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.object_]

_QUOTE: Final = ord('"')
_NO_NAME: Final = b'"'  # a quote is in no list of names between two others
_WINDOW: Final = 8  # letters read at once, as one number
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing: 2^64 / golden ratio, odd
_TABLE_BITS: Final = 16
_SHIFT: Final = np.uint64(64 - _TABLE_BITS)
_TRIED: Final = 256  # names that a window must tell apart before all names are looked at


class Windows(NamedTuple):
    """Where in a name the windows of its key begin; one that would not end within `shortest_bytes`, the length of the
    shortest name, ends with the name where that is too short for it.
    """

    offsets: tuple[int, ...]
    shortest_bytes: int

    @property
    def reach(self) -> int:
        """Returns how many letters behind the beginning of a name are read, however short the name is."""
        return max((at + _WINDOW for at in self.offsets if at + _WINDOW <= self.shortest_bytes), default=0)

    def keys(self, text: bytes, starts: Rows, ends: Rows) -> Keys:
        """Returns one number per name: the sum of its windows, each times an odd number of its own."""
        numbers = np.ndarray((len(text) - _WINDOW + 1,), dtype="<u8", buffer=text, strides=(1,))
        parts = (numbers[self._places(at, starts, ends)] for at in self.offsets)
        odd = (np.uint64((2 * nth + 1) * int(_SPREAD) % 2**64) for nth in range(len(self.offsets)))
        return functools.reduce(np.add, map(np.multiply, parts, odd))

    def _places(self, at: int, starts: Rows, ends: Rows) -> Rows:
        places: Rows = starts + at
        if at + _WINDOW > self.shortest_bytes:
            np.minimum(places, np.maximum(ends - _WINDOW, 0), out=places)
        return places


@dataclasses.dataclass(frozen=True, slots=True)
class NameTable:
    """`names[row]` without quotes; `windows` tell the names apart; `keys[row]`; `table` gives a row by the highest bits
    of a key, `others` by key the rows whose place in it is another's.
    """

    names: Bytes
    windows: Windows
    keys: Keys
    table: Rows
    others: dict[int, int]

    def rows(self, text: bytes) -> Rows | None:
        """The rows of `["a","b",...]` in its order. None for anything but a list of known names in this form; also
        for names of under 8 letters, whose windows reach into their neighbours.
        """
        quotes = (np.frombuffer(text, dtype=np.uint8) == _QUOTE).nonzero()[0]
        if len(quotes) == 0 or len(quotes) % 2:
            return None
        starts, ends = quotes[0::2] + 1, quotes[1::2]
        if len(text) < max(_WINDOW, int(starts[-1]) + self.windows.reach):
            return None
        rows = self._guessed(self.windows.keys(text, starts, ends))
        return rows if written(self.names[rows].tolist()) == text else None

    def _guessed(self, keys: Keys) -> Rows:
        rows: Rows = self.table[keys >> _SHIFT]
        places = (self.keys[rows] != keys).nonzero()[0]
        if len(places):
            rows[places] = [self.others.get(key, 0) for key in keys[places].tolist()]
        return rows


def written(names: collections.abc.Iterable[bytes]) -> bytes:
    """The list as Go's encoder writes it."""
    return b'["%b"]' % b'","'.join(names)


def of(names: collections.abc.Sequence[bytes]) -> NameTable:
    """The directory of these names by row; b"" is no node. Names are as they stand in JSON between the quotes."""
    texts = _column([name or _NO_NAME for name in names])
    lengths = np.array([len(name) for name in names], dtype=np.intp)
    starts = np.cumsum(lengths + 3) - lengths - 1  # in the list of all: [" before the first, "," between two
    padded, rows = written(names) + bytes(_WINDOW), np.flatnonzero(lengths)
    windows = _windows(padded, starts[rows], lengths[rows])
    keys = windows.keys(padded, starts, starts + lengths)
    table = np.zeros(2**_TABLE_BITS, dtype=np.intp)
    table[keys[rows] >> _SHIFT] = rows
    others = rows[table[keys[rows] >> _SHIFT] != rows]
    return NameTable(texts, windows, keys, table, dict(zip(keys[others].tolist(), others.tolist(), strict=True)))


def _windows(text: bytes, starts: Rows, lengths: Rows) -> Windows:
    """The first window by which all names differ, or else as many as they have letters for."""
    longest_bytes = int(lengths.max(initial=0))
    shortest_bytes = int(lengths.min(initial=longest_bytes))
    ends, step = starts + lengths, 1 + len(starts) // _TRIED
    for at in range(max(1, longest_bytes - _WINDOW + 1)):
        one = Windows((at,), shortest_bytes)
        if all(_differ(one.keys(text, starts[::each], ends[::each])) for each in (step, 1)):
            return one
    return Windows(tuple(range(0, longest_bytes, _WINDOW)), shortest_bytes)


def _differ(keys: Keys) -> bool:
    return len(np.unique(keys)) == len(keys)


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
    directory: NameTable
    rows: dict[bytes, int]
    longest_bytes: int
    named: Mask


def labels_of(names: tuple[str, ...], before: NodeLabels | None) -> NodeLabels:
    """Returns the labels of these names: those of `before` if they are of the same tuple."""
    if before is not None and before.names is names:
        return before
    quoted = [protocol.encode(name) for name in names]
    inside = [name[1:-1] if name.isascii() and b"\\" not in name else b"" for name in quoted]
    rows = {text: row for row, text in enumerate(inside) if text}
    openings = list(map(protocol.score_opening, quoted))
    longest_bytes = 2 + sum(len(text) + 3 for text in rows)
    named = np.array(list(map(bool, names)), dtype=np.bool_)
    return NodeLabels(names, _column(quoted), _column(openings), of(inside), rows, longest_bytes, named)


def _column(texts: list[bytes]) -> Bytes:
    column = np.empty(len(texts), dtype=np.object_)
    column[:] = texts
    return column
