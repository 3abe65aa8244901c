"""The screen says what a view holds, in a terminal as a page and elsewhere as lines ten seconds apart."""

import io

import pytest
from rich import console

from lab.cluster.demo import display, watching
from policy.contract import load_annotation

HOT = watching.NodeRow("node-1", {"cpu_avg_5m": 0.91, "memory_avg_5m": 0.4}, {"5s": 3}, 7, 2, "cpu_avg_5m over 0.65")
RANKED = [{"node": "a", "score": 9}, {"node": "b", "score": 4}]
COOL = watching.NodeRow("node-2", {"cpu_avg_5m": 0.2}, {"5s": 0}, 3, 9)


def view(elapsed_seconds: float = 5.0, phase: str = "evenload") -> watching.View:
    """A view of two nodes."""
    return watching.View(
        phase, elapsed_seconds, 85.0, (HOT, COOL), bound=10, pending=1,
        decisions=("web-1: node-2 9 (of 1/2)",), evictions=("web-2: node-1 -> node-2",), eviction_count=1,
    )  # fmt: skip


def test_a_line_says_pods_hot_nodes_and_evictions() -> None:
    line = display.line(view())
    assert "10 pods bound, 1 pending" in line
    assert "over 65 %: 1 nodes by CPU, 0 by memory" in line
    assert "peak node-1 91%" in line
    assert "evictions 1, PDB violations 0" in line


def test_a_log_gets_a_line_every_ten_seconds_and_one_per_phase() -> None:
    out = console.Console(file=io.StringIO(), width=200)
    with display.opened(out, {}) as shown:
        for elapsed_seconds in (0.0, 1.0, 9.0, 10.5, 12.0):
            shown.show(view(elapsed_seconds))
        shown.show(view(0.0, "plain"))
    assert isinstance(out.file, io.StringIO)
    assert len(out.file.getvalue().splitlines()) == 3


def test_a_page_shows_nodes_windows_hot_counts_scores_decisions_and_evictions() -> None:
    out = console.Console(file=io.StringIO(), width=160)
    out.print(display.page(view(), {"avg_5m": "10s", "max_1h": "30s", "max_1d": "60s"}))
    assert isinstance(out.file, io.StringIO)
    shown = out.file.getvalue()
    for words in (
        "10s/30s/60s",
        "node-1",
        " 91 ",
        "cpu_avg_5m over 0.65",
        "web-1: node-2 9",
        "web-2: node-1 -> node-2",
    ):
        assert words in shown


@pytest.mark.parametrize(("width", "bars"), [(display.BARS_FROM_COLUMNS, True), (80, False)])
def test_a_narrow_terminal_loses_bars_and_no_figure(width: int, bars: bool) -> None:
    out = console.Console(file=io.StringIO(), width=width)
    out.print(display.page(view(), {"avg_5m": "10s", "max_1h": "30s", "max_1d": "60s"}))
    assert isinstance(out.file, io.StringIO)
    assert ("█" in out.file.getvalue()) is bars
    assert " 91   -   - " in out.file.getvalue()
    assert " 40   -   - " in out.file.getvalue()
    assert "node-1" in out.file.getvalue()


def test_a_page_shows_the_hottest_nodes_where_not_all_fit() -> None:
    cool = [watching.NodeRow(f"cool-{at}", {"cpu_avg_5m": 0.2}, {}, 3) for at in range(display.ROWS)]
    warm = watching.NodeRow("warm", {"cpu_avg_5m": 0.7}, {}, 3)
    many = watching.View("evenload", 5.0, 85.0, (*cool, warm, HOT))
    out = console.Console(file=io.StringIO(), width=160)
    out.print(display.page(many, {}))
    assert isinstance(out.file, io.StringIO)
    shown = out.file.getvalue()
    assert f"node ({display.ROWS} hottest of {display.ROWS + 2})" in shown
    assert shown.index("warm ") < shown.index("node-1 ", shown.index("cool-0")), "in the order of the view"
    assert sum("cool-" in each for each in shown.splitlines()) == display.ROWS - 2


def test_a_terminal_gets_a_page_that_goes_and_lines_that_stay() -> None:
    out = console.Console(file=io.StringIO(), width=160, force_terminal=True)
    with display.opened(out, {"avg_5m": "10s"}) as shown:
        shown.say("plain: starting")
        shown.show(view())
    assert isinstance(out.file, io.StringIO)
    written = out.file.getvalue()
    assert "plain: starting" in written
    assert "node-1" in written
    assert written.endswith("\x1b[2K")  # the page's last line is erased


def test_a_node_without_annotation_and_extender_has_no_values_and_no_score() -> None:
    row = watching.node_row("node-1", None, {}, 4)
    assert (row.values, row.score, row.pods) == ({}, None, 4)


def test_hot_counts_and_scores_are_the_extenders_where_it_answers() -> None:
    reading = load_annotation.Reading(0.0, {"cpu_avg_5m": 0.3}, {"5s": 1})
    asked = watching.node_row("node-1", reading, {"score": 7, "hot": {"5s": 2}, "rejected": None, "reason": None}, 4)
    assert (asked.score, asked.hot, asked.reason) == (7, {"5s": 2}, "")
    assert (
        watching.node_row("node-1", reading, {"rejected": "cpu_avg_5m over 0.65"}, 4).reason == "cpu_avg_5m over 0.65"
    )
    assert watching.node_row("node-1", None, {"rejected": None, "reason": "stale"}, 4).reason == "stale"
    assert watching.node_row("node-1", reading, {}, 4).hot == {"5s": 1}


@pytest.mark.parametrize(
    ("row", "line"),
    [
        pytest.param(
            {"pod": "web-1", "passed": 2, "candidates": 3, "best": RANKED},
            "web-1: a 9, b 4 (of 2/3)",
            id="the best nodes with their scores",
        ),
        pytest.param(
            {"pod": "web-1", "passed": 0, "candidates": 3, "best": []}, "web-1: no node (of 0/3)", id="no node left"
        ),
    ],
)  # fmt: skip
def test_a_decision_is_one_line(row: dict[str, object], line: str) -> None:
    assert watching.decision_line(row) == line


def test_an_eviction_says_from_where_to_where_and_why() -> None:
    row = {
        "pod": "web-1", "node": "a", "landed_node": None, "destination": "b",
        "metric": "cpu_avg_5m", "value_ratio": 0.91, "threshold_ratio": 0.75,
    }  # fmt: skip
    assert watching.eviction_line(row) == "web-1: a -> b cpu_avg_5m 0.91 > 0.75"
    assert watching.eviction_line({"pod": "web-1", "node": "a"}) == "web-1: a -> ?"
