"""Series put on the steps of a span: one row per label set, NaN where nothing was said.

Pure; `rebuilding` asks for a grid per subject. The pages of one subject arrive one behind the other, so a label set
comes once per page. Two different values for the same row and step are a contradiction: the later page stands nowhere
in particular, so the cell is NaN and counted.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from promql.door import Series
from simulator.history.reader import Span

Floats = npt.NDArray[np.float32]
Key = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """`values[row, step]` with the labels of each row; `refused` counts values that no real measurement can have."""

    keys: tuple[Key, ...]
    values: Floats
    refused: int = 0
    contradictions: int = 0

    def rows(self) -> dict[Key, int]:
        """Where each key stands."""
        return {key: row for row, key in enumerate(self.keys)}

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        """Where something was said [rows, steps]."""
        present: npt.NDArray[np.bool_] = ~np.isnan(self.values)
        return present


def grid(
    series: Iterable[Series],
    labels: tuple[str, ...],
    span: Span,
    *,
    highest: float = float("inf"),
    key: Callable[[Mapping[str, str]], Key | None] | None = None,
) -> Grid:
    """The series by these labels (or by `key`; None leaves a series out). Values that are negative, infinite or above
    `highest` are refused: counter resets are Prometheus' to handle, what is left after them is a broken exporter.
    """
    named = key or (lambda series_labels: tuple(series_labels.get(label, "") for label in labels))
    rows: dict[Key, int] = {}
    parts = []
    for one in series:
        name = named(one.labels)
        if name is None or not one.points:
            continue
        points = np.array(one.points, dtype=np.float64)
        steps = np.rint((points[:, 0] - span.start_seconds) / span.step_seconds).astype(np.intp) - 1
        parts.append((rows.setdefault(name, len(rows)), steps, points[:, 1]))
    values = np.full((len(rows), span.steps), np.nan, np.float32)
    contradicted = np.zeros(values.shape, np.bool_)
    refused = 0
    for row, steps, amounts in parts:
        inside = (steps >= 0) & (steps < span.steps)
        good = inside & np.isfinite(amounts) & (amounts >= 0) & (amounts <= highest)
        refused += int((inside & ~np.isnan(amounts) & ~good).sum())
        at, new = steps[good], amounts[good].astype(np.float32)
        contradicted[row, at] |= ~np.isnan(values[row, at]) & (values[row, at] != new)
        values[row, at] = np.where(contradicted[row, at], np.nan, new)
    return Grid(tuple(rows), values, refused, int(contradicted.sum()))


def highest(series: Iterable[Series], labels: tuple[str, ...]) -> dict[Key, float]:
    """The highest good value that each label set ever had, for what does not change or may only be read generously."""
    highest_values: dict[Key, float] = {}
    for one in series:
        key = tuple(one.labels.get(label, "") for label in labels)
        values = [value for _, value in one.points if 0 <= value < float("inf")]
        if values:
            highest_values[key] = max(highest_values.get(key, 0.0), *values)
    return highest_values
