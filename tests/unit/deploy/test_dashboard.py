"""The dashboard as Grafana shows it: repeated panels side by side, variables replaced."""

import json
import pathlib

import pytest

from lab.pictures import panels

ROOT = pathlib.Path(__file__).parents[3]
METRICS = ("cpu_avg_5m", "cpu_max_1h", "cpu_max_1d", "memory_avg_5m")
PAGE = json.loads((ROOT / "deploy/monitoring/dashboard.json").read_text(encoding="utf-8"))
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
