"""Progress of `evenload demo`: both clusters side by side on a terminal, a few lines anywhere else.

Everything goes to stderr; stdout is for the table. `simulator.commands.demo` hands in where each run stands, several
times a second. Runs go on at their own pace, and are shown at the moment that the slowest has reached, so that they can
be compared. A node is one bar: its height is the load, its colour says which of the table's lines it is over.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
from rich import console, table, text

from simulator import runs
from simulator.commands import screen
from simulator.report import drawing
from simulator.results.figures import HOT_RATIO, WARM_RATIO
from simulator.results.outcome import Progress

BARS: Final = "▁▂▃▄▅▆▇█"
DONE_CELLS: Final = 24
MOST_BARS: Final = 80  # more nodes share a bar, which is then as high as the highest of them
LINES: Final = 4  # of a run, without a terminal
Ratios = npt.NDArray[np.float32]


@contextmanager
def opened(out: console.Console, variants: Sequence[str]) -> Iterator[runs.Watch]:
    """The live page on a terminal, a line for each quarter of a run elsewhere."""
    with screen.opened(out, frames_per_second=10) as live:
        yield ProgressDisplay(live, variants).watch


class ProgressDisplay:
    """Where each run stands, on a screen."""

    def __init__(self, display: screen.Screen, variants: Sequence[str]) -> None:
        self._screen = display
        self._frames: dict[str, list[Progress]] = {variant: [] for variant in variants}  # from the one shown on
        self._quarters: dict[str, int] = {}  # of each run that a line was printed for

    def watch(self, variant: str, _seed: int, progress: Progress) -> None:
        """Shows how far the runs are."""
        self._frames[variant].append(progress)
        in_step = self._in_step()
        if not self._screen.draw(lambda: drawn(in_step)):
            for name, one in in_step.items():
                self._say(name, one)

    def _in_step(self) -> dict[str, Progress | None]:
        """The last frame of each run at the step that all have reached; None before that."""
        reached = min(frames[-1].steps_done if frames else 0 for frames in self._frames.values())
        for frames in self._frames.values():
            past = sum(one.steps_done <= reached for one in frames)
            del frames[: max(0, past - 1)]
        return {
            name: frames[0] if frames and frames[0].steps_done <= reached else None
            for name, frames in self._frames.items()
        }

    def _say(self, variant: str, progress: Progress | None) -> None:
        """Prints a line for each quarter."""
        quarter = LINES * progress.steps_done // progress.steps if progress else 0
        if progress and quarter > self._quarters.get(variant, 0):
            self._quarters[variant] = quarter
            self._screen.say(line(variant, progress))


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
    drawn_bars = text.Text()
    for part in np.array_split(ratios, min(len(ratios), MOST_BARS)):
        peak = float(np.nanmax(part)) if not np.isnan(part).all() else None
        if peak is None:
            drawn_bars.append(" ")
            continue
        style = "red" if peak > HOT_RATIO else "yellow" if peak > WARM_RATIO else "green"
        drawn_bars.append(BARS[min(len(BARS) - 1, int(peak * len(BARS)))], style=style)
    return drawn_bars


def _clock(progress: Progress) -> str:
    return drawing.written(progress.at_seconds, "%a %H:%M")


def _counts(progress: Progress) -> str:
    return f"{progress.pods_bound} pods bound, {progress.pods_pending} pending, {progress.evictions} evicted"


def _over(ratios: Ratios) -> str:
    warm, hot = int((ratios > WARM_RATIO).sum()), int((ratios > HOT_RATIO).sum())
    return f"{warm} nodes over 65 %, {hot} over 80 %"
