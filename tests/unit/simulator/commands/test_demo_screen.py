"""The demo's page shows every node as a bar, hot ones in red, and says in words what a log needs."""

import io
import re

import numpy as np
import pytest
from rich import console, live, table, text

from simulator.commands import demo_screen, screen
from simulator.results.outcome import Progress
from tests.unit.cli.test_output import ROOT, Terminal

FRIDAY_NOON_SECONDS = 1_790_337_600.0


def at(step: int, *, hot: float = 0.9) -> Progress:
    """A run of 8 steps on four nodes, one of them absent."""
    cpu = np.array([0.1, 0.7, hot, np.nan], np.float32)
    return Progress(step, 8, FRIDAY_NOON_SECONDS + step * 300, cpu, (cpu / 2).astype(np.float32), 10 * step, 1, 2)


def test_the_page_has_both_runs_side_by_side() -> None:
    out = console.Console(file=(file := io.StringIO()), width=120)
    out.print(demo_screen.drawn({"plain": at(4), "evenload": None}))
    assert "Fri 12:20  40 pods bound, 1 pending, 2 evicted" in file.getvalue()
    assert "▁▆█ " in file.getvalue()
    assert "2 nodes over 65 %, 1 over 80 %" in file.getvalue()
    assert "evenload" in file.getvalue()
    assert "starting" in file.getvalue()


def test_a_bar_has_the_colour_of_the_line_it_is_over() -> None:
    found = demo_screen.bars(at(1).cpu_ratio)
    assert ([str(span.style) for span in found.spans], found.plain) == (["green", "yellow", "red"], "▁▆█ ")


def test_many_nodes_share_bars_as_high_as_the_highest() -> None:
    ratios = np.full(1000, 0.1, np.float32)
    ratios[503] = 0.95
    found = demo_screen.bars(ratios)
    assert len(found.plain) == demo_screen.MOST_BARS
    assert found.plain.count("█") == 1


def test_without_a_terminal_there_are_four_lines_a_run() -> None:
    out = console.Console(file=(file := io.StringIO()), width=120)
    with demo_screen.opened(out, ["plain"]) as watch:
        for step in range(1, 9):
            watch("plain", 1, at(step))
    lines = file.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[-1] == (
        "plain     Fri 12:40: 80 pods bound, 1 pending, 2 evicted; CPU 2 nodes over 65 %, 1 over 80 %; "
        "memory 0 nodes over 65 %, 0 over 80 %"
    )


def test_a_terminal_gets_a_page_that_goes_when_the_run_is_over() -> None:
    out = console.Console(file=(file := io.StringIO()), width=120, force_terminal=True)
    with demo_screen.opened(out, ["plain", "evenload"]) as watch:
        watch("plain", 1, at(8))
        watch("evenload", 1, at(8))
    assert "80 pods bound" in file.getvalue()


def test_a_run_is_shown_at_the_moment_that_the_slowest_has_reached() -> None:
    out = console.Console(file=(file := io.StringIO()), width=120)
    with demo_screen.opened(out, ["plain", "evenload"]) as watch:
        for step in (2, 4, 6, 8):
            watch("plain", 1, at(step))
        assert file.getvalue() == ""
        watch("evenload", 1, at(5))
        lines = file.getvalue().splitlines()
        assert [line.split(":")[:2] for line in lines] == [["plain     Fri 12", "20"], ["evenload  Fri 12", "25"]]
        watch("evenload", 1, at(8))
    assert file.getvalue().splitlines()[2].startswith("plain     Fri 12:40: 80 pods bound")


def test_a_console_writes_out_what_would_command_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = screen.console(width=80)
    grid = table.Table("a\x9b2J", width=40, title=text.Text("b\x1b[2J"))
    grid.add_row(text.Text("c\u202e", style="red"))
    with live.Live(console=out, transient=True) as page:
        page.update(grid)
    out.print("[link=http://evil]d[/link]\x07", highlight=False)
    shown = terminal.getvalue()
    assert all(part in shown for part in ("a\\u009b2J", "b\\u001b[2J", "c\\u202e", "[link=http://evil]d[/link]"))
    assert not set(shown) & set("\x07\x9b\u202e")
    assert "\x1b[31m" in shown
    assert "\x1b[?25l" in shown, "the page hides the cursor"


def test_consoles_are_made_by_screen_alone() -> None:
    texts = [path.read_text() for folder in ("cli", "simulator/commands") for path in (ROOT / folder).rglob("*.py")]
    assert not [text for text in texts if re.search(r"onsole\.Console\(", text)], "use screen.console"
