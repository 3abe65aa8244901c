"""The timeline of `evenload evictions --timeline FILE`: one lane per node, what was evicted when, and what came of it.

`cli.evictions` calls `write`. In a node's lane stand the load at each eviction and, joined to it by a line, the load 5
and 30 minutes later, the line that triggers and the target; a replacement is a triangle in the lane of the node on
which it landed, red where it came back.
"""

import datetime
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from cli.common import api_types, plotting
from cli.eviction_rows import Row
from descheduler.ledger.rows import DONE
from runtime import clock

MOST_LANES: Final = 16
WIDTH_INCHES, LANE_INCHES, MARGIN_INCHES = 12.0, 1.3, 1.2
PRETENDED: Final = ("observed", "dry_run")
LOOK_BACKS_SECONDS: Final = (0.0, 300.0, 1800.0)


def lanes(rows: Iterable[Row]) -> tuple[str, ...]:
    """The nodes with the most evictions, in the order of their names; a node that only took pods in has no lane."""
    counted = Counter(row.node for row in rows)
    busiest = sorted(counted, key=lambda name: (-counted[name], name))[:MOST_LANES]
    return tuple(sorted(busiest, key=api_types.natural))


def write(rows: Sequence[Row], path: Path, title: str) -> tuple[str, ...]:
    """A PNG or SVG by the file's name; the nodes drawn. Raises drawing.NotInstalled, and OSError for the file."""
    names = lanes(rows)
    figure = plotting.figure(WIDTH_INCHES, MARGIN_INCHES + LANE_INCHES * max(1, len(names)))
    figure.suptitle(title)
    axes = figure.subplots(max(1, len(names)), 1, sharex=True, squeeze=False)
    for (lane,), name in zip(axes, names, strict=False):
        _lane(lane, name, rows)
    axes[-1][0].set_xlabel("UTC")
    figure.autofmt_xdate()
    plotting.save(figure, path)
    return names


def _lane(lane: Any, name: str, rows: Sequence[Row]) -> None:
    own = [row for row in rows if row.node == name]
    for row in own:
        _eviction(lane, row)
    for row in rows:
        if row.landed_node == name and row.landed_at is not None:
            colour = "tab:red" if row.returned else "tab:green"
            lane.plot([_time(clock.from_rfc3339(row.landed_at))], [5], marker="v", color=colour, markersize=7)
    newest = max(own, key=lambda row: row.at_seconds)
    for ratio, style in ((newest.threshold_ratio, "--"), (newest.target_ratio, ":")):
        lane.axhline(100 * ratio, color="grey", linestyle=style, linewidth=0.8)
    lane.set_ylim(0, 105)
    lane.set_ylabel(f"{name}\n%", rotation=0, ha="right", va="center")
    lane.grid(visible=True, axis="x", alpha=0.3)


def _eviction(lane: Any, row: Row) -> None:
    """The load at the eviction and, where known, 5 and 30 minutes later."""
    values = (row.value_ratio, row.load_5m_ratio, row.load_30m_ratio)
    known = [(after, value) for after, value in zip(LOOK_BACKS_SECONDS, values, strict=True) if value is not None]
    times = [_time(row.at_seconds + after) for after, _ in known]
    colour, marker = _look(row.result)
    lane.plot(times, [100 * value for _, value in known], color=colour, linewidth=1, marker=".", markersize=3)
    lane.plot(times[:1], [100 * row.value_ratio], color=colour, marker=marker, markersize=7, linestyle="none")


def _look(result: str) -> tuple[str, str]:
    """Colour and marker: done, pretended, or come to nothing."""
    if result in DONE:
        return "tab:blue", "o"
    return ("tab:grey", "o") if result in PRETENDED else ("tab:orange", "x")


def _time(at_seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(at_seconds, datetime.UTC)
