"""The table's figures are computed from what was measured, and a figure that got worse says so."""

import dataclasses
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from rich import console

from lab.cluster.demo import __main__ as demo
from lab.cluster.demo import measuring
from simulator.results import comparison, figures, table

LOAD = figures.Load(0.5, 0.9, 4.0, 1.0, 0.2)
PLACED = figures.Effectiveness(0.5, 0.4, 20.0, 100.0, 0.2)
BEFORE = figures.Figures(PLACED, LOAD, LOAD, 0, 0, 100, 0)


def changed(**changes: object) -> figures.Figures:
    """The plain figures with some of them changed."""
    return dataclasses.replace(BEFORE, **changes)  # type: ignore[arg-type]


def verdicts(after: figures.Figures) -> dict[str, str]:
    """The verdict of every row against the plain figures."""
    found = against(after)
    return {line.figure.name: line.verdict("evenload", "plain").word for line in found.lines}


def against(after: figures.Figures) -> comparison.Comparison:
    """The plain figures and others, of one seed."""
    return comparison.of({"plain": [BEFORE], "evenload": [after]}, [1])


def test_load_figures_are_over_nodes_and_time() -> None:
    hot = [(float(second), 0.9) for second in range(60)]
    cool = [(float(second), 0.3) for second in range(60)]
    found = measuring.load([hot, cool], 1.0)
    assert found.mean_ratio == pytest.approx(0.6)
    assert found.p99_ratio == pytest.approx(0.9)
    assert found.warm_node_minutes == pytest.approx(1.0)
    assert found.hot_node_minutes == pytest.approx(1.0)
    assert found.spread_ratio == pytest.approx(0.3)


@given(arrays.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 4)), elements=st.floats(0, 1)))
def test_an_array_of_steps_and_nodes_says_the_same_as_series(ratios: np.ndarray) -> None:
    nodes = [list(enumerate(column.tolist())) for column in ratios.T]
    assert figures.load_over(ratios, 300.0) == pytest.approx(measuring.load(nodes, 300.0))


def test_a_node_exactly_on_the_line_is_not_over_it() -> None:
    found = measuring.load([[(0.0, 0.65), (1.0, 0.80), (2.0, 0.81)]], 60.0)
    assert found.warm_node_minutes == pytest.approx(2.0)
    assert found.hot_node_minutes == pytest.approx(1.0)


def test_nothing_measured_is_an_error_and_not_an_idle_cluster() -> None:
    with pytest.raises(ValueError, match="no node has a single measured point"):
        measuring.load([[]], 1.0)


def test_equal_phases_are_the_same_everywhere() -> None:
    assert set(verdicts(BEFORE).values()) <= {"same", ""}


UNDER_THE_MEDIAN = "effective_schedule_ratio: share under the median"


@pytest.mark.parametrize(
    ("row", "after", "verdict"),
    [
        (UNDER_THE_MEDIAN, changed(effectiveness=PLACED._replace(effective_schedule_ratio=0.6)), "better"),
        (UNDER_THE_MEDIAN, changed(effectiveness=PLACED._replace(effective_schedule_ratio=0.1)), "worse"),
        ("node CPU, p99", changed(cpu=LOAD._replace(p99_ratio=0.7)), "better"),
        ("node memory, p99", changed(memory=LOAD._replace(p99_ratio=0.95)), "worse"),
        ("node-minutes over 80 % CPU", changed(cpu=LOAD._replace(hot_node_minutes=0.0)), "better"),
        ("PDB violations", changed(pdb_violations=1), "worse"),
        ("evictions", changed(evictions=7), ""),
        ("pods pending at the end", changed(pods_pending=2), "worse"),
        ("node CPU, mean", changed(cpu=LOAD._replace(mean_ratio=0.6)), ""),
    ],
)  # fmt: skip
def test_each_figure_knows_which_way_is_better(row: str, after: figures.Figures, verdict: str) -> None:
    assert verdicts(after)[row] == verdict


def test_a_change_under_half_a_percent_is_no_news() -> None:
    assert verdicts(changed(cpu=LOAD._replace(p99_ratio=0.9001)))["node CPU, p99"] == "same"


def test_the_summary_names_what_got_worse() -> None:
    worse = against(changed(memory=LOAD._replace(p99_ratio=0.95), cpu=LOAD._replace(p99_ratio=0.7)))
    assert worse.summary("evenload").startswith("1 of ")
    assert worse.summary("evenload").endswith("worse: node memory, p99.")
    assert "none got worse" in against(BEFORE).summary("evenload")


def test_the_table_shows_every_figure_with_the_seed_that_repeats_it() -> None:
    out = console.Console(width=120, file=io.StringIO())
    table.print_table(against(changed(evictions=7)), {"seed": 42}, out)
    assert isinstance(out.file, io.StringIO)
    shown = out.file.getvalue()
    assert all(definition.name in shown for definition in comparison.DEFINITIONS)
    assert "seed 42" in shown


def test_evictions_are_explained_where_they_bend_a_figure() -> None:
    assert table.footnote(against(BEFORE)) == ""
    assert table.footnote(against(changed(evictions=7))).startswith("7 evicted pods")


def test_json_has_the_same_figures_as_numbers() -> None:
    found = json.loads(demo.to_json(against(changed(evictions=7)), {"seed": 42}))
    assert found["settings"] == {"seed": 42}
    assert found["figures"]["evictions"] == {
        "name": "evictions", "plain": 0.0, "evenload": 7.0, "unit": "count", "verdict": None,
    }  # fmt: skip
    assert set(found["figures"]) == {definition.key for definition in comparison.DEFINITIONS}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.4567, "percent", "45.7 %"),
        (0.4567, "ratio", "0.457"),
        (3.456, "minutes", "3.46"),
        (1234.56, "minutes", "1235"),
        (float("nan"), "percent", "-"),
        (2.5, "half", "2.5"),
        (7.0, "count", "7"),
    ],
)  # fmt: skip
def test_a_figure_is_written_for_people(value: float, unit: str, text: str) -> None:
    assert figures.written(value, unit) == text


METRICS = "\n".join(f"evenload_{name} {number}" for number, name in enumerate(figures.Effectiveness._fields))


def test_effectiveness_is_read_from_the_annotators_metrics() -> None:
    assert measuring.effectiveness(METRICS + "\n") == figures.Effectiveness(0, 1, 2, 3, 4)


def test_a_missing_figure_is_named() -> None:
    text = METRICS.replace("evenload_effective_schedule_ratio", "evenload_something_else") + "\n"
    with pytest.raises(measuring.MeasuringError, match="evenload_effective_schedule_ratio"):
        measuring.effectiveness(text)


def test_placements_that_could_not_be_judged_were_made_all_the_same() -> None:
    assert measuring.placed(METRICS + "\nevenload_schedule_results_left_out 4\n") == 3 + 4
