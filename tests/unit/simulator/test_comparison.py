"""Variants are judged seed by seed against the first, and what the seeds disagree on is called mixed."""

import dataclasses
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import console

from simulator.results import comparison, figures, table

LOAD = figures.Load(0.5, 0.9, 4.0, 1.0, 0.2)
PLACED = figures.Effectiveness(0.5, 0.4, 20.0, 100.0, 0.2)
BASE = figures.Figures(PLACED, LOAD, LOAD, 0, 0, 100, 0)
SHARES = st.floats(0.0, 1.0)


def with_p99(*ratios: float) -> list[figures.Figures]:
    """Results that differ in the p99 of CPU only."""
    return [dataclasses.replace(BASE, cpu=LOAD._replace(p99_ratio=ratio)) for ratio in ratios]


def p99(compared: comparison.Comparison) -> comparison.Line:
    """The line of the p99 of CPU."""
    return next(line for line in compared.lines if line.figure.key == "cpu_p99_ratio")


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.8, 0.7, 0.6), "better 3 of 3"),
        ((0.8, 0.9, 0.6), "better 2 of 3"),
        ((0.95, 0.9, 0.9), "worse 1 of 3"),
        ((0.8, 0.95, 0.6), "mixed 2+ 1-"),
        ((0.9, 0.9, 0.9), "same"),
    ],
)
def test_a_verdict_counts_seeds(ratios: tuple[float, ...], words: str) -> None:
    found = comparison.of({"plain": with_p99(0.9, 0.9, 0.9), "ours": with_p99(*ratios)}, [1, 2, 3])
    assert p99(found).verdict("ours", "plain").words == words


def test_several_seeds_are_written_as_the_median_with_its_range() -> None:
    found = comparison.of({"plain": with_p99(0.9, 0.8, 0.4), "ours": with_p99(0.2, 0.2, 0.2)}, [1, 2, 3])
    assert p99(found).text("plain") == "80.0 % (40.0-90.0)"
    assert p99(comparison.of({"plain": with_p99(0.9)}, [1])).text("plain") == "90.0 %"


def test_a_figure_without_a_number_takes_no_side() -> None:
    found = comparison.of({"plain": with_p99(math.nan, 0.9), "ours": with_p99(0.5, 0.8)}, [1, 2])
    assert p99(found).verdict("ours", "plain") == comparison.Verdict(better=1)
    assert p99(found).text("plain") == "90.0 % (90.0-90.0)"
    assert p99(comparison.of({"plain": with_p99(math.nan)}, [1])).text("plain") == "-"


@given(st.lists(st.tuples(SHARES, SHARES), min_size=1, max_size=8))
def test_what_is_better_one_way_is_worse_the_other(pairs: list[tuple[float, float]]) -> None:
    one, other = zip(*pairs, strict=True)
    found = p99(comparison.of({"a": with_p99(*one), "b": with_p99(*other)}, list(range(len(pairs)))))
    there, back = found.verdict("b", "a"), found.verdict("a", "b")
    assert (there.better, there.worse, there.same) == (back.worse, back.better, back.same)
    assert sum(there) == len(pairs)


def test_a_variant_lacking_a_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="variant ours has 1 results, expected one for each of 2 seeds"):
        comparison.of({"plain": with_p99(0.9, 0.9), "ours": with_p99(0.8)}, [1, 2])


def test_keys_and_names_are_unique_and_in_the_order_of_the_table() -> None:
    keys = [definition.key for definition in comparison.DEFINITIONS]
    assert len(set(keys)) == len({definition.name for definition in comparison.DEFINITIONS}) == len(keys)
    assert [keys[0], keys[5], keys[-1]] == [
        "cpu_hot_node_minutes",
        "memory_hot_node_minutes",
        "effective_schedule_ratio",
    ]


def test_the_table_shows_every_variant_and_a_name_is_not_taken_for_markup() -> None:
    out = console.Console(width=160, file=io.StringIO())
    moved = [dataclasses.replace(result, evictions=4) for result in with_p99(0.8, 0.95)]
    found = comparison.of({"plain": with_p99(0.9, 0.9), "[red]a": moved, "b": with_p99(0.9, 0.9)}, [1, 2])
    table.print_table(found, {"seeds": "1, 2"}, out)
    assert isinstance(out.file, io.StringIO)
    text = out.file.getvalue()
    assert "[red]a" in text
    assert "mixed 1+ 1-" in text
    assert "[red]a: 0 of " in text
    assert "b: 0 of " in text
    assert "4 (4-4) ([red]a) evicted pods" in text
