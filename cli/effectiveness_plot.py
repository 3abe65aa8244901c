"""The effectiveness figures over time as a picture: `evenload effectiveness --png FILE`.

`cli.effectiveness` calls `write`; matplotlib itself is in `cli.common.plotting`.
"""

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cli.common import plotting
from cli.effectiveness_figures import Figures, Moment

SIZE_INCHES: Final = (10.0, 8.0)


def write(moments: Sequence[Moment], path: Path, title: str) -> None:
    """A PNG of three panels: utilisation of the chosen nodes, effective ratio, results per step with those left out.

    Raises drawing.NotInstalled, and OSError when the file cannot be written.
    """
    figure = plotting.figure(*SIZE_INCHES)
    figure.suptitle(title)
    upper, middle, lower = figure.subplots(3, 1, sharex=True)
    times = [datetime.datetime.fromtimestamp(moment.at_seconds, datetime.UTC) for moment in moments]
    figures = [moment.figures for moment in moments]
    _lines(upper, times, {"CPU": _percent(figures, "cpu_utilization_total_avg"), "memory": _percent(figures, _MEMORY)})
    upper.set_ylabel("5m use of chosen\nnodes, %")
    _lines(middle, times, {"effective": _percent(figures, "effective_schedule_ratio")})
    middle.set_ylabel("effective\nratio, %")
    _lines(lower, times, {"judged": [one.total_schedule_count for one in figures], "left out": _left_out(figures)})
    lower.set_ylabel("scheduling results\nper step")
    lower.set_xlabel("UTC")
    figure.autofmt_xdate()
    plotting.save(figure, path)


_MEMORY: Final = "memory_utilization_total_avg"


def _lines(axes: Any, times: Sequence[datetime.datetime], lines: dict[str, list[float]]) -> None:
    for name, values in lines.items():
        axes.plot(times, values, label=name, marker=".", linewidth=1)
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="best")


def _percent(figures: Sequence[Figures], name: str) -> list[float]:
    """A ratio's values in percent; a step without results is a gap."""
    values = [getattr(one, name) for one in figures]
    return [float("nan") if value is None else 100 * value for value in values]


def _left_out(figures: Sequence[Figures]) -> list[float]:
    return [one.left_out for one in figures]
