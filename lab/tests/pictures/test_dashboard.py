"""The dashboard as Grafana lays it out, and its picture, drawn from the answers to its queries."""

import json
import pathlib
from collections.abc import Sequence

import numpy as np
import pytest

from lab.pictures import dashboard, panels
from promql.door import Series

METRICS = ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d", "memory_avg_5m")
PAGE = json.loads(dashboard.DASHBOARD.read_text(encoding="utf-8"))
SHOWN = list(panels.on_page(PAGE, METRICS, "1m"))


def cells(panel: panels.Panel) -> set[tuple[int, int]]:
    """The units of the page that a panel takes."""
    columns = range(panel.left, panel.left + panel.width)
    return {(column, row) for column in columns for row in range(panel.top, panel.top + panel.height)}


def test_no_panel_lies_on_another_whatever_the_number_of_metrics() -> None:
    for count in range(1, 8):
        taken: set[tuple[int, int]] = set()
        for panel in panels.on_page(PAGE, [f"metric_{at}" for at in range(count)], "1m"):
            assert not taken & cells(panel), (count, panel.title)
            taken |= cells(panel)
        assert max(column for column, _ in taken) == panels.COLUMNS - 1


def test_a_repeated_panel_stands_once_for_each_metric_three_in_a_row() -> None:
    repeated = [panel for panel in SHOWN if panel.title.removeprefix("Load by ") in METRICS]
    first = repeated[0].top
    assert [(panel.title, panel.left, panel.top - first) for panel in repeated] == [
        ("Load by cpu_avg_5m", 0, 0),
        ("Load by cpu_max_1h", 8, 0),
        ("Load by cpu_max_1d", 16, 0),
        ("Load by memory_avg_5m", 0, 8),
    ]
    assert all(f'metric="{panel.title[8:]}"' in query.expression for panel in repeated for query in panel.queries)
    below = next(panel for panel in SHOWN if panel.title.startswith("Hottest nodes"))
    assert below.top == first + 16


def test_every_variable_is_replaced() -> None:
    texts = [text for panel in SHOWN for query in panel.queries for text in (panel.title, query.expression)]
    assert not [text for text in texts if "$" in text]
    assert any("[1m]" in text for text in texts)


def test_the_values_of_a_variable_are_asked_for_in_promql() -> None:
    assert panels.values_query(PAGE, "metric") == ("metric", "count by (metric) (evenload_node_load_ratio)")


def test_a_variable_of_another_form_is_named() -> None:
    page = {"templating": {"list": [{"name": "node", "query": {"query": "label_names()"}}]}}
    with pytest.raises(ValueError, match=r"variable node: expected label_values\(SERIES, LABEL\), not label_names\(\)"):
        panels.values_query(page, "node")


def answers(expression: str) -> Sequence[Series]:
    """Two series of three points, one with a gap; none about policies."""
    if "config_info" in expression:
        return ()
    steady = tuple((float(moment), 0.25) for moment in range(3))
    return Series({"verb": "filter"}, steady), Series({"verb": "prioritize"}, ((1.0, float("nan")), (2.0, 0.5)))


def test_the_picture_has_each_panel_with_its_answers_or_says_that_there_are_none() -> None:
    drawn = dashboard.drawn(SHOWN, answers, (-10.0, 10.0))
    plotted = [panel for panel in SHOWN if panel.kind != "row"]
    assert len(drawn.axes) == len(plotted)
    by_title = dict(zip((panel.title for panel in plotted), drawn.axes, strict=True))
    texts = {title: [text.get_text() for text in plot.texts] for title, plot in by_title.items()}
    assert texts["Policies in force"] == ["No data"]
    assert texts["Nodes with a usable reading"] == ["50 %"]  # of two series with one name the last
    lines = {line.get_label(): line for line in by_title["Time to answer"].lines}
    assert {"p50 filter", "p99 prioritize"} <= lines.keys()
    drawn_points = np.column_stack(lines["p50 filter"].get_data())
    assert drawn_points.tolist() == [[10.0, 0.25], [11.0, 0.25], [12.0, 0.25]]  # seconds of the run
    assert {plot.get_xlim() for plot in drawn.axes if plot.lines} == {(0.0, 20.0)}
    assert by_title["Evictions by result"].collections, "stacked areas"
    assert drawn.texts[0].get_text() == dashboard.CAPTION


def test_the_picture_is_a_png(tmp_path: pathlib.Path) -> None:
    dashboard.save(dashboard.drawn(SHOWN[:3], answers, (0.0, 10.0)), tmp_path / "dashboard.png")
    assert (tmp_path / "dashboard.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.5, "percentunit", "50 %"), (0.012, "s", "12 ms"), (90.0, "s", "90 s"), (2.0, "reqps", "2 req/s"),
     (12_345.0, "short", "12.3 k"), (0.0, "s", "0 s")],
)  # fmt: skip
def test_numbers_are_written_with_their_unit(value: float, unit: str, text: str) -> None:
    assert dashboard.number(value, unit) == text
