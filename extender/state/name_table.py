"""Names to rows, thousands at once: where the nodes of a JSON list of names stand, without a Python object per name.

`state.score_cache` makes a `NameTable` when nodes come or go, `http.fast_path` asks it. A dictionary takes about 0.2
microseconds a name, most of it waiting for memory: that alone would be the time a Go extender needs for everything.
Here the letters of all names are read as numbers, eight at a time, added up to one key per name and looked up in
tables.

That only guesses. What proves the guess is that the names of the rows found, written down again, are the text that was
asked about, byte for byte; any other text gets None, among them every list with a name that is not known.
"""

import collections.abc
import dataclasses
from typing import Final

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.intp]
Keys = npt.NDArray[np.uint64]

_QUOTE: Final = ord('"')
_WINDOW: Final = 8  # letters read at once, as one number
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing: 2^64 / golden ratio, odd
_TABLE_BITS: Final = 16
_TABLES: Final = 8


@dataclasses.dataclass(frozen=True, slots=True)
class NameTable:
    """`names[row]` without quotes, b"" for rows of no node; `windows` to read of each name, as many as
    tell them apart; `keys[row]`; `tables` give
    a row by hashed key, each for those that the tables before it had no room for.
    """

    names: npt.NDArray[np.object_]
    windows: int
    keys: Keys
    tables: tuple[Rows, ...]

    def rows(self, text: bytes) -> Rows | None:
        """The rows of `["a","b",...]` in its order. None for anything but a list of known names in this form; also
        for names of under 8 letters, whose windows reach into their neighbours.
        """
        quotes = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == _QUOTE)
        if len(quotes) == 0 or len(quotes) % 2 or len(text) <= _WINDOW + 2:
            return None
        starts, ends = quotes[0::2] + 1, quotes[1::2]
        if (starts == ends).any():  # "" is the name of the rows of no node
            return None
        found = self._guessed(_keys(text, starts, ends, self.windows))
        return found if written(self.names[found].tolist()) == text else None

    def _guessed(self, keys: Keys) -> Rows:
        rows: Rows = self.tables[0][_slots(keys, 0)]
        for level in range(1, len(self.tables)):
            others = np.flatnonzero(self.keys[rows] != keys)
            if not len(others):
                break
            rows[others] = self.tables[level][_slots(keys[others], level)]
        return rows


def written(names: collections.abc.Iterable[bytes]) -> bytes:
    """The list as Go's encoder writes it."""
    return b'["%b"]' % b'","'.join(names)


def of(names: collections.abc.Sequence[bytes]) -> NameTable:
    """The directory of these names by row; b"" is no node. Names are as they stand in JSON between the quotes."""
    held = np.empty(len(names), dtype=np.object_)
    held[:] = names
    lengths = np.array([len(name) for name in names], dtype=np.intp)
    starts = np.cumsum(lengths + 3) - lengths - 1  # in the list of all: [" before the first, "," between two
    rows, padded = np.flatnonzero(lengths), written(names) + bytes(_WINDOW)
    windows, most = 1, 1 + int(lengths.max(initial=0)) // _WINDOW
    keys = _keys(padded, starts, starts + lengths, windows)
    while windows < most and len(np.unique(keys[rows])) < len(rows):
        windows += 1
        keys = _keys(padded, starts, starts + lengths, windows)
    return NameTable(held, windows, keys, tuple(_tables(keys, rows)))


def _keys(text: bytes, starts: Rows, ends: Rows, windows: int) -> Keys:
    """One number per name from its first letters: the sum of its windows, each times an odd number of its own.

    The last windows end with the name, so that no letter outside of it counts.
    """
    numbers = np.ndarray((len(text) - _WINDOW + 1,), dtype="<u8", buffer=text, strides=(1,))
    last = np.maximum(ends - _WINDOW, 0)
    keys = np.zeros(len(starts), dtype=np.uint64)
    for at in range(windows):
        keys += numbers[np.minimum(starts + at * _WINDOW, last)] * np.uint64((2 * at + 1) * int(_SPREAD) % 2**64)
    return keys


def _slots(keys: Keys, level: int) -> Rows:
    mixed = (keys ^ (keys >> np.uint64(29 + level))) * _SPREAD
    return (mixed >> np.uint64(64 - _TABLE_BITS)).astype(np.intp)


def _tables(keys: Keys, rows: Rows) -> collections.abc.Iterator[Rows]:
    """Builds the tables: on a slot collision the key moves to the next one; names with equal keys get no slot and stay
    unknown.
    """
    for level in range(_TABLES):
        table = np.zeros(2**_TABLE_BITS, dtype=np.intp)
        slots = _slots(keys[rows], level)
        table[slots] = rows
        yield table
        rows = rows[table[slots] != rows]
        if not len(rows):
            return
