"""Growth of what a process holds: samples over time, the growth per day, and sentences about too much of it. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

DAY_SECONDS: Final = 86_400.0
MEMORY, FILES, THREADS, SERIES, LEDGER = "memory MiB", "open files", "threads", "series", "ledger KiB"
CACHED: Final = "cached entries"


class Sample(NamedTuple):
    """Amounts by name ("memory MiB", "open files") of a process at a time (seconds since the beginning)."""

    at_seconds: float
    amounts: Mapping[str, float]


def per_day(samples: Sequence[Sample], name: str, *, from_seconds: float) -> float:
    """Returns by how much an amount grows in a day: the slope of a line by least squares, from a time on."""
    points = [(one.at_seconds, one.amounts[name]) for one in samples if one.at_seconds >= from_seconds]
    if len(points) < 2:
        return 0.0
    times, amounts = np.array(points).T
    slope, _ = np.polyfit(times, amounts, 1)
    return float(slope) * DAY_SECONDS


def too_much(
    samples: Sequence[Sample], most_per_day: Mapping[str, float], *, from_seconds: float, process: str
) -> Iterator[str]:
    """Yields a sentence for each amount that grows faster than it may."""
    for name, most in most_per_day.items():
        grows = per_day(samples, name, from_seconds=from_seconds)
        if grows > most:
            yield f"{process}: {name} grows by {grows:.2f} a day, at most {most:g} expected"
