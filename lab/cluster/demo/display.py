"""Progress of `make run`: a page on a terminal, one plain line every few seconds anywhere else.

Everything goes to stderr; stdout is for the table. `phases` hands in a View a second.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from rich import box, console, panel, table, text

from lab.cluster.demo import watching
from simulator.commands import screen
from simulator.results import figures

LINE_EVERY_SECONDS = 10.0
BAR_CELLS = 10
BARS_FROM_COLUMNS = 110  # a narrower terminal has room for the figures alone
ROWS = 20  # a page has to fit a terminal
METRIC_STEMS = ("avg_5m", "max_1h", "max_1d")


class Display:
    """The views of a run, on a screen; `windows` are the real lengths behind 5m, 1h and 1d."""

    def __init__(self, display: screen.Screen, windows: Mapping[str, str]) -> None:
        self._screen, self._windows = display, windows
        self._last_view = ("", 0.0)

    def say(self, words: str) -> None:
        """Prints a line that stays."""
        self._screen.say(words)

    def show(self, view: watching.View) -> None:
        """Draws the page; without a terminal, prints a line every ten seconds of a phase."""
        if self._screen.draw(lambda: page(view, self._windows)):
            return
        phase, last_seconds = self._last_view
        if phase == view.phase and view.elapsed_seconds - last_seconds < LINE_EVERY_SECONDS:
            return
        self._last_view = (view.phase, view.elapsed_seconds)
        self.say(line(view))


@contextmanager
def opened(out: console.Console, windows: Mapping[str, str]) -> Iterator[Display]:
    """The live page on a terminal, plain lines elsewhere."""
    with screen.opened(out, frames_per_second=4) as live:
        yield Display(live, windows)


def line(view: watching.View) -> str:
    """A view in one line."""
    hottest = max(view.nodes, key=_peak, default=None)
    peak = _peak(hottest) if hottest else 0.0
    warm_cpu, warm_memory = (view.over(f"{resource}_avg_5m", figures.WARM_RATIO) for resource in ("cpu", "memory"))
    return (
        f"{view.phase:9} {view.elapsed_seconds:3.0f}/{view.total_seconds:.0f} s: "
        f"{view.bound} pods bound, {view.pending} pending; "
        f"over 65 %: {warm_cpu} nodes by CPU, {warm_memory} by memory; "
        f"peak {hottest.name if hottest else '-'} {peak:.0%}; "
        f"evictions {view.eviction_count}, PDB violations {len(view.violations)}"
    )


def page(view: watching.View, windows: Mapping[str, str]) -> console.RenderableType:
    """The whole page of a terminal."""
    grid = table.Table.grid(expand=True)
    grid.add_row(text.Text(line(view), style="bold"))
    grid.add_row(_Nodes(view, windows))
    bottom = table.Table.grid(expand=True)
    bottom.add_row(_lines("last decisions: best three", view.decisions), _lines("evictions", view.evictions))
    grid.add_row(bottom)
    return grid


@dataclass(frozen=True)
class _Nodes:
    """The nodes of a view, with bars where the terminal is wide enough."""

    view: watching.View
    windows: Mapping[str, str]

    def __rich_console__(self, _out: console.Console, options: console.ConsoleOptions) -> console.RenderResult:
        yield _nodes(self.view, self.windows, bars=options.max_width >= BARS_FROM_COLUMNS)


def _nodes(view: watching.View, windows: Mapping[str, str], *, bars: bool) -> table.Table:
    lengths = "/".join(windows.get(stem, stem) for stem in METRIC_STEMS)
    grid = table.Table(box=box.SIMPLE, pad_edge=False, padding=(0, 1, 0, 0), expand=True)
    hottest = sorted(view.nodes, key=_peak, reverse=True)[:ROWS]
    rest = len(view.nodes) - len(hottest)
    node_heading = f"node ({len(hottest)} hottest of {len(view.nodes)})" if rest else "node"
    resources = [heading for name in ("CPU", "memory") for heading in (f"{name} {lengths}", *([""] if bars else []))]
    for heading in (node_heading, *resources, "pods", "hot", "score", "filter"):
        justify: Literal["left", "right"] = "right" if heading in ("pods", "hot", "score") else "left"
        grid.add_column(heading, no_wrap=heading != "filter", justify=justify)
    for node in (each for each in view.nodes if each in hottest):
        hot = "/".join(str(count) for count in node.hot.values())
        score = "-" if node.score is None else str(node.score)
        grid.add_row(
            node.name,
            *_resource(node, "cpu", bars=bars),
            *_resource(node, "memory", bars=bars),
            str(node.pods),
            hot,
            score,
            node.reason,
        )
    return grid


def _peak(node: watching.NodeRow) -> float:
    return max(node.values.values(), default=0.0)


def _resource(node: watching.NodeRow, resource: str, *, bars: bool) -> tuple[text.Text, ...]:
    values = [node.values.get(f"{resource}_{stem}") for stem in METRIC_STEMS]
    words = " ".join("  -" if value is None else f"{100 * value:3.0f}" for value in values)
    now = values[0] or 0.0
    style = "red" if now > figures.HOT_RATIO else "yellow" if now > figures.WARM_RATIO else "green"
    filled = min(BAR_CELLS, round(now * BAR_CELLS))
    bar = (text.Text("█" * filled + "·" * (BAR_CELLS - filled), style=style),) if bars else ()
    return *bar, text.Text(words, style=style)


def _lines(title: str, lines: tuple[str, ...]) -> panel.Panel:
    return panel.Panel(text.Text("\n".join(lines) or "none", no_wrap=True), title=title, title_align="left")
