"""A table fits a terminal: names are shortened in the middle, sentences wrapped, and figures never touched."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.common import output
from tests.unit.cli.test_output import Terminal

POD = "shop/checkout-7c9d8f6b5-x2x4q"
ROWS = [("node-1", POD, "812m", "no_destination", "node-3 would be over 60 % of memory, and node-4 has a taint")]
HEADERS = ("node", "pod", "cpu", "verdict", "why")


def on_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    """The lines of a table on a terminal of this width."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")
    return output.table(HEADERS, ROWS, names={"node", "pod"}).splitlines()


@pytest.mark.parametrize("width", [80, 100, 120])
def test_a_table_fits_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    lines = on_terminal(monkeypatch, width)
    assert max(map(len, lines)) <= width
    assert "812m" in lines[1]
    assert " ".join(line[lines[0].index("WHY") :].strip() for line in lines[1:]) == ROWS[0][-1]


def test_a_wrapped_table_fits_the_terminal_by_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ("19s", "Normal", "NodeOverloaded", f"demo Deployment/{POD}", "shop/web-7 evicted: cpu_avg_5m 0.753 > 0.75")
    headers = ("age", "type", "reason", "object", "note")
    assert max(map(len, output.wrapped_table(headers, [row], names={"object"}).splitlines())) <= 120, "in a pipe"
    assert POD in output.wrapped_table(headers, [row], names={"object"})
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "80")
    lines = output.wrapped_table(headers, [row], names={"object"}).splitlines()
    assert max(map(len, lines)) <= 80
    assert "x4q" in lines[1]


def test_a_shortened_name_keeps_its_beginning_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    (name,) = [word for word in on_terminal(monkeypatch, 70)[1].split() if word.startswith("shop/")]
    assert "…" in name
    assert name.endswith("x4q")


def test_a_table_that_cannot_fit_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    header, row = on_terminal(monkeypatch, 63)
    assert header.split() == ["NODE", "POD", "CPU", "VERDICT", "WHY"]
    assert POD in row
    assert row.endswith(ROWS[0][-1])


def test_a_pipe_gets_every_name_whole() -> None:
    assert POD in output.table(HEADERS, ROWS, names={"node", "pod"})
    assert ROWS[0][-1] in output.table(HEADERS, ROWS, names={"node", "pod"})


def test_a_coloured_cell_is_aligned_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    found = output.table(("a", "b"), [(output.Cell("no", "red"), "x"), ("maybe", "y")]).splitlines()
    assert found[1] == "\x1b[31mno\x1b[0m   x".replace("   ", " " * 6)
    assert found[2] == "maybe   y"


@given(st.text(min_size=1, max_size=60), st.integers(3, 60))
def test_a_shortened_name_is_as_long_as_there_is_room(name: str, width: int) -> None:
    assert len(output.shortened(name, width)) == min(len(name), width)


WORD = st.text("abc-%0", min_size=1, max_size=30)


@given(st.lists(st.tuples(WORD, WORD, WORD), min_size=1, max_size=5), st.integers(10, 120))
def test_figures_are_whole_whatever_the_room(rows: list[tuple[str, str, str]], room: int) -> None:
    gap, found = output.fitted([[[text] for text in row] for row in rows], {0}, room)
    assert [line[1] for line in found] == [[row[1]] for row in rows]
    assert [" ".join(line[2]) for line in found] == [row[2] for row in rows]
    widths = [max(len(part) for line in found for part in line[at]) for at in range(3)]
    least = min(10, max(len(row[0]) for row in rows)) + max(len(row[1]) for row in rows)
    whole = [list(row) for row in rows] == [[cell[0] for cell in line] for line in found]
    assert whole or sum(widths) + 2 * len(gap) <= max(room, least + 4 + max(22, max(len(row[2]) for row in rows)))


def test_csv_quotes_what_needs_it_and_has_no_colours() -> None:
    text = output.csv_table(("node", "why"), [("a", output.Cell('over, "much"', "red"))])
    assert text == 'node,why\na,"over, ""much"""'
