"""How far seeds agree: for each of a few figures a dot for every seed, one row a variant.

`page` shows them where a study has several seeds: ranges that do not overlap are worth more than a better median.
"""

import math
from typing import Final, NamedTuple

from simulator.report.drawing import Tick
from simulator.results.comparison import Comparison, Line
from simulator.results.figures import written

KEYS: Final = (
    "effective_schedule_ratio",
    "cpu_hot_node_minutes",
    "memory_hot_node_minutes",
    "cpu_warm_node_minutes",
    "memory_warm_node_minutes",
    "cpu_p99_ratio",
    "memory_p99_ratio",
    "cpu_spread_ratio",
    "memory_spread_ratio",
)
LEFT, RIGHT, ROW_HEIGHT = 150.0, 560.0, 18.0


class Row(NamedTuple):
    """One variant: a dot for each seed, and where its median is, in pixels."""

    name: str
    y: float
    dots: tuple[Tick, ...]
    median_x: float


class Strip(NamedTuple):
    """One figure of all variants, on one scale from `low` to `high`."""

    key: str
    name: str
    better: str
    low: str
    high: str
    height: float
    rows: tuple[Row, ...]


def of(compared: Comparison) -> tuple[Strip, ...]:
    """A strip for each figure of KEYS that has numbers; none for a single seed."""
    if len(compared.seeds) < 2:
        return ()
    lines = {line.figure.key: line for line in compared.lines}
    return tuple(strip for key in KEYS if (strip := _strip(lines[key], compared)) is not None)


def _strip(line: Line, compared: Comparison) -> Strip | None:
    known = [value for values in line.values.values() for value in values if not math.isnan(value)]
    if not known:
        return None
    low, high = min(known), max(known)
    rows = tuple(
        _row(line, variant, number, compared.seeds, low=low, high=high)
        for number, variant in enumerate(compared.variants)
    )
    figure = line.figure
    height = ROW_HEIGHT * (len(rows) + 1)
    ends = written(low, figure.unit), written(high, figure.unit)
    return Strip(figure.key, figure.name, figure.better, *ends, height, rows)


def _row(line: Line, variant: str, number: int, seeds: tuple[int, ...], *, low: float, high: float) -> Row:
    dots = tuple(
        Tick(_x(value, low, high), f"{variant}, seed {seed}: {written(value, line.figure.unit)}")
        for seed, value in zip(seeds, line.values[variant], strict=True)
        if not math.isnan(value)
    )
    median = line.span(variant).median
    return Row(variant, ROW_HEIGHT * (number + 0.5), dots, _x(low if math.isnan(median) else median, low, high))


def _x(value: float, low: float, high: float) -> float:
    share = 0.5 if high == low else (value - low) / (high - low)
    return round(LEFT + share * (RIGHT - LEFT), 1)
