"""Coordinates and path data of the charts: numbers in, short strings for SVG attributes out.

`charts` calls it with what `shapes` reduced; the template writes the elements. A value that is not there (NaN) breaks a
line or leaves a hole, it is never drawn as 0. Coordinates have one decimal: finer than any screen.
"""

import datetime
import itertools
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from simulator.report.shapes import ABSENT, Classes, Floats

TICK_HOURS: Final = (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672)
MOST_TICKS: Final = 9
SIZE: Final = 1000


class Frame(NamedTuple):
    """A plot of SIZE x SIZE, whatever that is on the page; time runs from `start_seconds` to `end_seconds`."""

    start_seconds: float
    end_seconds: float

    def x(self, at_seconds: float) -> float:
        """Where a time is, kept inside the plot."""
        share = (at_seconds - self.start_seconds) / (self.end_seconds - self.start_seconds)
        return round(min(1.0, max(0.0, share)) * SIZE, 1)

    def y(self, ratio: float) -> float:
        """Where a ratio is; what is over 1 is drawn at the upper edge."""
        return round(SIZE - min(1.0, max(0.0, ratio)) * SIZE, 1)


class Tick(NamedTuple):
    """A mark on an axis."""

    at: float
    label: str


def line(frame: Frame, times: Floats, values: Floats) -> str:
    """A path through the values at their times; a NaN begins a new piece."""
    pieces = (_points(frame, times, values, part) for part in _runs(values))
    return "".join(f"M{'L'.join(points)}" if len(points) > 1 else f"M{points[0]}h1" for points in pieces)


def area(frame: Frame, times: Floats, lower: Floats, upper: Floats) -> str:
    """A closed path between two lines, one for each stretch of time that has values."""
    pieces = []
    for part in _runs(upper):
        there = _points(frame, times, upper, part)
        back = _points(frame, times, lower, part)[::-1]
        pieces.append(f"M{'L'.join([*there, *back])}Z")
    return "".join(pieces)


def _points(frame: Frame, times: Floats, values: Floats, part: range) -> list[str]:
    return [f"{frame.x(times[at]):g} {frame.y(float(values[at])):g}" for at in part]


def _runs(values: Floats) -> Iterator[range]:
    """The stretches of indices that have values."""
    known = np.concatenate(([False], ~np.isnan(values), [False]))
    edges = np.flatnonzero(known[1:] != known[:-1])
    return (range(int(first), int(last)) for first, last in edges.reshape(-1, 2))


def cells(classes: Classes, count: int) -> tuple[str, ...]:
    """A heat map as one path a class: horizontal strokes, one unit high, in a drawing of points x nodes units."""
    paths: list[list[str]] = [[] for _ in range(count)]
    for row, column in enumerate(classes.T):
        edges = np.flatnonzero(np.diff(column)) + 1  # between stretches of equal values
        for first, last in itertools.pairwise([0, *edges.tolist(), len(column)]):
            if column[first] != ABSENT:
                paths[column[first]].append(f"M{first} {row}.5h{last - first}")
    return tuple("".join(path) for path in paths)


def time_ticks(frame: Frame) -> tuple[Tick, ...]:
    """Whole hours or days in UTC, at most MOST_TICKS of them, by the hour, at midnight by the day."""
    span_hours = (frame.end_seconds - frame.start_seconds) / 3600
    hours = next((size for size in TICK_HOURS if span_hours / size <= MOST_TICKS), TICK_HOURS[-1])
    step = hours * 3600
    first = -(-frame.start_seconds // step) * step
    times = np.arange(first, frame.end_seconds + 1, step)
    return tuple(Tick(frame.x(at), written(at, "%H:%M" if at % 86400 else "%b %d")) for at in times.tolist())


def ratio_ticks(frame: Frame) -> tuple[Tick, ...]:
    """Every 20 percent."""
    return tuple(Tick(frame.y(percent / 100), f"{percent} %") for percent in range(0, 101, 20))


def apart(ticks: Iterable[Tick], gap: float) -> tuple[Tick, ...]:
    """Labels pushed down until each is so many pixels under the one before; in order of height."""
    placed: list[Tick] = []
    for tick in sorted(ticks):
        at = max(tick.at, placed[-1].at + gap) if placed else tick.at
        placed.append(Tick(round(at, 1), tick.label))
    return tuple(placed)


def written(at_seconds: float, form: str = "%b %d %H:%M") -> str:
    """A time as `Nov 21 06:00`, in UTC."""
    return datetime.datetime.fromtimestamp(at_seconds, datetime.UTC).strftime(form)
