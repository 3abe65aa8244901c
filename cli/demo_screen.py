"""How `evenload demo` shows itself: both clusters side by side in a terminal (rich), a few lines anywhere else.

Everything goes to stderr; stdout is for the table. `cli.demo` hands in where each run stands, several times a second.
A node is one bar: its height is the load, its colour says which of the table's lines it is over.
"""

import datetime
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
from rich import console, live, table, text

from simulator import runs
from simulator.results.figures import HOT_RATIO, WARM_RATIO
from simulator.results.outcome import Progress

BARS: Final = "▁▂▃▄▅▆▇█"
DONE_CELLS: Final = 24
MOST_BARS: Final = 80  # more nodes share a bar, which is then as high as the highest of them
LINES: Final = 4  # of a run, without a terminal
Ratios = npt.NDArray[np.float32]


@contextmanager
def opened(out: console.Console, variants: Sequence[str]) -> Iterator[runs.Watch]:
    """The live page on a terminal, plain lines elsewhere."""
    if not out.is_terminal:
        yield Plain(out).watch
        return
    with live.Live(console=out, refresh_per_second=10, transient=True) as page:
        yield Live(page, variants).watch


class Plain:
    """Lines for logs."""

    def __init__(self, out: console.Console) -> None:
        self._out = out
        self._said: dict[str, int] = {}

    def watch(self, variant: str, _seed: int, progress: Progress) -> None:
        """A line for each quarter of a run."""
        quarter = LINES * progress.steps_done // progress.steps
        if quarter > self._said.get(variant, 0):
            self._said[variant] = quarter
            self._out.print(line(variant, progress), highlight=False, markup=False, soft_wrap=True)


class Live:
    """One page that is drawn again."""

    def __init__(self, page: live.Live, variants: Sequence[str]) -> None:
        self._page = page
        self._latest: dict[str, Progress | None] = dict.fromkeys(variants)

    def watch(self, variant: str, _seed: int, progress: Progress) -> None:
        """Draws the page."""
        self._latest[variant] = progress
        self._page.update(drawn(self._latest))


def line(variant: str, progress: Progress) -> str:
    """Where a run stands, in one line."""
    return f"{variant:9} {_clock(progress)}: {_counts(progress)}; CPU {_over(progress.cpu_ratio)}; memory " + _over(
        progress.memory_ratio
    )


def drawn(latest: dict[str, Progress | None]) -> table.Table:
    """The whole page: per variant a line on how far it is, and a bar for each node and resource."""
    grid = table.Table.grid(padding=(0, 2))
    for variant, progress in latest.items():
        if progress is None:
            grid.add_row(text.Text(variant, style="bold"), text.Text("starting"))
            continue
        done = round(DONE_CELLS * progress.steps_done / progress.steps)
        head = text.Text("━" * done, style="cyan") + text.Text("━" * (DONE_CELLS - done), style="dim")
        grid.add_row(text.Text(variant, style="bold"), head + f"  {_clock(progress)}  {_counts(progress)}")
        for name, ratios in (("CPU", progress.cpu_ratio), ("memory", progress.memory_ratio)):
            grid.add_row(text.Text(name, style="dim"), bars(ratios) + f"  {_over(ratios)}")
        grid.add_row("")
    return grid


def bars(ratios: Ratios) -> text.Text:
    """A coloured bar for each node, in the order of the scenario; a node that is not there is a gap."""
    shown = text.Text()
    for part in np.array_split(ratios, min(len(ratios), MOST_BARS)):
        peak = float(np.nanmax(part)) if not np.isnan(part).all() else None
        if peak is None:
            shown.append(" ")
            continue
        style = "red" if peak > HOT_RATIO else "yellow" if peak > WARM_RATIO else "green"
        shown.append(BARS[min(len(BARS) - 1, int(peak * len(BARS)))], style=style)
    return shown


def _clock(progress: Progress) -> str:
    return datetime.datetime.fromtimestamp(progress.at_seconds, datetime.UTC).strftime("%a %H:%M")


def _counts(progress: Progress) -> str:
    return f"{progress.pods_bound} pods bound, {progress.pods_pending} pending, {progress.evictions} evicted"


def _over(ratios: Ratios) -> str:
    warm, hot = int((ratios > WARM_RATIO).sum()), int((ratios > HOT_RATIO).sum())
    return f"{warm} nodes over 65 %, {hot} over 80 %"
