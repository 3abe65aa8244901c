"""The rows and the picture of how costs grow with the cluster."""

import pathlib

from bench import growth

COSTS = [growth.Costs(500, 0.5, 0.4, 60.0, 20.0), growth.Costs(5000, 1.5, 1.6, 600.0, 180.0)]


def test_each_cost_is_shown_beside_that_of_the_smallest_cluster() -> None:
    found = {row.what: row.compared for row in growth.rows(COSTS)}
    assert len(found) == 2 * len(growth.LINES)
    assert found["extender: filter, all nodes (p50), 500 nodes"] == 1.0
    assert found["descheduler: until a plan is in hand, 5,000 nodes"] == 10.0


def test_the_picture_names_each_line_and_size(tmp_path: pathlib.Path) -> None:
    growth.draw(COSTS, tmp_path / "growth.svg")
    text = (tmp_path / "growth.svg").read_text(encoding="utf-8")
    for words in (*growth.LINES.values(), "5,000", "milliseconds"):
        assert f"<!-- {words} -->" in text
